"""Base files that are looked up together, their blocks, and what each index holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.errors import CorruptIndex

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class IndexPart:
    """What one index holds of one column of a unit."""

    index: str  # its name
    key: pa.Field  # the column, with the Arrow type of its keys
    encoding: str  # of its bitmaps, a key of ENCODINGS; empty for COMPACT
    shards: tuple[tuple[str, int], ...]  # path and size in bytes
    files: Longs  # the numbers, in `Unit.paths`, of the files that it knows


@dataclass(frozen=True)
class Unit:
    """Base files that are looked up together, and their b blocks, those without rows too, in file order."""

    paths: tuple[str, ...]
    file: Longs  # b: the number of the block's file in `paths`
    offset: Longs  # b: the byte by which readers know the block
    length: Longs  # b: its bytes in the file
    rows: Longs  # b
    parts: Mapping[str, IndexPart]  # by lower-case column name

    def known(self, part: IndexPart) -> Flags:
        """Which files an index knows: a flag for each of `paths`."""
        known = np.zeros(len(self.paths), bool)
        known[part.files] = True
        return known


class BlockNumbers:
    """From (path, offset) of index rows to the number of a block of the unit, whole columns at once.

    `known` has a flag for each file: index rows of other files are passed over. The flags may change after this.
    """

    def __init__(self, unit: Unit, known: Flags) -> None:
        self.paths = pa.array(unit.paths, pa.string())
        self.known = known
        self.blocks = np.flatnonzero(unit.rows > 0)
        self.offsets = np.unique(unit.offset[self.blocks])
        keys = self._key(unit.file[self.blocks], np.searchsorted(self.offsets, unit.offset[self.blocks]))
        order = np.argsort(keys, kind="stable")
        self.keys, self.blocks = keys[order], self.blocks[order]

    def find(self, buckets: pa.DictionaryArray, offsets: Longs) -> tuple[Longs, Longs]:
        """Of n index rows the numbers of those whose file is known (second), and the block of each of these (first).

        Raises CorruptIndex for an offset that no block of its file has.
        """
        file = _numbers(buckets, self.paths)
        mine = np.flatnonzero((file >= 0) & self.known[file])
        wanted = offsets[mine]
        place = np.minimum(np.searchsorted(self.offsets, wanted), max(len(self.offsets) - 1, 0))
        keys = self._key(file[mine], place)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(mine) and (not len(self.keys) or (self.keys[at] != keys).any() or (self.offsets[place] != wanted).any()):
            raise CorruptIndex("it names a block that its manifest does not")
        return (self.blocks[at] if len(mine) else mine), mine

    def _key(self, file: Longs, place: Longs) -> Longs:
        return file * max(len(self.offsets), 1) + place


def _numbers(buckets: pa.DictionaryArray, paths: pa.Array) -> Longs:
    """The number of each bucket in `paths`, -1 where it is none of them."""
    numbers = pc.fill_null(pc.index_in(buckets.dictionary, value_set=paths), -1).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)[buckets.indices.to_numpy(zero_copy_only=False)]
