"""The aggregates in index tables, created by statements of both dialects, are those that Spark computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidProperty, Unsupported
from hive_bitmap.hive.hive2.export import export
from hive_bitmap.spark.metastore import metastore
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORED = {
    "parquet": "STORED AS PARQUET",
    "orc": "STORED AS ORC",
    "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'",
    "avro": "STORED AS AVRO",
}
# Values at the limits of their types, and NULLs; each key has some of them.
VALUES = """
    CASE WHEN id % 11 = 0 THEN NULL ELSE concat('k', id % 4) END AS k, CAST(id % 3 AS int) AS j,
    CASE WHEN id % 5 = 0 THEN NULL ELSE CAST((id - 150) * 1234.567 AS decimal(20,3)) END AS amount,
    CAST(concat(IF(id % 2 = 0, '-', ''), repeat('9', 35)) AS decimal(36,0)) AS wide,
    CASE id % 3 WHEN 0 THEN 9223372036854775807L WHEN 1 THEN -9223372036854775807L ELSE id END AS n,
    CAST(id % 256 - 128 AS tinyint) AS tiny, date_add(DATE'1900-01-01', CAST(id * 97 AS int)) AS day,
    CASE WHEN id % 7 = 0 THEN NULL ELSE concat('name ', id) END AS name
"""
AGGREGATES = "COUNT(*), sum(Amount), wide, sum(n), day, count(name)"
OF_TABLE = """
    count(*), sum(amount), count(amount), min(amount), max(amount), sum(wide), count(wide), min(wide), max(wide),
    sum(CAST(n AS decimal(20,0))), count(n), min(n), max(n), count(day), min(day), max(day), count(name)
"""
OF_INDEX = """
    sum(_count_of_all), sum(_sum_of_amount), sum(_count_of_amount), min(_min_of_amount), max(_max_of_amount),
    sum(_sum_of_wide), sum(_count_of_wide), min(_min_of_wide), max(_max_of_wide),
    sum(_sum_of_n), sum(_count_of_n), min(_min_of_n), max(_max_of_n), sum(_count_of_day), min(_min_of_day),
    max(_max_of_day), sum(_count_of_name)
"""


def rows(spark: SparkSession, select: str, table: str, by: str) -> list[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    found = spark.sql(f"SELECT {by}, {select} FROM {table} GROUP BY {by}").collect()
    return sorted((tuple(row) for row in found), key=str)


def append(spark: SparkSession, start: int, *more: str) -> None:
    columns = ", ".join([VALUES, *more])
    spark.range(start, start + 300, 1, 2).createOrReplaceTempView("numbers")
    spark.sql(f"SELECT {columns} FROM numbers").write.insertInto("t")


@pytest.mark.parametrize("format", contract(sorted(STORED), "parquet"))
def test_stored_aggregates_are_those_of_spark(spark: SparkSession, database: str, format: str) -> None:
    spark.sql(
        "CREATE TABLE t (k string, j int, amount decimal(20,3), wide decimal(36,0), n bigint, tiny tinyint, day date, "
        f"name string) PARTITIONED BY (p int) {STORED[format]}"
    )
    append(spark, 0, "CAST(id % 2 AS int) AS p")
    hive_bitmap.sql(
        spark, f"CREATE INDEX by_k ON TABLE t (k) AS 'BITMAP' IDXPROPERTIES ('AGGREGATES'='{AGGREGATES}', 'team'='ops')"
    )
    hive_bitmap.sql(spark, "CREATE INDEX by_j USING bitmap ON t (k, j) WITH (aggregates = 'tiny', encoding = ewah)")
    append(spark, 1000, "CAST(id % 3 AS int) AS p")
    hive_bitmap.refresh(spark, "t")
    for by in ("k", "p, k"):
        assert rows(spark, OF_INDEX, f"{database}__t_by_k__", by) == rows(spark, OF_TABLE, "t", by)
    tiny = "sum(_sum_of_tiny), sum(_count_of_tiny), min(_min_of_tiny), max(_max_of_tiny)"
    expected = rows(spark, "sum(tiny), count(tiny), min(tiny), max(tiny)", "t", "k, j")
    assert rows(spark, tiny, f"{database}__t_by_j__", "k, j") == expected
    assert [verified.problems for verified in hive_bitmap.verify(spark, "t")] == [(), ()]
    assert hive_bitmap.count(spark, "t", "k = 'k1'") == spark.table("t").where("k = 'k1'").count()
    [shown] = hive_bitmap.sql(spark, "SHOW INDEX by_j").collect()
    assert "aggregates=sum(tiny), count(tiny), min(tiny), max(tiny)" in str(shown)


@pytest.mark.contract
def test_refusals_leave_nothing_behind(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k string, price double, n int) STORED AS PARQUET")
    create = "CREATE INDEX i ON TABLE t (k) AS '{}' IDXPROPERTIES ('aggregates'='{}')"
    for type, aggregates, error, message in (
        ("BITMAP", "sum(price)", Unsupported, r"such as decimal\(18,2\)"),
        ("BITMAP", "sum(n * 2)", InvalidProperty, "which needs a name"),
        ("COMPACT", "sum(n)", Unsupported, "use AGGREGATE, or BITMAP"),
        ("AGGREGATE", "sum(price)", Unsupported, r"such as decimal\(18,2\)"),
    ):
        with pytest.raises(error, match=message):
            hive_bitmap.sql(spark, create.format(type, aggregates))
    assert metastore.names_like(spark, database, "*") == ["t"]


def test_an_export_for_hive_2_leaves_them_out(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (k int, n int) STORED AS PARQUET")
    spark.sql("INSERT INTO t VALUES (1, 2), (1, 3), (NULL, 4)")
    options = "'encoding'='ewah', 'aggregates'='sum(n)'"
    hive_bitmap.sql(spark, f"CREATE INDEX i ON TABLE t (k) AS 'BITMAP' IDXPROPERTIES ({options})")
    exported = export(spark, "t", "i", str(tmp_path / "exported"))
    copied = spark.read.parquet(exported.root)
    assert copied.columns == ["k", "_bucketname", "_offset", "_bitmaps"] and copied.count() >= 2
