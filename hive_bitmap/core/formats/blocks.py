"""Find the blocks of a file, even in formats that have no blocks.

A block is a part of a file that its format can read independently. In formats without blocks, consecutive units form a
block of about BLOCK_BYTES. A unit is what a reader assigns to a split as a whole: a line of text, or the records after
one sync marker. A layout finds the positions of the units and their numbers of rows, but does not read values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.errors import Undecodable

Longs = npt.NDArray[np.int64]
_END = 1 << 63  # the smallest number that int64 cannot hold
FEW_ROWS = 64  # most rows that `Format.read_together` reads
COMPRESSED_TEXTS = GZIP, DEFLATE = ".gz", ".deflate"  # suffixes of text files that are a single unit
BLOCK_BYTES = 4 << 20  # a block ends before the first unit that starts at least so many bytes after the block's start


@dataclass(frozen=True)
class Blocks:
    """All blocks of one file in file order.

    Blocks without rows are included. The arrays are int64, with one entry for each block. `offset` is the position of
    the byte that identifies a block, and by which readers assign the block to a split. The module of each format says
    which byte this is. `length` is the size of the block in bytes, `rows` its number of rows, and `start` the position
    of its first byte.
    """

    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, offset: list[int], length: list[int], rows: list[int], start: list[int] | None = None) -> Blocks:
        """Create the blocks of a file.

        By default, the `start` of a block is its offset. Raises Undecodable if two blocks that have rows have the same
        offset, and for numbers of more than 64 bits.
        """
        columns = (offset, length, rows, offset if start is None else start)
        try:
            blocks = cls(*(np.array(values, dtype=np.int64) for values in columns))
        except OverflowError as error:
            raise Undecodable("the footer has an impossible position for a block") from error
        named = blocks.offset[blocks.rows > 0]
        if len(np.unique(named)) != len(named):
            raise Undecodable("two blocks of the file have the same offset")
        return blocks

    def __len__(self) -> int:
        return len(self.offset)

    def first_rows(self) -> npt.NDArray[np.int64]:
        """Return the position in the file of each block's first row (int64).

        Rows are counted from 0 at the start of the file.
        """
        ends: npt.NDArray[np.int64] = np.cumsum(self.rows)
        return ends - self.rows


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value of a column in each block.

    The arrays are int64, with one entry for each block. `nulls` is the number of NULLs; -1 if the bounds are not known.
    `low` and `high` are the values of an integer column, days since 1970 for dates, and microseconds since 1970 for
    timestamps. If all values are NULL, `low` and `high` are 0.
    """

    nulls: Longs
    low: Longs
    high: Longs

    @classmethod
    def of(cls, blocks: Sequence[tuple[int, int, int] | None]) -> Bounds:
        """Create the bounds from tuples (NULLs, smallest value, largest value).

        There is a tuple for each block; None stands for a block with unknown bounds.
        """
        bounds = [(-1, 0, 0) if block is None else block for block in blocks]
        return cls(*np.array(bounds, np.int64).reshape(-1, 3).T)

    @property
    def numbers(self) -> Longs:
        """All numbers in one array: first `nulls`, then `low`, then `high`."""
        return np.concatenate([self.nulls, self.low, self.high])


def known_bounds(
    rows: int, nulls: int, low: int | None, high: int | None, floor: int | None
) -> tuple[int, int, int] | None:
    """Return the bounds of a block as a tuple for `Bounds.of`.

    `rows` is the number of rows of the block. `nulls`, `low` and `high` are its statistics. Return None if statistics
    are missing, contradict each other, or exceed 64 bits. Also return None if `low` is less than `floor`: below
    `floor`, the same number may stand for different dates or times in writers and readers. `floor` is None for types
    without such values.
    """
    if nulls == rows:
        return nulls, 0, 0
    if not 0 <= nulls < rows or low is None or high is None or low > high or (floor is not None and low < floor):
        return None
    return (nulls, low, high) if low >= -_END and high < _END else None


def seeking_share(selected: Any, rows: Any, stride: int) -> Any:
    """Return the cost of reading some rows of a block that has a row index.

    The cost is a share of the cost of decoding all rows. `selected` of the `rows` rows are read. The cost is 1 if the
    whole block is decoded, and less if the reader seeks to each row. `stride` is the number of rows between two entries
    of the row index. Opening the block costs as much as decoding `stride` rows; a seek costs a quarter of this. The
    arguments may be numbers or arrays.
    """
    few = np.maximum(selected, 2) * stride <= rows
    return np.where(few, (1 + selected / 4) * stride / np.maximum(rows, 1), 1.0)


@dataclass(frozen=True)
class Units:
    """A batch of consecutive units of a file.

    The docstring of the format's module says what a unit is. The arrays have one entry for each unit. `offset` is the
    byte by which readers assign the unit to a split. `rows` is the number of rows of the unit.
    """

    offset: Longs
    rows: Longs


class Layout(Protocol):
    """A finder of the units of a file."""

    def units(self, source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
        """Yield the units from byte `start` to before `end`, in batches.

        `start` is 0 or the offset of a unit. Raises Undecodable.
        """


def blocks(layout: Layout, path: str) -> Blocks:
    """Divide a file whose format has no blocks into blocks of consecutive units.

    `layout` finds the units. The offset of a block is the offset of its first unit. Raises FileNotFoundError or
    Undecodable.
    """
    offsets: list[int] = []
    rows: list[int] = []
    with stores.open_input(path) as source:
        size = source.size()
        for batch in layout.units(source, path, 0, size):
            while len(batch.offset):
                if not offsets:
                    offsets, rows = [int(batch.offset[0])], [0]
                cut = int(np.searchsorted(batch.offset, offsets[-1] + BLOCK_BYTES))
                rows[-1] += int(batch.rows[:cut].sum())
                batch = Units(batch.offset[cut:], batch.rows[cut:])
                if len(batch.offset):
                    offsets.append(int(batch.offset[0]))
                    rows.append(0)
    return Blocks.of(offsets, np.diff([*offsets, size]).tolist() if offsets else [], rows)


def row_offsets(layout: Layout, path: str, offset: int, length: int, rows: Longs | None) -> Longs:
    """Return the offsets of the units that hold these rows of a block.

    `layout` finds the units. `offset` and `length` are the offset and the length of the block. `rows` are row numbers,
    0-based inside the block and ascending; None stands for all rows. The result is ascending. A reader reads all of
    these rows if it reads every split that contains one of the offsets. Raises FileNotFoundError or Undecodable.
    """
    with stores.open_input(path) as source:
        chosen = [np.zeros(0, np.int64)]
        first = 0
        for batch in layout.units(source, path, offset, offset + length):
            ends = first + np.cumsum(batch.rows)
            if rows is None:
                chosen.append(batch.offset[batch.rows > 0])
            else:
                low, high = np.searchsorted(rows, (first, ends[-1] if len(ends) else first))
                chosen.append(batch.offset[np.unique(np.searchsorted(ends, rows[low:high], side="right"))])
            first = int(ends[-1]) if len(ends) else first
    if rows is not None and len(rows) and int(rows[-1]) >= first:
        raise Undecodable(f"{path} holds {first} rows at {offset}, not {int(rows[-1]) + 1}")
    return np.concatenate(chosen)


def in_batches(pairs: Iterator[tuple[int, int]], size: int = 4096) -> Iterator[Units]:
    """Collect pairs (offset, number of rows) in batches of `size` units.

    The last batch has fewer units, or none. Raises Undecodable for a negative number of rows, which only a damaged file
    has.
    """
    waiting: list[tuple[int, int]] = []
    for unit in pairs:
        waiting.append(unit)
        if len(waiting) == size:
            yield _units(waiting)
            waiting = []
    yield _units(waiting)


def _units(pairs: list[tuple[int, int]]) -> Units:
    offset, rows = np.array(pairs, np.int64).reshape(-1, 2).T
    if (rows < 0).any():
        raise Undecodable(f"the file is damaged at byte {offset[rows < 0][0]}: it has {rows[rows < 0][0]} rows there")
    return Units(offset, rows)
