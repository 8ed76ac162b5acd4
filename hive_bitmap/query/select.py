"""From a predicate and the shards of its indexes to the rows of each block that may match: the pure heart of planning.

The same function runs in the driver and in tasks. A unit is a set of base files that are looked up together. Where an
index does not know a file, or a shard is damaged, all rows of that file may match: nothing is ever dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.bitmaps import ENCODINGS, Encoding, selection
from hive_bitmap.bitmaps.selection import Layout
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.index import shard
from hive_bitmap.index.shard import KeyStats
from hive_bitmap.query.matching import interval, matches
from hive_bitmap.query.nodes import And, Constant, Or, Predicate, SparkLeaf, Unknown, columns_of, leaves_of

log = logging.getLogger(__name__)
Bits = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Answers = Mapping[SparkLeaf, pa.Array]  # the keys of which Spark said TRUE


@dataclass(frozen=True)
class Part:
    """What one index holds of a unit: the field of the key, its shards (path, size), and the files that it knows.

    `files` are numbers of the unit's files. `encoding` is empty for COMPACT.
    """

    index: str
    key: pa.Field
    encoding: str
    shards: tuple[tuple[str, int], ...]
    files: Longs


@dataclass(frozen=True)
class Unit:
    """Base files and their blocks, zero-row blocks included, in file order; `parts` by lower-case column name."""

    paths: tuple[str, ...]
    file: Longs
    offset: Longs
    length: Longs
    rows: Longs
    parts: Mapping[str, Part]


@dataclass
class Selection:
    """The rows of a unit that may match. `bits` of None are all rows; `damaged` files have an index that is broken."""

    unit: Unit
    layout: Layout
    bits: Bits | None
    exact: npt.NDArray[np.bool_]  # of each file: every selected row matches
    damaged: dict[int, str] = field(default_factory=dict)
    index_bytes: int = 0

    def counts(self) -> Longs:
        """Selected rows of each block."""
        return self.layout.rows.copy() if self.bits is None else selection.counts(self.bits, self.layout)

    def block_rows(self, block: int) -> Longs | None:
        """The selected rows of a block, 0-based; None for all of them."""
        return None if self.bits is None else selection.rows(self.bits, self.layout, block)


def select(unit: Unit, predicate: Predicate, answers: Answers) -> Selection:
    """The rows of the unit of which the predicate may be TRUE."""
    lookup = _Lookup(unit, selection.layout(unit.rows), answers, _exact_files(unit, predicate, answers))
    bits = lookup.rows_of(predicate)
    for file in lookup.damaged:
        lookup.exact[file] = False
    return Selection(unit, lookup.layout, bits, lookup.exact, lookup.damaged, lookup.index_bytes)


def count(unit: Unit, predicate: Predicate, answers: Answers) -> tuple[Longs, Selection]:
    """Selected rows of each block, and the selection without its rows.

    A predicate over one column needs no bits: the keys of a block share no row, so their cardinalities add up.
    """
    column = _only_column(predicate)
    part = unit.parts.get(column) if column is not None else None
    if column is None or part is None or not part.encoding:
        selected = select(unit, predicate, answers)
        return selected.counts(), selected
    lookup = _Lookup(unit, selection.layout(unit.rows), answers, _exact_files(unit, predicate, answers))
    counts = lookup.counts_of(part, predicate)
    for file in lookup.damaged:
        lookup.exact[file] = False
    return counts, Selection(unit, lookup.layout, None, lookup.exact, lookup.damaged, lookup.index_bytes)


def is_understood(predicate: Predicate, columns: Mapping[str, object], answers: Answers) -> bool:
    """Whether every leaf is a key of an index in `columns` (by lower-case name) that can be looked up exactly."""
    for leaf in leaves_of(predicate):
        if isinstance(leaf, Unknown) or (isinstance(leaf, SparkLeaf) and leaf not in answers):
            return False
        if not isinstance(leaf, Constant) and leaf.column.lower() not in columns:
            return False
    return True


def _exact_files(unit: Unit, predicate: Predicate, answers: Answers) -> npt.NDArray[np.bool_]:
    exact = np.full(len(unit.paths), is_understood(predicate, unit.parts, answers))
    for column in columns_of(predicate):
        part = unit.parts.get(column.lower())
        known = np.zeros(len(unit.paths), bool)
        if part is not None and part.encoding:
            known[part.files] = True
        exact &= known
    return exact


@dataclass
class _Lookup:
    """One evaluation; bits of None stand for all rows."""

    unit: Unit
    layout: Layout
    answers: Answers
    exact: npt.NDArray[np.bool_]
    damaged: dict[int, str] = field(default_factory=dict)
    index_bytes: int = 0

    def rows_of(self, node: Predicate) -> Bits | None:
        match node:
            case Constant(True):
                return None
            case Constant():
                return selection.nothing(self.layout)
            case And(children):
                return self._all(_by_column(And, children))
            case Or(children):
                return self._any(_by_column(Or, children))
            case Unknown():
                return None
            case _:
                return self._key_rows(node.column, node)

    def _all(self, children: Sequence[tuple[str | None, Predicate]]) -> Bits | None:
        bits: Bits | None = None
        for column, child in children:
            more = self._key_rows(column, child) if column else self.rows_of(child)
            bits = more if bits is None else bits if more is None else np.bitwise_and(bits, more, out=bits)
            if bits is not None and not bits.any():
                break
        return bits

    def _any(self, children: Sequence[tuple[str | None, Predicate]]) -> Bits | None:
        bits = selection.nothing(self.layout)
        for column, child in children:
            more = self._key_rows(column, child) if column else self.rows_of(child)
            if more is None:
                return None
            np.bitwise_or(bits, more, out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate) -> Bits | None:
        """The rows whose key satisfies a predicate over one column; all rows of files that its index does not know."""
        part = self.unit.parts.get(column.lower())
        if part is None:
            return None
        known = np.zeros(len(self.unit.paths), bool)
        known[part.files] = True
        blocks = _BlockMap(self.unit, known)
        bits = selection.nothing(self.layout)
        for path, size in part.shards:
            try:
                for rows in self._matching(part, path, size, node):
                    self.index_bytes += rows.nbytes
                    self._decode(part, rows, blocks, bits)
            except (CorruptIndex, CorruptBitmap) as e:
                log.warning("index %s is damaged, its files are read whole: %s", part.index, e)
                self.damaged.update((int(file), str(e)) for file in part.files)
                known[:] = False
                break
        unknown = np.flatnonzero(~known[self.unit.file])
        return bits if not len(unknown) else bits | selection.everything_in(self.layout, unknown)

    def counts_of(self, part: Part, node: Predicate) -> Longs:
        """Rows of each block whose key satisfies a predicate over one column; all rows of files that are not known."""
        known = np.zeros(len(self.unit.paths), bool)
        known[part.files] = True
        blocks = _BlockMap(self.unit, known)
        counts = np.zeros(len(self.unit.rows), np.int64)
        encoding = ENCODINGS[part.encoding]
        for path, size in part.shards:
            try:
                for rows in self._matching(part, path, size, node):
                    self.index_bytes += rows.nbytes
                    found, columns = _located(rows, blocks, encoding)
                    np.add.at(counts, found, encoding.cardinalities(columns, self.layout.rows[found]))
                if (counts > self.unit.rows).any():
                    raise CorruptIndex("its keys share rows")
            except (CorruptIndex, CorruptBitmap) as e:
                log.warning("index %s is damaged, its files are read whole: %s", part.index, e)
                self.damaged.update((int(file), str(e)) for file in part.files)
                known[:] = False
                break
        return np.where(known[self.unit.file], counts, self.unit.rows)

    def _matching(self, part: Part, path: str, size: int, node: Predicate) -> Sequence[pa.Table]:
        fields = [f.name for f in ENCODINGS[part.encoding].FIELDS] if part.encoding else []
        place = ["_bucketname", "_offset"] if part.encoding else ["_bucketname", "_offsets"]
        return list(
            shard.read(
                path,
                size,
                [*place, *fields],
                part.key,
                lambda stats: _may_hold(node, stats),
                lambda keys: key_matches(node, keys, self.answers),
            )
        )

    def _decode(self, part: Part, rows: pa.Table, blocks: _BlockMap, bits: Bits) -> None:
        if not part.encoding:
            offsets = rows["_offsets"].combine_chunks()
            buckets = rows["_bucketname"].take(pc.list_parent_indices(offsets))
            found, _ = blocks.find(buckets, pc.list_flatten(offsets))
            np.bitwise_or(bits, selection.everything_in(self.layout, np.unique(found)), out=bits)
            return
        encoding = ENCODINGS[part.encoding]
        found, columns = _located(rows, blocks, encoding)
        encoding.decode_into(bits, columns, self.layout.starts[found], self.layout.rows[found])


class _BlockMap:
    """From (bucket, offset) to the number of a block, whole columns at once."""

    def __init__(self, unit: Unit, known: npt.NDArray[np.bool_]) -> None:
        self.paths = pa.array(unit.paths, pa.string())
        self.known = known
        self.blocks = np.flatnonzero(unit.rows > 0)
        self.offsets = np.unique(unit.offset[self.blocks])
        keys = self._key(unit.file[self.blocks], np.searchsorted(self.offsets, unit.offset[self.blocks]))
        order = np.argsort(keys, kind="stable")
        self.keys, self.blocks = keys[order], self.blocks[order]

    def find(self, buckets: pa.ChunkedArray, offsets: pa.ChunkedArray | pa.Array) -> tuple[Longs, Longs]:
        """The block of each row, and which rows have one: those of known files; raises CorruptIndex for an offset
        that no block of its file has."""
        file = _numbers(buckets, self.paths)
        mine = np.flatnonzero((file >= 0) & self.known[file])
        wanted = offsets.to_numpy(zero_copy_only=False)[mine] if len(mine) else np.zeros(0, np.int64)
        place = np.minimum(np.searchsorted(self.offsets, wanted), max(len(self.offsets) - 1, 0))
        keys = self._key(file[mine], place)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(mine) and (not len(self.keys) or (self.keys[at] != keys).any() or (self.offsets[place] != wanted).any()):
            raise CorruptIndex("it names a block that its manifest does not")
        return (self.blocks[at] if len(mine) else mine), mine

    def _key(self, file: Longs, place: Longs) -> Longs:
        return file * max(len(self.offsets), 1) + place


def _located(rows: pa.Table, blocks: _BlockMap, encoding: Encoding) -> tuple[Longs, list[pa.Array]]:
    """The block of each index row of a known file, and the stored columns of these rows."""
    found, kept = blocks.find(rows["_bucketname"], rows["_offset"])
    columns = [rows[field.name].combine_chunks() for field in encoding.FIELDS]
    return found, columns if len(kept) == rows.num_rows else [column.take(pa.array(kept)) for column in columns]


def _numbers(buckets: pa.ChunkedArray, paths: pa.Array) -> Longs:
    """The number of each bucket in `paths`, -1 where it is none of them."""
    encoded = pc.dictionary_encode(buckets)
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    if isinstance(encoded, pa.ChunkedArray):  # no rows
        return np.zeros(0, np.int64)
    numbers = pc.fill_null(pc.index_in(encoded.dictionary, value_set=paths), -1).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def key_matches(node: Predicate, keys: pa.Array, answers: Answers) -> npt.NDArray[np.bool_]:
    """Of which keys a predicate over one column is TRUE, or may be."""
    match node:
        case Constant(value):
            return np.full(len(keys), value is True)
        case And(children):
            return reduce(np.logical_and, (key_matches(child, keys, answers) for child in children))
        case Or(children):
            return reduce(np.logical_or, (key_matches(child, keys, answers) for child in children))
        case SparkLeaf():
            return _among(keys, answers[node]) if node in answers else np.ones(len(keys), bool)
        case Unknown():
            return np.ones(len(keys), bool)
        case _:
            return matches(node, keys)


def _among(keys: pa.Array, wanted: pa.Array) -> npt.NDArray[np.bool_]:
    """Which keys are among those wanted, NULL and NaN included."""
    if pa.types.is_floating(keys.type):
        bits = pa.int32() if keys.type.bit_width == 32 else pa.int64()
        keys, wanted = keys.view(bits), wanted.view(bits)
    flags: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=wanted).to_numpy(zero_copy_only=False)
    return flags


def _may_hold(node: Predicate, stats: KeyStats) -> bool:
    """Whether a row group with these statistics may hold a key of which the predicate over it is TRUE."""
    match node:
        case Constant(value):
            return value is True
        case And(children):
            return all(_may_hold(child, stats) for child in children)
        case Or(children):
            return any(_may_hold(child, stats) for child in children)
    bounds = interval(node)
    if bounds is None or stats.low is None or (bounds.nulls and stats.nulls):
        return True
    if bounds.points is not None:
        return any(stats.low <= point <= stats.high for point in bounds.points)
    low_enough = bounds.low is None or bounds.low <= stats.high
    return low_enough and (bounds.high is None or bounds.high >= stats.low)


def _by_column(kind: type[And] | type[Or], children: Sequence[Predicate]) -> list[tuple[str | None, Predicate]]:
    """The children with those of one column put together, so that its index is looked up once; None: several."""
    alone: dict[str, list[Predicate]] = {}
    mixed: list[tuple[str | None, Predicate]] = []
    for child in children:
        column = _only_column(child)
        if column is None:
            mixed.append((None, child))
        else:
            alone.setdefault(column, []).append(child)
    return [(c, kind(tuple(nodes)) if len(nodes) > 1 else nodes[0]) for c, nodes in alone.items()] + mixed


def _only_column(node: Predicate) -> str | None:
    columns = {None if isinstance(leaf, (Unknown, Constant)) else leaf.column.lower() for leaf in leaves_of(node)}
    return columns.pop() if len(columns) == 1 else None
