"""Columns whose names have odd characters, also nested ones: plain Spark's answer, whether or not the index is used.

Spark's ORC reader finds no column with a backtick in its name; Arrow does. What all printable characters are made of
tells whether there are others.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.formats.key_values import has_plain_name
from tests import asking
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

CHARACTERS = (*string.punctuation, " ", *"äßéİıſKσςд日あ๊2²")
WAYS = ("", "rows", asking.BY_TASKS, "blocks")


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def make(spark: SparkSession, using: str, table: str, names: list[str]) -> None:
    """Create a table with a column of each name, and a struct of fields of these names."""
    typed = [f"{quoted(name)} INT" for name in names]
    nested = [f"{quoted(name)}: INT" for name in names]
    spark.sql(f"CREATE TABLE {table} (k INT, {', '.join(typed)}, s STRUCT<{', '.join(nested)}>) USING {using}")


def fill(spark: SparkSession, table: str, names: list[str]) -> None:
    values = [f"CAST(id % {number % 7 + 2} AS INT)" for number in range(len(names))]
    fields = ", ".join(f"CAST(id % {number % 5 + 2} AS INT)" for number in range(len(names)))
    spark.sql(f"INSERT INTO {table} SELECT CAST(id % 9 AS INT), {', '.join(values)}, struct({fields}) FROM range(60)")


def can_be_made(spark: SparkSession, using: str, name: str) -> bool:
    from pyspark.errors import PySparkException

    try:
        make(spark, using, "probe", [name])
    except PySparkException:
        return False
    spark.sql("DROP TABLE probe")
    return True


def require_right(spark: SparkSession, names: list[str], *, used: bool) -> None:
    """Compare rows by all strategies, and the counts of each column, which come from the index if it is `used`."""
    hive_bitmap.build(spark, "t", ["k", *([name] for name in names)])
    asking.require_alike(spark, "SELECT * FROM t WHERE k = 4", *WAYS)
    fields = ", ".join(f"s.{quoted(name)}" for name in names)
    asking.require_alike(spark, f"SELECT {fields} FROM t WHERE k = 4", *WAYS)
    counts = [f"SELECT {number}, {quoted(name)}, count(*) FROM t GROUP BY 2" for number, name in enumerate(names)]
    asking.require_alike(spark, " UNION ALL ".join(counts), "", "index only")
    if used:
        assert set(asking.told(spark, " UNION ALL ".join(counts), "index only")) == {("t", "answered")}


@pytest.mark.parametrize("using", ["orc", "parquet"])
def test_of_all_printable_characters(spark: SparkSession, database: str, using: str) -> None:
    plain = [f"a{number}{one}b" for number, one in enumerate(CHARACTERS) if has_plain_name(one)]
    names = [name for name in plain if can_be_made(spark, using, name)]
    assert len(names) > 30
    make(spark, using, "t", names)
    fill(spark, "t", names)
    require_right(spark, names, used=True)


@pytest.mark.parametrize("using", contract(["orc", "parquet"], "orc"))
def test_of_those_that_spark_does_not_find(spark: SparkSession, database: str, using: str) -> None:
    odd = [f"a{one}b" for one in CHARACTERS if not has_plain_name(one)]
    assert odd == ["a`b"]
    make(spark, using, "t", odd)
    fill(spark, "t", odd)
    require_right(spark, odd, used=using == "parquet")
