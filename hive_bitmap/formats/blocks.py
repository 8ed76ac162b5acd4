"""Where the blocks of one file lie: the parts that its format can read by themselves, in file order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hive_bitmap.errors import Undecodable


@dataclass(frozen=True)
class Blocks:
    """All blocks of one file, those without rows too; int64 arrays of one entry a block.

    `offset` is the byte by which readers know a block (the format's module says which), `length` the bytes that the
    block takes in the file, `rows` its number of rows, `start` its first byte.
    """

    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, offset: list[int], length: list[int], rows: list[int], start: list[int] | None = None) -> Blocks:
        """The blocks of a file, which begin at their offsets if `start` says nothing else.

        Raises Undecodable where two blocks that hold rows share an offset.
        """
        columns = (offset, length, rows, offset if start is None else start)
        blocks = cls(*(np.array(values, dtype=np.int64) for values in columns))
        named = blocks.offset[blocks.rows > 0]
        if len(np.unique(named)) != len(named):
            raise Undecodable("two blocks of the file have the same offset")
        return blocks

    def __len__(self) -> int:
        return len(self.offset)

    def first_rows(self) -> npt.NDArray[np.int64]:
        """The number of the first row of each block, counted from the start of the file."""
        ends: npt.NDArray[np.int64] = np.cumsum(self.rows)
        return ends - self.rows
