"""Units of lookup: base files that are looked up together.

Files may still have rows that their table has deleted. The positions of deleted rows in files are converted to bits of
blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.bitmaps.selection import BitLayout
from hive_bitmap.core.index.lookup import Rows
from hive_bitmap.errors import CorruptIndex

ANY_KEY = ""  # the key in `LookupUnit.parts` for counts of all rows, which need an index but no column
Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


class Place(NamedTuple):
    """The location of a file: its partition and its path.

    `partition` is the position of the partition in the listing. The path alone is ambiguous, because partitions may
    share a folder.
    """

    partition: int
    path: str


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """The part of an index that serves one column of a unit."""

    index: str  # name of the index
    key: pa.Field  # the column, with the Arrow type of its keys
    encoding: str  # encoding of the bitmaps, a key of ENCODINGS; empty for COMPACT and AGGREGATE
    shards: tuple[tuple[str, int], ...]  # path and size in bytes
    files: Longs  # positions in `LookupUnit.paths` of the files that the index covers
    entries: int = 0  # number of rows of the shards; each row is a key in a block, or in a file
    in_files: bool = False  # whether the index is an AGGREGATE index that counts the rows of whole files

    @property
    def kind(self) -> Rows:
        """What a row of the shards stands for.

        A row stands for a key in a block (an index with bitmaps), for a key in a file (`in_files`), or for a key in a
        list of blocks.
        """
        if self.encoding:
            return Rows.BLOCKS
        return Rows.FILES if self.in_files else Rows.LISTS

    @property
    def counts(self) -> bool:
        """Whether the index knows how many rows of each block have a key."""
        return self.kind is not Rows.LISTS


@dataclass(frozen=True)
class DeletedRows:
    """The rows of a file that are deleted in the file's table.

    `rows` are the positions of the deleted rows in the file, ascending. `id` identifies this state of the file's
    deletes.
    """

    id: str
    rows: Longs


@dataclass(frozen=True, kw_only=True)
class LookupUnit:
    """Base files that are looked up together, and their blocks.

    Blocks are in the order of their files; arrays have an item for each block. `deleted` has the rows that are deleted
    in the table but are still in the files and in the index; it is empty unless rows are counted. If an AGGREGATE index
    counts, each file is one block.
    """

    paths: tuple[str, ...]
    file: Longs  # position of the block's file in `paths`
    offset: Longs  # the byte in the file by which readers identify the block
    length: Longs  # bytes in the file
    rows: Longs  # number of rows; may be 0
    parts: Mapping[str, IndexPart]  # by lower-case column name
    deleted: Mapping[str, DeletedRows] = field(default_factory=dict)  # by path

    @property
    def has_whole_files(self) -> bool:
        """Whether each file is one block, because an AGGREGATE index counts."""
        return any(part.in_files for part in self.parts.values())

    def by_file(self) -> LookupUnit:
        """Return the unit with one block for each file, at offset 0."""
        files = len(self.paths)
        length, rows = (np.bincount(self.file, values, files).astype(np.int64) for values in (self.length, self.rows))
        return replace(self, file=np.arange(files), offset=np.zeros(files, np.int64), length=length, rows=rows)

    def covered(self, part: IndexPart) -> Flags:
        """Return for each of `paths` whether an index covers the file."""
        covered = np.zeros(len(self.paths), bool)
        covered[part.files] = True
        return covered


class BlockNumbers:
    """A map from index rows to the numbers of their blocks in a unit.

    The path and the offset of an index row determine its block. `covered` has a flag for each file of the unit; index
    rows of files without the flag are ignored. The array `covered` is shared, not copied, so that the caller can clear
    flags later.
    """

    def __init__(self, unit: LookupUnit, covered: Flags) -> None:
        self.paths = pa.array(unit.paths, pa.string())
        self.covered = covered
        self.blocks = np.flatnonzero(unit.rows > 0)
        self.offsets = np.unique(unit.offset[self.blocks])
        keys = self._key(unit.file[self.blocks], np.searchsorted(self.offsets, unit.offset[self.blocks]))
        order = np.argsort(keys, kind="stable")
        self.keys, self.blocks = keys[order], self.blocks[order]

    def find(self, buckets: pa.DictionaryArray, offsets: Longs) -> tuple[Longs, Longs]:
        """Return the blocks of index rows, and the positions of these rows in `buckets`.

        Rows are skipped if their file is not `covered`. Raises CorruptIndex for an offset at which the file has no
        block.
        """
        file = positions(buckets, self.paths)
        rows = np.flatnonzero((file >= 0) & self.covered[file])
        sought = offsets[rows]
        place = np.minimum(np.searchsorted(self.offsets, sought), max(len(self.offsets) - 1, 0))
        keys = self._key(file[rows], place)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(rows) and (not len(self.keys) or (self.keys[at] != keys).any() or (self.offsets[place] != sought).any()):
            raise CorruptIndex("it names a block that its manifest does not")
        return (self.blocks[at] if len(rows) else rows), rows

    def _key(self, file: Longs, place: Longs) -> Longs:
        """Return one integer for each pair of file and offset.

        `place` is the position of the offset in `self.offsets`.
        """
        return file * max(len(self.offsets), 1) + place


def positions(buckets: pa.DictionaryArray, paths: pa.Array) -> Longs:
    """Return the position in `paths` of each path in `buckets`.

    The position is -1 for a path that is not in `paths`. `buckets` are values of the column `_bucketname`, which has
    the paths of base files.
    """
    numbers = pc.fill_null(pc.index_in(buckets.dictionary, value_set=paths), -1).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)[buckets.indices.to_numpy(zero_copy_only=False)]


def deleted_bits(unit: LookupUnit, where: BitLayout) -> npt.NDArray[np.uint8]:
    """Return the deleted rows of a unit as bits.

    There is a bit for each row of the unit's blocks, set if the row is deleted. `where` is the layout of the bits.
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
