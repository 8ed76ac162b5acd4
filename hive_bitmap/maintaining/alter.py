"""Changing an index without building it: its name, its properties, the partitions it covers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.building.build import BuildReport, rebuild
from hive_bitmap.building.progress import Done
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported
from hive_bitmap.index import catalog
from hive_bitmap.index.coverage import covered
from hive_bitmap.index.definition import COMPRESSIONS, Definition, check_name, one_of, own_property
from hive_bitmap.metastore.table_info import index_table_name
from hive_bitmap.predicates.spark_conditions import bracketed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rename(spark: SparkSession, table: str, name: str, new_name: str) -> None:
    """Give an index another name. Its index table is renamed with it, unless IN TABLE gave that a name of its own.

    Files stay where they are, so queries in flight finish. Raises NotFound, AlreadyExists and InvalidProperty.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    renamed = replace(index.definition, name=check_name(new_name))
    if any(other.definition.name == renamed.name for other in indexes):
        raise AlreadyExists(f"index {renamed.name} already exists on table {base.full_name}")
    if index.definition.has_default_table:
        renamed = replace(renamed, index_table=index_table_name(base.database, base.name, renamed.name))
        catalog.require_free(spark, base, indexes, renamed)
    catalog.alter(spark, index, renamed)


def set_properties(spark: SparkSession, table: str, name: str, properties: Mapping[str, str]) -> None:
    """Set properties of an index: `encoding`, `compression`, `comment`, `enabled`, and any of the owner's.

    Whether it is enabled and the comment count at once, encoding and compression with the next rebuild; another
    encoding builds all of it anew. Other names are kept with their values and shown. Raises NotFound, and
    InvalidProperty for an unknown value, and for a name that is nearly one of the four.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    changed = index.definition
    for key, value in properties.items():
        own = own_property(key)
        changed = _CHANGES[own](changed, value) if own else _kept(changed, key, value)
    catalog.alter(spark, index, changed)


def extend(
    spark: SparkSession,
    table: str,
    name: str,
    where: str,
    *,
    progress: Callable[[Done], None] | None = None,
) -> list[BuildReport]:
    """Let an index cover the partitions of which `where` is true too, and build those.

    Raises NotFound, InvalidPredicate, and Unsupported for an index that covers all partitions already.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    index = catalog.named(base, indexes, name)
    before = index.definition
    if not before.where:
        raise Unsupported(f"index {before.name} on table {base.full_name} covers all partitions already")
    covered(spark, base, where, [])
    catalog.alter(spark, index, replace(before, where=f"{bracketed(before.where)} OR {bracketed(where)}"))
    return rebuild(spark, table, [name], progress=progress)


def _encoding(definition: Definition, value: str) -> Definition:
    if definition.type == "COMPACT":
        raise InvalidProperty(f"index {definition.name} is COMPACT: it holds no bitmaps, so it has no encoding")
    wanted = one_of("encoding", value.lower(), tuple(ENCODINGS))
    return replace(definition, next_encoding="" if wanted == definition.encoding else wanted)


def _compression(definition: Definition, value: str) -> Definition:
    return replace(definition, compression=one_of("compression", value.lower(), COMPRESSIONS))


def _comment(definition: Definition, value: str) -> Definition:
    return replace(definition, comment=value)


def _enabled(definition: Definition, value: str) -> Definition:
    return replace(definition, enabled=one_of("value of enabled", value.lower(), ("true", "false")) == "true")


def _kept(definition: Definition, key: str, value: str) -> Definition:
    return replace(definition, properties=tuple({**dict(definition.properties), key: value}.items()))


_CHANGES: Mapping[str, Callable[[Definition, str], Definition]] = {
    "encoding": _encoding,
    "compression": _compression,
    "comment": _comment,
    "enabled": _enabled,
}
