"""Delete what builds left behind: replaced, incomplete and dropped generations.

A folder is deleted only if markers prove that it belongs to an index that was created in this metastore. The index
must exist, or have been dropped from this database. A folder that another metastore has marked is deleted only if this
metastore takes it over, for example because the metastore was moved. The root of an untrusted index is not even read.
All other folders stay, each with a sentence that says why. A generation is never deleted while a table of the database
points at it, while its build may be running, or before the grace period is over.
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

BY_LOCATION = "if it is, run clean with that folder as the location"
BY_TAKING_OVER = "if this metastore was moved, and is not a copy, run clean with --take-over"


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A folder that a build left behind and no table references.

    `bytes` is the size of the folder, or 0 if it was not measured; `why` says why the folder was left behind. The
    folder is due for deletion in `seconds` seconds; 0 means now. `kept` says why the folder is never deleted: nothing
    proves that it belongs to an index, it contains other files, or it cannot be read. `kept` is "" if the folder can be
    deleted.
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
    """The root of an existing or dropped index, which may have leftovers."""

    definition: Definition
    dropped: bool = False


@dataclass(frozen=True)
class _Candidate:
    """A generation in the root of an index, and its state.

    `reason_kept` says why the generation does not belong to this index; "" if it does.
    """

    path: str
    root: _Root
    usage: Usage
    reason_kept: str = ""


def clean(
    spark: SparkSession,
    table: str | None = None,
    *,
    location: str | None = None,
    grace_seconds: float = GRACE_SECONDS,
    dry_run: bool = False,
    take_over: bool = False,
) -> list[Leftover]:
    """Delete what builds of indexes have left behind, and return all leftovers.

    With `table`, the indexes of this table are cleaned up, otherwise the indexes whose index table or base table is in
    the current database. A leftover is kept until it is `due`: running queries may still read a generation for
    `grace_seconds` after it was replaced. If the time of the replacement was not recorded, the grace period begins now.
    With `dry_run` nothing is deleted or recorded.

    `location` is the folder of an index whose table was dropped by other means than hive_bitmap. Give the location if
    `clean` does not find the folder, or if nothing proves that the folder belongs to this metastore. With `take_over`,
    the folders of the indexes, and `location`, are marked as folders of this metastore. Use `take_over` if the address
    of the metastore has changed, never in a copy of a metastore that is still used.

    Raises NotFound for a missing folder, and for a missing table without leftovers. Raises Unsupported for `take_over`
    if the id of the metastore is unknown.
    """
    this_metastore = metastore_id(spark)
    if take_over and not this_metastore:
        raise Unsupported("this session does not show its metastore's address, so nothing can be taken over")
    database, name = _home(spark, table) if table else (metastore.current_database(spark), None)
    given_folder = _given_folder(location)
    taken_over = given_folder if take_over else ""
    search = _Search(database, name, given_folder, taken_over, this_metastore)
    tables = catalog.tables_around(spark, database)
    unclaimed = _unclaimed(spark, database, tables, given_folder)
    databases = [database, *_index_databases(unclaimed, search)]
    if len(databases) > 1:  # an index is dropped only if none of them has its table
        tables = catalog.tables_around(spark, *databases)
        unclaimed = _unclaimed(spark, database, tables, given_folder)
    all_indexes = catalog.with_copies(spark, tables)
    indexes = [index for index in all_indexes if search.is_for(index.definition)]
    trusted = [index.definition for index in all_indexes if index.trusted]
    dropped, unproved = _dropped(unclaimed, trusted, search)
    if take_over and not dry_run:
        moved = [index.definition for index in indexes if index.trusted]
        _take_over([*moved, *(root.definition for root in dropped)], this_metastore)
    begun_folders = [folder for folder in unclaimed if name is None or folder == given_folder]
    existing, refused = _existing(indexes, trusted, this_metastore, take_over)
    listings = map_parallel(_listed, [*existing, *dropped])  # before the metastore is read: see `usage`
    candidate_lists = [candidates for candidates in listings if not isinstance(candidates, Leftover)]
    refused += [report for report in listings if isinstance(report, Leftover)]
    if table is not None and not indexes and not any(candidate_lists) and not unproved:
        metastore.describe(spark, table)
    tables = catalog.tables_around(spark, *databases)  # again: a build may have published since
    live = _live(spark, tables, [root.definition.root for root in (*existing, *dropped)])
    unused = [candidate for candidates in candidate_lists for candidate in candidates if candidate.path not in live]
    unused = [candidate for candidate in unused if candidate.reason_kept or candidate.usage.state is not State.BUILDING]
    leftovers = [_leftover(candidate, grace_seconds) for candidate in unused]
    if not dry_run:
        replaced = (
            candidate for candidate in unused if candidate.usage.state is State.COMPLETE and not candidate.reason_kept
        )
        map_parallel(lambda candidate: generation.retire(candidate.path, candidate.root.definition), replaced)
        leftovers = _deleted(unused, leftovers, this_metastore)
    roots_with_generations = {candidate.root for candidate in unused}
    empty = [
        leftover
        for root in dropped
        for leftover in _empty(root, root in roots_with_generations, dry_run, this_metastore)
    ]
    return [*leftovers, *empty, *refused, *unproved, *_only_begun(begun_folders, given_folder, grace_seconds, dry_run)]


def _home(spark: SparkSession, table: str) -> tuple[str, str]:
    """Return the database and name of a table.

    If the table is in another catalog, its index tables are in the database of the session catalog that has the same
    name as the database of the table.
    """
    _, database, name = metastore.split_name(spark, table)
    return database, name


def _take_over(definitions: Sequence[Definition], this_metastore: str) -> None:
    """Mark the roots of indexes as roots of this metastore.

    Raise StoreError if a root cannot be written.
    """
    for definition in definitions:
        try:
            roots.take_over(definition, this_metastore)
        except OSError as e:
            raise StoreError(f"folder {definition.root} cannot be taken over: {e}") from e


def _existing(
    indexes: Sequence[Index], trusted: Sequence[Definition], this_metastore: str, take_over: bool
) -> tuple[list[_Root], list[Leftover]]:
    """Return the roots to search, and reports on the roots to leave alone.

    Nothing may be deleted in a root to leave alone. `indexes` are the indexes to clean up, and each root is either
    searched or left alone. `trusted` are the definitions of all trusted indexes: a root is left alone if another
    trusted index has the same root or id. With `take_over`, a root is not left alone just because another metastore has
    marked it.
    """
    usable, refused = [], []
    for index in indexes:
        definition = index.definition
        if why := _why_refused(index, trusted, this_metastore, take_over):
            refused.append(
                Leftover(path=definition.root, bytes=0, why=f"the root of index {definition.name}", kept=why)
            )
        else:
            usable.append(_Root(definition))
    return usable, refused


def _why_refused(index: Index, trusted: Sequence[Definition], this_metastore: str, take_over: bool) -> str:
    definition = index.definition
    if not index.trusted:
        return f"folder {definition.root} is left alone, because {index.problem}"
    try:
        if roots.is_elsewhere(definition, this_metastore):
            return "" if take_over else f"{roots.refusal(definition, this_metastore)}: {BY_TAKING_OVER}"
        return roots.rival(definition, trusted) or roots.refusal(definition, this_metastore)
    except (OSError, StoreError, Unsupported) as e:
        return _unread(index.definition, e)


def _unread(definition: Definition, error: Exception) -> str:
    return f"folder {definition.root} is left alone, because it cannot be read: {error}"


def _live(spark: SparkSession, tables: Sequence[Table], folders: Sequence[str]) -> set[str]:
    """Return the folders of tables, trusted or not, and of their partitions.

    `folders` are the roots of indexes. Partitions are read only for index tables, and for tables whose folder is in a
    root.
    """
    inside = tuple(f"{folder}/" for folder in folders)

    def places(table: Table) -> list[str]:
        has_own = f"{table.location}/".startswith(inside) or has_properties(table)
        return catalog.places(spark, table) if has_own else [table.location]

    return {place for table in tables for place in places(table)}


def _given_folder(location: str | None) -> str:
    """Return the folder of an index at the given location.

    Return "" without a location. Raise NotFound if the folder does not exist.
    """
    folder = "" if location is None else locations.root_at(location)
    if folder and not stores.exists(folder):
        raise NotFound(f"there is no folder {location}")
    return folder


def _unclaimed(spark: SparkSession, database: str, tables: Sequence[Table], given_folder: str) -> list[str]:
    """Return the folders that may belong to dropped indexes.

    The candidates are the folders in the default folder for the index tables of `database`, and `given_folder` ("" for
    no folder). Folders that overlap with the location of one of `tables` are left out.
    """
    home = locations.default_folder(spark, database)
    folders = {f"{home}/{folder}" for folder in generation.subfolders(home)} | (
        {given_folder} if given_folder else set()
    )
    taken = [here for here in (locations.canonical(table.location) for table in tables) if here]
    canonical = {folder: stores.canonical(folder) for folder in sorted(folders)}
    return [folder for folder, here in canonical.items() if not any(locations.overlap(here, path) for path in taken)]


def _only_begun(folders: Sequence[str], given_folder: str, grace_seconds: float, dry_run: bool) -> Iterator[Leftover]:
    """Delete folders that contain only unfinished markers of killed builds.

    A folder is deleted only if its markers are older than `grace_seconds`, and never with `dry_run`. Yield a report for
    each folder with unfinished markers. A folder with a complete marker or with other content is left out. In
    `given_folder`, however, other content does not matter: only the unfinished markers in it are deleted.
    """
    for folder in folders:
        files = roots.only_begun(folder, alone=folder != given_folder)
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
    """Which existing and dropped indexes to clean up.

    The search includes the indexes of a `table`. If `table` is None, the search includes the indexes that have, or had,
    their index table or their base table in `database`. `given_folder` is the folder that the caller gives, or "".
    `taken_over` is `given_folder` if the caller takes the folder over, otherwise "". `this_metastore` is the id of the
    metastore.
    """

    database: str
    table: str | None
    given_folder: str
    taken_over: str
    this_metastore: str

    def is_for(self, definition: Definition) -> bool:
        """Return whether the search includes an index."""
        if self.table is not None:
            return (definition.database, definition.table) == (self.database, self.table)
        return self.database in (definition.database, definition.index_table_database)


def _dropped(
    folders: Sequence[str], trusted: Sequence[Definition], search: _Search
) -> tuple[list[_Root], list[Leftover]]:
    """Find the roots of dropped indexes among `folders`.

    Only indexes that `search` includes are looked for. Roots of existing (`trusted`) indexes are left out. Return the
    roots that may be cleaned, and reports on all other roots, with the reason to keep the root (see `_owner`).
    """
    dropped, unproved = [], []
    for folder in folders:
        definition, reason = _owner(folder, search)
        if definition is None or definition.root != folder or not search.is_for(definition):
            continue
        if any(roots.is_of(definition, index) for index in trusted):
            continue
        if reason:
            unproved.append(Leftover(path=folder, bytes=0, why=f"index {_named(definition)} is not here", kept=reason))
        else:
            dropped.append(_Root(definition, dropped=True))
    return dropped, unproved


def _index_databases(folders: Sequence[str], search: _Search) -> list[str]:
    """Return the databases that have or had the index tables of these folders.

    Indexes that `search` does not include are ignored. The result is sorted, and lacks the database of the search.
    """
    owners = filter(None, (_owner(folder, search)[0] for folder in folders))
    databases = {definition.index_table_database for definition in owners if search.is_for(definition)}
    return sorted(databases - {search.database})


def _owner(folder: str, search: _Search) -> tuple[Definition | None, str]:
    """Return the index that a folder belongs to, and a reason to keep the folder.

    The index is the one that the markers in the folder name; None if the folder is not a root. The reason says why the
    folder may not belong to this metastore; "" if there is no such doubt.
    """
    try:
        owner = roots.owner(folder)
    except Unreadable as e:
        definition = _by_generations(folder)
        return definition, f"folder {folder} is left alone, because {e}: if its index was dropped, {roots.BY_HAND}"
    if owner is None:
        definition = _by_generations(folder)
        reason = (
            ""
            if folder == search.given_folder
            else f"nothing shows that folder {folder} is one of this metastore: {BY_LOCATION}"
        )
        return definition, reason
    definition = Definition(
        name=owner.index,
        database=owner.database,
        table=owner.table,
        columns=(),
        root=folder,
        id=owner.id,
        index_database=owner.index_database,
    )
    if not roots.may_be_same(owner.metastore, search.this_metastore):
        refusal = f"folder {folder} is left alone, because its marker names another metastore"
        return (
            definition,
            "" if folder == search.taken_over else f"{refusal}: {BY_TAKING_OVER} and with it as the location",
        )
    if folder == search.given_folder or (search.this_metastore and owner.metastore):
        return definition, ""
    return (
        definition,
        f"nothing shows that folder {folder} of index {owner.described} is one of this metastore: {BY_LOCATION}",
    )


def _by_generations(folder: str) -> Definition | None:
    """Return the definition in the markers of a folder's generations.

    The folder itself has no readable marker. Return None if no generation has a readable marker.
    """
    written = (generation.definition_of(path) for path in generation.all_below(folder))
    return next((definition for definition in written if definition is not None), None)


def _listed(root: _Root) -> list[_Candidate] | Leftover:
    """Return the generations in a root, or a report if its store fails."""
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
    candidates = [_Candidate(path, root, usage, _why_kept(path, usage, root.definition)) for path, usage in usages]
    unknown = Usage(State.UNKNOWN)
    links = generation.links_below(root.definition.root)
    return candidates + [
        _Candidate(path, root, unknown, f"{path} is left alone, because it is a link") for path in links
    ]


def _why_kept(path: str, usage: Usage, definition: Definition) -> str:
    if usage.state is State.UNKNOWN:
        return f"folder {path} is left alone, because {usage.problem}: if no build uses it, {roots.BY_HAND}"
    if usage.definition is not None and not roots.has_built(definition, usage.definition):
        return f"folder {path} is left alone, because its marker names index {_named(usage.definition)}"
    return ""


def _leftover(candidate: _Candidate, grace_seconds: float) -> Leftover:
    usage = candidate.usage
    if candidate.reason_kept:
        why, seconds = "not known to be of this index", 0.0
    else:
        seconds = max(grace_seconds - usage.unused_seconds, 0.0)
        if usage.state is State.ORPHANED:
            why = "half-built: its build died"
        elif candidate.root.dropped:
            why = f"index {_named(candidate.root.definition)} was dropped"
        else:
            why = "another generation took its place"
    return Leftover(
        path=candidate.path,
        bytes=0 if candidate.reason_kept else generation.size(candidate.path),
        why=why,
        seconds=seconds,
        kept=candidate.reason_kept,
    )


def _deleted(candidates: Sequence[_Candidate], leftovers: Sequence[Leftover], this_metastore: str) -> list[Leftover]:
    """Delete the generations that are due.

    `leftovers` has the report on each of the candidates. Return the reports, with the reasons why some generations
    stay.
    """
    due = [
        (candidate.root, candidate.path)
        for candidate, leftover in zip(candidates, leftovers, strict=True)
        if leftover.due
    ]
    stays: dict[str, str] = {}
    for root in dict.fromkeys(root for root, _ in due):
        folders = [path for owner, path in due if owner == root]
        stays.update(_delete(folders, root, this_metastore))
    return [replace(leftover, kept=stays.get(leftover.path, leftover.kept)) for leftover in leftovers]


def _delete(folders: Sequence[str], root: _Root, this_metastore: str) -> Iterator[tuple[str, str]]:
    """Delete generations of one index, and folders that become empty.

    Yield a pair for each folder that stays: the folder, and the reason.
    """
    definition = root.definition
    try:
        yield from ((remains.folder, remains.why) for remains in deletion.delete(folders, definition, this_metastore))
        deletion.remove_empty_parents(folders, definition, this_metastore)
    except (OSError, StoreError) as e:
        yield from ((folder, f"not all of {definition.root} can be deleted: {e}") for folder in folders)


def _empty(root: _Root, had_generations: bool, dry_run: bool, this_metastore: str) -> Iterator[Leftover]:
    """Remove the root of a dropped index if no generations are left.

    `had_generations` says whether this run has found unused generations in the root. Their deletion is reported
    already, so a report on the root is yielded only if the root cannot be removed. Otherwise the removal of the root is
    reported, and a root in which a build may still work is kept. With `dry_run`, nothing is removed.
    """
    definition = root.definition
    owner = roots.owner(definition.root)
    if generation.all_below(definition.root) or not stores.exists(definition.root):
        return
    if not had_generations and owner is not None and markers.is_in_work(definition.root, owner.author, complete=True):
        return
    why = f"index {_named(definition)} was dropped"
    reason = "" if dry_run else deletion.remove_root(definition, this_metastore)
    if reason or not had_generations:
        yield Leftover(path=definition.root, bytes=0, why=why, kept=reason)


def _named(definition: Definition) -> str:
    return f"{definition.name} on {definition.full_table}"
