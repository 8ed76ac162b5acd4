"""Tables for the tests of the optimizer rule: small, of several files and blocks, some of them partitioned.

`fact` is Parquet in four files of four row groups, sorted by `g`, so that files and blocks can be left out; `orders`
has the same rows in ORC. `part` is a table of Spark's, partitioned by `day`; `hive` is a Hive table, partitioned
likewise, that Spark reads with its own reader. `lines` is a text table that a SerDe reads. `dim` and `plain` are small,
`dim` with an index and `plain` without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES, BLOCK = 1600, 4, 100
COLUMNS = "id bigint, k int, j int, g int, s string, note string"
DAYS = range(1, 7)


def rows(first: int, count: int) -> pa.Table:
    """Return `count` rows whose ids begin with `first`; `k` and `s` have NULLs."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([None if i % 23 == 0 else i % 11 for i in ids], pa.int32()),
            "j": pa.array([i % 7 for i in ids], pa.int32()),
            "g": pa.array([i // 50 for i in ids], pa.int32()),
            "s": pa.array([None if i % 19 == 0 else f"s{i % 5}" for i in ids], pa.string()),
            "note": pa.array([f"note {i}" for i in ids], pa.string()),
        }
    )


def write(path: Path, first: int, count: int) -> None:
    """Write rows as a Parquet or ORC file with small blocks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(rows(first, count), path, stripe_size=1, batch_size=BLOCK)
    else:
        pq.write_table(rows(first, count), path, row_group_size=BLOCK)


@contextmanager
def made(spark: SparkSession, folder: Path) -> Iterator[str]:
    """Create a database with the tables and yield its name; drop it at the end. The current database stays."""
    name, before = f"catalyst_{uuid4().hex[:8]}", spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    _files(spark, "fact", folder, "parquet")
    _files(spark, "orders", folder, "orc")
    _partitioned(spark, "part", folder, "USING parquet")
    _partitioned(spark, "hive", folder, "STORED AS PARQUET")
    spark.sql(f"CREATE TABLE lines ({COLUMNS}) STORED AS TEXTFILE")
    spark.sql("INSERT INTO lines SELECT * FROM fact WHERE id < 400")
    few = "SELECT CAST(id AS INT) AS k, CAST(id % 3 AS INT) AS j, concat('n', id) AS name FROM range(11)"
    spark.sql(f"CREATE TABLE dim USING parquet AS {few}")
    spark.sql(f"CREATE TABLE plain USING parquet AS {few}")
    for table in ("fact", "orders", "part", "hive", "lines"):
        hive_bitmap.build(spark, table, ["k", "j", "g", "s", ["k", "j"]])
    hive_bitmap.build(spark, "dim", ["k", "name"])
    spark.catalog.setCurrentDatabase(before)
    try:
        yield name
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE")


def _files(spark: SparkSession, table: str, folder: Path, format: str) -> None:
    size = ROWS // FILES
    for number in range(FILES):
        write(folder / table / f"{number}.{format}", number * size, size)
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING {format} LOCATION '{folder / table}'")


def _partitioned(spark: SparkSession, table: str, folder: Path, how: str) -> None:
    for day in DAYS:
        write(folder / table / f"day={day}" / "0.parquet", day * 200, 200)
        write(folder / table / f"day={day}" / "1.parquet", day * 200 + 1000, 100)
    by = "PARTITIONED BY (day)" if how.startswith("USING") else "PARTITIONED BY (day int)"
    columns = f"{COLUMNS}, day int" if how.startswith("USING") else COLUMNS
    external = "" if how.startswith("USING") else "EXTERNAL "
    clauses = f"{how} {by}" if how.startswith("USING") else f"{by} {how}"
    spark.sql(f"CREATE {external}TABLE {table} ({columns}) {clauses} LOCATION '{folder / table}'")
    spark.sql(f"MSCK REPAIR TABLE {table}")
