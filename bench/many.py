"""`python -m bench.many`: a table of very many tiny files in many partitions on HDFS, where a driver breaks first.

With `--local` it lies on the local disk, which serves no requests that could be counted.

How fast anything reads is not measured: only what planning, building and publishing take that grows with files and
partitions, in seconds, in memory of the two processes of the driver, and in its requests.
"""

from __future__ import annotations

import io
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import requests
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.session import session
from tests.servers import jars
from tests.stores.servers import hdfs as hdfs_server

ROWS, KEYS = 20, 10  # of each file
ADDED = 500  # partitions that one statement adds
WRITERS = 64  # files that are made at the same time


@click.command()
@click.option("--files", default=100_000, show_default=True, type=click.IntRange(10), help="Files of the table.")
@click.option("--partitions", default=2_000, show_default=True, type=click.IntRange(1), help="Partitions of it.")
@click.option("--local", is_flag=True, help="On the local disk instead.")
def main(files: int, partitions: int, local: bool) -> None:
    """Make the table on an HDFS that is started for it, then build, refresh, count and plan."""
    out = Console(highlight=False)
    try:
        with tempfile.TemporaryDirectory() as folder, _place(Path(folder), local) as url:
            conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
            spark = session(Path(folder) / "warehouse", app_name="bench", master="local[2]", conf=conf)
            _measure(spark, url, files, partitions, out)
            spark.stop()
    except jars.Unavailable as e:
        raise click.ClickException(str(e)) from e


def _place(folder: Path, local: bool) -> AbstractContextManager[str]:
    return nullcontext(f"file:{folder}/local") if local else hdfs_server.serving(folder / "hdfs")


def _measure(spark: SparkSession, url: str, files: int, partitions: int, out: Console) -> None:
    table = Table("step", "s", "Python MB", "JVM MB", "requests of the driver", "result")
    table.title = f"{files:,} files in {partitions:,} partitions, {url.partition(':')[0]}"

    def step(name: str, do: Callable[[], Any]) -> None:
        started = time.monotonic()
        with requests.measured() as measured:
            result = do()
        seconds = time.monotonic() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        row = (name, f"{seconds:.1f}", f"{peak:.0f}", f"{_heap(spark):.0f}", str(measured.requests), str(result))
        out.print(*row, sep="; ")
        table.add_row(*row)

    each_partition = files // partitions
    spark.sql(f"CREATE DATABASE many LOCATION '{url}/many'")
    spark.catalog.setCurrentDatabase("many")
    spark.sql(
        f"CREATE EXTERNAL TABLE t (k int, id bigint) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{url}/many/t'"
    )
    session_settings.use_stores(spark)
    map_parallel(lambda p: stores.make_folder(f"{url}/many/t/p={p}"), range(partitions))
    names = [(p, n) for p in range(partitions) for n in range(each_partition)]
    step("make files", lambda: len(map_parallel(lambda name: _write(url, *name), names, WRITERS)))
    step("add partitions", lambda: _add(spark, url, partitions))
    step("build", lambda: sum(r.base_rows for r in hive_bitmap.build(spark, "t", ["k"])))
    step("count", lambda: hive_bitmap.count(spark, "t", "k = 3"))
    step("count again", lambda: hive_bitmap.count(spark, "t", "k = 3"))
    step("count of a partition", lambda: hive_bitmap.count(spark, "t", "k = 3 AND p = 1"))
    step("plan", lambda: hive_bitmap.plan(spark, "t", "k = 3").strategy)
    step("plain SQL, one partition", lambda: spark.sql("SELECT count(*) FROM t WHERE k = 3 AND p = 1").first()[0])  # type: ignore[index]
    ten, more = ([(p, each_partition + n) for p in range(min(10, partitions))] for n in (0, 1))
    step("make ten files", lambda: len(map_parallel(lambda name: _write(url, *name), ten)))
    step("rebuild", lambda: _looked_at(hive_bitmap.rebuild(spark, "t")))
    step("count", lambda: hive_bitmap.count(spark, "t", "k = 3"))
    step("rebuild of nothing", lambda: _looked_at(hive_bitmap.rebuild(spark, "t")))
    step("make ten files", lambda: len(map_parallel(lambda name: _write(url, *name), more)))
    step("refresh", lambda: _looked_at(hive_bitmap.refresh(spark, "t")))
    step("refresh of nothing", lambda: _looked_at(hive_bitmap.refresh(spark, "t")))
    step("refresh of nothing again", lambda: _looked_at(hive_bitmap.refresh(spark, "t")))
    out.print(table)


def _looked_at(reports: Sequence[BuildReport]) -> str:
    """How many files a rebuild or refresh looked at, and read."""
    [report] = reports
    return f"{report.base_files:,} files, {report.files_read:,} of them read"


def _heap(spark: SparkSession) -> float:
    """MB that the JVM's heap takes now."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def _write(url: str, partition: int, number: int) -> None:
    with stores.open_output(f"{url}/many/t/p={partition}/{number:05}.parquet") as sink:
        sink.write(_content())


def _content() -> bytes:
    """The same small file again and again: of what is measured nothing depends on its rows."""
    global _made
    if not _made:
        sink = io.BytesIO()
        rows = {"k": pa.array([n % KEYS for n in range(ROWS)], pa.int32()), "id": pa.array(range(ROWS), pa.int64())}
        pq.write_table(pa.table(rows), sink)
        _made = sink.getvalue()
    return _made


_made = b""


def _add(spark: SparkSession, url: str, partitions: int) -> int:
    for first in range(0, partitions, ADDED):
        specs = " ".join(f"PARTITION (p = {n})" for n in range(first, min(first + ADDED, partitions)))
        spark.sql(f"ALTER TABLE t ADD {specs}")
    return partitions


if __name__ == "__main__":
    main()
