"""Read selected rows of base files in a task.

A task reads a file only in the version that a build has opened before, because a damaged footer may crash the C++ code
that reads it. If a file was replaced or deleted after planning, or changes while it is read, the query fails with
FileChanged rather than miss rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.formats import FEW_ROWS, FORMATS
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.index.fingerprint import Fingerprint, is_unchanged, listed_states
from hive_bitmap.core.parallel import batches, map_parallel
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.select import Selection, select
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.stores import FileStatus, is_local
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.spark.tasks.distribution import received

SIDE_BY_SIDE = 8  # files that a task reads from a remote store at the same time
ROWS_TOGETHER = 100_000  # rows of these files that the task holds in memory
BlockRows = list[tuple[int, npt.NDArray[np.int64] | None]]  # a block's number in its file and its rows; None for all


@dataclass(frozen=True, kw_only=True)
class ReadTask:
    """The input of one task: the blocks to read selected rows from, in order.

    `pieces` are the blocks, as parts of the files of `lookups`. `columns` are read from the files. `constants` has a
    row of partition values for each partition of the lookups. `names` are the columns of the result in their order.
    `matching_keys` has, for each leaf that only Spark evaluates, the keys for which the leaf is TRUE. With `check_only`
    the task reads no rows, and only checks that the files are unchanged since planning.
    """

    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    names: tuple[str, ...]
    lookups: tuple[Lookup, ...]
    pieces: tuple[Piece, ...]
    matching_keys: MatchingKeys
    check_only: bool = False

    @property
    def fingerprints(self) -> Mapping[tuple[int, int], Fingerprint]:
        """The fingerprints of the files that the task reads or checks.

        The key of a file is a pair: the position of its lookup in `lookups`, and the position of the file in the
        lookup.
        """
        files = dict.fromkeys((piece.lookup, piece.file) for piece in self.pieces)
        return {(lookup, file): self.lookups[lookup].fingerprints[file] for lookup, file in files}


def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of pickled ReadTasks.

    `mapInArrow` runs this function.
    """
    for task in received(batches):
        yield from read_task(task)


def bytes_at_once(task: ReadTask) -> int:
    """Return the most bytes that a task decodes at once.

    Raise FileChanged if a file has changed since it was planned, and Undecodable if a file cannot be decoded.
    """
    most = 0
    for fingerprint in task.fingerprints.values():
        if not fingerprint.tagged:
            _require_planned(fingerprint, {})
        with stores.pinned(fingerprint.status) if fingerprint.tagged else nullcontext():
            most = max(most, FORMATS[task.format].bytes_at_once(fingerprint.path, task.columns))
    return most


def select_rows(task: ReadTask) -> list[SelectedRows]:
    """Evaluate the predicate of each lookup of a task."""
    return [SelectedRows.of(lookup, task.matching_keys) for lookup in task.lookups]


def read_task(task: ReadTask, selected: Sequence[SelectedRows] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in its columns `names`.

    The caller still has to apply the predicate. `selected` is the result of `select_rows`, which tasks with the same
    lookups may share; if it is None, it is computed here.
    """
    listed = listed_states([*task.fingerprints.values()])
    if task.check_only:
        for fingerprint in task.fingerprints.values():
            _require_planned(fingerprint, listed)
        return
    yield from _Reader(task, select_rows(task) if selected is None else selected, listed).batches()


@dataclass(frozen=True)
class SelectedRows:
    """The selected rows of a lookup.

    `counts` has the number of selected rows in each block.
    """

    lookup: Lookup
    selection: Selection
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, lookup: Lookup, matching_keys: MatchingKeys) -> SelectedRows:
        """Evaluate the predicate of a lookup.

        `matching_keys` has, for each leaf that only Spark evaluates, the keys for which the leaf is TRUE.
        """
        selection = select(lookup.unit, lookup.predicate, matching_keys)
        return cls(lookup, selection, selection.counts())

    def rows(self, piece: Piece) -> int:
        """Return the number of selected rows of a piece."""
        return int(self.counts[piece.first : piece.end].sum())

    def block_rows(self, piece: Piece) -> BlockRows:
        """Return the selected rows of each block of a piece.

        An item is a pair: the position of the block in the file, and the rows. Blocks without selected rows are left
        out.
        """
        first = int(np.searchsorted(self.lookup.unit.file, piece.file))
        blocks = [block for block in range(piece.first, piece.end) if self.counts[block] > 0]
        return [(block - first, self.selection.block_rows(block)) for block in blocks]


@dataclass(frozen=True)
class _Reader:
    """A reader of the pieces of a task.

    `selected` has an item for each lookup. `listed` maps the paths of files that were listed to their statuses.
    """

    task: ReadTask
    selected: Sequence[SelectedRows]
    listed: Mapping[str, FileStatus]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all pieces in order.

        Raise FileChanged if a file is not the planned version.
        """
        needed = [piece for piece in self.task.pieces if self._rows(piece)]
        files_to_read = {(piece.lookup, piece.file) for piece in needed}
        for file, fingerprint in self.task.fingerprints.items():
            if file not in files_to_read:  # if the file has changed, it may have selected rows now
                _require_planned(fingerprint, self.listed)
        together = self._read_together(needed)
        if together is not None:
            yield self._complete(needed[0], together)
            return
        for pieces in batches(needed, self._buffered_rows, SIDE_BY_SIDE, ROWS_TOGETHER):
            if len(pieces) == 1:
                yield from self._read(pieces[0])
            else:
                for piece_rows in map_parallel(lambda piece: list(self._read(piece)), pieces, len(pieces)):
                    yield from piece_rows

    def _rows(self, piece: Piece) -> int:
        return self.selected[piece.lookup].rows(piece)

    def _fingerprint(self, piece: Piece) -> Fingerprint:
        return self.task.lookups[piece.lookup].fingerprints[piece.file]

    def _partition(self, piece: Piece) -> int:
        return self.task.lookups[piece.lookup].partitions[piece.file]

    def _buffered_rows(self, piece: Piece) -> float:
        """Return how many rows of a piece are held in memory.

        If pieces are read in parallel, the rows of a piece are held until all rows before them are yielded. The result
        is infinite if the file of the piece has to be read alone.
        """
        return float(self._rows(piece)) if self._fingerprint(piece).tagged else math.inf

    def _read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece of an unchanged file.

        Raise FileChanged if the file changes while it is read, or if only Spark can read it.
        """
        fingerprint = self._fingerprint(piece)
        _require_planned(fingerprint, self.listed)
        try:
            for batch in _rows_of(self.task, fingerprint, self.selected[piece.lookup].block_rows(piece)):
                yield self._complete(piece, batch)
        except Undecodable as e:
            raise FileChanged(f"only Spark can read {fingerprint.path} ({e}): ask for a full scan") from e

    def _read_together(self, pieces: Sequence[Piece]) -> pa.RecordBatch | None:
        """Read the files of several pieces in one call, and return the rows.

        This is faster if few rows are needed from local files of a single partition. In all other cases, return None:
        each file has to be read separately. Raise FileChanged if a file changes while it is read.
        """
        fingerprints = [self._fingerprint(piece) for piece in pieces]
        if len(pieces) < 2 or sum(map(self._rows, pieces)) > FEW_ROWS:
            return None
        is_one_partition = len(set(map(self._partition, pieces))) == 1
        if not is_one_partition or not all(is_local(fingerprint.path) for fingerprint in fingerprints):
            return None
        if not all(_is_unchanged(fingerprint, {}) for fingerprint in fingerprints):
            return None
        rows_by_piece = [self.selected[piece.lookup].block_rows(piece) for piece in pieces]
        files = [(fingerprint.path, rows) for fingerprint, rows in zip(fingerprints, rows_by_piece, strict=True)]
        try:
            batch = FORMATS[self.task.format].read_together(files, self.task.columns)
        except Undecodable:
            return None
        for fingerprint in fingerprints if batch is not None else ():
            _require_unchanged(fingerprint)
        return batch

    def _complete(self, piece: Piece, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the partition values of a piece to a batch of its rows.

        The columns of the result are in the order of `names` of the task.
        """
        arrays = []
        for name in self.task.names:
            if name in self.task.constants.column_names:
                arrays.append(pa.repeat(self.task.constants[name][self._partition(piece)], batch.num_rows))
            else:
                arrays.append(batch.column(name))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.task.names))


def _rows_of(task: ReadTask, fingerprint: Fingerprint, rows: BlockRows) -> Iterator[pa.RecordBatch]:
    """Read some rows of a file that is still unchanged.

    Raises FileChanged if the file changes while it is read.
    """
    read = FORMATS[task.format].read_rows
    if fingerprint.tagged:  # each request is bound to the tag, so no other check is needed
        with stores.pinned(fingerprint.status):
            yield from read(fingerprint.path, task.columns, rows)
        return
    yield from read(fingerprint.path, task.columns, rows)
    _require_unchanged(fingerprint)


def _require_planned(fingerprint: Fingerprint, listed: Mapping[str, FileStatus]) -> None:
    if not _is_unchanged(fingerprint, listed):
        raise FileChanged(f"{fingerprint.path} was replaced after the query was planned: run it again")


def _require_unchanged(fingerprint: Fingerprint) -> None:
    if not _is_unchanged(fingerprint, {}):
        raise FileChanged(f"{fingerprint.path} was replaced while it was read: run the query again")


def _is_unchanged(fingerprint: Fingerprint, listed: Mapping[str, FileStatus]) -> bool:
    """Return whether a file is unchanged since it was planned.

    `listed` maps paths to statuses. A file that is not in `listed` is compared with the store. Raises FileChanged if
    the file no longer exists.
    """
    if is_unchanged(fingerprint, listed):
        return True
    if not stores.exists(fingerprint.path):
        raise FileChanged(f"{fingerprint.path} was deleted after the query was planned: run it again")
    return False
