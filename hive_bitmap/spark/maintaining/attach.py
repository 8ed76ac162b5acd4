"""Attaching indexes to a table that was renamed: they come along, and no base file is read for it.

If the files of the table stay, so do those of the index: its index table is renamed, and the marker of its root names
the table by its new name. If the rename has moved the files, as that of a managed table does, the rows of the index
name paths that are gone. Then each index gets a new index table and folder, into which the shards are rewritten, and is
dropped under the old name once that is published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.index import roots, schema_drift
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table, index_table_name
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.building import build, build_scope, publish
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import metastore, permission
from hive_bitmap.spark.metastore.identity import metastore_id
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
    missing = [index for index in indexes if index.definition.name not in names]
    keys = sorted({name for index in missing for name in index.definition.column_names})
    homes = {index.definition.name: _at_home(base, index.definition) for index in missing}
    if keys:
        permission.require_reading(spark, base, keys, "to attach indexes")
    staying = [index for index in missing if _stays(spark, base, index)]
    for index in staying:
        _keep(spark, base, index, indexes, homes[index.definition.name])
    moving = [index for index in missing if index not in staying]
    definitions = [_moved(spark, base, own, index, homes[index.definition.name]) for index in moving]
    reports = build.attach(spark, base, definitions, moving, progress) if moving else []
    for index in indexes:
        if index not in staying:
            publish.drop(spark, metastore.describe(spark, table), publish.doomed(spark, index, indexes))
    for index, definition in zip(moving, definitions, strict=True):
        if not index.definition.has_default_table:
            _rename_table(spark, table, definition, index.definition.index_table)
    if staying:
        kept = [index.definition.name for index in staying]
        reports = [*reports, *build.refresh(spark, table, kept, progress=progress)]
    return sorted(reports, key=lambda report: report.definition.name)


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


def _at_home(base: Table, former: Definition) -> Definition:
    """Return the definition of an index under the new name of its table. Raise Unsupported."""
    apart = "" if former.index_database == base.database else former.index_database
    home = replace(former, database=base.database, table=base.name, index_database=apart)
    home = home.renewed(base) if former.is_former else home
    if problem := schema_drift.problem(base, home):
        raise Unsupported(problem)
    return home


def _stays(spark: SparkSession, base: Table, index: Index) -> bool:
    """Return whether an index can stay in its folder: those of the files that it covers are where they were."""
    former = index.definition
    if former.is_former or not former.id or former.database != base.database or former.catalog != base.catalog:
        return False
    mine, home = metastore_id(spark), _at_home(base, former)
    if not roots.is_marked(former, mine) and not roots.is_marked(home, mine):
        return False
    return build_scope.has_stayed(spark, base, index)


def _keep(spark: SparkSession, base: Table, index: Index, indexes: Sequence[Index], home: Definition) -> None:
    """Give an index the new name of its table where it is. Raise Unsupported and AlreadyExists."""
    former = index.definition
    if problem := roots.rival(former, catalog.trusted_definitions(indexes)):
        raise Unsupported(problem)
    name = index_table_name(base.database, base.name, former.name)
    default = index_table_name(former.database, former.table, former.name)
    named = replace(home, index_table=name if index.table.name in (default, name) else index.table.name)
    if named.index_table != index.table.name:
        catalog.require_free(spark, base, [], named)
    publish.drop_remains(spark, former, of_others=True)
    roots.rename(named, former, metastore_id(spark))
    with catalog.renaming(spark, base, former, named):
        catalog.move(spark, index, named)


def _moved(spark: SparkSession, base: Table, own: Sequence[Index], index: Index, home: Definition) -> Definition:
    """Return the definition of an index that gets another index table and folder. Raise AlreadyExists."""
    former = index.definition
    definition = replace(home, index_table=index_table_name(base.database, base.name, former.name))
    catalog.require_free(spark, base, own, definition)
    location = None if locations.has_default_root(spark, former) else f"{former.root}-{base.name}"
    return locations.with_root(spark, definition, location)


def _rename_table(spark: SparkSession, table: str, definition: Definition, name: str) -> None:
    """Give an index table the name again that IN TABLE had given."""
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, definition.name)
    named = replace(index.definition, index_table=name)
    with catalog.renaming(spark, base, index.definition, named):
        catalog.alter(spark, index, named)
