"""Tables of Hive's row formats: through an index or not, the answer is Spark's, and no split with a match is lost.

The oracle is a full scan; for offsets, the genuine input formats that Spark reads these tables with, at splits so small
that a block reaches over many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.formats.storage import local_path
from hive_bitmap.index import metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "n": "cast(id % 13 AS int)",
    "s": "CASE WHEN id % 11 = 0 THEN NULL WHEN id % 7 = 0 THEN '' ELSE concat('é,|\\\\', id % 5, '\t\"') END",
    "d": "cast(id % 9 AS decimal(7,2)) / 4",
    "x": "cast(id % 6 AS double) / 3 - 1",
    "day": "date_add(date'1960-02-01', cast(id * 37 % 30000 AS int))",
    "flag": "nullif(id % 4, 0) > 2",
    "at": "timestamp_seconds(id * 100003 % 100000000)",
    "id": "id",
}
INDEXED = ["n", "s", ["d", "x", "flag"], ["day", "at", "id"]]
PREDICATES = [
    "n = 3",
    "n = 3 AND s IS NULL OR flag",
    "day < '1961-01-01' AND d >= 1",
    "x = -1 AND at > timestamp'1970-06-01'",
]
TABLES = {
    "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\\\' STORED AS TEXTFILE",
    "avro": "STORED AS AVRO",
    "rcfile": "STORED AS RCFILE",
    "rcfile of text": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.columnar.ColumnarSerDe' STORED AS RCFILE",
    "sequencefile": "STORED AS SEQUENCEFILE",
    "sequencefile by block": "STORED AS SEQUENCEFILE",
}
COMPRESSED = ("sequencefile by block", "rcfile of text")
COMPRESSION = {"hive__exec__compress__output": "true", "mapreduce__output__fileoutputformat__compress__type": "BLOCK"}
COARSE = ("rcfile", *COMPRESSED)  # their files are one unit each, as small as they are here


@contextmanager
def hadoop(spark: SparkSession, **values: object) -> Iterator[None]:
    """Settings of Hadoop in this session, with `__` for a dot in the name."""
    names = {name.replace("__", "."): str(value) for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def small_splits(spark: SparkSession, size: int) -> AbstractContextManager[None]:
    """Splits of so many bytes, which Hadoop takes from the local file system."""
    return hadoop(spark, fs__local__block__size=size, fs__file__impl__disable__cache="true")


def right(spark: SparkSession, table: str, *predicates: str) -> None:
    """Require that rows and counts are Spark's."""
    for predicate in predicates:
        expected = spark.table(table).where(predicate)
        rows = sorted(map(repr, expected.collect()))
        assert sorted(map(repr, hive_bitmap.scan(spark, table, predicate).collect())) == rows, predicate
        assert hive_bitmap.count(spark, table, predicate) == len(rows), predicate


def same(spark: SparkSession, *queries: str) -> None:
    """Require that queries are answered as Spark answers them."""
    for query in queries:
        found, expected = hive_bitmap.sql(spark, query).collect(), spark.sql(query).collect()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), query


def verified(spark: SparkSession, table: str) -> None:
    for found in hive_bitmap.verify(spark, table):
        assert found.ok and not found.stale + found.unindexed + found.gone, found


def offsets_of(spark: SparkSession, table: str, predicate: str, path: Path) -> dict[str, list[int]]:
    hive_bitmap.write_offsets(spark, table, predicate, str(path))
    lines = [line.split("\x01") for line in path.read_text().splitlines()]
    return {name: [int(number) for number in numbers.split("\x02")] for name, numbers in lines}


def lost(spark: SparkSession, table: str, predicate: str, offsets: dict[str, list[int]]) -> tuple[list[object], int]:
    """The splits with matching rows that Hive would not read through these offsets; how many it would not, of all."""
    split = "input_file_name() AS f, input_file_block_start() AS b, input_file_block_length() AS l"
    rows = f"SELECT {split}, cast({predicate} AS int) AS m FROM {table}"
    every = spark.sql(f"SELECT f, b, l, sum(m) FROM ({rows}) GROUP BY f, b, l").collect()
    unread = [one for one in every if not any(one[1] <= o <= one[1] + one[2] for o in offsets.get(one[0], []))]
    return [one for one in unread if one[3]], len(unread)


def files_of(spark: SparkSession, table: str) -> list[Path]:
    return sorted(Path(local_path(metastore.describe(spark, table).location)).rglob("part-*"))


@pytest.mark.parametrize("kind", TABLES)
def test_formats(spark: SparkSession, database: str, tmp_path: Path, kind: str) -> None:
    typed = spark.range(1).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items())).schema
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in typed)
    parted = kind == "text"
    spark.sql(f"CREATE TABLE t ({ddl}) {'PARTITIONED BY (p string)' if parted else ''} {TABLES[kind]}")
    rows = ", ".join([*COLUMNS.values(), *(["concat('p q%', id % 2)"] if parted else [])])
    with hadoop(spark, **(COMPRESSION if kind in COMPRESSED else {})):
        spark.sql(f"INSERT INTO t SELECT /*+ REPARTITION(2) */ {rows} FROM range(6000)")
    with small_splits(spark, 50_000):
        reports = hive_bitmap.build(spark, "t", INDEXED)
    assert {(report.base_rows, report.unindexed) for report in reports} == {(6000, ())}
    right(spark, "t", *PREDICATES)
    same(spark, "SELECT n, count(*), max(day) FROM t WHERE flag GROUP BY n", "SELECT count(DISTINCT s) FROM t")
    assert hive_bitmap.plan(spark, "t", "n = 3", count=True).strategy == "index only"
    verified(spark, "t")
    left_out = 0
    for predicate, size in (("id < 40", 20_000), ("n = 3 AND s IS NULL", 5_000 if parted else 70_000)):
        offsets = offsets_of(spark, "t", predicate, tmp_path / "offsets")
        with small_splits(spark, size):
            missed, unread = lost(spark, "t", predicate, offsets)
        assert missed == [], predicate
        left_out += unread
    assert left_out or kind in COARSE
