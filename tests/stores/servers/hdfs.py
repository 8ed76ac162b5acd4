"""HDFS: a name node and a data node of the Hadoop that PySpark ships, in a JVM of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyspark

from hive_bitmap.spark import java
from tests.servers import jars, process

VERSION = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
CLUSTER = f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}"


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve out of `folder`, until the block ends; yields `hdfs://localhost:PORT`. Raises jars.Unavailable."""
    path = f"{jars.resolve('stores-hdfs', [CLUSTER])}/*:{Path(pyspark.__file__).parent}/jars/*"
    folder.mkdir(parents=True, exist_ok=True)
    port, program = process.free_port(), Path(__file__).with_name("MiniHdfs.java")
    log = folder / "log"
    command = [java.executable(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
    with process.serving([*command, str(program), str(folder / "data"), str(port)], folder, lambda: _ready(log)):
        yield f"hdfs://localhost:{port}"


def _ready(log: Path) -> None:
    if "READY hdfs:" not in log.read_text(errors="replace"):
        raise ConnectionError("HDFS is not up yet")
