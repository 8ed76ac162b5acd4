"""Change index tables, and the pointers of base tables to index tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import (
    POINTER,
    PREFIX,
    Definition,
    from_table,
    pointers,
    to_properties,
)
from hive_bitmap.core.table_info import SESSION_CATALOG, Table, in_spark
from hive_bitmap.errors import AlreadyExists, DatabaseNotFound, InvalidProperty, NotFound, Unsupported
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_OPTIONAL = frozenset(PREFIX + name for name in ("next_encoding", "auto_refresh", "refresh_interval", "keep_removed"))
LONGEST_NAME = 256  # most characters of a table's name: package.jdo of Hive's metastore, since Hive 2.3
MOST_POINTER_WRITES = 5  # attempts to write a base table's POINTER property, if other builds overwrite it


def require_free(spark: SparkSession, base: Table, indexes: Sequence[Index], definition: Definition) -> None:
    """Raise an error if an index cannot have its name.

    The error is AlreadyExists if the name of the index or of its index table is taken, InvalidProperty if the index
    table's name is too long, and DatabaseNotFound if the database of the index table does not exist.
    """
    if len(definition.index_table) > LONGEST_NAME:
        raise InvalidProperty(
            f"index table {definition.index_table} would have a name of {len(definition.index_table)} characters, and "
            f"metastores keep {LONGEST_NAME}: give the index a shorter name"
        )
    if any(index.definition.name == definition.name for index in indexes):
        raise AlreadyExists(f"index {definition.name} already exists on table {base.full_name}")
    if base.catalog and not metastore.database_exists(spark, base.database):
        raise DatabaseNotFound(
            f"indexes of table {base.full_name} lie in database {base.database} of {SESSION_CATALOG}, which does not "
            f"exist: CREATE DATABASE {in_spark(base.database)}"
        )
    database = definition.index_table_database
    if definition.index_database and not metastore.database_exists(spark, database):
        raise NotFound.of("database", database, metastore.database_names(spark))
    for table in metastore.describe_many(spark, database, [definition.index_table]):
        owner = from_table(table)
        owner_text = f"it is index {owner.name} on {owner.full_table}" if owner else "it is not an index table"
        remedy = "give the index another name" if base.lake is not None else "give another name with IN TABLE"
        if (
            owner is not None
            and owner.index_database
            and owner.is_on(base)
            and (table.database, table.name) not in pointers(base)
        ):
            remedy = f"{remedy}, or DROP TABLE {table.full_name}, because table {base.full_name} no longer points at it"
        raise AlreadyExists(f"table {table.full_name} already exists and {owner_text}: {remedy}")


def require_same_table(spark: SparkSession, base: Table, index: Index) -> None:
    """Raise Unsupported if an index is untrusted, or does not fit.

    An index does not fit its table if columns of the table have changed since the index was created. An index does not
    fit Spark if another version of Spark has computed its keys (`schema_drift`).
    """
    if problem := index.problem if not index.trusted else catalog.problem_of(spark, base, index.definition):
        raise Unsupported(problem)


@contextmanager
def renaming(spark: SparkSession, base: Table, former: Definition, renamed: Definition) -> Iterator[None]:
    """Keep the pointer to an index table valid while the index table is renamed.

    `former` and `renamed` are the definitions before and after. Inside the `with` block, the base table points at both
    names; after the block, it points at the new name. So the index table is found even if the process is killed.
    """
    old, new = ({name.pointer} if name.needs_pointer else set() for name in (former, renamed))
    point_to(spark, base, new, set())
    try:
        yield
    except BaseException:
        point_to(spark, base, set(), new - old)
        raise
    point_to(spark, base, set(), old - new)


def alter(spark: SparkSession, index: Index, changed: Definition) -> None:
    """Write the definition `changed` to an index table, and rename the table if needed.

    The properties are written in one metastore call, before the table is renamed. If renaming fails, the properties are
    restored.
    """
    properties = to_properties(changed)
    if changed.comment != index.definition.comment:
        properties["comment"] = changed.comment
    with catalog.changing():
        alter_table.set_properties(spark, index.table, properties, _OPTIONAL - set(properties))
        if changed.index_table == index.table.name:
            return
        try:
            alter_table.rename(spark, index.table, changed.index_table)
        except BaseException:
            before = to_properties(index.definition)
            alter_table.set_properties(spark, index.table, before, _OPTIONAL - set(before))
            raise


def move(spark: SparkSession, index: Index, changed: Definition) -> None:
    """Move an index to the new name of its base table.

    `changed` is the new definition of the index. The index table is renamed first, if needed; then the definition is
    written. If the process is killed between the two steps, the index is still found under the former name of its base
    table.
    """
    with catalog.changing():
        if changed.index_table != index.table.name:
            alter_table.rename(spark, index.table, changed.index_table)
        renamed = replace(index.table, name=changed.index_table)
        properties = to_properties(changed)
        alter_table.set_properties(spark, renamed, properties, _OPTIONAL - set(properties))


def point_to(spark: SparkSession, base: Table, added: set[str], removed: set[str]) -> None:
    """Add and remove names of index tables in a base table's POINTER property.

    No other property of a base table is ever written. Other builds write this property too, so it is written and read
    again until it has the intended names. After MOST_POINTER_WRITES attempts, a warning is logged.
    """
    if not added and not removed:
        return
    for _ in range(MOST_POINTER_WRITES):
        tables = metastore.describe_many(spark, base.database, [base.name])
        before = {name for table in tables for name in table.properties.get(POINTER, "").split(",") if name}
        after = (before | added) - removed
        if not tables or after == before:
            return
        [current] = tables
        if after:
            alter_table.set_properties(spark, current, {POINTER: ",".join(sorted(after))})
        else:
            alter_table.set_properties(spark, current, {}, [POINTER])
    log.warning("property %s of table %s could not be set: other builds change it", POINTER, base.full_name)
