"""Encode, decode and combine bitmaps.

A bitmap is the set of the rows of one block that hold one key. Each encoding is a module that satisfies the `Encoding`
protocol:

* `encode` turns the bitmaps of all k keys of a block, given by their non-zero bytes (`keybytes`), into the columns of
  the index table.
* `decode_into` ORs m stored bitmaps, of any blocks, into a selection (`selection`). Several bitmaps may belong to the
  same block.
* `to_cached` returns bitmaps in the form that is cached in memory between queries (`cached_bitmaps`).
* `cardinalities` counts the set bits of each bitmap without decoding it into a selection.
* A bitmap that does not fit its block raises CorruptBitmap before any bit is written. Bitmaps are never truncated,
  padded or repaired.
* The name of an encoding identifies its byte format for good: bytes written by Hive, CRoaring or an earlier version of
  hive_bitmap are read the same way.
* An encoding is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.lazy_modules import LazyModules

if TYPE_CHECKING:
    from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps
    from hive_bitmap.core.bitmaps.keybytes import KeyBytes

__all__ = ["ENCODINGS", "Encoding", "cached_bitmaps", "gap", "keybytes", "plain", "ragged", "selection"]


class Encoding(Protocol):
    """A stored form of bitmaps.

    An encoding has a name and columns in the index table, and encodes and decodes bitmaps. In all methods `columns` are
    the stored columns of m bitmaps, which may belong to different blocks. There is one array of m values for each of
    FIELDS, in the type of the field. `rows` (int64, m) is the number of rows of each bitmap's block. All methods with
    the argument `rows` raise CorruptBitmap for a bitmap that does not fit its block.
    """

    NAME: str  # the value of the property `hive_bitmap.encoding`
    FIELDS: tuple[pa.Field, ...]  # columns of the index table after the keys, the file and the offset

    def encode(self, b: KeyBytes) -> tuple[pa.Array, ...]:
        """Return the stored columns of a block's bitmaps.

        `b` has the non-zero bytes of the bitmaps of the block's k keys. Each column has k values.
        """

    def decode_into(
        self, bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        """OR m stored bitmaps into the selection `bits`.

        The block of bitmap i begins at byte starts[i] of `bits`. If CorruptBitmap is raised, `bits` is unchanged.
        """

    def to_cached(self, columns: Sequence[pa.Array]) -> CachedBitmaps:
        """Return the bitmaps in the form that is cached between queries.

        The cached bitmaps have the numbers 0 to m-1. Whether a bitmap fits its block is checked at each use, not by
        this method. It may raise CorruptBitmap for stored columns that no block fits, such as a NULL.
        """

    def cardinalities(self, columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the set bits of each bitmap (int64, m)."""


# By name. To add an encoding, write its module and add the name of the module, which is the encoding's own name.
ENCODINGS = LazyModules[Encoding](
    {name: partial(import_module, f"{__name__}.{name}") for name in ("plain", "gap", "ewah", "roaring")}
)
if TYPE_CHECKING:  # mypy checks that each module implements the protocol
    from hive_bitmap.core.bitmaps import ewah, gap, plain, roaring

    _ENCODINGS: tuple[Encoding, ...] = (plain, gap, ewah, roaring)
