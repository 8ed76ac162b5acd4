"""Bitmaps between a table and memory. A bitmap is the set of rows of one block that hold one key.

Each encoding is a module that keeps this contract:

* `encode` takes the non-zero bytes of the bitmaps of all k keys of a block (`keybytes`) and gives the stored columns.
* `decode_into` ORs m stored bitmaps, of any blocks, into a selection (`selection`); several may fall into one block.
* `hold` gives the form (`cached_bitmaps`) in which stored bitmaps are kept in memory between queries.
* `cardinalities` counts their rows without a selection.
* What does not fit its block raises CorruptBitmap before a bit is written: a bitmap is never cut, padded or guessed.
* An encoding's name stands for its bytes: whoever wrote them (Hive, CRoaring, an earlier version), they read alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps import ewah, gap, plain, roaring
from hive_bitmap.bitmaps.cached_bitmaps import CachedBitmaps
from hive_bitmap.bitmaps.keybytes import KeyBytes

__all__ = ["ENCODINGS", "Encoding", "cached_bitmaps", "keybytes", "ragged", "selection"]


class Encoding(Protocol):
    """A stored form of bitmaps: its name, its columns, and the way to and from memory.

    `columns` are stored columns, one for each of FIELDS and of its type, with m values each: m bitmaps of any blocks.
    `rows` (m) says how many rows the block of each bitmap has. CorruptBitmap is raised for a bitmap that does not fit.
    """

    NAME: str  # the value of the property `hive_bitmap.encoding`
    FIELDS: tuple[pa.Field, ...]  # of the index table, behind the keys, the file and the offset

    def encode(self, b: KeyBytes) -> tuple[pa.Array, ...]:
        """The stored columns for the k keys of one block, k values each."""

    def decode_into(
        self, bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        """OR m stored bitmaps into `bits`, a selection: the block of bitmap i begins at byte starts[i] of it.

        Where CorruptBitmap is raised, `bits` is as it was.
        """

    def hold(self, columns: Sequence[pa.Array]) -> CachedBitmaps:
        """The bitmaps as they stay in memory between queries, to be asked for by number.

        Whether each fits its block is checked when it is asked for.
        """

    def cardinalities(self, columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows each of the bitmaps holds (int64, m)."""


ENCODINGS: dict[str, Encoding] = {encoding.NAME: encoding for encoding in (plain, gap, ewah, roaring)}
