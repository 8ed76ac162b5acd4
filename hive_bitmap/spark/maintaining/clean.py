"""Deleting what builds left behind: replaced generations, incomplete ones of dead builds, and those of dropped indexes.

Only folders that markers show to be ours are deleted: those of an index whose root they are in, or of a dropped index
of this database that was created in this very metastore. What another metastore has marked is deleted only after this
one has taken it over, as a metastore that was moved does. The root of an index that is not trusted is not even read.
What cannot be shown to be ours is left alone, and reported with a sentence. A generation is never deleted while a
table of the database points at it, while its build may be running, or before the grace period is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.index import deletion, generation, markers, roots
from hive_bitmap.core.index.definition import Definition, has_properties
from hive_bitmap.core.index.generation import State, Usage
from hive_bitmap.core.index.markers import GRACE_SECONDS, Unreadable
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import NotFound, StoreError, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog, locations
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_LOCATION = "if it was, run clean with it as the location"
BY_TAKING_OVER = "if this metastore was moved, and is not a copy, run clean with --take-over"


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A folder that nothing references: its size in bytes, and why it was left behind.

    It is `due` for deletion in `seconds` seconds; 0 means now. `kept` says why it is left alone whatever its age, as it
    is not known to be ours, or holds what is not, or cannot be read; empty if it is not.
    """

    path: str
    bytes: int
    why: str
    seconds: float = 0.0
    kept: str = ""

    @property
    def due(self) -> bool:
        return self.seconds <= 0 and not self.kept


@dataclass(frozen=True)
class _Root:
    """The root of an index, or of a dropped one, whose generations may be left over."""

    definition: Definition
    dropped: bool = False


@dataclass(frozen=True)
class _Candidate:
    """A generation in the root of an index, and its state; `kept` says why it is not that index's."""

    path: str
    root: _Root
    usage: Usage
    kept: str = ""


def clean(
    spark: SparkSession,
    table: str | None = None,
    *,
    location: str | None = None,
    grace_seconds: float = GRACE_SECONDS,
    dry_run: bool = False,
    take_over: bool = False,
) -> list[Leftover]:
    """Delete the generations that builds left behind, for the indexes of a table or of the current database.

    The indexes of a database are in it, or on a table of it. Return all leftovers that were found. Those that are not
    `due` are kept, as running queries may still read a generation for `grace_seconds` after it was replaced; if that
    time was not recorded, the grace period begins now. With `dry_run` nothing is deleted or recorded. `location` is the
    folder of an index whose table was dropped other than by hive_bitmap, and which is not found otherwise, or not known
    to be of this metastore. With `take_over`, the folders of these indexes, and `location`, become those of this
    metastore: for a metastore whose address changed, never for a copy of one that is still used. Raise NotFound for a
    folder that does not exist, and for a table that does not exist and left nothing behind.
    """
    mine = metastore_id(spark)
    if take_over and not mine:
        raise Unsupported("this session does not show which metastore it uses, so nothing can be taken over")
    database, name = _home(spark, table) if table else (metastore.current_database(spark), None)
    given = _given(location)
    taken = given if take_over else ""
    search = _Search(database, name, given, taken, mine)
    tables = catalog.tables_around(spark, database)
    unclaimed = _unclaimed(spark, database, tables, given)
    databases = [database, *_index_databases(unclaimed, search)]
    if len(databases) > 1:  # an index is dropped only if its table is in none of them
        tables = catalog.tables_around(spark, *databases)
        unclaimed = _unclaimed(spark, database, tables, given)
    everything = catalog.with_copies(spark, tables)
    indexes = [index for index in everything if search.is_for(index.definition)]
    trusted = [index.definition for index in everything if index.trusted]
    dropped, unproved = _dropped(unclaimed, trusted, search)
    if take_over and not dry_run:
        moved = [index.definition for index in indexes if index.trusted]
        _take_over([*moved, *(root.definition for root in dropped)], mine)
    begun = [folder for folder in unclaimed if name is None or folder == given]
    existing, refused = _existing(indexes, trusted, mine, take_over)
    listed = map_parallel(_listed, [*existing, *dropped])  # before asking the metastore: see `usage`
    found = [candidates for candidates in listed if not isinstance(candidates, Leftover)]
    refused += [report for report in listed if isinstance(report, Leftover)]
    if table is not None and not indexes and not any(found) and not unproved:
        metastore.describe(spark, table)
    tables = catalog.tables_around(spark, *databases)  # again: a build may have published since
    live = _live(spark, tables, [root.definition.root for root in (*existing, *dropped)])
    unused = [one for candidates in found for one in candidates if one.path not in live]
    unused = [one for one in unused if one.kept or one.usage.state is not State.BUILDING]
    left = [_leftover(one, grace_seconds) for one in unused]
    if not dry_run:
        replaced = (one for one in unused if one.usage.state is State.COMPLETE and not one.kept)
        map_parallel(lambda one: generation.retire(one.path, one.root.definition), replaced)
        left = _deleted(unused, left, mine)
    had = {one.root for one in unused}
    empty = [leftover for root in dropped for leftover in _empty(root, root in had, dry_run, mine)]
    return [*left, *empty, *refused, *unproved, *_only_begun(begun, given, grace_seconds, dry_run)]


def _home(spark: SparkSession, table: str) -> tuple[str, str]:
    """Return database and name of a table; indexes of one in another catalog lie in the database of that name."""
    _, database, name = metastore.split_name(spark, table)
    return database, name


def _take_over(definitions: Sequence[Definition], mine: str) -> None:
    """Mark the roots of indexes as those of this metastore. Raise StoreError if one cannot be written."""
    for definition in definitions:
        try:
            roots.take_over(definition, mine)
        except OSError as e:
            raise StoreError(f"folder {definition.root} cannot be taken over: {e}") from e


def _existing(
    indexes: Sequence[Index], trusted: Sequence[Definition], mine: str, take_over: bool
) -> tuple[list[_Root], list[Leftover]]:
    """Return the roots of indexes, and reports on those in which nothing may be deleted."""
    found, refused = [], []
    for index in indexes:
        definition = index.definition
        if why := _why_refused(index, trusted, mine, take_over):
            refused.append(
                Leftover(path=definition.root, bytes=0, why=f"the root of index {definition.name}", kept=why)
            )
        else:
            found.append(_Root(definition))
    return found, refused


def _why_refused(index: Index, trusted: Sequence[Definition], mine: str, take_over: bool) -> str:
    definition = index.definition
    if not index.trusted:
        return f"folder {definition.root} is left alone, as {index.problem}"
    try:
        if roots.is_elsewhere(definition, mine):
            return "" if take_over else f"{roots.refusal(definition, mine)}: {BY_TAKING_OVER}"
        return roots.rival(definition, trusted) or roots.refusal(definition, mine)
    except (OSError, StoreError, Unsupported) as e:
        return _unread(index.definition, e)


def _unread(definition: Definition, error: Exception) -> str:
    return f"folder {definition.root} is left alone, as it cannot be read: {error}"


def _live(spark: SparkSession, tables: Sequence[Table], folders: Sequence[str]) -> set[str]:
    """Return at which folders the tables of the database point, believed or not.

    Of the partitions of others, only those of index tables, and of tables that lie where a root is, are looked up.
    """
    inside = tuple(f"{folder}/" for folder in folders)

    def places(table: Table) -> list[str]:
        has_own = f"{table.location}/".startswith(inside) or has_properties(table)
        return catalog.places(spark, table) if has_own else [table.location]

    return {place for table in tables for place in places(table)}


def _given(location: str | None) -> str:
    """Return the folder of an index that the caller names; "" if none is named. Raise NotFound if it does not exist."""
    given = "" if location is None else catalog.root_at(location)
    if given and not stores.exists(given):
        raise NotFound(f"there is no folder {location}")
    return given


def _unclaimed(spark: SparkSession, database: str, tables: Sequence[Table], given: str) -> list[str]:
    """Return the folders in the default folder for index tables of a database, and `given`, in which no table lies."""
    home = catalog.default_folder(spark, database)
    folders = {f"{home}/{folder}" for folder in generation.subfolders(home)} | ({given} if given else set())
    taken = [here for here in (locations.canonical(table.location) for table in tables) if here]
    canonical = {folder: stores.canonical(folder) for folder in sorted(folders)}
    return [folder for folder, here in canonical.items() if not any(locations.overlap(here, path) for path in taken)]


def _only_begun(folders: Sequence[str], given: str, grace_seconds: float, dry_run: bool) -> Iterator[Leftover]:
    """Delete the markers that builds were killed in writing, and their folders; yield a report on each.

    Only the folder that the caller named may hold something else, which stays.
    """
    for folder in folders:
        files = roots.only_begun(folder, alone=folder != given)
        if not files:
            continue
        age = time.time() - max(file.mtime_ms for file in files) / 1000
        why = "half-built: its build died before it named its index"
        leftover = Leftover(
            path=folder, bytes=sum(file.size for file in files), why=why, seconds=max(grace_seconds - age, 0.0)
        )
        if leftover.due and not dry_run:
            stores.delete_files(folder, [file.path.rpartition("/")[2] for file in files], folder)
            stores.remove_folder(folder, folder)
        yield leftover


@dataclass(frozen=True)
class _Search:
    """Which dropped indexes are looked for: those of a database, or of one table, of the metastore with the id `mine`.

    Those of a database were in it, or on a table of it. `given` is a folder that the caller names, `taken` the same if
    the caller takes it over; "" for none.
    """

    database: str
    table: str | None
    given: str
    taken: str
    mine: str

    def is_for(self, definition: Definition) -> bool:
        """Return whether an index is one of these."""
        if self.table is not None:
            return (definition.database, definition.table) == (self.database, self.table)
        return self.database in (definition.database, definition.index_table_database)


def _dropped(
    folders: Sequence[str], trusted: Sequence[Definition], search: _Search
) -> tuple[list[_Root], list[Leftover]]:
    """Find roots of dropped indexes among folders.

    Return those that are known to be of this metastore, or that the caller names, and reports on the others.
    """
    found, unproved = [], []
    for folder in folders:
        definition, kept = _owner(folder, search)
        if definition is None or definition.root != folder or not search.is_for(definition):
            continue
        if any(roots.is_of(definition, one) for one in trusted):
            continue
        if kept:
            unproved.append(Leftover(path=folder, bytes=0, why=f"index {_named(definition)} is not here", kept=kept))
        else:
            found.append(_Root(definition, dropped=True))
    return found, unproved


def _index_databases(folders: Sequence[str], search: _Search) -> list[str]:
    """Return the other databases in which the index tables of these folders are, or were."""
    owners = filter(None, (_owner(folder, search)[0] for folder in folders))
    return sorted({one.index_table_database for one in owners if search.is_for(one)} - {search.database})


def _owner(folder: str, search: _Search) -> tuple[Definition | None, str]:
    """Return the index of a root by its markers, None for no root, and why it is not known to be of this metastore."""
    try:
        known = roots.owner(folder)
    except Unreadable as e:
        definition = _by_generations(folder)
        return definition, f"folder {folder} is left alone, as {e}: if its index was dropped, {roots.BY_HAND}"
    if known is None:
        definition = _by_generations(folder)
        kept = (
            "" if folder == search.given else f"nothing says that folder {folder} is of this metastore: {BY_LOCATION}"
        )
        return definition, kept
    definition = Definition(
        name=known.index,
        database=known.database,
        table=known.table,
        columns=(),
        root=folder,
        id=known.id,
        index_database=known.index_database,
    )
    if not roots.may_be_same(known.metastore, search.mine):
        left = f"folder {folder} is left alone, as its marker says that it is of another metastore"
        return definition, "" if folder == search.taken else f"{left}: {BY_TAKING_OVER} and with it as the location"
    if folder == search.given or (search.mine and known.metastore):
        return definition, ""
    return definition, f"nothing says that index {known.described} was dropped from this metastore: {BY_LOCATION}"


def _by_generations(folder: str) -> Definition | None:
    """Return the definition in the markers of the generations in a folder without a marker of its own."""
    written = (generation.definition_of(path) for path in generation.all_below(folder))
    return next((definition for definition in written if definition is not None), None)


def _listed(root: _Root) -> list[_Candidate] | Leftover:
    """Return the generations in a root, or the report that its store fails."""
    try:
        return _candidates(root)
    except (OSError, StoreError, Unsupported) as e:
        definition = root.definition
        return Leftover(
            path=definition.root, bytes=0, why=f"the root of index {definition.name}", kept=_unread(definition, e)
        )


def _candidates(root: _Root) -> list[_Candidate]:
    folders = generation.all_below(root.definition.root)
    usages = zip(folders, map_parallel(generation.usage, folders), strict=True)
    found = [_Candidate(path, root, usage, _why_kept(path, usage, root.definition)) for path, usage in usages]
    unknown = Usage(State.UNKNOWN)
    links = generation.links_below(root.definition.root)
    return found + [_Candidate(path, root, unknown, f"{path} is left alone, as it is a link") for path in links]


def _why_kept(path: str, usage: Usage, definition: Definition) -> str:
    if usage.state is State.UNKNOWN:
        return f"folder {path} is left alone, as {usage.problem}: if no build uses it, {roots.BY_HAND}"
    if usage.definition is not None and not roots.has_built(definition, usage.definition):
        return f"folder {path} is left alone, as its marker says that it is of index {_named(usage.definition)}"
    return ""


def _leftover(found: _Candidate, grace_seconds: float) -> Leftover:
    usage = found.usage
    if found.kept:
        why, seconds = "not known to be of this index", 0.0
    else:
        seconds = max(grace_seconds - usage.unused_seconds, 0.0)
        if usage.state is State.ORPHANED:
            why = "half-built: its build died"
        elif found.root.dropped:
            why = f"index {_named(found.root.definition)} was dropped"
        else:
            why = "another generation took its place"
    return Leftover(
        path=found.path,
        bytes=0 if found.kept else generation.size(found.path),
        why=why,
        seconds=seconds,
        kept=found.kept,
    )


def _deleted(found: Sequence[_Candidate], left: Sequence[Leftover], mine: str) -> list[Leftover]:
    """Delete the generations that are due; return the reports, also on what stays of them."""
    due = [(one.root, one.path) for one, leftover in zip(found, left, strict=True) if leftover.due]
    stays: dict[str, str] = {}
    for root in dict.fromkeys(root for root, _ in due):
        folders = [path for owner, path in due if owner == root]
        stays.update(_delete(folders, root, mine))
    return [replace(leftover, kept=stays.get(leftover.path, leftover.kept)) for leftover in left]


def _delete(folders: Sequence[str], root: _Root, mine: str) -> Iterator[tuple[str, str]]:
    """Delete generations of one index, and folders that are empty then; yield what stays, and why."""
    definition = root.definition
    try:
        yield from ((remains.folder, remains.why) for remains in deletion.delete(folders, definition, mine))
        deletion.remove_empty_parents(folders, definition, mine)
    except (OSError, StoreError) as e:
        yield from ((folder, f"not all of {definition.root} can be deleted: {e}") for folder in folders)


def _empty(root: _Root, had_generations: bool, dry_run: bool, mine: str) -> Iterator[Leftover]:
    """Remove the root of a dropped index if it has no generations; yield a report if it had none, or if it stays."""
    definition = root.definition
    known = roots.owner(definition.root)
    if generation.all_below(definition.root) or not stores.exists(definition.root):
        return
    if not had_generations and known is not None and markers.is_in_work(definition.root, known.author, complete=True):
        return
    why = f"index {_named(definition)} was dropped"
    kept = "" if dry_run else deletion.remove_root(definition, mine)
    if kept or not had_generations:
        yield Leftover(path=definition.root, bytes=0, why=why, kept=kept)


def _named(definition: Definition) -> str:
    return f"{definition.name} on {definition.full_table}"
