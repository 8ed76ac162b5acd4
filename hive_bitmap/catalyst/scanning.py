"""The entry points of a query: `plan` tells how it would be answered, `scan` returns its rows as a DataFrame.

Both accept any table that Spark can read. The DataFrame is `spark.table(table).where(predicate)`, with the table in its
plan, so that Spark's checks, caches and authorizers see it; the optimizer rule reads it through the indexes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hive_bitmap.catalyst import enabling
from hive_bitmap.catalyst.jvm_bridge import bridge
from hive_bitmap.errors import StoreError, Unsupported
from hive_bitmap.metastore import jvm_reader
from hive_bitmap.planning.plan import Plan
from hive_bitmap.planning.prepare import prepare
from hive_bitmap.planning.request import Request, analysed
from hive_bitmap.planning.resolving import resolve
from hive_bitmap.planning.strategy import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def plan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    count: bool = False,
    strategy: str | None = None,
) -> Plan:
    """Plan how `scan` (or, with `count`, `hive_bitmap.count`) would answer now, without reading rows of the table.

    `predicate` is a condition in Spark SQL, None for all rows; `columns` are those to read, None for all. `strategy`
    overrides the choice by cost: `index only`, `rows`, `blocks`, `files` or `full scan`. `str()` of the plan
    sums it up. Raises NotFound for an unknown table or column, and InvalidPredicate for a predicate that is not
    SQL.
    """
    rows = Request.of(table, predicate, columns, strategy=strategy)
    request = rows.counted() if count else rows
    analysed(spark, request)
    return prepare(spark, request).told


def scan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    strategy: str | None = None,
) -> DataFrame:
    """Return `spark.table(table).where(predicate)`, with these columns, read through the index if that is cheaper.

    It is that DataFrame, of Spark's own making; the session need not be enabled for it.
    `strategy` overrides the choice by cost if an index can be used, as `hive_bitmap.strategy` does for a session. On a
    Spark Connect client the server plans: with the extension as it does for SQL, otherwise without an index. Raises the
    errors of `plan`, and Unsupported for a strategy that cannot answer.
    """
    request = Request.of(table, predicate, columns, strategy=strategy)
    if request.strategy is Strategy.INDEX_ONLY:
        raise Unsupported(f"strategy {strategy!r} counts rows, and reads none")
    if strategy is not None:
        prepare(spark, request)
    else:
        with suppress(Unsupported, StoreError):  # errors that Spark does not have
            resolve(spark, request)
    if not jvm_reader.available(spark):
        log.info("the server of this Spark Connect client plans the scan of %s, with its extension or alone", table)
        return analysed(spark, request)
    try:
        enabling.enable_chosen(spark)
    except Unsupported as e:
        log.warning("the scan of %s is Spark's own: %s", table, e)
        return analysed(spark, request)
    return analysed(spark, request, lambda: _with_strategy(spark, table, strategy or ""))


def _with_strategy(spark: SparkSession, table: str, strategy: str) -> DataFrame:
    from pyspark.sql import DataFrame as Frame

    frame = spark.table(table)
    chosen = bridge(spark).withStrategy(frame._jdf, strategy)
    return frame if chosen is None else Frame(chosen, spark)
