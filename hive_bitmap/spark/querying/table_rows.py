"""Make DataFrames that the optimizer rule plans.

Each DataFrame has the rows of `spark.table(table).where(predicate)`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hive_bitmap.core import table_info
from hive_bitmap.core.columns import find
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.tokens import require_characters
from hive_bitmap.core.table_info import name_parts, quote
from hive_bitmap.errors import InvalidPredicate, Unsupported
from hive_bitmap.spark.catalyst import enabling
from hive_bitmap.spark.jvm_bridge import EXTENSION, bridge
from hive_bitmap.spark.metastore import jvm_reader, metastore
from hive_bitmap.spark.registry.coverage import satisfying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
BY_SERVER = (
    "the server of a Spark Connect client plans its queries; it uses indexes if it was started with the jar that "
    f"`hive-bitmap jar` names and --conf spark.sql.extensions={EXTENSION}"
)


def table_rows(
    spark: SparkSession,
    table: str,
    predicate: str | None,
    columns: Sequence[str] | None = None,
    *,
    strategy: Strategy | None = None,
    must_pay: bool = True,
) -> DataFrame:
    """Return a DataFrame of the rows that satisfy a predicate; the optimizer rule plans it.

    Without a predicate, return all rows; without `columns`, all columns. The session need not be enabled. `strategy`
    overrides the choice by cost. If `must_pay` is False, the indexes are consulted for a table of any size and without
    a time limit, and current files are read instead of the files that the session listed last. For a Spark Connect
    client, the server plans the query; it uses indexes only if it has the extension. Raises NotFound for an unknown
    table or column, and InvalidPredicate, with Spark's text, for a predicate that Spark refuses.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame as Frame

    name_parts(table)  # raises NotFound for a malformed table name, before the JVM sees it
    require_characters(predicate or "")
    try:
        if why := why_spark_alone(spark):
            _warn(spark, table, why)
            frame = spark.table(table) if predicate is None else satisfying(spark.table(table), predicate)
        else:
            strategy_name = "" if strategy is None else strategy.value
            frame = Frame(bridge(spark).rows(spark._jsparkSession, table, predicate, strategy_name, must_pay), spark)
        if columns is not None:
            frame = frame.select(*map(quote, columns))
        if why:
            frame.schema  # noqa: B018 - Spark Connect analyses when the schema is requested
        return frame
    except AnalysisException as e:
        base = metastore.describe(spark, table)
        for name in columns or ():
            find((*base.columns, *base.partition_columns), name, f"table {base.full_name}")
        spark.table(table).schema  # noqa: B018 - raises errors that the predicate did not cause
        message = table_info.error_message(e)
        raise InvalidPredicate(f"Spark refuses {predicate!r} on table {table}: {message}") from e


def why_spark_alone(spark: SparkSession) -> str:
    """Return why functions of hive_bitmap cannot use indexes here; "" if they can."""
    if not jvm_reader.available(spark):
        return BY_SERVER
    try:
        enabling.enable_chosen(spark)
    except Unsupported as e:
        return str(e)
    return ""


def _warn(spark: SparkSession, table: str, why: str) -> None:
    if why != BY_SERVER:
        log.warning("the scan of %s does not use indexes: %s", table, why)
    elif not _has_extension(spark):
        log.warning("indexes are not used: %s", why)


@lru_cache(maxsize=64)
def _has_extension(spark: SparkSession) -> bool:
    """Return whether the server of a Spark Connect client was started with the extension."""
    return EXTENSION in (spark.conf.get("spark.sql.extensions", "") or "")
