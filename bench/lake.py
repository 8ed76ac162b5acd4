"""`python -m bench.lake`: Delta and Iceberg tables with an index, beside the formats' own skipping.

The same rows in both formats, sorted by nothing. Each question goes to the table with its indexes and to the same table
with `hive_bitmap.enabled=false`, where the formats skip files and row groups by their statistics (and Iceberg by Bloom
filters, in a table of its own). Then one row of a hundred is deleted, by deletion vectors and position deletes, and all
is asked again. Spark is that of `make lake`, for which both formats are released.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import data, tables
from bench.measure import Contender, race
from compat import lake
from hive_bitmap.spark.session import session
from tests.servers import jars

FOLDER = Path("bench-warehouse") / "lake"
WIDTH = 150
OWN, OURS = "the format's own skipping", "with the index"
OFF = {"hive_bitmap.enabled": "false"}
ROW_GROUP = 8 << 20  # bytes, as those of `make bench`
COLUMNS = ("gender", "type", "age", "region", "store")
BLOOM = ("store", "region")
APPENDED = 100_000
# By the name of the table: its provider, and the properties by which deletes write no data file anew.
TABLES = {
    "spark_catalog.default.delta": ("delta", {"delta.enableDeletionVectors": "true"}),
    "lake.default.iceberg": ("iceberg", {"format-version": "2", "write.delete.mode": "merge-on-read"}),
}
OF_ICEBERG = {"write.parquet.row-group-size-bytes": str(ROW_GROUP)}
BLOOM_TABLE = "lake.default.bloom"
EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


@dataclass(frozen=True)
class Query:
    """One question, as SQL over a table that is given later."""

    name: str
    sql: str


@click.command()
@click.option("--rows", default="10e6", show_default=True, help="Rows of each table.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Timed turns of each.")
def main(rows: str, repeats: int) -> None:
    """Measure indexes of Delta and Iceberg tables beside what the formats skip themselves."""
    if not pyspark.__version__.startswith(f"{lake.RELEASE}."):
        sys.exit(lake.run(["-m", "bench.lake", *sys.argv[1:]]))
    out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = data.prepare(FOLDER.parent / "data", int(float(rows)), lambda done: out.print(f"making the data: {done}"))
    spark = _session()
    out.print(f"{table.rows:,} rows, {os.cpu_count()} cores, PySpark {pyspark.__version__}; medians of {repeats}, warm")
    data.register(spark, table.folder)
    for name, (provider, properties) in TABLES.items():
        _make(spark, name, provider, properties)
        built = hive_bitmap.build(spark, name, list(COLUMNS))
        out.print(f"{name}: five indexes in {built[0].seconds:.1f} s, {sum(one.index_bytes for one in built):,} bytes")
    _make(spark, BLOOM_TABLE, "iceberg", {f"write.parquet.bloom-filter-enabled.column.{one}": "true" for one in BLOOM})
    equal = True
    for deleted in ("0 %", "1 %"):
        for name in TABLES:
            if deleted != "0 %":
                spark.sql(f"DELETE FROM {name} WHERE id % 100 = 7")
            shown, same = _asked(spark, name, deleted, repeats)
            tables.show(out, shown)
            equal &= same
    tables.show(out, _followed(spark, repeats))
    spark.stop()
    if not equal:
        sys.exit("an answer differs from Spark's: a bug, and the times mean nothing")


def _session() -> SparkSession:
    folder = FOLDER.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    found = jars.resolve("lake", jars.listed("lake"))
    conf = {
        "spark.jars": ",".join(str(path) for path in sorted(found.glob("*.jar"))),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "iceberg"),
        "spark.hadoop.parquet.block.size": str(ROW_GROUP),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
    }
    spark = session(folder / "warehouse", app_name="bench.lake", master=f"local[{os.cpu_count()}]", conf=conf)
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.default")
    return spark


def _make(spark: SparkSession, name: str, provider: str, properties: dict[str, str]) -> None:
    """The rows of the table of files, in as many files."""
    wanted = {**properties, **(OF_ICEBERG if provider == "iceberg" else {})}
    said = ", ".join(f"'{key}'='{value}'" for key, value in wanted.items())
    spark.sql(f"CREATE TABLE {name} ({data.SPARK_COLUMNS}) USING {provider} TBLPROPERTIES ({said})")
    spark.table(data.TABLE).writeTo(name).append()


def _queries() -> Iterator[Query]:
    for question in data.QUESTIONS:
        if question.count:
            yield Query(f"{question.name} count", f"SELECT count(*) FROM {{t}} WHERE {question.predicate}")
        if question.fetch and not question.drained:
            yield Query(f"{question.name} rows", f"SELECT * FROM {{t}} WHERE {question.predicate}")
    for number, grouping in enumerate(data.GROUPINGS, 1):
        yield Query(f"group {number}", grouping.replace(f"FROM {data.TABLE}", "FROM {t}"))


def _asked(spark: SparkSession, name: str, deleted: str, repeats: int) -> tuple[Table, bool]:
    """Ask all questions of a table; return the table of figures, and whether all answers were equal."""
    bloom = [BLOOM_TABLE] if name.startswith("lake.") and deleted == "0 %" else []
    title = f"{name}, {deleted} of its rows deleted: seconds"
    shown = Table("question", "own", *(["own + Bloom"] if bloom else []), "index", "own / index", "read", title=title)
    equal = True
    for query in _queries():
        contenders = {OWN: Contender(_run(spark, query.sql.format(t=name), OFF))}
        contenders |= {one: Contender(_run(spark, query.sql.format(t=one), OFF)) for one in bloom}
        contenders[OURS] = Contender(_run(spark, query.sql.format(t=name), {}))
        finished = race(contenders, repeats, lambda rows: sorted(map(str, rows)))
        equal &= all(answer == finished.answers[OWN] for answer in finished.answers.values())
        own, ours = finished.median(OWN), finished.median(OURS)
        others = [f"{finished.median(one):.3f}" for one in bloom]
        read = _read(spark, query.sql.format(t=name))
        shown.add_row(query.name, f"{own:.3f}", *others, f"{ours:.3f}", f"{own / ours:.1f}", read)
    return shown, equal


def _run(spark: SparkSession, sql: str, settings: dict[str, str]) -> Callable[[], Any]:
    def run() -> Any:
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            return spark.sql(sql).collect()
        finally:
            for key in settings:
                spark.conf.unset(key)

    return run


def _read(spark: SparkSession, sql: str) -> str:
    """What the query reads, in a few words."""
    [relation] = hive_bitmap.explain(sql, spark).relations
    if relation.action == "answered":
        return "the index alone"
    if relation.action == "left alone":
        return f"Spark's own ({relation.reason})"
    files, blocks = relation.files_selected, relation.blocks_selected
    return f"{files} of {relation.files_total} files, {blocks} of {relation.blocks_total} blocks"


def _followed(spark: SparkSession, repeats: int) -> Table:
    """Append to each table and rebuild its indexes."""
    shown = Table("table", "append s", "rebuild of five s", "files read", title=f"a commit of {APPENDED:,} rows")
    for name in TABLES:
        appends, rebuilds, files = [], [], 0
        for _ in range(repeats):
            started = time.monotonic()
            spark.table(data.TABLE).limit(APPENDED).coalesce(1).writeTo(name).append()
            appended = time.monotonic()
            files = max(report.files_read for report in hive_bitmap.rebuild(spark, name))
            appends.append(appended - started)
            rebuilds.append(time.monotonic() - appended)
        shown.add_row(name, f"{median(appends):.2f}", f"{median(rebuilds):.2f}", str(files))
    return shown


if __name__ == "__main__":
    main()
