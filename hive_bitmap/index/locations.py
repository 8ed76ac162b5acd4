"""Where an index lies: its root, by default or by LOCATION, which no table and no other index may share."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.errors import AlreadyExists, InvalidProperty, StoreError
from hive_bitmap.index import catalog, roots
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.markers import Unreadable
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.table_info import Table, hadoop_path

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
        home = catalog.default_folder(spark, definition.database)
        return replace(known, root=hadoop_path(f"{home}/{definition.index_table}-{known.id[:ID_DIGITS]}"))
    root = catalog.root_at(location)
    if re.match(r"(?!file:)\w+:/(//|[^/])", root):
        raise InvalidProperty(f"LOCATION {location} names no host or bucket: the metastore would add one")
    _require_unmarked(root)
    _require_apart(spark, base, root, location)
    return replace(known, root=root)


def overlap(one: str, other: str) -> bool:
    """Return whether a folder is another one, contains it or lies in it; both are given as `stores.canonical`."""
    return _is_in(one, other) or _is_in(other, one)


def _require_unmarked(root: str) -> None:
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


def _require_apart(spark: SparkSession, base: Table, root: str, location: str) -> None:
    """Raise AlreadyExists or InvalidProperty if the folder is, contains or lies in one that the metastore knows."""
    here = stores.canonical(root)
    for database in spark.catalog.listDatabases():
        tables = catalog.tables_of_database(spark, database.name)
        for definition in (index.definition for index in catalog.among(tables)):
            if overlap(here, stores.canonical(definition.root)):
                index = f"index {definition.name} on {definition.full_table}"
                raise AlreadyExists(f"folder {root} is that of {index}, or in it or around it: give another LOCATION")
        for table in tables:
            _require_no_overlap(location, here, f"table {table.full_name}", table.location)
        folder = stores.canonical(hadoop_path(database.locationUri))
        if _is_in(folder, here):
            raise _in_the_way(location, here, f"database {database.name}", folder)
    if base.partition_columns and not base.by_folders:
        for partition in metastore.partitions(spark, base):
            _require_no_overlap(location, here, f"a partition of table {base.full_name}", partition.location)


def _require_no_overlap(location: str, here: str, owner: str, folder: str) -> None:
    if folder and overlap(here, canonical := stores.canonical(folder)):
        raise _in_the_way(location, here, owner, canonical)


def _in_the_way(location: str, here: str, owner: str, folder: str) -> InvalidProperty:
    place = "in" if _is_in(here, folder) else "around"
    return InvalidProperty(f"LOCATION {location} is {place} the folder of {owner}: give another one")


def _is_in(folder: str, other: str) -> bool:
    inner, outer = (f"{path.rstrip('/')}/" for path in (folder, other))
    return inner.startswith(outer)
