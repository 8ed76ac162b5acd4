"""Attaching indexes to a table that was renamed: they come along, and no base file is read for it.

To the metastore the table under its new name is another one, so its indexes become other ones: each gets a new index
table and folder, into which the shards are linked, and is dropped under the old name once that is published. The rows
of an index name the base files; if the rename has moved these, as that of a managed table does, the shards are
rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.index import schema_drift
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table, index_table_name
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.building import build, publish
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import metastore, permission
from hive_bitmap.spark.registry import catalog, locations, trust
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def attach(
    spark: SparkSession, table: str, former: str, *, progress: Callable[[BuildProgress], None] | None = None
) -> list[BuildReport]:
    """Give a table the indexes that it had under the name `former`, before it was renamed.

    Files that are as they were indexed are not read again. Return a report for each index, sorted by name, except for
    those that an earlier call had attached already. A session with indexes enabled does this itself at `ALTER TABLE ..
    RENAME TO`. Raise NotFound if there is no such table or no index, Unsupported if there still is a table of the
    former name, if an index is not trusted, or if it does not fit the table, AlreadyExists, and BuildFailed.
    """
    base, own = catalog.table_and_indexes(spark, table)
    indexes = _of_former(spark, base, former)
    names = {index.definition.name for index in own}
    moving = [index for index in indexes if index.definition.name not in names]
    definitions = [_attached(spark, base, own, index) for index in moving]
    keys = sorted({name for definition in definitions for name in definition.column_names})
    if keys:
        permission.require_reading(spark, base, keys, "to attach indexes")
    reports = build.attach(spark, base, definitions, moving, progress) if moving else []
    for index in indexes:
        publish.drop(spark, metastore.describe(spark, table), publish.doomed(spark, index, indexes))
    for index, definition in zip(moving, definitions, strict=True):
        if not index.definition.has_default_table:
            _rename_table(spark, table, definition, index.definition.index_table)
    return reports


def _of_former(spark: SparkSession, base: Table, former: str) -> list[Index]:
    """Return the indexes of a table that is gone; raise NotFound, and Unsupported if it is not, or for one of them."""
    there, indexes = catalog.find_even_if_dropped(spark, former)
    if there is not None:
        raise Unsupported(
            f"table {there.full_name} is there: only the indexes of a table that was renamed are attached"
        )
    judge = trust.by_base(spark, base)
    for index in indexes:
        if problem := index.problem if not index.trusted else judge(index.table, index.definition):
            raise Unsupported(problem)
    return indexes


def _attached(spark: SparkSession, base: Table, own: Sequence[Index], index: Index) -> Definition:
    """Return the definition of an index under the new name of its table. Raise Unsupported and AlreadyExists."""
    former = index.definition
    home = replace(former, database=base.database, table=base.name)
    home = home.renewed(base) if former.is_former else home
    if problem := schema_drift.problem(base, home):
        raise Unsupported(problem)
    definition = replace(home, index_table=index_table_name(base.database, base.name, former.name))
    catalog.require_free(spark, base, own, definition)
    location = None if locations.has_default_root(spark, former) else f"{former.root}-{base.name}"
    return locations.with_root(spark, definition, location)


def _rename_table(spark: SparkSession, table: str, definition: Definition, name: str) -> None:
    """Give an index table the name again that IN TABLE had given."""
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, definition.name)
    catalog.alter(spark, index, replace(index.definition, index_table=name))
    catalog.point_to(spark, base, {name}, set())
