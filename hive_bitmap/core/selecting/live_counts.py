"""Exclude deleted rows from counts.

Files and indexes may still have rows that are deleted in their table. The numbers of the deleted rows are read after
the lookup, and only for files with selected rows. If the numbers cannot be read, or if an AGGREGATE index counts, the
file is read whole.
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
    """Exclude deleted rows from all counts in the results of lookups.

    `read` takes a map from the paths of files to the versions of their deletes (`FileStatus.deletes`), and returns the
    deleted rows by path. A file is read whole if the result of `read` lacks it or has positions outside the file.
    `evaluate` repeats the lookups of files with deleted rows.
    """
    affected = [_may_count_deleted(lookup, result) for lookup, result in results.pairs()]
    deletes = {
        lookup.unit.paths[file]: lookup.deletes[file]
        for lookup, files in zip(results.lookups, affected, strict=True)
        for file in np.flatnonzero(files)
    }
    if not deletes:
        return results
    deleted_rows = {} if any(lookup.unit.has_whole_files for lookup in results.lookups) else read(deletes)
    whole, lookups, updated = list(results.whole_files), list[Lookup](), list[LookupResult]()
    again: dict[int, Lookup] = {}
    for (lookup, result), files in zip(results.pairs(), affected, strict=True):
        unknown = files & ~_are_deletes_known(lookup, deleted_rows)
        whole += [_read_whole(lookup, file) for file in np.flatnonzero(unknown).tolist()]
        lookup, result = _restricted(lookup, result, ~unknown)
        deleted = {path: deleted_rows[path] for path in np.array(lookup.unit.paths, object)[files[~unknown]]}
        if deleted:
            lookup = replace(lookup, unit=replace(lookup.unit, deleted=deleted))
            again[len(lookups)] = restrict(lookup, np.flatnonzero(files[~unknown]).tolist())
        lookups.append(lookup)
        updated.append(result)
    for number, counted in zip(again, evaluate(list(again.values())), strict=True):
        updated[number] = _updated(lookups[number], updated[number], again[number], counted)
    return replace(results, lookups=tuple(lookups), results=tuple(updated), whole_files=tuple(whole))


def _may_count_deleted(lookup: Lookup, result: LookupResult) -> Flags:
    """Return for each file of a lookup whether its counts may include deleted rows.

    `result` is the result of the lookup. The counts may include deleted rows if the file has both deleted rows and
    selected rows.
    """
    deletes = np.array([bool(id) for id in lookup.deletes] or [False] * len(lookup.unit.paths), bool)
    return deletes & (np.bincount(lookup.unit.file, result.counts, len(lookup.unit.paths)) > 0)


def _are_deletes_known(lookup: Lookup, deleted_rows: Mapping[str, DeletedRows]) -> Flags:
    """Return for each file of a lookup whether its deleted rows are known.

    The deleted rows of a file are known if their positions were read, and the file has rows at these positions.
    `deleted_rows` has the deleted rows that were read, by path of the file.
    """
    unit = lookup.unit
    rows = np.bincount(unit.file, unit.rows, len(unit.paths))
    return np.array(
        [_lie_in(deleted_rows.get(path), int(count)) for path, count in zip(unit.paths, rows, strict=True)], bool
    )


def _lie_in(deleted: DeletedRows | None, rows: int) -> bool:
    return deleted is not None and (not len(deleted.rows) or (deleted.rows[0] >= 0 and deleted.rows[-1] < rows))


def _read_whole(lookup: Lookup, file: int) -> WholeFile:
    status = replace(lookup.fingerprints[file].status, etag=WITH_DELETES)
    return WholeFile(lookup.partitions[file], status, Freshness.STALE, ROWS_DELETED)


def _restricted(lookup: Lookup, result: LookupResult, selected: Flags) -> tuple[Lookup, LookupResult]:
    if selected.all():
        return lookup, result
    number = np.cumsum(selected) - 1
    damaged = {int(number[file]): why for file, why in result.damaged.items() if selected[file]}
    restricted = LookupResult(
        result.counts[selected[lookup.unit.file]], result.exact[selected], damaged, result.index_bytes
    )
    return restrict(lookup, np.flatnonzero(selected).tolist()), restricted


def _updated(lookup: Lookup, result: LookupResult, part: Lookup, counted: LookupResult) -> LookupResult:
    """Replace the results for some files of a lookup.

    `part` is the lookup of these files, and `counted` its result.
    """
    place = {path: file for file, path in enumerate(lookup.unit.paths)}
    files = np.array([place[path] for path in part.unit.paths], np.int64)
    counts, exact = result.counts.copy(), result.exact.copy()
    counts[np.isin(lookup.unit.file, files)] = counted.counts
    exact[files] &= counted.exact
    damaged = {**result.damaged, **{int(files[file]): why for file, why in counted.damaged.items()}}
    return LookupResult(counts, exact, damaged, result.index_bytes + counted.index_bytes)
