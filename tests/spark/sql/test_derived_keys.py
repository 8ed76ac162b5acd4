"""Functions of columns that are computed from keys, and spellings of one key; the oracle is plain Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import lanes
from tests.asking import by_index, by_spark, difference, under, used
from tests.contract import contract
from tests.spark.sql.test_implied_keys import ANSWERED, TABLE, ZONE, fill, index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For a key: functions of its column that have the same value for the key, and others.
DERIVED: dict[str, tuple[list[str], list[str]]] = {
    "date_trunc('HOUR', ts)": (
        ["to_date(ts)", "date_trunc('DAY', ts)", "date_trunc('mon', ts)", "hour(ts)", "year(ts)", "dayofweek(ts)"],
        ["minute(ts)", "date_trunc('MINUTE', ts)", "hour(local)"],
    ),
    "date_trunc('minute', ts)": (["minute(ts)", "date_trunc('hour', ts)", "trunc(ts, 'YEAR')"], ["second(ts)"]),
    "date_trunc('DAY', ts)": (["CAST(ts AS DATE)", "weekofyear(ts)", "date_trunc('WEEK', ts)"], ["hour(ts)"]),
    "date_trunc('WEEK', ts)": (["date_trunc('week', ts)"], ["date_trunc('MONTH', ts)", "to_date(ts)", "year(ts)"]),
    "date_trunc('MONTH', ts)": (["date_trunc('mm', ts)"], ["to_date(ts)"]),
    "to_date(ts)": (["month(ts)", "trunc(ts, 'MM')"], ["hour(ts)", "date_trunc('DAY', ts)"]),
    "trunc(d, 'month')": (["trunc(d, 'YY')", "quarter(d)", "month(d)", "year(d)"], ["day(d)", "trunc(d, 'WEEK')"]),
    "trunc(d, 'QUARTER')": (["year(d)", "quarter(d)"], ["month(d)", "trunc(d, 'MM')"]),
    "trunc(to_date(ts), 'MM')": (["year(ts)", "trunc(ts, 'mon')"], ["day(ts)"]),
    "substring(s, 0, 3)": (
        ["left(s, 2)", "substring(s, 2, 2)", "substring(s, 1, 3)", "substring(s, 1, 0)"],
        ["substring(s, 2, 3)", "substring(s, -1, 1)", "substring(s, 2)"],
    ),
    "substring(s, 2, 3)": ([], ["substring(s, 2, 1)"]),
}


@pytest.mark.turn(4)
@pytest.mark.parametrize("key", contract(list(DERIVED), "date_trunc('HOUR', ts)"))
def test_functions_of_a_key_are_answered_by_its_index(spark: SparkSession, database: str, key: str) -> None:
    derived, others = DERIVED[key]
    zone = "UTC" if "minute" in key else "Africa/Casablanca"  # mean time was not that of whole minutes
    spark.sql(TABLE)
    fill(spark, lanes.sample(), files=2, rows=80)
    with under(spark, {ZONE: zone}), index(spark, key):
        fill(spark, lanes.sample() + 1, files=1, rows=40)  # which the index does not cover
        for expression in derived + others:
            [[constant]] = by_text(spark, f"SELECT CAST(max({expression}) AS STRING) FROM t")
            grouped = f"SELECT CAST({expression} AS STRING) AS e, count(*) FROM t GROUP BY {expression}"
            counted = f"SELECT count(*), count(DISTINCT {expression}) FROM t WHERE {expression} IN ('{constant}', NULL)"
            rows = f"SELECT n, s FROM t WHERE NOT {expression} = '{constant}'"
            for query, strategy in ((grouped, "index only"), (counted, "index only"), (rows, "rows")):
                assert not (why := difference(by_index(spark, query, strategy), by_spark(spark, query))), (query, why)
            expected = ANSWERED if expression in derived else []
            assert used(spark, grouped, "index only") == used(spark, counted, "index only") == expected, expression


def test_a_row_that_fails_as_a_key_is_grouped_by_a_function_of_it(spark: SparkSession, database: str) -> None:
    """The first of all timestamps has a date and a year, but no timestamp is the start of its day."""
    spark.sql(TABLE)
    fill(spark, 5, files=1, rows=50)
    with under(spark, {ZONE: "UTC"}), index(spark, "date_trunc('DAY', ts)"):
        for micros in (-(2**63), 0):
            spark.sql(f"INSERT INTO t (ts, n) VALUES (timestamp_micros({micros}), 1)")
        for query in (
            "SELECT year(ts), count(*) FROM t GROUP BY 1",
            "SELECT count(*), count(DISTINCT to_date(ts)) FROM t WHERE year(ts) < 1000",
        ):
            assert not (why := difference(by_index(spark, query, "index only"), by_spark(spark, query))), (query, why)
        assert used(spark, query, "index only") == ANSWERED
        failing = "SELECT CAST(date_trunc('DAY', ts) AS STRING), count(*) FROM t GROUP BY date_trunc('DAY', ts)"
        for ask in (by_spark, by_index):
            with pytest.raises(Exception, match="overflow"):
                ask(spark, failing)


def by_text(spark: SparkSession, query: str) -> list[list[str]]:
    return [[str(value) for value in row] for row in spark.sql(query).collect()]
