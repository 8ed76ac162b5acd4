"""Attach indexes to a table that was renamed, without reading base files.

If the files of the table have stayed in place, the files of an index stay too: the index table is renamed, and the
marker of the index's root gets the new name of the table. If the rename has moved the files, as for a managed table,
the paths in the rows of the index no longer exist. Then each index gets a new index table and a new folder, into which
its shards are rewritten. Once the new index is published, the old index is dropped.
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
from hive_bitmap.spark.registry import catalog, catalog_changes, locations, trust
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def attach(
    spark: SparkSession, table: str, former: str, *, progress: Callable[[BuildProgress], None] | None = None
) -> list[BuildReport]:
    """Attach the indexes that a renamed table had under another name.

    `table` is the new name of the table, and `former` its old name. Files that are unchanged since they were indexed
    are not read again. Return a report for each index that this call has attached, sorted by name. A session with
    indexes enabled attaches indexes itself at `ALTER TABLE .. RENAME TO`. Raise NotFound if the table or the indexes do
    not exist. Raise Unsupported if there is still a table with the name `former`. Also raise Unsupported if an index is
    not trusted or does not fit the table, after all other indexes have been attached. Raise AlreadyExists if the new
    name of an index is taken, and BuildFailed if a build fails.
    """
    reports, staying, left_out = _attach(spark, table, former, progress, is_same_table=False)
    if staying:
        names = [index.definition.name for index in staying]
        reports = [*reports, *build.refresh(spark, table, names, progress=progress)]
    _require_none(left_out)
    return sorted(reports, key=lambda report: report.definition.name)


def attach_renamed(spark: SparkSession, table: str, former: str) -> None:
    """Attach the indexes of a table that Spark has just renamed.

    Indexes whose files stay in place are not refreshed, because a rename changes no file. The table may have no file
    that an index covers, for example after an INSERT OVERWRITE. Raise the errors of `attach`.
    """
    _, _, left_out = _attach(spark, table, former, None, is_same_table=True)
    _require_none(left_out)


def _require_none(left_out: Sequence[str]) -> None:
    """Raise Unsupported if indexes were left out, after all others have been attached."""
    if left_out:
        raise Unsupported("; ".join((*left_out, "all other indexes have been attached")))


def _attach(
    spark: SparkSession,
    table: str,
    former: str,
    progress: Callable[[BuildProgress], None] | None,
    *,
    is_same_table: bool,
) -> tuple[list[BuildReport], list[Index], list[str]]:
    """Attach the indexes that a renamed table had under its name `former`.

    `is_same_table` says that this is certainly the table with the old name. Return the reports of the indexes that
    `build.attach` built from former indexes, the indexes that only got the new name, because their base files stayed in
    place, and why other indexes were left out. Indexes that stayed are not refreshed. Raise Unsupported if all indexes
    would be left out.
    """
    base, existing = catalog.table_and_indexes(spark, table)
    of_former = _of_former(spark, base, former)
    problems = _problems(spark, base, of_former)
    if len(problems) == len(of_former):
        raise Unsupported("; ".join(problems.values()))
    indexes = [index for index in of_former if index.definition.name not in problems]
    names = {index.definition.name for index in existing}
    missing = [index for index in indexes if index.definition.name not in names]
    keys = sorted({column.name for index in missing for column in index.definition.read_columns(base)})
    renamed = {index.definition.name: _under_new_name(base, index.definition) for index in missing}
    if keys:
        permission.require_reading(spark, base, keys, "to attach indexes")
    staying = build_scope.that_stayed(spark, base, [index for index in missing if _may_stay(spark, base, index)])
    for index in staying:
        _keep(spark, base, index, of_former, renamed[index.definition.name])
    moving = [index for index in missing if index not in staying]
    definitions = [_moved(spark, base, existing, index, renamed[index.definition.name]) for index in moving]
    reports = []
    if moving:
        reports = list(build.attach(spark, base, definitions, moving, progress, is_same_table=is_same_table))
    for index in indexes:
        if index not in staying:
            publish.drop(spark, metastore.describe(spark, table), publish.index_to_drop(spark, index, of_former))
    for index, definition in zip(moving, definitions, strict=True):
        if not index.definition.has_default_table:
            _rename_table(spark, table, definition, index.definition.index_table)
    return reports, staying, list(problems.values())


def _of_former(spark: SparkSession, base: Table, former: str) -> list[Index]:
    """Return the indexes that a renamed table had under its name `former`.

    `base` is the renamed table. Raise NotFound if there are no such indexes. Raise Unsupported if there still is a
    table named `former`.
    """
    existing, indexes = catalog.find_even_if_dropped(spark, former)
    if existing is not None:
        raise Unsupported(
            f"table {existing.full_name} still exists: only indexes of a table that was renamed can be attached"
        )
    return indexes


def _problems(spark: SparkSession, base: Table, indexes: Sequence[Index]) -> dict[str, str]:
    """Return by name why indexes of a renamed table cannot be attached.

    They are not trusted, or do not fit the table `base`.
    """
    judge, problems = trust.by_base(spark, base), {}
    for index in indexes:
        problem = index.problem if not index.trusted else judge(index.table, index.definition)
        if problem := problem or schema_drift.problem(base, _under_new_name(base, index.definition)):
            problems[index.definition.name] = problem
    return problems


def _under_new_name(base: Table, former: Definition) -> Definition:
    """Return an index's definition under its table's new name."""
    index_database = "" if former.index_database == base.database else former.index_database
    renamed = replace(former, database=base.database, table=base.name, index_database=index_database)
    return renamed.renewed(base) if former.is_former else renamed


def _may_stay(spark: SparkSession, base: Table, index: Index) -> bool:
    """Return whether an index may keep its folder.

    `base` is the renamed table. Whether its files have stayed in place is not checked here. The index may keep its
    folder only if the table was renamed within its database, if the index has the current format, and if the marker in
    the index's root names this index and no other metastore.
    """
    former = index.definition
    if former.is_former or not former.id or former.database != base.database or former.catalog != base.catalog:
        return False
    this_metastore, renamed = metastore_id(spark), _under_new_name(base, former)
    return roots.is_marked(former, this_metastore) or roots.is_marked(renamed, this_metastore)


def _keep(spark: SparkSession, base: Table, index: Index, indexes: Sequence[Index], renamed: Definition) -> None:
    """Update an index in place for the new name of its table.

    `indexes` are all indexes of the table's old name. `renamed` is the definition of the index under the new name.
    Raise Unsupported if another index claims the folder, and AlreadyExists if the new name of the index table is taken.
    """
    former = index.definition
    if problem := roots.rival(former, catalog.trusted_definitions(indexes)):
        raise Unsupported(problem)
    name = index_table_name(base.database, base.name, former.name)
    default = index_table_name(former.database, former.table, former.name)
    named = replace(renamed, index_table=name if index.table.name in (default, name) else index.table.name)
    if named.index_table != index.table.name:
        catalog_changes.require_free(spark, base, [], named)
    publish.drop_remains(spark, former, of_others=True)
    roots.rename(named, former, metastore_id(spark))
    with catalog_changes.renaming(spark, base, former, named):
        catalog_changes.move(spark, index, named)


def _moved(
    spark: SparkSession, base: Table, existing: Sequence[Index], index: Index, renamed: Definition
) -> Definition:
    """Return an index's definition with a new index table and folder.

    `renamed` is the definition of the index under the new name of the table. `existing` are the indexes that the table
    already has under its new name. Raise AlreadyExists if the name of the index or of the new index table is taken.
    """
    former = index.definition
    definition = replace(renamed, index_table=index_table_name(base.database, base.name, former.name))
    catalog_changes.require_free(spark, base, existing, definition)
    location = None if locations.has_default_root(spark, former) else f"{former.root}-{base.name}"
    return locations.with_root(spark, definition, location)


def _rename_table(spark: SparkSession, table: str, definition: Definition, name: str) -> None:
    """Rename the new index table of an attached index to `name`.

    `name` is the name of the old index table, which the user has chosen by IN TABLE. The old index table must have
    been dropped, so that the name is free. `definition` has the name of the index.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, definition.name)
    named = replace(index.definition, index_table=name)
    with catalog_changes.renaming(spark, base, index.definition, named):
        catalog_changes.alter(spark, index, named)
