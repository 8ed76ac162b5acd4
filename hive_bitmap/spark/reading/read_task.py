"""Reading of base files in a task: their selected rows, if the files are still those that a build has opened.

The query fails with FileChanged, rather than miss rows, if a file was replaced after it was planned, changes while it
is read, or no longer exists. No other file is opened: a damaged footer may end the process in which C++ reads it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.formats import FEW_ROWS, FORMATS
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.parallel import batches, map_parallel
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.select import Selection, select
from hive_bitmap.core.stores import FileStatus, is_local
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.spark.tasks.distribution import received

SIDE_BY_SIDE = 8  # files that a task reads from a remote store at the same time
ROWS_TOGETHER = 100_000  # rows of these files that it holds in memory
BlockRows = list[tuple[int, npt.NDArray[np.int64] | None]]  # a block's number in its file and its rows; None for all


@dataclass(frozen=True, kw_only=True)
class ReadTask:
    """The input of one task: a lookup whose selected rows it reads.

    `columns` are read from the files; `constants`, a table of one row, has the partition's values. `names` are the
    columns of the result in their order. With `check_only` the task reads no rows, and only checks that the files of
    the lookup are still those that were planned.
    """

    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    names: tuple[str, ...]
    lookup: Lookup
    matching_keys: MatchingKeys
    check_only: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the task reads or checks."""
        return self.lookup.unit.paths


def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of pickled ReadTasks; this is the function that `mapInArrow` runs."""
    for task in received(batches):
        yield from read_task(task)


def bytes_at_once(task: ReadTask) -> int:
    """Return the most bytes that a reader may have to decode at once for a task.

    Raise FileChanged if a file is not the one that was planned, and Undecodable.
    """
    found = 0
    for fingerprint in task.lookup.fingerprints:
        if not fingerprint.tagged:
            _require_planned(fingerprint, {})
        with stores.pinned(fingerprint.status) if fingerprint.tagged else nullcontext():
            found = max(found, FORMATS[task.format].bytes_at_once(fingerprint.path, task.columns))
    return found


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in the columns `names`; the predicate still has to be applied to them."""
    for batch in _read_selected(task, task.lookup):
        yield _complete(task, batch)


def _read_selected(task: ReadTask, lookup: Lookup) -> Iterator[pa.RecordBatch]:
    listed = _listed(lookup.fingerprints)
    if task.check_only:
        for fingerprint in lookup.fingerprints:
            _require_planned(fingerprint, listed)
        return
    rows = _SelectedRows.of(task, lookup)
    for number, fingerprint in enumerate(lookup.fingerprints):
        if not rows.of_file[number]:  # it may have selected rows by now
            _require_planned(fingerprint, listed)
    needed = np.flatnonzero(rows.of_file).tolist()
    together = rows.read_together(needed)
    if together is not None:
        yield together
        return

    def read(number: int) -> Iterator[pa.RecordBatch]:
        _require_planned(lookup.fingerprints[number], listed)
        yield from rows.read(number)

    for numbers in batches(needed, rows.kept, SIDE_BY_SIDE, ROWS_TOGETHER):
        if len(numbers) == 1:
            yield from read(numbers[0])
        else:
            for found in map_parallel(lambda number: list(read(number)), numbers, len(numbers)):
                yield from found


@dataclass(frozen=True)
class _SelectedRows:
    """The selected rows of the files of a lookup; `of_file` is how many of each."""

    task: ReadTask
    lookup: Lookup
    selected: Selection
    counts: npt.NDArray[np.int64]  # by block
    of_file: npt.NDArray[np.int64]

    @classmethod
    def of(cls, task: ReadTask, lookup: Lookup) -> _SelectedRows:
        selected = select(lookup.unit, lookup.predicate, task.matching_keys)
        counts = selected.counts()
        of_file = np.bincount(lookup.unit.file, counts, len(lookup.fingerprints)).astype(np.int64)
        return cls(task, lookup, selected, counts, of_file)

    def kept(self, number: int) -> float:
        """How many rows of a file are kept until it is its turn; infinite for files to read one by one."""
        return float(self.of_file[number]) if self.lookup.fingerprints[number].tagged else math.inf

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an unchanged file. Raise FileChanged if it changes meanwhile, or only Spark can read it."""
        fingerprint = self.lookup.fingerprints[number]
        try:
            yield from _rows_of(self.task, fingerprint, self._wanted(number))
        except Undecodable as e:
            raise FileChanged(f"{fingerprint.path} cannot be read without Spark ({e}): ask for a full scan") from e

    def read_together(self, numbers: Sequence[int]) -> pa.RecordBatch | None:
        """Return the few rows of several files that are local and unchanged; None where each has to be read by itself.

        Raise FileChanged if one of them changes meanwhile.
        """
        fingerprints = [self.lookup.fingerprints[number] for number in numbers]
        if len(numbers) < 2 or self.of_file.sum() > FEW_ROWS or not all(is_local(one.path) for one in fingerprints):
            return None
        if not all(_unchanged(one, {}) for one in fingerprints):
            return None
        files = [(one.path, self._wanted(number)) for one, number in zip(fingerprints, numbers, strict=True)]
        try:
            found = FORMATS[self.task.format].read_together(files, self.task.columns)
        except Undecodable:
            return None
        for fingerprint in fingerprints if found is not None else ():
            _require_unchanged(fingerprint)
        return found

    def _wanted(self, number: int) -> BlockRows:
        first, end = np.searchsorted(self.lookup.unit.file, [number, number + 1])
        blocks = [block for block in range(first, end) if self.counts[block] > 0]
        return [(block - first, self.selected.block_rows(block)) for block in blocks]


def _rows_of(task: ReadTask, fingerprint: Fingerprint, wanted: BlockRows) -> Iterator[pa.RecordBatch]:
    """Read some rows of a file, which is known to be unchanged; raises FileChanged if it changes meanwhile."""
    read = FORMATS[task.format].read_rows
    if fingerprint.tagged:  # each request is bound to the tag, so no other check is needed
        with stores.pinned(fingerprint.status):
            yield from read(fingerprint.path, task.columns, wanted)
        return
    yield from read(fingerprint.path, task.columns, wanted)
    _require_unchanged(fingerprint)


def _require_planned(fingerprint: Fingerprint, listed: Mapping[str, FileStatus]) -> None:
    if not _unchanged(fingerprint, listed):
        raise FileChanged(f"{fingerprint.path} was replaced after the query was planned: run it again")


def _require_unchanged(fingerprint: Fingerprint) -> None:
    if not _unchanged(fingerprint, {}):
        raise FileChanged(f"{fingerprint.path} was replaced while it was read: run the query again")


def _listed(fingerprints: Sequence[Fingerprint]) -> dict[str, FileStatus]:
    """List the folders with several files that have a tag: one request a folder, in place of one for each file."""
    folders = Counter(one.path.rpartition("/")[0] for one in fingerprints if one.tagged)
    found = (stores.listing(folder).files for folder, files in folders.items() if files > 1)
    return {file.path: file for files in found for file in files}


def _unchanged(fingerprint: Fingerprint, listed: Mapping[str, FileStatus]) -> bool:
    """Return whether a file is still the one that was planned; raises FileChanged if it no longer exists."""
    known = listed.get(fingerprint.path)
    if fingerprint.matches(known) if known is not None else fingerprint.confirmed():
        return True
    if not stores.exists(fingerprint.path):
        raise FileChanged(f"{fingerprint.path} was deleted after the query was planned: run it again")
    return False


def _complete(task: ReadTask, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with the partition's values added, and its columns in the order of the result."""
    arrays = []
    for name in task.names:
        if name in task.constants.column_names:
            arrays.append(pa.repeat(task.constants[name][0], batch.num_rows))
        else:
            arrays.append(batch.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=list(task.names))
