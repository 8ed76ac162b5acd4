"""Dropping indexes, or what they cover of some partitions, and tables with their indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.building import publish
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.index import catalog
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.coverage import covered
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.predicates.spark_conditions import bracketed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drop(spark: SparkSession, table: str, name: str, *, if_exists: bool = False, where: str | None = None) -> bool:
    """Drop an index and delete its generations, and nothing else; returns whether there was one.

    `where`, SQL over the partition columns, limits that to the partitions of which it is true; with the last partition
    that the index covers, the index itself is dropped. The base table may be gone. Raises NotFound for an unknown table
    or index unless `if_exists`, and where the index covers no partition of which `where` is true; Unsupported for
    `where` with an index that was made without a WHERE, so that it covers all partitions.
    """
    metastore.split_name(spark, table)  # what is no name of a table is an error all the same
    try:
        base, indexes = catalog.find(spark, table)
    except NotFound:
        if not if_exists:
            raise
        return False
    found = [index for index in indexes if index.definition.name == name.lower()]
    if not found:
        if if_exists:
            return False
        raise NotFound.of("index", name, [index.definition.name for index in indexes], f"table {table}")
    if where is None or base is None:
        publish.drop(spark, base, found[0])
    else:
        _drop_partitions(spark, base, found[0], where)
    return True


def drop_table(spark: SparkSession, table: str) -> None:
    """Drop the indexes of a table, then the table. Where the table is gone already, its indexes are dropped.

    Raises NotFound for an unknown table, and Unsupported for a view.
    """
    base, indexes = catalog.find(spark, table)
    if base is not None and base.kind in ("VIEW", "TEMPORARY"):
        raise Unsupported(f"{table} is a view: drop it with DROP VIEW")
    for index in indexes:
        publish.drop(spark, base, index)
    if base is not None:
        spark.sql(f"{metastore.OURS} DROP TABLE IF EXISTS {base.sql_name}")


def _drop_partitions(spark: SparkSession, base: Table, index: Index, where: str) -> None:
    definition = index.definition
    if not definition.where:
        raise Unsupported(
            f"Index '{definition.name}' was not created with explicit partitions."
            " Partial drop by partition is not supported."
        )
    known = [partition.values for partition in metastore.partitions(spark, base)]
    known = list(dict.fromkeys([*known, *catalog.states(spark, index)]))
    before, dropped = (covered(spark, base, text, known) for text in (definition.where, where))
    gone = [values for values, had, drops in zip(known, before, dropped, strict=True) if had and drops]
    if not gone:
        raise NotFound(f"Index '{definition.name}' does not contain partitions: {where}")
    if len(gone) == sum(before):
        publish.drop(spark, base, index)
        return
    left = f"{bracketed(definition.where)} AND {bracketed(where)} IS NOT TRUE"
    catalog.alter(spark, index, replace(definition, where=left))
    publish.publish(spark, base, [publish.Switch(definition, {}, gone)])
