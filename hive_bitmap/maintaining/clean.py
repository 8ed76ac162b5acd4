"""Deleting what builds left behind: replaced generations, incomplete ones of dead builds, and those of dropped indexes.

Only folders that are known to be ours are deleted: they have the name of a generation, and lie in the root of an index,
or have a marker of a dropped index of this database. A generation is never deleted while a table of the database points
at it, while its build may be running, or before the grace period is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.errors import NotFound
from hive_bitmap.index import catalog, generation
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.generation import GRACE_SECONDS, State, Usage
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.parallel import map_parallel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Leftover:
    """A generation that nothing references: its folder, its size in bytes, and why it was left behind.

    It is `due` for deletion in `seconds` seconds; 0 means now.
    """

    path: str
    bytes: int
    why: str
    seconds: float = 0.0

    @property
    def due(self) -> bool:
        return self.seconds <= 0


@dataclass(frozen=True)
class _Candidate:
    """A generation that may be left over in `root`, the folder of its index; `dropped` names a dropped index."""

    path: str
    root: str
    dropped: str = ""


def clean(
    spark: SparkSession,
    table: str | None = None,
    *,
    location: str | None = None,
    grace_seconds: float = GRACE_SECONDS,
    dry_run: bool = False,
) -> list[Leftover]:
    """Delete the generations that builds left behind, for the indexes of a table or of the current database.

    Return all leftovers that were found. Those that are not `due` are kept, as running queries may still read a
    generation for `grace_seconds` after it was replaced; if that time was not recorded, the grace period begins now.
    With `dry_run` nothing is deleted or recorded. `location` is the LOCATION of an index whose table was dropped other
    than by hive_bitmap, and whose folder is therefore not found otherwise. Raise NotFound for a folder that does not
    exist, and for a table that does not exist and left nothing behind.
    """
    database, name = metastore.split_name(spark, table) if table else (metastore.current_database(spark), None)
    tables = catalog.tables_of_database(spark, database)
    indexes = catalog.among(tables, name)
    found = [*_of_indexes(indexes), *_of_dropped(spark, database, name, tables, location)]
    if table is not None and not indexes and not found:
        metastore.describe(spark, table)
    usages = map_parallel(generation.usage, (one.path for one in found))  # before asking the metastore: see `usage`
    live = {folder for index in indexes for folder in catalog.published_generations(spark, index).values()}
    unused = [
        (one, usage)
        for one, usage in zip(found, usages, strict=True)
        if usage.state is not State.BUILDING and one.path not in live
    ]
    left = [_leftover(one, usage, grace_seconds) for one, usage in unused]
    if not dry_run:
        map_parallel(generation.retire, (one.path for one, usage in unused if usage.state is State.COMPLETE))
        _delete([one for (one, _), leftover in zip(unused, left, strict=True) if leftover.due])
    return left


def _of_indexes(indexes: Iterable[Index]) -> list[_Candidate]:
    return [
        _Candidate(folder, index.definition.root)
        for index in indexes
        for folder in generation.of_index(index.definition.root, len(index.table.partition_columns))
    ]


def _of_dropped(
    spark: SparkSession, database: str, name: str | None, tables: Sequence[Table], location: str | None
) -> list[_Candidate]:
    """Find generations of dropped indexes, in the default folder for index tables of the database and in `location`."""
    taken = {table.location for table in tables} | {index.definition.root for index in catalog.among(tables)}
    home = catalog.default_folder(spark, database)
    roots = {f"{home}/{folder}" for folder in generation.subfolders(home)}
    if location is not None:
        root = catalog.root_at(location)
        if not stores.exists(root):
            raise NotFound(f"there is no folder {location}")
        roots.add(root)
    free = (root for root in sorted(roots) if not any(_overlap(root, path) for path in taken if path))
    found = [(root, folder, generation.definition_of(folder)) for root in free for folder in generation.all_below(root)]
    return [
        _Candidate(folder, root, f"{definition.name} on {definition.full_table}")
        for root, folder, definition in found
        if definition is not None
        and (definition.database, definition.root) == (database, root)
        and name in (None, definition.table)
    ]


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _leftover(found: _Candidate, usage: Usage, grace_seconds: float) -> Leftover:
    if found.dropped:
        why = f"index {found.dropped} was dropped"
    elif usage.state is State.ORPHANED:
        why = "half-built: its build died"
    else:
        why = "another generation took its place"
    return Leftover(found.path, generation.size(found.path), why, max(grace_seconds - usage.unused_seconds, 0.0))


def _delete(found: Sequence[_Candidate]) -> None:
    generation.delete(one.path for one in found)
    for one in found:
        stores.remove_empty_folders(one.path.rpartition("/")[0], one.root if one.dropped else f"{one.root}/")
