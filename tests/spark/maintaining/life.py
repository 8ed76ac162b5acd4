"""Helpers for tests of an index's life: small tables, and checks to make after each change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import hive_bitmap
from hive_bitmap.core.index import generation
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.maintaining.show import IndexStatus
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS = 50


def write(folder: Path, files: int = 2, first: int = 0) -> None:
    """Write files with the columns k (0 to 8) and id, numbered from `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + files):
        ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        rows = pa.table({"k": pa.array([i % 9 for i in ids], pa.int32()), "id": pa.array(ids, pa.int64())})
        pq.write_table(rows, folder / f"{number}.parquet")


def flat_table(spark: SparkSession, folder: Path) -> str:
    """Create an unpartitioned table of two files; return its name."""
    write(folder)
    spark.sql(f"CREATE EXTERNAL TABLE flat (k int, id bigint) STORED AS PARQUET LOCATION '{folder}'")
    return "flat"


def parted_table(spark: SparkSession, folder: Path, partitions: int = 4) -> str:
    """Create a table with the partitions p=1, p=2, .. of two files each; return its name."""
    parts = range(1, partitions + 1)
    for p in parts:
        write(folder / f"p={p}")
    columns = "(k int, id bigint) PARTITIONED BY (p int)"
    spark.sql(f"CREATE EXTERNAL TABLE parted {columns} STORED AS PARQUET LOCATION '{folder}'")
    for start in range(0, partitions, 100):
        spark.sql(f"ALTER TABLE parted ADD {' '.join(f'PARTITION (p={p})' for p in parts[start : start + 100])}")
    return "parted"


def require_right(spark: SparkSession, table: str) -> None:
    """Check that rows and counts through the index, if there is one, equal those of plain Spark."""
    catalog.clear_caches()
    spark.catalog.refreshTable(table)
    expected = sorted(row.id for row in spark.table(table).where("k = 3").collect())
    assert sorted(row.id for row in hive_bitmap.scan(spark, table, "k = 3").collect()) == expected
    assert hive_bitmap.count(spark, table, "k = 3") == len(expected)


def status(spark: SparkSession, table: str) -> IndexStatus:
    """Return the state of the only index."""
    [found] = hive_bitmap.show(spark, table)
    return found


def live(spark: SparkSession, table: str) -> list[str]:
    """Return the published generations of all indexes, sorted."""
    _, indexes = catalog.table_and_indexes(spark, table)
    return sorted(folder for index in indexes for folder in catalog.published_generations(spark, index).values())


def generations(spark: SparkSession, database: str) -> list[str]:
    """Return all generations in the default folder for index tables of the database, sorted."""
    home = Path(local_path(catalog.default_folder(spark, database)))
    return sorted(f"file:{path}" for path in home.rglob("generation-*") if generation.is_generation(str(path)))


def index_table(spark: SparkSession, table: str) -> str:
    """Return the quoted name of the index table of the first index."""
    return catalog.table_and_indexes(spark, table)[1][0].definition.sql_name
