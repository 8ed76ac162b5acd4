"""Reading of base files in a task: their selected rows, if the files are still those that were planned.

A file that changed since then is read whole. The query fails with FileChanged, rather than miss rows, if a file changes
while it is read, no longer exists, or can only be read by Spark now.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """The input of one task: a lookup whose selected rows it reads, and files that it reads whole.

    `columns` are read from the files; `constants`, a table of one row, has the partition's values. `names` are the
    columns of the result in their order. With `check_only` the task reads no rows, and only checks that the files of
    the lookup are still those that were planned.
    """

    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    names: tuple[str, ...]
    lookup: Lookup | None
    whole_files: tuple[FileStatus, ...]
    matching_keys: MatchingKeys
    check_only: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the task reads or checks."""
        looked_up = () if self.lookup is None else self.lookup.unit.paths
        return (*looked_up, *(status.path for status in self.whole_files))


def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of pickled ReadTasks; this is the function that `mapInArrow` runs."""
    for task in received(batches):
        yield from read_task(task)


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in the columns `names`; the predicate still has to be applied to them."""
    for batch in _read(task):
        yield _complete(task, batch)


def _read(task: ReadTask) -> Iterator[pa.RecordBatch]:
    if task.lookup is not None:
        yield from _read_selected(task, task.lookup)
    for status in task.whole_files:
        yield from _read_whole(task, status.path)


def _read_selected(task: ReadTask, lookup: Lookup) -> Iterator[pa.RecordBatch]:
    listed = _listed(lookup.fingerprints)
    if task.check_only:
        for fingerprint in lookup.fingerprints:
            if not _unchanged(fingerprint, listed):
                raise FileChanged(f"{fingerprint.path} was replaced after the query was planned: run it again")
        return
    rows = _SelectedRows.of(task, lookup)
    needed = [n for n, one in enumerate(lookup.fingerprints) if rows.of_file[n] or not _unchanged(one, listed)]
    together = rows.read_together(needed)
    if together is not None:
        yield together
        return

    def read(number: int) -> Iterator[pa.RecordBatch]:
        if _unchanged(lookup.fingerprints[number], listed):
            yield from rows.read(number)
        else:
            yield from _read_whole(task, lookup.fingerprints[number].path)

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


def _read_whole(task: ReadTask, path: str) -> Iterator[pa.RecordBatch]:
    format = FORMATS[task.format]
    try:
        before = stores.status(path)
        handle = format.open_file(path)
        spark_only = format.spark_only_columns(handle, task.columns)
        if spark_only:
            reason = next(iter(spark_only.values()))
            raise FileChanged(f"{path} changed and only Spark can read it now ({reason}): run the query again")
        blocks = np.flatnonzero(format.blocks(handle).rows)
        yield from format.read_rows(path, task.columns, [(int(block), None) for block in blocks])
        if stores.status(path) != before:
            raise FileChanged(f"{path} was replaced while it was read: run the query again")
    except FileNotFoundError as e:
        raise FileChanged(f"{path} was deleted after the query was planned: run it again") from e
    except Undecodable as e:
        raise FileChanged(f"{path} changed and cannot be read without Spark now ({e}): run the query again") from e


def _complete(task: ReadTask, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with the partition's values added, and its columns in the order of the result."""
    arrays = []
    for name in task.names:
        if name in task.constants.column_names:
            arrays.append(pa.repeat(task.constants[name][0], batch.num_rows))
        else:
            arrays.append(batch.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=list(task.names))
