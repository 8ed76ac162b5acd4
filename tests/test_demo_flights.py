"""The demo's tables: the flights of a year, once for each of some years."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from demo import flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_flights_of_a_year_are_there_once_for_each_year(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = flights.read().take(list(range(0, flights.ROWS, 1000)))
    monkeypatch.setattr(flights, "read", lambda: some)
    flights.load(spark, years=3)
    alike = Counter(map(str, some.drop_columns(["year", "time_hour"]).to_pylist()))
    for table in ("flights", "flights_by_month"):
        loaded = spark.table(table).select(*some.column_names).toArrow()
        assert Counter(loaded["year"].to_pylist()) == dict.fromkeys((2013, 2014, 2015), len(some))
        for later in range(3):
            rows = [row for row in loaded.to_pylist() if row["year"] == 2013 + later]
            assert {row["time_hour"].year for row in rows} <= {2013 + later, 2014 + later}  # the last hours, in UTC
            for row in rows:
                del row["year"], row["time_hour"]
            assert Counter(map(str, rows)) == alike
    assert len(spark.table("flights").inputFiles()) == 3
    assert len(spark.sql("SHOW PARTITIONS flights_by_month").collect()) == 12
