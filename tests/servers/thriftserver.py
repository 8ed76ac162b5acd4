"""Spark's Thrift Server, out of PySpark's own jars: Spark SQL over HiveServer2's protocol, embedded Derby."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pyspark

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, process
from tests.servers.hiveserver import HiveServer, run


def _ask(server: HiveServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        run(connection, "SHOW DATABASES")


@contextlib.contextmanager
def serving(
    folder: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    ask: Callable[[HiveServer], None] = _ask,
    conf: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[HiveServer]:
    """Serve out of `folder`, until the block ends, with more `settings` of Hive and `conf` of Spark.

    `ask` raises until it answers.
    Raises jars.Unavailable where Java cannot be had.
    """
    try:
        java.require()
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    server = HiveServer("127.0.0.1", process.free_port(), folder / "warehouse", pyspark.__version__)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--driver-memory", "1g"]
    hive = {f"spark.hadoop.{name}": value for name, value in settings.items()}
    all_conf = {**_settings(folder, server), **hive, **conf}
    command += [text for name, value in all_conf.items() for text in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
    with process.serving(command, folder, lambda: ask(server)):
        yield server


def _settings(folder: Path, server: HiveServer) -> dict[str, str]:
    return {
        "spark.sql.warehouse.dir": str(server.warehouse),
        "spark.driver.host": server.host,
        "spark.driver.bindAddress": server.host,
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log -Djava.io.tmpdir={folder}",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.hive.server2.thrift.bind.host": server.host,
        "spark.hadoop.hive.server2.thrift.port": str(server.port),
        "spark.hadoop.hive.server2.thrift.http.port": str(server.port),
        "spark.hadoop.hive.exec.scratchdir": f"{folder}/scratch",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
