"""Units of lookup: base files that are looked up together.

They have their blocks, and what each index has for them.

Rows that a table has deleted and its files still have are turned into a selection: positions in files become bits of
blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.bitmaps.selection import BitLayout
from hive_bitmap.errors import CorruptIndex

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


class Place(NamedTuple):
    """The location of a file: partition number and path.

    The number is that of its partition among those that were listed. The path alone is ambiguous, since partitions may
    share a folder.
    """

    partition: int
    path: str


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """What one index has for one column of a unit."""

    index: str  # its name
    key: pa.Field  # the column, with the Arrow type of its keys
    encoding: str  # of its bitmaps, a key of ENCODINGS; empty for COMPACT
    shards: tuple[tuple[str, int], ...]  # path and size in bytes
    files: Longs  # positions in `LookupUnit.paths` of the files that the index covers
    entries: int = 0  # number of rows of the shards; each row is a key in a block


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a file that its table has deleted.

    `rows` are their positions in the file, ascending. `id` identifies this state of the file's deletes.
    """

    id: str
    rows: Longs


@dataclass(frozen=True, kw_only=True)
class LookupUnit:
    """Base files that are looked up together, and their blocks.

    Blocks are in file order; arrays have an item for each block. `deleted` rows are still in the index; it is empty
    unless rows are counted.
    """

    paths: tuple[str, ...]
    file: Longs  # position of the block's file in `paths`
    offset: Longs  # the byte in the file by which readers identify the block
    length: Longs  # bytes in the file
    rows: Longs  # number of rows; may be 0
    parts: Mapping[str, IndexPart]  # by lower-case column name
    deleted: Mapping[str, DeletedRows] = field(default_factory=dict)  # by path

    def known(self, part: IndexPart) -> Flags:
        """Return for each of `paths` whether an index covers the file."""
        covered = np.zeros(len(self.paths), bool)
        covered[part.files] = True
        return covered


class BlockNumbers:
    """Map the (path, offset) pairs of index rows to block numbers.

    Whole columns are mapped at once; the numbers are those of the unit's blocks. `known` has a flag for each file;
    index rows of files without it are ignored. The array is shared, not copied: a flag that is cleared later takes
    effect from then on.
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
        """Return the blocks of index rows, and the positions of these rows.

        Rows are skipped if their file is not `known`. Raises CorruptIndex for an offset at which the file has no block.
        """
        file = _positions(buckets, self.paths)
        positions = np.flatnonzero((file >= 0) & self.known[file])
        sought = offsets[positions]
        place = np.minimum(np.searchsorted(self.offsets, sought), max(len(self.offsets) - 1, 0))
        keys = self._key(file[positions], place)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(positions) and (
            not len(self.keys) or (self.keys[at] != keys).any() or (self.offsets[place] != sought).any()
        ):
            raise CorruptIndex("it names a block that its manifest does not")
        return (self.blocks[at] if len(positions) else positions), positions

    def _key(self, file: Longs, place: Longs) -> Longs:
        """Return one integer for each pair of file and offset.

        `place` is the position of the offset in `self.offsets`.
        """
        return file * max(len(self.offsets), 1) + place


def _positions(buckets: pa.DictionaryArray, paths: pa.Array) -> Longs:
    """Return the position of each bucket in `paths`; -1 if missing."""
    numbers = pc.fill_null(pc.index_in(buckets.dictionary, value_set=paths), -1).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)[buckets.indices.to_numpy(zero_copy_only=False)]


def deleted_bits(unit: LookupUnit, where: BitLayout) -> npt.NDArray[np.uint8]:
    """Return the selection of the deleted rows of a unit.

    `where` is its layout.
    """
    bits = selection.nothing(where)
    for number, path in enumerate(unit.paths):
        deleted = unit.deleted.get(path)
        if deleted is None:
            continue
        blocks = np.arange(*np.searchsorted(unit.file, [number, number + 1]))
        ends = np.cumsum(unit.rows[blocks])
        at = np.searchsorted(ends, deleted.rows, side="right")
        row = deleted.rows - (ends - unit.rows[blocks])[at]
        np.bitwise_or.at(bits, where.starts[blocks[at]] + (row >> 3), (1 << (row & 7)).astype(np.uint8))
    return bits
