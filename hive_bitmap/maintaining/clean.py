"""Removing what builds left behind: replaced generations, halves of builds that died, folders of dropped indexes.

Only what is proven ours goes: a folder of a generation's name that lies where an index keeps its generations, or whose
marker names an index of this database that is no more. Nothing goes that a table of the database points at, whose
builder may be at work, or that is younger than the grace period.
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
from hive_bitmap.parallel import each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Leftover:
    """A generation that nothing references: its folder, its size in bytes, and why it is left.

    It is deleted if it is `due`, which it is in so many `seconds`.
    """

    path: str
    bytes: int
    why: str
    seconds: float = 0.0

    @property
    def due(self) -> bool:
        return self.seconds <= 0


@dataclass(frozen=True)
class _Found:
    """A generation that might be left over: under the folder of an index, or else of one that was dropped."""

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
    """Delete what builds left behind of the indexes of a table, or, without one, of the current database.

    Returns all that was found. What is not `due` yet is kept: a query that runs may still read a generation, for
    `grace_seconds` after it was replaced. Where it was not noted when that was, they begin now. With `dry_run` nothing
    is deleted or noted. `location` is the LOCATION of an index whose table was dropped otherwise than by hive_bitmap,
    so that its files are known to nobody. Raises NotFound for a folder that is not there, and for a table that does not
    exist and of which nothing is left.
    """
    database, name = metastore.split_name(spark, table) if table else (spark.catalog.currentDatabase().lower(), None)
    tables = catalog.tables_of_database(spark, database)
    indexes = catalog.among(tables, name)
    found = [*_of_indexes(indexes), *_of_dropped(spark, database, name, tables, location)]
    if table is not None and not indexes and not found:
        metastore.describe(spark, table)
    usages = each(generation.usage, (one.path for one in found))  # before asking what is live: see `usage`
    live = {folder for index in indexes for folder in catalog.states(spark, index).values()}
    unused = [
        (one, usage)
        for one, usage in zip(found, usages, strict=True)
        if usage.state is not State.BUILDING and one.path not in live
    ]
    left = [_leftover(one, usage, grace_seconds) for one, usage in unused]
    if not dry_run:
        each(generation.retire, (one.path for one, usage in unused if usage.state is State.COMPLETE))
        _delete([one for (one, _), leftover in zip(unused, left, strict=True) if leftover.due])
    return left


def _of_indexes(indexes: Iterable[Index]) -> list[_Found]:
    return [
        _Found(folder, index.definition.root)
        for index in indexes
        for folder in generation.below(index.definition.root, len(index.table.partition_columns))
    ]


def _of_dropped(
    spark: SparkSession, database: str, name: str | None, tables: Sequence[Table], location: str | None
) -> list[_Found]:
    """The generations of indexes that are no more: where index tables of the database are made, and at `location`."""
    taken = {table.location for table in tables} | {index.definition.root for index in catalog.among(tables)}
    home = catalog.home(spark, database)
    roots = {f"{home}/{folder}" for folder in generation.subfolders(home)}
    if location is not None:
        root = catalog.root_at(location)
        if not stores.exists(root):
            raise NotFound(f"there is no folder {location}")
        roots.add(root)
    free = (root for root in sorted(roots) if not any(_overlap(root, path) for path in taken if path))
    found = [(root, folder, generation.definition_of(folder)) for root in free for folder in generation.anywhere(root)]
    return [
        _Found(folder, root, f"{definition.name} on {definition.full_table}")
        for root, folder, definition in found
        if definition is not None
        and (definition.database, definition.root) == (database, root)
        and name in (None, definition.table)
    ]


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _leftover(found: _Found, usage: Usage, grace_seconds: float) -> Leftover:
    if found.dropped:
        why = f"index {found.dropped} was dropped"
    elif usage.state is State.ORPHANED:
        why = "half-built: its build died"
    else:
        why = "another generation took its place"
    return Leftover(found.path, generation.size(found.path), why, max(grace_seconds - usage.unused_seconds, 0.0))


def _delete(found: Sequence[_Found]) -> None:
    generation.delete(one.path for one in found)
    for one in found:
        stores.remove_empty_folders(one.path.rpartition("/")[0], one.root if one.dropped else f"{one.root}/")
