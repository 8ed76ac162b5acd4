"""A Hive metastore 2.3 on Derby, from the jars that Spark brings. Without BoneCP, which is not among them, it drops a
database and then fails to say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pyspark

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, metastore, process
from tests.servers.metastore import Metastore

VERSION = "2.3.10"


@contextlib.contextmanager
def serving(
    folder: Path, port: int | None = None, clients: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Metastore]:
    """Serve out of `folder`, until the block ends; what is there already, of an earlier server, is served again.

    Tables may lie in a store whose clients are jars in a folder, and `settings` say how it is reached.

    Raises jars.Unavailable where Java cannot be had.
    """
    server = Metastore(port or process.free_port(), VERSION, folder / "warehouse")
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "hive-site.xml").write_text(process.configuration({**_settings(folder), **(settings or {})}))
    try:
        command = [java.executable(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    command += [f"-Djava.io.tmpdir={folder}", f"-Dderby.stream.error.file={folder / 'derby.log'}"]
    jars_of = [Path(pyspark.__file__).parent / "jars", *([clients] if clients else [])]
    command += ["-cp", ":".join([str(folder / "conf"), *(f"{one}/*" for one in jars_of)])]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(server.port)]
    with process.serving(command, folder, partial(metastore.ask, server.port)):
        yield server


def _settings(folder: Path) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
        "hive.async.log.enabled": "false",
    }
