"""Alter an index: its name, properties and covered partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import (
    COMPRESSIONS,
    Definition,
    check_name,
    checked_interval,
    checked_keeping,
    flag,
    one_of,
    own_property,
    require_followable,
)
from hive_bitmap.core.index.partition_conditions import either
from hive_bitmap.core.table_info import index_table_name
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported
from hive_bitmap.spark.building.build import BuildReport, rebuild
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import permission
from hive_bitmap.spark.registry import catalog, catalog_changes
from hive_bitmap.spark.registry.coverage import covered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rename(spark: SparkSession, table: str, name: str, new_name: str) -> None:
    """Rename an index to `new_name`, and its index table accordingly.

    If IN TABLE has set the name of the index table, only the index is renamed. Files stay in place, so that running
    queries can finish. Raise NotFound, AlreadyExists or InvalidProperty.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    renamed = replace(index.definition, name=check_name(new_name))
    if any(other.definition.name == renamed.name for other in indexes):
        raise AlreadyExists(f"index {renamed.name} already exists on table {base.full_name}")
    if index.definition.has_default_table:
        renamed = replace(renamed, index_table=index_table_name(base.database, base.name, renamed.name))
        catalog_changes.require_free(spark, base, indexes, renamed)
    with catalog_changes.renaming(spark, base, index.definition, renamed):
        catalog_changes.alter(spark, index, renamed)


def set_properties(spark: SparkSession, table: str, name: str, properties: Mapping[str, str]) -> None:
    """Set properties of an index: OWN_PROPERTIES and user-defined properties.

    `encoding`, `compression` and `keep_removed` take effect with the next rebuild, all other properties at once. After
    a change of the encoding, the next rebuild builds the whole index. User-defined properties are stored and shown.
    Raise NotFound if there is no such index. Raise InvalidProperty for an invalid value, for a name that looks like a
    misspelling of one of OWN_PROPERTIES, and for `aggregates`, which never change.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    changed = index.definition
    for key, value in properties.items():
        property_name = own_property(key)
        changed = _CHANGES[property_name](changed, value) if property_name else _user_property(changed, key, value)
    catalog_changes.alter(spark, index, changed)


def extend(
    spark: SparkSession,
    table: str,
    name: str,
    where: str,
    *,
    progress: Callable[[BuildProgress], None] | None = None,
) -> list[BuildReport]:
    """Extend an index to the partitions that satisfy `where`, and index them.

    `where` is a condition on the partition columns. Raise NotFound, InvalidPredicate, BuildFailed, and Unsupported for
    an index that already covers all partitions.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    before = index.definition
    if not before.where:
        raise Unsupported(f"index {before.name} on table {base.full_name} already covers all partitions")
    covered(spark, base, where, [])  # raises InvalidPredicate
    names = [column.name for column in before.read_columns(base)]
    permission.require_reading(spark, base, names, "an extended index")
    catalog_changes.alter(spark, index, replace(before, where=either(before.where, where, base.partition_columns)))
    return rebuild(spark, table, [name], progress=progress)


def _encoding(definition: Definition, value: str) -> Definition:
    if not definition.has_bitmaps:
        raise InvalidProperty(
            f"index {definition.name} is {definition.type}: it holds no bitmaps, so it has no encoding"
        )
    encoding = one_of("encoding", value.lower(), tuple(ENCODINGS))
    return replace(definition, next_encoding="" if encoding == definition.encoding else encoding)


def _compression(definition: Definition, value: str) -> Definition:
    return replace(definition, compression=one_of("compression", value.lower(), COMPRESSIONS))


def _comment(definition: Definition, value: str) -> Definition:
    return replace(definition, comment=value)


def _enabled(definition: Definition, value: str) -> Definition:
    return replace(definition, enabled=flag("enabled", value))


def _auto_refresh(definition: Definition, value: str) -> Definition:
    enabled = flag("auto_refresh", value)
    require_followable(definition.name, definition.type, enabled)
    return replace(definition, auto_refresh=enabled)


def _refresh_interval(definition: Definition, value: str) -> Definition:
    return replace(definition, refresh_interval=checked_interval(value))


def _keep_removed(definition: Definition, value: str) -> Definition:
    return replace(definition, keep_removed=checked_keeping(definition.name, definition.source, value))


def _aggregates(definition: Definition, value: str) -> Definition:
    raise InvalidProperty(
        f"the aggregates of index {definition.name} cannot change: drop the index and create it again"
    )


def _user_property(definition: Definition, key: str, value: str) -> Definition:
    return replace(definition, properties=tuple({**dict(definition.properties), key: value}.items()))


_CHANGES: Mapping[str, Callable[[Definition, str], Definition]] = {
    "encoding": _encoding,
    "compression": _compression,
    "comment": _comment,
    "enabled": _enabled,
    "auto_refresh": _auto_refresh,
    "refresh_interval": _refresh_interval,
    "keep_removed": _keep_removed,
    "aggregates": _aggregates,
}
