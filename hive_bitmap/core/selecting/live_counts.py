"""Counts without the rows that the table has deleted since, which files and indexes still have.

Which rows these are is asked only for files of which a predicate selects rows, once that is known. A file of which they
are not known is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults, WholeFile, restrict
from hive_bitmap.core.selecting.lookup_units import DeletedRows, Flags
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.table_files import ROWS_DELETED
from hive_bitmap.core.stores import WITH_DELETES

ReadDeleted = Callable[[Mapping[str, str]], Mapping[str, DeletedRows]]


def without_deleted(
    results: LookupResults, read: ReadDeleted, evaluate: Callable[[Sequence[Lookup]], Sequence[LookupResult]]
) -> LookupResults:
    """Return the results without deleted rows in the counts of any file.

    `read` returns the deleted rows of files, given by path with what tells these rows from others
    (`FileStatus.deletes`); it may leave out some. `evaluate` does lookups again, of files of which rows are deleted.
    """
    concerned = [_concerned(lookup, found) for lookup, found in results.pairs()]
    wanted = {
        lookup.unit.paths[file]: lookup.deletes[file]
        for lookup, files in zip(results.lookups, concerned, strict=True)
        for file in np.flatnonzero(files)
    }
    if not wanted:
        return results
    known = read(wanted)
    whole, lookups, found = list(results.whole_files), list[Lookup](), list[LookupResult]()
    again: dict[int, Lookup] = {}
    for (lookup, result), files in zip(results.pairs(), concerned, strict=True):
        unknown = files & ~_fit(lookup, known)
        whole += [_read_whole(lookup, file) for file in np.flatnonzero(unknown).tolist()]
        lookup, result = _restricted(lookup, result, ~unknown)
        deleted = {path: known[path] for path in np.array(lookup.unit.paths, object)[files[~unknown]]}
        if deleted:
            lookup = replace(lookup, unit=replace(lookup.unit, deleted=deleted))
            again[len(lookups)] = restrict(lookup, np.flatnonzero(files[~unknown]).tolist())
        lookups.append(lookup)
        found.append(result)
    for number, counted in zip(again, evaluate(list(again.values())), strict=True):
        found[number] = _updated(lookups[number], found[number], again[number], counted)
    return replace(results, lookups=tuple(lookups), results=tuple(found), whole_files=tuple(whole))


def _concerned(lookup: Lookup, found: LookupResult) -> Flags:
    """Return for each file of a lookup whether rows of it are deleted, and rows selected, maybe those."""
    deletes = np.array([bool(id) for id in lookup.deletes] or [False] * len(lookup.unit.paths), bool)
    return deletes & (np.bincount(lookup.unit.file, found.counts, len(lookup.unit.paths)) > 0)


def _fit(lookup: Lookup, known: Mapping[str, DeletedRows]) -> Flags:
    """Return for each file of a lookup whether its deleted rows are known, and are rows that it has."""
    unit = lookup.unit
    rows = np.bincount(unit.file, unit.rows, len(unit.paths))
    return np.array([_are_of(known.get(path), int(count)) for path, count in zip(unit.paths, rows, strict=True)], bool)


def _are_of(deleted: DeletedRows | None, rows: int) -> bool:
    return deleted is not None and (not len(deleted.rows) or (deleted.rows[0] >= 0 and deleted.rows[-1] < rows))


def _read_whole(lookup: Lookup, file: int) -> WholeFile:
    status = replace(lookup.fingerprints[file].status, etag=WITH_DELETES)
    return WholeFile(lookup.partitions[file], status, Freshness.STALE, ROWS_DELETED)


def _restricted(lookup: Lookup, found: LookupResult, kept: Flags) -> tuple[Lookup, LookupResult]:
    if kept.all():
        return lookup, found
    number = np.cumsum(kept) - 1
    damaged = {int(number[file]): why for file, why in found.damaged.items() if kept[file]}
    result = LookupResult(found.counts[kept[lookup.unit.file]], found.exact[kept], damaged, found.index_bytes)
    return restrict(lookup, np.flatnonzero(kept).tolist()), result


def _updated(lookup: Lookup, found: LookupResult, part: Lookup, counted: LookupResult) -> LookupResult:
    """Return the result of a lookup with that of some of its files, which are those of `part`."""
    place = {path: file for file, path in enumerate(lookup.unit.paths)}
    files = np.array([place[path] for path in part.unit.paths], np.int64)
    counts, exact = found.counts.copy(), found.exact.copy()
    counts[np.isin(lookup.unit.file, files)] = counted.counts
    exact[files] &= counted.exact
    damaged = {**found.damaged, **{int(files[file]): why for file, why in counted.damaged.items()}}
    return LookupResult(counts, exact, damaged, found.index_bytes + counted.index_bytes)
