"""CREATE, REBUILD and DROP INDEX return what they did, and their errors tell what they are by Spark's own classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap import errors
from hive_bitmap.errors import HiveBitmapError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {"index": "string", "files": "bigint", "rows": "bigint", "bytes": "bigint", "seconds": "double"}
ERRORS = [
    ("DROP INDEX nope ON sales", "INDEX_NOT_FOUND", "42704", errors.NotFound),
    ("CREATE INDEX j ON sales (nope)", "COLUMN_NOT_FOUND", "42703", errors.NotFound),
    ("CREATE INDEX j ON nope (k)", "TABLE_OR_VIEW_NOT_FOUND", "42P01", errors.NotFound),
    ("DROP INDEX i ON nope.sales", "SCHEMA_NOT_FOUND", "42704", errors.NotFound),
    ("ALTER INDEX i ON sales PARTITION (p=9) REBUILD", "PARTITIONS_NOT_FOUND", "428FT", errors.NotFound),
    ("CREATE INDEX i ON TABLE sales (k) AS 'BITMAP'", "INDEX_ALREADY_EXISTS", "42710", errors.AlreadyExists),
    ("CREATE INDEX j ON TABLE sales AS 'BITMAP'", "PARSE_SYNTAX_ERROR", "42601", errors.InvalidStatement),
    (
        "CREATE INDEX j ON TABLE sales (k) AS 'BITMAP' IDXPROPERTIES ('encoding'='x')",
        "INVALID_PROPERTY_VALUE",
        "42602",
        errors.InvalidProperty,
    ),
    ("CREATE INDEX j ON TABLE sales (p) AS 'BITMAP'", "UNSUPPORTED_FEATURE", "0A000", errors.Unsupported),
]


@pytest.fixture
def sales(spark: SparkSession, database: str) -> SparkSession:
    spark.sql("CREATE TABLE sales (k int, id bigint, p int) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO sales SELECT CAST(id % 9 AS int), id, id % 2 FROM range(0, 100, 1, 1)")
    hive_bitmap.enable(spark)
    return spark


@pytest.mark.parametrize("by_spark", [pytest.param(True, marks=pytest.mark.contract), False])
def test_statements_return_what_they_did(sales: SparkSession, by_spark: bool) -> None:
    def run(text: str) -> tuple[int, ...]:
        frame = sales.sql(text) if by_spark else hive_bitmap.sql(sales, text)
        assert dict(frame.dtypes) == TYPES
        [row] = frame.collect()
        assert row["index"] == "i" and row["seconds"] > 0 and type(row["bytes"]) is int
        return row["files"], row["rows"], row["bytes"]

    files, rows, size = run("CREATE INDEX i ON TABLE sales (k) AS 'BITMAP'")
    assert (files, rows) == (2, 100) and size > 1000
    assert run("ALTER INDEX i ON sales REBUILD") == (0, 100, size)
    sales.sql("INSERT INTO sales VALUES (3, 100, 0)")
    assert run("REFRESH INDEX i ON sales")[:2] == (1, 101)
    grown = run("REFRESH INDEX i ON sales")
    assert grown[:2] == (0, 101) and grown[2] > size  # all that the index has, though nothing was looked at
    sales.sql("INSERT INTO sales VALUES (3, 101, 0)")
    assert run("UPDATE INDEX i")[:2] == (1, 102)
    [status] = hive_bitmap.show(sales, "sales")
    assert run("DROP INDEX i ON sales") == (4, 102, status.index_bytes)


def test_what_does_nothing_returns_no_row(sales: SparkSession) -> None:
    sales.sql("CREATE INDEX i ON TABLE sales (k) AS 'BITMAP'")
    assert sales.sql("CREATE INDEX IF NOT EXISTS i ON TABLE sales (k) AS 'BITMAP'").collect() == []
    assert sales.sql("DROP INDEX IF EXISTS nope ON sales").collect() == []


@pytest.mark.parametrize(("text", "condition", "state", "error"), ERRORS, ids=lambda one: str(one)[:30])
def test_errors_have_a_class_of_spark_and_a_sqlstate(
    sales: SparkSession, text: str, condition: str, state: str, error: type[HiveBitmapError]
) -> None:
    hive_bitmap.build(sales, "sales", ["k"], name="i")
    with pytest.raises(PySparkException) as raised:
        sales.sql(text)
    assert (raised.value.getCondition(), raised.value.getSqlState()) == (condition, state)
    with pytest.raises(error) as ours:
        hive_bitmap.sql(sales, text)
    assert (ours.value.condition, ours.value.sqlstate) == (condition, state)
    assert str(raised.value).startswith(f"[{condition}] {ours.value}")
