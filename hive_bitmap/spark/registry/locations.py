"""Choose the root of an index, apart from the folders of tables and indexes.

The root is LOCATION or the default root. It must not overlap the folder of a table or of another index: readers of a
table at, above or below the root would take shards for rows, or fail at a folder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Unreadable
from hive_bitmap.core.table_info import Partition, Table, raw_hadoop_path
from hive_bitmap.errors import AlreadyExists, InvalidProperty, StoreError, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
ID_DIGITS = 8  # digits of an index's id in the name of its default root
APART_SECONDS = 120.0  # how long the tables of other databases are cached
_places: TtlCache[str, dict[str, str]] = TtlCache(by_user=True)  # by database: the place of each table, by name


def with_root(spark: SparkSession, definition: Definition, location: str | None) -> Definition:
    """Give one definition an id and a `root`; see `with_roots`."""
    [placed] = with_roots(spark, [definition], location)
    return placed


def with_roots(spark: SparkSession, definitions: Sequence[Definition], location: str | None) -> list[Definition]:
    """Give each definition an id and a `root`.

    The root is the folder of an index's generations. It is `location`, or if `location` is None, a new folder in
    `default_folder`; the name of a new folder ends with a part of the id. The index tables of the definitions are in
    one database. Raises AlreadyExists for a root that overlaps the root of another index (`overlap`). Raises
    InvalidProperty for a root that overlaps the folder of a table of any database, and for a `location` without the
    host or bucket that its scheme needs. Partitions of the base table are not checked here, but by
    `require_apart_from`.
    """
    identified = [replace(definition, id=roots.new_id()) for definition in definitions]
    if location is None:
        for first in identified[:1]:
            _require_free_home(spark, first)
        return [replace(definition, root=_default_root(spark, definition)) for definition in identified]
    root = root_at(location)
    if re.match(r"(?!file:)\w+:/(//|[^/])", root):
        raise InvalidProperty(f"LOCATION {location} names no host or bucket: the metastore would add one")
    require_unmarked(root)
    _require_apart(spark, root, location)
    return [replace(definition, root=root) for definition in identified]


def require_apart_from(base: Table, definitions: Iterable[Definition], folders: Sequence[str]) -> None:
    """Require that an index root is apart from these partition folders.

    Raise InvalidProperty if the root is one of `folders`, contains one of them, or lies in one.
    """
    taken = [place for place in map(canonical, folders) if place] if base.partition_columns else []
    for definition in definitions:
        here = stores.canonical(definition.root)
        for folder in taken:
            if overlap(here, folder):
                raise _in_the_way(definition.root, here, f"a partition of table {base.full_name}", folder)


def any_elsewhere(spark: SparkSession, definitions: Sequence[Definition]) -> bool:
    """Return whether the root of any of these indexes belongs to another metastore.

    In this case, this metastore is a copy of the other metastore.
    """
    this_metastore = metastore_id(spark)
    return any(roots.is_elsewhere(definition, this_metastore) for definition in definitions)


def require_own(spark: SparkSession, base: Table, definition: Definition) -> None:
    """Require that an existing index may use its root.

    Raise Unsupported if other programs or other indexes have made the root. A missing root is accepted if a new index
    could get this root: the build will then make the folder.
    """
    root = definition.root
    remedy = f"drop index {definition.name}, and create it again"
    if stores.exists(root):
        this_metastore = metastore_id(spark)
        if not roots.is_marked(definition, this_metastore) and not _has_generations(definition):
            problem = roots.refusal(definition, this_metastore) or f"index {definition.name} did not make folder {root}"
            raise Unsupported(f"{problem}: {remedy}")
    else:
        try:
            if root == _default_root(spark, definition):
                _require_free_home(spark, definition)
            else:
                require_unmarked(root)
                _require_apart(spark, root, root, definition)
            require_apart_from(base, [definition], [partition.location for partition in _partitions(spark, base)])
        except (AlreadyExists, InvalidProperty) as e:
            raise Unsupported(
                f"folder {root} of index {definition.name} is missing and cannot be made again ({e}): {remedy}"
            ) from e


def _default_root(spark: SparkSession, definition: Definition) -> str:
    home = default_folder(spark, definition.index_table_database)
    return raw_hadoop_path(f"{home}/{definition.index_table}-{definition.id[:ID_DIGITS]}")


def _has_generations(definition: Definition) -> bool:
    """Return whether the root has a generation built by this index."""
    written = (generation.definition_of(folder) for folder in generation.all_below(definition.root))
    return any(stored is not None and roots.has_built(definition, stored) for stored in written)


def has_default_root(spark: SparkSession, definition: Definition) -> bool:
    """Return whether an index has the root that it gets without LOCATION."""
    return definition.root == _default_root(spark, definition)


def canonical(place: str) -> str:
    """Return the location of a table in the form of `stores.canonical`.

    Return "" for a table without a location (`place` is ""), and for a location that no store supports.
    """
    try:
        return stores.canonical(place) if place else ""
    except Unsupported:
        return ""


def overlap(folder: str, other: str) -> bool:
    """Return whether two folders are the same, or one contains the other.

    Both folders are in the form of `stores.canonical`.
    """
    return _is_in(folder, other) or _is_in(other, folder)


def require_unmarked(root: str) -> None:
    """Require that no index has marked the folder or a folder above it.

    Raise AlreadyExists if an index of any metastore has marked such a folder.
    """
    for folder in stores.with_parents(stores.canonical(root)):
        try:
            owner = roots.owner(folder)
            owner_text = f"index {owner.described}" if owner else ""
        except (Unreadable, StoreError) as e:  # a folder above the root may be unreadable for this user
            owner_text = f"an index whose marker cannot be read ({e})" if folder == stores.canonical(root) else ""
        if owner_text:
            raise AlreadyExists(
                f"folder {root} belongs to {owner_text} or lies in its folder: give another LOCATION, or if that index "
                f"was dropped, run clean with the location {folder}"
            )


def _require_free_home(spark: SparkSession, definition: Definition) -> None:
    """Require that the default folder is apart from tables and indexes.

    The default folder must not be the folder of a table or an index, nor lie in such a folder. Raise InvalidProperty
    for the folder of a table, AlreadyExists for the folder of an index.
    """
    home = default_folder(spark, definition.index_table_database)
    require_unmarked(home)
    here = stores.canonical(home)
    own = (definition.database, definition.index_table_database)
    for database in metastore.database_names(spark):
        try:
            places = _places_of(spark, database, fresh=database in own)
        except catalog.metastore_errors() as e:
            if database in own:
                raise
            log.warning("cannot check whether tables of database %s contain folder %s: %s", database, home, e)
            continue
        around = [name for name, place in places.items() if place and _is_in(here, place)]
        for table in metastore.describe_many(spark, database, around):  # again: a table may have been dropped or moved
            place = canonical(table.location)
            if place and _is_in(here, place):
                raise InvalidProperty(
                    f"index {definition.name} would lie in {home}, in the folder of table {table.full_name}, whose "
                    "readers would find its files: give a LOCATION outside that folder"
                )


def _places_of(spark: SparkSession, database: str, *, fresh: bool) -> dict[str, str]:
    """Return the location of each table of a database, by table name.

    Locations are in the form of `canonical`. Unless `fresh`, they may come from a cache and be up to APART_SECONDS old.
    """
    places = None if fresh else _places.get(spark, database, APART_SECONDS)
    if places is None:
        places = {table.name: canonical(table.location) for table in catalog.tables_of_database(spark, database)}
        _places.put(spark, database, places)
    return places


def _require_apart(spark: SparkSession, root: str, location: str, own_definition: Definition | None = None) -> None:
    """Require that a folder overlaps no folder of an index or table.

    The folder must not contain the folder of a database either. `root` is the folder, and `location` is its name in the
    message. The index and index table of `own_definition` are not checked. Raise AlreadyExists for the folder of an
    index, and InvalidProperty for other folders.
    """
    here = stores.canonical(root)
    for database in metastore.database_names(spark):
        tables = [
            table
            for table in catalog.tables_of_database(spark, database)
            if own_definition is None or table.full_name != own_definition.full_index_table
        ]
        for definition in (index.definition for index in catalog.among(tables)):
            if (taken := canonical(definition.root)) and overlap(here, taken):
                index = f"index {definition.name} on {definition.full_table}"
                raise AlreadyExists(f"folder {root} overlaps the folder of {index}: give another LOCATION")
        for table in tables:
            _require_no_overlap(location, here, f"table {table.full_name}", table.location)
        folder = stores.canonical(metastore.database_folder(spark, database))
        if _is_in(folder, here):
            raise _in_the_way(location, here, f"database {database}", folder)


def _partitions(spark: SparkSession, base: Table) -> Iterator[Partition]:
    """Yield the partitions of a table that are in the metastore."""
    if base.partition_columns and not base.by_folders:
        yield from metastore.partitions(spark, base)


def _require_no_overlap(location: str, here: str, owner: str, folder: str) -> None:
    if (taken := canonical(folder)) and overlap(here, taken):
        raise _in_the_way(location, here, owner, taken)


def _in_the_way(location: str, here: str, owner: str, folder: str) -> InvalidProperty:
    place = "in" if _is_in(here, folder) else "around"
    return InvalidProperty(f"LOCATION {location} is {place} the folder of {owner}: give another one")


def _is_in(folder: str, other: str) -> bool:
    inner, outer = (f"{path.rstrip('/')}/" for path in (folder, other))
    return inner.startswith(outer)


def root_at(location: str) -> str:
    """Return a LOCATION as a Hadoop path string.

    Without a scheme, it is a folder of the local file system. Raises InvalidProperty for a text that is not a path.
    """
    if "\0" in location:
        raise InvalidProperty(f"{location!r} is not a location: a path cannot have the character NUL")
    with_scheme = location if ":" in location.partition("/")[0] else "file:" + stores.absolute(location)
    return raw_hadoop_path(stores.normal(with_scheme))


def default_folder(spark: SparkSession, database: str) -> str:
    """Return the default folder for the index tables of a database.

    The default folder is the external warehouse root if that is set, else the database's folder. A root without a
    scheme is on the file system of the database.
    """
    external = spark.conf.get("spark.hadoop.metastore.warehouse.external.dir", None)
    if external and ":" in external.partition("/")[0]:
        return raw_hadoop_path(external)
    folder = metastore.database_folder(spark, database)
    if not external:
        return folder
    scheme, authority, _ = stores.paths.parts(folder)
    return raw_hadoop_path(external, f"{scheme}://{authority}")
