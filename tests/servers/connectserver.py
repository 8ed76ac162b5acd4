"""Spark's Connect server, out of PySpark's own jars, embedded Derby."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyspark

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, process


@contextlib.contextmanager
def serving(folder: Path, conf: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """The address (`sc://..`) of a server that serves out of `folder`, until the block ends, with more `conf`.

    Raises jars.Unavailable where Java cannot be had.
    """
    try:
        java.require()
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    port = process.free_port()
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--driver-memory", "1g"]
    for name, value in {**embedded(folder), "spark.connect.grpc.binding.port": str(port), **conf}.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with process.serving(command, folder, partial(process.connect, port)):
        yield f"sc://127.0.0.1:{port}"


def embedded(folder: Path) -> dict[str, str]:
    """The settings of a Spark with a warehouse and a Derby metastore of its own in a folder."""
    return {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
