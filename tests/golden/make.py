"""`make golden`: keep indexes of this version, for the versions to come: tests/golden/<version>.tar.gz.

The archive has the files of some tables and of an index of every type and encoding, and the statements that tell a
metastore of them. Shards hold absolute paths, so all of it lies in a folder of a fixed name, where `restore` puts it
again. An archive of a released version is never made again. `before-0.1.0` has indexes of a format that was never
released: in the same folder as those of 0.1.0, which has another format.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent
EARLY = "before-0.1.0"  # the archive of a format that was never released
TABLES = "tables.json"  # in the archive: the statements, in their order
VALUES = """
    IF(id % 7 = 0, NULL, concat('key ', id % 11)) AS k, CAST(id % 5 AS int) AS n,
    CAST(id % 13 AS decimal(9, 2)) AS price, date_add(DATE '2024-02-27', CAST(id % 9 AS int)) AS day,
    timestamp_seconds(1700000000 + id % 3) AS at, id AS v
"""
# The indexes of each table: columns, and what else `hive_bitmap.build` is given.
INDEXES = {
    "parts": [
        (["k"], {}),
        ([["n", "day"]], {"encoding": "roaring"}),
        (["price"], {"type": "COMPACT"}),
        (["day"], {"type": "AGGREGATE", "aggregates": "sum(price), v"}),
        (["at"], {"name": "worth", "type": "AGGREGATE", "aggregates": "sum(price * v) AS worth"}),
    ],
    "flat": [
        (["k"], {"encoding": "ewah"}),
        (["n"], {"encoding": "plain"}),
        (["at"], {"comment": "kept", "compression": "gzip"}),
    ],
}
EARLY_INDEXES = {"parts": 3, "flat": 3}  # how many indexes each table of EARLY has


def root(version: str) -> Path:
    """The folder in which the tables of a version lie, here and wherever they are restored."""
    return Path(f"/tmp/hive_bitmap-golden-{version.removeprefix('before-')}")


def database(version: str) -> str:
    return f"golden_{version.removeprefix('before-').replace('.', '_')}"


def make(version: str) -> Path:
    """Make the tables and their indexes, and pack them."""
    home, name = root(version), database(version)
    shutil.rmtree(home, ignore_errors=True)
    spark = hive_bitmap.session(home / "warehouse", app_name="golden", master="local[2]")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql(f"CREATE DATABASE {name} LOCATION '{home}/{name}'")
    spark.catalog.setCurrentDatabase(name)
    _fill(spark, home / name)
    for table, indexes in INDEXES.items():
        for columns, options in indexes:
            hive_bitmap.build(spark, table, columns, **options)
    _append(spark)
    hive_bitmap.rebuild(spark, "parts")  # segments of two builds; `flat` stays with a file unindexed
    statements = [found for table in _tables(spark) for found in _statements(spark, table)]
    spark.stop()
    (home / TABLES).write_text(json.dumps(statements, indent=1))
    archive = FOLDER / f"{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(home / TABLES, TABLES)
        packed.add(home / name, name)
    shutil.rmtree(home)
    return archive


def _fill(spark: SparkSession, home: Path) -> None:
    columns = "k string, n int, price decimal(9, 2), day date, at timestamp, v bigint"
    parts, flat = (f"LOCATION '{home / table}'" for table in INDEXES)
    spark.sql(f"CREATE EXTERNAL TABLE parts ({columns}) PARTITIONED BY (p int) STORED AS PARQUET {parts}")
    spark.sql(f"INSERT INTO parts SELECT {VALUES}, CAST(id % 2 AS int) FROM range(0, 400, 1, 2)")
    spark.sql(f"CREATE EXTERNAL TABLE flat ({columns}) STORED AS ORC {flat}")
    spark.sql(f"INSERT INTO flat SELECT {VALUES} FROM range(0, 300, 1, 2)")


def _append(spark: SparkSession) -> None:
    spark.sql(f"INSERT INTO parts SELECT {VALUES}, 1 FROM range(400, 450, 1, 1)")
    spark.sql(f"INSERT INTO flat SELECT {VALUES} FROM range(300, 350, 1, 1)")


def _tables(spark: SparkSession) -> list[str]:
    """The tables and index tables of the current database, the latter last."""
    return sorted(
        (row["tableName"] for row in spark.sql("SHOW TABLES").collect()), key=lambda name: ("__" in name, name)
    )


def _statements(spark: SparkSession, table: str) -> list[str]:
    """What creates a table that is there, on the files that are there."""
    create = spark.sql(f"SHOW CREATE TABLE {table} AS SERDE").collect()[0][0]
    partitions = []
    if "PARTITIONED BY" in create:
        for [spec] in spark.sql(f"SHOW PARTITIONS {table}").collect():
            described = spark.sql(f"DESCRIBE EXTENDED {table} PARTITION ({spec})").collect()
            location = next(row["data_type"] for row in described if row["col_name"] == "Location")  # then the table's
            partitions.append(f"ALTER TABLE {table} ADD PARTITION ({spec}) LOCATION '{location}'")
    return [create, *partitions]


if __name__ == "__main__":
    print(make(hive_bitmap.__version__))  # noqa: T201
