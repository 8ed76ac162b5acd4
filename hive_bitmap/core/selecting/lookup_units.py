"""Units of lookup: base files that are looked up together, their blocks, and what each index holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.errors import CorruptIndex

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


class Place(NamedTuple):
    """Where a file is: the number of its partition among those that were listed, and its path.

    The path alone would not do, since partitions may share a folder.
    """

    partition: int
    path: str


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """What one index holds of one column of a unit."""

    index: str  # its name
    key: pa.Field  # the column, with the Arrow type of its keys
    encoding: str  # of its bitmaps, a key of ENCODINGS; empty for COMPACT
    shards: tuple[tuple[str, int], ...]  # path and size in bytes
    files: Longs  # positions in `LookupUnit.paths` of the files that the index knows
    entries: int = 0  # rows of the shards, each one a key in a block


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a file that its table has deleted since: `rows` are their positions in the file, ascending.

    `id` tells them from what was deleted of the file at other times.
    """

    id: str
    rows: Longs


@dataclass(frozen=True, kw_only=True)
class LookupUnit:
    """Base files that are looked up together, and their blocks, in file order. Arrays have an item for each block.

    An index still has the rows that are `deleted`, which is empty unless rows are counted.
    """

    paths: tuple[str, ...]
    file: Longs  # position of the block's file in `paths`
    offset: Longs  # the byte in the file by which readers identify the block
    length: Longs  # bytes in the file
    rows: Longs  # number of rows; may be 0
    parts: Mapping[str, IndexPart]  # by lower-case column name
    deleted: Mapping[str, DeletedRows] = field(default_factory=dict)  # by path

    def known(self, part: IndexPart) -> Flags:
        """Return for each of `paths` whether an index knows the file."""
        known = np.zeros(len(self.paths), bool)
        known[part.files] = True
        return known


class BlockNumbers:
    """Maps the (path, offset) pairs of index rows to numbers of the unit's blocks, whole columns at once.

    `known` has a flag for each file; index rows of files without it are ignored. The array is kept, not copied, so a
    flag that is cleared later counts from then on.
    """

    def __init__(self, unit: LookupUnit, known: Flags) -> None:
        self.paths = pa.array(unit.paths, pa.string())
        self.known = known
        self.blocks = np.flatnonzero(unit.rows > 0)
        self.offsets = np.unique(unit.offset[self.blocks])
        keys = self._key(unit.file[self.blocks], np.searchsorted(self.offsets, unit.offset[self.blocks]))
        order = np.argsort(keys, kind="stable")
        self.keys, self.blocks = keys[order], self.blocks[order]

    def find(self, buckets: pa.DictionaryArray, offsets: Longs) -> tuple[Longs, Longs]:
        """Return the blocks of those index rows whose file is known, and the positions of these rows.

        Raises CorruptIndex for an offset at which the file has no block.
        """
        file = _positions(buckets, self.paths)
        kept = np.flatnonzero((file >= 0) & self.known[file])
        wanted = offsets[kept]
        place = np.minimum(np.searchsorted(self.offsets, wanted), max(len(self.offsets) - 1, 0))
        keys = self._key(file[kept], place)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(kept) and (not len(self.keys) or (self.keys[at] != keys).any() or (self.offsets[place] != wanted).any()):
            raise CorruptIndex("it names a block that its manifest does not")
        return (self.blocks[at] if len(kept) else kept), kept

    def _key(self, file: Longs, place: Longs) -> Longs:
        """Return one integer for each pair of a file and the position of an offset in `self.offsets`."""
        return file * max(len(self.offsets), 1) + place


def _positions(buckets: pa.DictionaryArray, paths: pa.Array) -> Longs:
    """Return the position of each bucket in `paths`, -1 if it is not there."""
    numbers = pc.fill_null(pc.index_in(buckets.dictionary, value_set=paths), -1).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)[buckets.indices.to_numpy(zero_copy_only=False)]
