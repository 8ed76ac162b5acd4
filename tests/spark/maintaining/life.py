"""Helpers for tests of an index's life: small tables, and checks to make after each change.

Tables are made through the metastore of the session, so these work on all metastores; `require_right` asks Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation_names
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table, partition_spec
from hive_bitmap.spark.maintaining.show import IndexStatus
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog, locations
from tests.spark.metastore.memory import MemorySession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS = 50
COLUMNS = (Column("k", "int"), Column("id", "bigint"))
P = (Column("p", "int"),)


def write(folder: Path, files: int = 2, first: int = 0) -> None:
    """Write files with the columns k (0 to 8) and id, numbered from `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + files):
        ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        rows = pa.table({"k": pa.array([i % 9 for i in ids], pa.int32()), "id": pa.array(ids, pa.int64())})
        pq.write_table(rows, folder / f"{number}.parquet")


def external_table(
    spark: SparkSession,
    name: str,
    folder: Path,
    columns: Sequence[Column] = COLUMNS,
    partition_columns: Sequence[Column] = (),
) -> Table:
    """Create an external Parquet table in the current database, and return it."""
    made = Table(
        database=spark.catalog.currentDatabase(),
        name=name,
        kind="EXTERNAL",
        provider="hive",
        columns=tuple(columns),
        partition_columns=tuple(partition_columns),
        location=f"file:{folder}",
    )
    assert alter_table.create(spark, made)
    return made


def flat_table(spark: SparkSession, folder: Path) -> str:
    """Create an unpartitioned table of two files; return its name."""
    write(folder)
    return external_table(spark, "flat", folder).name


def parted_table(spark: SparkSession, folder: Path, partitions: int = 4) -> str:
    """Create a table with the partitions p=1, p=2, .. of two files each; return its name."""
    for p in range(1, partitions + 1):
        write(folder / f"p={p}")
    external_table(spark, "parted", folder, partition_columns=P)
    repair(spark, "parted")
    return "parted"


def repair(spark: SparkSession, table: str) -> None:
    """Add the partitions that a table has folders for, as MSCK REPAIR TABLE does."""
    base = metastore.describe(spark, table)
    home = Path(local_path(base.location))
    names = "/".join(f"{column.name}=*" for column in base.partition_columns)
    found = {
        tuple(part.partition("=")[2] for part in folder.relative_to(home).parts): f"file:{folder}"
        for folder in sorted(home.glob(names))
    }
    known = {one.values: one.location for one in metastore.partitions(spark, base)}
    added = {values: folder for values, folder in found.items() if values not in known}
    alter_table.change(spark, base, added=added)


def drop_partitions(spark: SparkSession, table: str, *values: str | int) -> None:
    """Drop partitions of a table, given by the values of its first partition column."""
    base = metastore.describe(spark, table)
    gone = [one.values for one in metastore.partitions(spark, base) if one.values[0] in map(str, values)]
    assert gone
    if isinstance(spark, MemorySession):
        spark.metastore.drop_partitions(base, gone)
        return
    for one in gone:
        spark.sql(f"ALTER TABLE {base.spark_name} DROP PARTITION {partition_spec(base, one)}")


def drop_table(spark: SparkSession, table: str) -> None:
    """Drop a table that is there, as other programs do: without its indexes."""
    alter_table.drop_named(spark, table, if_exists=False)
    catalog.clear_caches()


def rename_table(spark: SparkSession, table: str, name: str) -> None:
    """Rename a table that has no files in its own folder, as other programs do: without its indexes."""
    alter_table.rename(spark, metastore.describe(spark, table), name)
    catalog.clear_caches()


def require_right(spark: SparkSession, table: str) -> None:
    """Check that rows and counts through the index, if there is one, equal those of plain Spark."""
    catalog.clear_caches()
    spark.catalog.refreshTable(table)
    expected = sorted(row.id for row in spark.table(table).where("k = 3").collect())
    assert sorted(row.id for row in hive_bitmap.scan(spark, table, "k = 3").collect()) == expected
    assert hive_bitmap.count(spark, table, "k = 3") == len(expected)


def require_verified(spark: SparkSession, table: str) -> None:
    """Check that the indexes of a table have of its unchanged files what these hold; Spark is not asked."""
    catalog.clear_caches()
    found = hive_bitmap.verify(spark, table)
    assert [one.problems for one in found] == [()] * len(found)
    assert all(one.blocks for one in found if one.files)


def status(spark: SparkSession, table: str) -> IndexStatus:
    """Return the state of the only index."""
    [found] = hive_bitmap.show(spark, table)
    return found


def live(spark: SparkSession, table: str) -> list[str]:
    """Return the published segments of all indexes, sorted."""
    _, indexes = catalog.table_and_indexes(spark, table)
    return sorted(folder for index in indexes for folder in catalog.segments(spark, index))


def generations(spark: SparkSession, database: str) -> list[str]:
    """Return all generations in the default folder for index tables of the database, sorted."""
    home = Path(local_path(locations.default_folder(spark, database)))
    return sorted(f"file:{path}" for path in home.rglob("generation-*") if generation_names.is_generation(str(path)))


def index_table(spark: SparkSession, table: str) -> str:
    """Return the quoted name of the index table of the first index."""
    return catalog.table_and_indexes(spark, table)[1][0].definition.sql_name
