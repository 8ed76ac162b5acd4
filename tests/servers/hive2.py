"""HiveServer2 of Hive 2.3.10, the last with CREATE INDEX: MapReduce in the process, embedded Derby."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, process
from tests.servers.hiveserver import HiveServer, run

VERSION = "2.3.10"
NEWEST_JAVA = 22  # 23 and later no longer have Subject.getSubject, with which Hadoop 2 asks who the user is
OPENED = ["java.lang", "java.lang.reflect", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util"]
OPENED += ["java.util.concurrent", "java.util.concurrent.atomic", "java.util.regex", "java.time", "java.text"]
OPENED += ["sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"]
# Hive 2 casts the loader of its own classes to URLClassLoader, which Java's own has not been since 9. Hadoop's launcher
# makes such a loader for all that is not in these packages.
FROM_JAVA = "java.,javax.,jdk.,sun.,org.w3c.dom.,org.xml.sax."
LOGGING = """
status = ERROR
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{2}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.root.ref = console
logger.index.name = org.apache.hadoop.hive.ql.index
logger.index.level = INFO
logger.submit.name = org.apache.hadoop.mapreduce.JobSubmitter
logger.submit.level = INFO
"""


@contextlib.contextmanager
def serving(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[HiveServer]:
    """Serve out of `folder`, until the block ends. Raises jars.Unavailable where Java or the jars cannot be had."""
    command, environment = _command(folder, jars.resolve("hive2"))
    server = HiveServer("127.0.0.1", process.free_port(), folder / "warehouse", VERSION)
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "hive-site.xml").write_text(
        process.configuration(_settings(folder, server.port) | dict(settings))
    )
    for name in ("hive-log4j2.properties", "log4j2.properties"):
        (folder / "conf" / name).write_text(LOGGING)
    with process.serving(command, folder, partial(_ask, server), environment):
        yield server


def _ask(server: HiveServer) -> None:
    process.connect(server.port)
    with contextlib.closing(server.connect()) as connection:
        run(connection, "SHOW DATABASES")


def _command(folder: Path, lib: Path) -> tuple[list[str], dict[str, str]]:
    try:
        executable = java.executable()
        version = java.version(executable)
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    if version > NEWEST_JAVA:
        raise jars.Unavailable(f"Hive {VERSION} does not run on Java {version}; set JAVA_HOME to a Java 17")
    class_path = f"{folder / 'conf'}:{lib}/*"
    command = [executable, "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-XX:ReservedCodeCacheSize=128m", "-Dderby.system.durability=test"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command += [f"-Djava.io.tmpdir={folder}", f"-Dhadoop.tmp.dir={folder}/unpacked"]
    command += [f"-Dderby.stream.error.file={folder}/derby.log", "-Djava.net.preferIPv4Stack=true"]
    command += ["-cp", class_path, "org.apache.hadoop.util.RunJar", str(lib / f"hive-service-{VERSION}.jar")]
    environment = {
        "LC_ALL": "C.UTF-8",  # else Java does not see file names that are not ASCII
        "HADOOP_USE_CLIENT_CLASSLOADER": "true",
        "HADOOP_CLASSPATH": class_path,
        "HADOOP_CLIENT_CLASSLOADER_SYSTEM_CLASSES": FROM_JAVA,
    }
    return [*command, "org.apache.hive.service.server.HiveServer2"], environment


def _settings(folder: Path, port: int) -> dict[str, str]:
    return {
        "fs.defaultFS": "file:///",
        "mapreduce.framework.name": "local",
        "mapreduce.task.io.sort.mb": "16",  # of each map task, in one piece: 100 MB do not always fit a small heap
        "mapreduce.jobtracker.staging.root.dir": f"{folder}/staging",
        "hadoop.tmp.dir": f"{folder}/hadoop",
        "hive.execution.engine": "mr",
        "hive.exec.scratchdir": f"{folder}/scratch",
        "hive.exec.local.scratchdir": f"{folder}/local-scratch",
        "hive.downloaded.resources.dir": f"{folder}/resources",
        "hive.querylog.location": f"{folder}/querylog",
        "hive.metastore.warehouse.dir": f"{folder}/warehouse",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.stats.autogather": "false",
        "hive.async.log.enabled": "false",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.counters.pull.interval": "50",  # ms until an ended job is noticed; by default a second
        "hive.support.concurrency": "false",
        "hive.server2.enable.doAs": "false",
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.authentication": "NONE",
        "hive.server2.webui.port": "-1",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.tez.initialize.default.sessions": "false",
    }
