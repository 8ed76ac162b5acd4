"""The metastore of Hive 4.0.1, on PostgreSQL where it is installed and on embedded Derby where not.

Its jars are those of HiveServer2 (`hive4`): with Hive's own classes beside it a metastore understands the partition
filters that HiveServer2 sends. Its tables' schema is a script, which is only in the archive that Hive publishes.
"""

from __future__ import annotations

import contextlib
import subprocess
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, metastore, postgres, process
from tests.servers.metastore import Metastore

VERSION = "4.0.1"
ARCHIVE = f"org.apache.hive:hive-standalone-metastore-server:tar.gz:bin:{VERSION}"
OPENED = ["java.lang", "java.lang.reflect", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util"]
OPENED += ["java.util.concurrent", "java.util.concurrent.atomic", "java.util.regex", "java.time", "java.text"]
OPENED += ["sun.nio.ch"]
LOGGING = """
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{2}: %m%n%ex{20}
rootLogger.level = WARN
rootLogger.appenderRef.root.ref = console
"""
# What of Hive's jars a Spark session needs as a client; what it has itself (Hadoop, logging) must not be there twice.
CLIENT = ["hive-exec", "antlr-runtime", "antlr4-runtime", "caffeine", "commons-cli", "commons-codec"]
CLIENT += ["commons-collections", "commons-io", "commons-lang", "commons-lang3", "gson", "guava", "httpclient"]
CLIENT += ["httpcore", "jackson-annotations", "jackson-core", "jackson-databind", "javassist", "javax.servlet-api"]
CLIENT += ["javolution", "libthrift", "metrics-core", "metrics-json", "metrics-jvm"]


@contextlib.contextmanager
def serving(folder: Path, on_postgres: bool = True) -> Iterator[Metastore]:
    """Serve out of `folder`, until the block ends. Raises jars.Unavailable where Java or the jars cannot be had."""
    lib = jars.resolve("hive4")
    (folder / "conf").mkdir(parents=True)
    command, port = java_command(folder, lib, "256m"), process.free_port()
    server = Metastore(port, VERSION, folder / "external", client_settings(lib))
    (folder / "conf" / "log4j2.properties").write_text(LOGGING)
    with _database(folder, lib, on_postgres and postgres.installed()) as database:
        settings = process.configuration(database | _settings(folder))
        (folder / "conf" / "metastore-site.xml").write_text(settings)
        command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
        environment = {"METASTORE_CONF_DIR": str(folder / "conf"), "HADOOP_HOME": str(folder)}
        with process.serving(command, folder, partial(metastore.ask, port), environment):
            yield server


def java_command(folder: Path, lib: Path, memory: str) -> list[str]:
    """The start of a command that runs a class of Hive 4 out of `folder`, its configuration in `folder`/conf."""
    try:
        executable = java.executable()
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    command = [executable, f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command += [f"-Djava.io.tmpdir={folder}", f"-Dlog4j.configurationFile={folder / 'conf' / 'log4j2.properties'}"]
    command += [f"-Dderby.stream.error.file={folder / 'derby.log'}", "-Dderby.system.durability=test"]
    return [*command, "-Djava.net.preferIPv4Stack=true", "-cp", f"{folder / 'conf'}:{lib}/*"]


def client_settings(lib: Path) -> dict[str, str]:
    """What makes a Spark session speak to this version's metastore: see docs/guide/metastores.md."""
    paths = [path for path in sorted(lib.iterdir()) if path.name.rsplit("-", 1)[0] in CLIENT]
    return {
        "spark.sql.hive.metastore.version": VERSION,
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": ",".join(path.as_uri() for path in paths),
    }


@contextlib.contextmanager
def _database(folder: Path, lib: Path, on_postgres: bool) -> Iterator[dict[str, str]]:
    """A database with the metastore's tables, and the settings that name it."""
    if on_postgres:
        with postgres.serving(folder / "postgres", _schema(folder, "postgres")) as address:
            yield _connection(address, "org.postgresql.Driver", postgres.USER)
    else:
        address = f"jdbc:derby:;databaseName={folder / 'database'};create=true"
        command = [*java_command(folder, lib, "256m"), "org.apache.derby.tools.ij", str(_schema(folder, "derby"))]
        command.insert(1, f"-Dij.database={address}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        yield _connection(address, "org.apache.derby.jdbc.EmbeddedDriver", "APP")


def _schema(folder: Path, database: str) -> Path:
    (archive,) = jars.resolve("metastore4", [ARCHIVE]).iterdir()
    name = f"hive-schema-4.0.0.{database}.sql"
    inside = f"apache-hive-metastore-{VERSION}-bin/scripts/metastore/upgrade/{database}/{name}"
    with tarfile.open(archive) as files:
        script = files.extractfile(inside)
        assert script is not None
        (folder / name).write_bytes(script.read())
    return folder / name


def _connection(address: str, driver: str, user: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": address,
        "javax.jdo.option.ConnectionDriverName": driver,
        "javax.jdo.option.ConnectionUserName": user,
        "javax.jdo.option.ConnectionPassword": user,
    }


def _settings(folder: Path) -> dict[str, str]:
    cleaner = "org.apache.hadoop.hive.metastore.events.EventCleanerTask"
    return {
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": f"file:{folder}/managed",
        "metastore.warehouse.external.dir": f"file:{folder}/external",
        "metastore.task.threads.always": cleaner,  # and no compactor
        "metastore.task.threads.remote": cleaner,
    }
