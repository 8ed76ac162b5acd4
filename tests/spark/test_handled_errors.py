"""Errors that are handled leave no trace on stderr; those of others do."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from threading import Thread

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.spark.handled_errors import LOGGERS, handled
from tests.asking import by_spark, indexed

FAILS = "SELECT 1 DIV id FROM range(3)"


@pytest.fixture
def logged() -> io.StringIO:
    """What PySpark logs, instead of on stderr."""
    return io.StringIO()


@pytest.fixture(autouse=True)
def _listening(logged: io.StringIO) -> Iterator[None]:
    handler = logging.StreamHandler(logged)
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    for one in loggers:
        one.addHandler(handler)
    yield
    for one in loggers:
        one.removeHandler(handler)


def failing(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(FAILS).collect()


def test_what_is_handled_is_not_logged(spark: SparkSession, logged: io.StringIO) -> None:
    with handled():
        failing(spark)
        assert logged.getvalue() == ""
        other = Thread(target=failing, args=(spark,))
        other.start()
        other.join()
    assert "DIVIDE_BY_ZERO" in logged.getvalue()
    before = len(logged.getvalue())
    failing(spark)
    assert len(logged.getvalue()) > before


@pytest.mark.contract
def test_an_expression_that_fails_for_keys_which_no_row_is_asked_for_is_not_logged(
    spark: SparkSession, database: str, logged: io.StringIO
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 5 AS INT) a, id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["a"])
    query = "SELECT count(*) FROM t WHERE a <> 0 AND 10 / a > 4"
    wanted = by_spark(spark, query).rows
    for strategy in ("", "rows", "index only"):
        with indexed(spark, strategy):
            assert [repr(tuple(row)) for row in spark.sql(query).collect()] == wanted
    assert logged.getvalue() == ""
