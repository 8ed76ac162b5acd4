"""Resolve the table name of a request to its table, indexes and settings, and parse its predicate, once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.index import catalog
from hive_bitmap.metastore import jvm_reader, serde, session_settings
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning.request import Request, ResolvedTable, require_sql
from hive_bitmap.planning.spark_leaves import true_keys
from hive_bitmap.predicates.nodes import TRUE, Predicate, Unknown
from hive_bitmap.predicates.parser import parse
from hive_bitmap.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def resolve(spark: SparkSession, request: Request) -> ResolvedTable:
    """Return the resolved table of a request whose table is a name and whose predicate is SQL text.

    Raises NotFound for an unknown table and InvalidPredicate for a predicate that Spark refuses.
    """
    settings = session_settings.settings(spark)
    base, indexes = catalog.table_and_indexes(spark, request.table, catalog.INDEX_CACHE_SECONDS)
    tree = _parsed(spark, request, base)
    evaluate = partial(true_keys, spark, base.name)
    # The rule reads the rows of such a table by Spark's own reader, which it gives the blocks to read.
    native = not request.count and jvm_reader.available(spark) and not serde.read_properties(base)
    return ResolvedTable(
        base=base,
        indexes=tuple(indexes),
        settings=settings,
        predicate=tree,
        evaluate=evaluate,
        cores=parallelism(spark),
        native=native,
    )


def _parsed(spark: SparkSession, request: Request, base: Table) -> Predicate:
    if request.predicate is None:
        return TRUE
    try:
        return parse(request.predicate, (*base.columns, *base.partition_columns), base.name)
    except InvalidPredicate as e:
        require_sql(spark, request)  # only what Spark refuses, too, is an error
        return Unknown(request.predicate, str(e))
