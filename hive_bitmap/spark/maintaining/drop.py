"""Drop indexes, partitions of indexes, and tables together with their indexes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.index.partition_conditions import without
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import NotFound, PartitionNotFound, Unsupported
from hive_bitmap.spark.building import build, build_scope, publish
from hive_bitmap.spark.building.publish import IndexToDrop
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog, catalog_changes
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.coverage import covered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def drop(spark: SparkSession, table: str, name: str, *, if_exists: bool = False, where: str | None = None) -> bool:
    """Drop an index and delete its generations; delete nothing else.

    Return whether the index existed. The base table may have been dropped before; then `where` is ignored. Raise
    NotFound for an unknown table or index, unless `if_exists`.

    `where` is a condition on the partition columns: only the partitions that satisfy it are dropped from the index. If
    no covered partition remains, the index is dropped. Raise NotFound if the index covers no partition that satisfies
    `where`. Raise Unsupported if `where` is given for an index that is not trusted, or that was created without a WHERE
    and so covers all partitions. Raise InvalidPredicate for a malformed `where`.
    """
    metastore.split_name(spark, table)  # raises an error for a malformed name, also with `if_exists`
    try:
        base, indexes = catalog.find_even_if_dropped(spark, table)
    except NotFound:
        if not if_exists:
            raise
        return False
    matching = [index for index in indexes if index.definition.name == name.lower()]
    if not matching:
        if if_exists:
            return False
        raise NotFound.of("index", name, [index.definition.name for index in indexes], f"table {table}")
    if where is None or base is None:
        publish.drop(spark, base, publish.index_to_drop(spark, matching[0], indexes))
    else:
        _drop_partitions(spark, base, matching[0], indexes, where)
    return True


def drop_table(spark: SparkSession, table: str) -> None:
    """Drop a table and its indexes.

    The table may have been dropped before. Raise NotFound for an unknown table without indexes, and Unsupported for a
    view. If Spark refuses to drop the table, its indexes stay.
    """
    base, indexes = catalog.find_even_if_dropped(spark, table)
    if base is not None and base.kind in ("VIEW", "TEMPORARY"):
        raise Unsupported(f"{table} is a view: drop it with DROP VIEW")
    of_table = [publish.index_to_drop(spark, index, indexes) for index in indexes]
    if base is not None:
        alter_table.drop(spark, base)
    drop_after(spark, of_table)


def drop_after(spark: SparkSession, indexes: Iterable[IndexToDrop]) -> None:
    """Drop the indexes of tables that have just been dropped.

    A failure is logged, with what to do.
    """
    for index in indexes:
        try:
            publish.drop(spark, None, index)
        except Exception as e:  # noqa: BLE001 - the table is dropped: the statement has succeeded, even if this fails
            definition = index.definition
            log.warning(
                "table %s is dropped, but not its index %s (%s): drop the index, or if it no longer exists, run clean "
                "with the location %s and a grace of 0",
                definition.full_table,
                definition.name,
                e,
                definition.root,
            )


def _drop_partitions(spark: SparkSession, base: Table, index: Index, indexes: Sequence[Index], where: str) -> None:
    definition = index.definition
    if not definition.where:
        raise Unsupported(
            f"index {definition.name} covers all partitions: only partitions of an index that was created with WHERE "
            "can be dropped from it"
        )
    if not index.trusted:
        raise Unsupported(index.problem)
    partitions = [partition.values for partition in metastore.partitions(spark, base)]
    partitions = list(dict.fromkeys([*partitions, *build_scope.covered_partitions(spark, index)]))
    before, chosen = (covered(spark, base, text, partitions) for text in (definition.where, where))
    dropped = [values for values, had, drops in zip(partitions, before, chosen, strict=True) if had and drops]
    if not dropped:
        raise PartitionNotFound(f"index {definition.name} covers no partition where {where}")
    if len(dropped) == sum(before):
        publish.drop(spark, base, publish.index_to_drop(spark, index, indexes))
        return
    remaining = without(definition.where, where, base.partition_columns)
    catalog_changes.alter(spark, index, replace(definition, where=remaining))
    build.remove_partitions(spark, base.spark_name, definition.name, dropped)
