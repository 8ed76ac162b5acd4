"""Where an index lies: its root, by default or by LOCATION, which no table and no other index may share."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Unreadable
from hive_bitmap.core.table_info import Table, hadoop_path
from hive_bitmap.errors import AlreadyExists, InvalidProperty, StoreError, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID_DIGITS = 8  # of the id of an index, in the name of its default root


def with_root(spark: SparkSession, base: Table, definition: Definition, location: str | None) -> Definition:
    """Return the definition with an id and its `root`, the folder of its generations.

    That is LOCATION, or a new folder under `catalog.default_folder`, whose name ends with a part of the id. Raise
    AlreadyExists for a LOCATION that is, contains or lies in the root of another index, and InvalidProperty for one
    that lacks the host its scheme needs, or that is, contains or lies in the folder of a table of any database, whose
    readers would take the shards for its rows.
    """
    known = replace(definition, id=roots.new_id())
    if location is None:
        return replace(known, root=_default_root(spark, known))
    root = catalog.root_at(location)
    if re.match(r"(?!file:)\w+:/(//|[^/])", root):
        raise InvalidProperty(f"LOCATION {location} names no host or bucket: the metastore would add one")
    require_unmarked(root)
    _require_apart(spark, base, root, location)
    return replace(known, root=root)


def require_own(spark: SparkSession, base: Table, definition: Definition) -> None:
    """Raise Unsupported if the root of an existing index is none that a build of it has made.

    One that is gone is made again, if it is the default root, or if it may be the LOCATION of a new index.
    """
    root = definition.root
    anew = f"drop index {definition.name}, and create it anew"
    if stores.exists(root):
        if not roots.is_marked(definition) and not _has_generations(definition):
            problem = roots.refusal(definition) or f"no build of index {definition.name} has made folder {root}"
            raise Unsupported(f"{problem}: {anew}")
    elif root != _default_root(spark, definition):
        try:
            require_unmarked(root)
            _require_apart(spark, base, root, root, definition)
        except (AlreadyExists, InvalidProperty) as e:
            raise Unsupported(
                f"folder {root} of index {definition.name} is gone, and is not made again ({e}): {anew}"
            ) from e


def _default_root(spark: SparkSession, definition: Definition) -> str:
    home = catalog.default_folder(spark, definition.database)
    return hadoop_path(f"{home}/{definition.index_table}-{definition.id[:ID_DIGITS]}")


def _has_generations(definition: Definition) -> bool:
    """Return whether a build of this index has left a generation in its root."""
    written = (generation.definition_of(folder) for folder in generation.all_below(definition.root))
    return any(found is not None and roots.is_of(found, definition) for found in written)


def has_default_root(spark: SparkSession, definition: Definition) -> bool:
    """Return whether the root of an index is that which it gets without a LOCATION."""
    return definition.root == _default_root(spark, definition)


def canonical(place: str) -> str:
    """Return the place of a table as `stores.canonical`; "" if it has none, or one that no store has."""
    try:
        return stores.canonical(place) if place else ""
    except Unsupported:
        return ""


def overlap(one: str, other: str) -> bool:
    """Return whether a folder is another one, contains it or lies in it; both are given as `stores.canonical`."""
    return _is_in(one, other) or _is_in(other, one)


def require_unmarked(root: str) -> None:
    """Raise AlreadyExists if the folder, or one above it, has the marker of an index, of whatever metastore."""
    for folder in stores.with_parents(stores.canonical(root)):
        try:
            known = roots.owner(folder)
            whose = f"index {known.described}" if known else ""
        except (Unreadable, StoreError) as e:  # above the root, others may keep what this user cannot read
            whose = f"an index, perhaps, as {e}" if folder == stores.canonical(root) else ""
        if whose:
            raise AlreadyExists(
                f"folder {root} is that of {whose}, or lies in it: give another LOCATION, or if that index was "
                f"dropped, run clean with the location {folder}"
            )


def _require_apart(spark: SparkSession, base: Table, root: str, location: str, own: Definition | None = None) -> None:
    """Raise AlreadyExists or InvalidProperty if the folder is, contains or lies in one that the metastore knows.

    The table of the index's `own` is left out.
    """
    here = stores.canonical(root)
    for database in metastore.database_names(spark):
        tables = [
            table
            for table in catalog.tables_of_database(spark, database)
            if own is None or (table.database, table.name) != (own.database, own.index_table)
        ]
        for definition in (index.definition for index in catalog.among(tables)):
            if (taken := canonical(definition.root)) and overlap(here, taken):
                index = f"index {definition.name} on {definition.full_table}"
                raise AlreadyExists(f"folder {root} is that of {index}, or in it or around it: give another LOCATION")
        for table in tables:
            _require_no_overlap(location, here, f"table {table.full_name}", table.location)
        folder = stores.canonical(hadoop_path(metastore.database_folder(spark, database)))
        if _is_in(folder, here):
            raise _in_the_way(location, here, f"database {database}", folder)
    if base.partition_columns and not base.by_folders:
        for partition in metastore.partitions(spark, base):
            _require_no_overlap(location, here, f"a partition of table {base.full_name}", partition.location)


def _require_no_overlap(location: str, here: str, owner: str, folder: str) -> None:
    if (taken := canonical(folder)) and overlap(here, taken):
        raise _in_the_way(location, here, owner, taken)


def _in_the_way(location: str, here: str, owner: str, folder: str) -> InvalidProperty:
    place = "in" if _is_in(here, folder) else "around"
    return InvalidProperty(f"LOCATION {location} is {place} the folder of {owner}: give another one")


def _is_in(folder: str, other: str) -> bool:
    inner, outer = (f"{path.rstrip('/')}/" for path in (folder, other))
    return inner.startswith(outer)
