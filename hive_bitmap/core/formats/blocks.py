"""The positions of the blocks of one file.

A block is a part that its format can read independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hive_bitmap.errors import Undecodable


@dataclass(frozen=True)
class Blocks:
    """All blocks of one file in file order.

    Blocks without rows are included. The arrays are int64, with one entry for each block. `offset` is the byte that
    identifies a block and by which readers assign it to a split; the format's module says which byte that is. `length`
    is the size of the block in bytes, `rows` its number of rows, `start` its first byte.
    """

    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, offset: list[int], length: list[int], rows: list[int], start: list[int] | None = None) -> Blocks:
        """Create the blocks of a file.

        Their `start` is their offset by default. Raises Undecodable if two blocks that have rows have the same offset,
        and for numbers of more than 64 bits.
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
        """Return the number of the first row of each block (int64).

        Rows are counted from 0 at the start of the file.
        """
        ends: npt.NDArray[np.int64] = np.cumsum(self.rows)
        return ends - self.rows
