"""From a predicate and the shards of its indexes to the rows of each block that may match: the pure heart of planning.

The same function runs in the driver and in tasks. A unit is a set of base files that are looked up together. Where an
index does not know a file, or a shard is damaged, all rows of that file may match: nothing is ever dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from hive_bitmap.bitmaps import selection
from hive_bitmap.bitmaps.selection import BitLayout
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.index import lookup
from hive_bitmap.predicates.nodes import (
    And,
    Constant,
    IsNull,
    Or,
    Predicate,
    SparkLeaf,
    Unknown,
    by_column,
    columns_of,
    leaves_of,
    only_column,
)
from hive_bitmap.selecting.key_matches import Answers, key_matches, may_hold
from hive_bitmap.selecting.lookup_units import BlockNumbers, Flags, Longs, Unit

log = logging.getLogger(__name__)
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LookupResult:
    """How many rows of the files and blocks of a unit may match, where nobody asks which."""

    counts: Longs  # of each block, how many rows are selected
    exact: Flags  # of each file: every selected row matches
    damaged: Mapping[int, str]  # numbers of files whose index cannot be read, and why
    index_bytes: int  # bytes of bitmaps that were looked at


@dataclass
class Selection:
    """The rows of a unit that may match."""

    unit: Unit
    layout: BitLayout  # of `bits`: the blocks of the unit, in its order
    bits: Bits | None  # one bit a row, set where it may match (`bitmaps.selection`); None: all rows may
    exact: Flags  # of each file: every selected row matches
    damaged: dict[int, str] = field(default_factory=dict)  # numbers of files whose index cannot be read, and why
    index_bytes: int = 0  # bytes of bitmaps that were looked at

    def result(self) -> LookupResult:
        """What is left without the rows."""
        return LookupResult(self.counts(), self.exact, self.damaged, self.index_bytes)

    def counts(self) -> Longs:
        """How many rows of each block of the unit are selected."""
        return self.layout.rows.copy() if self.bits is None else selection.counts(self.bits, self.layout)

    def block_rows(self, block: int) -> Longs | None:
        """The selected rows of a block, 0-based; None for all of them."""
        return None if self.bits is None else selection.rows(self.bits, self.layout, block)


def select(unit: Unit, predicate: Predicate, answers: Answers) -> Selection:
    """The rows of the unit of which the predicate may be TRUE: at least all those of which it is.

    What is damaged of an index selects all rows of its files, and is told in the result; nothing is raised for it.
    """
    evaluation = _Evaluation(unit, answers, _exact_files(unit, predicate, answers))
    return evaluation.selection(evaluation.rows_of(predicate, unit.rows > 0))


def count(unit: Unit, predicate: Predicate, answers: Answers) -> LookupResult:
    """How many rows of each block `select` would select.

    A predicate over one column needs no bits: the keys of a block share no row, so their cardinalities add up.
    """
    column = only_column(predicate)
    if column is None or column not in unit.parts:
        return select(unit, predicate, answers).result()
    evaluation = _Evaluation(unit, answers, _exact_files(unit, predicate, answers))
    counts = evaluation.most_rows(column, predicate)
    return LookupResult(counts, evaluation.exact_files(), evaluation.damaged, evaluation.index_bytes)


def matching_share(unit: Unit, node: Predicate, answers: Answers) -> float:
    """The share of the unit's rows, 0 to 0.5, whose bitmaps `select` would decode for a predicate over one column.

    It decodes those of the keys that match, or those of the other keys where these hold fewer rows. Only keys and
    cardinalities are read for this. Of a damaged index, nothing would be decoded.
    """
    column = only_column(node)
    if column is None or column not in unit.parts:
        return 0.0
    counts = _Evaluation(unit, answers, np.zeros(len(unit.paths), bool)).most_rows(column, node)
    held = int(counts.sum()) / max(int(unit.rows.sum()), 1)
    return min(held, 1 - held)


def is_understood(predicate: Predicate, columns: Mapping[str, object], answers: Answers) -> bool:
    """Whether every leaf is a key of an index in `columns` (by lower-case name) that can be looked up exactly."""
    for leaf in leaves_of(predicate):
        if isinstance(leaf, Unknown) or (isinstance(leaf, SparkLeaf) and leaf not in answers):
            return False
        if not isinstance(leaf, Constant) and leaf.column.lower() not in columns:
            return False
    return True


def _exact_files(unit: Unit, predicate: Predicate, answers: Answers) -> Flags:
    exact = np.full(len(unit.paths), is_understood(predicate, unit.parts, answers))
    for column in columns_of(predicate):
        part = unit.parts.get(column.lower())
        exact &= unit.known(part) if part is not None and part.encoding else False
    return exact


@dataclass(frozen=True)
class _Hits:
    """The index rows of one shard's row group whose key matches: their numbers, blocks, and how many rows they hold."""

    shard: tuple[str, int]
    group: int
    rows: Longs
    blocks: Longs
    cardinality: Longs


@dataclass
class _Evaluation:
    """One evaluation; bits of None stand for all rows.

    First comes what costs little: in which blocks keys match, and how often. Then bitmaps are decoded, of the blocks
    that may still hold a row.
    """

    unit: Unit
    answers: Answers
    exact: Flags  # of each file
    damaged: dict[int, str] = field(default_factory=dict)
    index_bytes: int = 0

    def __post_init__(self) -> None:
        self.layout = selection.layout(self.unit.rows)
        self.known = {column: self.unit.known(part) for column, part in self.unit.parts.items()}
        self.hits: dict[tuple[str, Predicate, bool], list[_Hits]] = {}
        self.maps: dict[str, BlockNumbers] = {}

    def selection(self, bits: Bits | None) -> Selection:
        return Selection(self.unit, self.layout, bits, self.exact_files(), self.damaged, self.index_bytes)

    def exact_files(self) -> Flags:
        """Of each file, as far as it is looked up by now, whether every selected row matches."""
        for file in self.damaged:
            self.exact[file] = False
        return self.exact

    def rows_of(self, node: Predicate, alive: Flags, within: Bits | None = None) -> Bits | None:
        """The rows that may match, none of blocks that are not alive (unless it is all rows).

        Matching rows that are not `within` may be left out: the caller keeps no others.
        """
        column = only_column(node)
        match node:
            case Constant(True) | Unknown():
                return None
            case Constant():
                return selection.nothing(self.layout)
            case _ if column is not None:
                return self._key_rows(column, node, alive, within)
            case And(children):
                return self._all(by_column(And, children), alive, within)
            case Or(children):
                return self._any(by_column(Or, children), alive, within)
        raise TypeError(f"no predicate: {node!r}")

    def most_rows(self, column: str, node: Predicate) -> Longs:
        """Of each block, how many rows match a predicate over one column; all where that is not known."""
        part = self.unit.parts.get(column)
        if part is None:
            return self.unit.rows
        if isinstance(node, IsNull) and node.negated and part.encoding:  # every row has one key, and NULL is one
            others = self.unit.rows - self.most_rows(column, replace(node, negated=False))
            return np.where(self.known[column][self.unit.file], others, self.unit.rows)
        counts = np.zeros(len(self.unit.rows), np.int64)
        for hits in self._matching(column, node):
            counts += np.bincount(hits.blocks, hits.cardinality, len(counts)).astype(np.int64)
        if (counts > self.unit.rows).any():
            if part.encoding:
                self._damage(column, CorruptIndex("its keys share rows"))
            counts = np.minimum(counts, self.unit.rows)
        return np.where(self.known[column][self.unit.file], counts, self.unit.rows)

    def _all(self, children: Sequence[Predicate], alive: Flags, within: Bits | None) -> Bits | None:
        """The predicates over one column come first, the one with the fewest rows before the others."""
        bounds = [self._bound(child) for child in children]
        for bound in bounds:
            alive = alive & (bound > 0)
        bits: Bits | None = None
        order = sorted(
            range(len(children)), key=lambda n: (only_column(children[n]) is None, int(bounds[n][alive].sum()))
        )
        for place in order:
            if not alive.any():
                return selection.nothing(self.layout)
            more = self.rows_of(children[place], alive, within if bits is None else bits)
            if more is None:
                continue
            bits = more if bits is None else np.bitwise_and(bits, more, out=bits)
            alive = alive & selection.any_in(bits, self.layout)
        return bits

    def _bound(self, node: Predicate) -> Longs:
        """Of each block, no fewer rows than can match."""
        column = only_column(node)
        return self.unit.rows if column is None else self.most_rows(column, node)

    def _any(self, children: Sequence[Predicate], alive: Flags, within: Bits | None) -> Bits | None:
        bits = selection.nothing(self.layout)
        for child in children:
            more = self.rows_of(child, alive, within)
            if more is None:
                return None
            np.bitwise_or(bits, more, out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate, alive: Flags, within: Bits | None) -> Bits | None:
        """The rows whose key satisfies a predicate over one column; all rows of files that its index does not know.

        Where more than half of the rows match, the bitmaps of the other keys are fewer: every row has one key.
        """
        if column not in self.unit.parts:
            return None
        counts = self.most_rows(column, node)
        part = alive & (counts > 0) & (counts < self.unit.rows)
        negated = 2 * int(counts[part].sum()) > int(self.unit.rows[part].sum())
        bits = selection.nothing(self.layout)
        try:
            for hits in self._matching(column, node, negated):
                self._decode(column, hits, part, within, bits)
        except (CorruptIndex, CorruptBitmap) as e:
            self._damage(column, e)
            return selection.everything_in(self.layout, np.flatnonzero(alive))
        if negated:
            bits = selection.and_not(selection.everything_in(self.layout, np.flatnonzero(part)), bits)
        whole = np.flatnonzero(alive & (counts == self.unit.rows))
        return bits if not len(whole) else bits | selection.everything_in(self.layout, whole)

    def _matching(self, column: str, node: Predicate, negated: bool = False) -> list[_Hits]:
        """The index rows whose key matches, or all others; none where the index is damaged."""
        where = (column, node, negated)
        if where not in self.hits:
            try:
                self.hits[where] = list(self._find(column, node, negated))
            except CorruptIndex as e:
                self.hits[where] = []
                self._damage(column, e)
        return self.hits[where]

    def _find(self, column: str, node: Predicate, negated: bool) -> Iterator[_Hits]:
        part = self.unit.parts[column]
        if column not in self.maps:
            self.maps[column] = BlockNumbers(self.unit, self.known[column])
        blocks = self.maps[column]
        for path, size in part.shards:
            for entries in lookup.find(
                path,
                size,
                part.key,
                lambda stats: negated or may_hold(node, stats),
                lambda keys: key_matches(node, keys, self.answers) != negated,
                not part.encoding,
            ):
                found, kept = blocks.find(entries.buckets, entries.offsets)
                held = self.unit.rows[found] if entries.cardinality is None else entries.cardinality[kept]
                yield _Hits((path, size), entries.group, entries.rows[kept], found, held)

    def _damage(self, column: str, error: CorruptIndex | CorruptBitmap) -> None:
        part = self.unit.parts[column]
        log.warning("index %s is damaged, its files are read whole until it is rebuilt in full: %s", part.index, error)
        self.damaged.update((int(file), str(error)) for file in part.files)
        self.known[column][:] = False
        for where in self.hits:
            if where[0] == column:
                self.hits[where] = []

    def _decode(self, column: str, hits: _Hits, wanted: Flags, within: Bits | None, bits: Bits) -> None:
        """OR the bitmaps of the wanted blocks into `bits`; rows that are not `within` may be left out."""
        part = self.unit.parts[column]
        mine = np.flatnonzero(wanted[hits.blocks])
        if not len(mine):
            return
        blocks = hits.blocks[mine]
        bitmaps = lookup.bitmaps(*hits.shard, hits.group, part.encoding)
        self.index_bytes += bitmaps.or_into(
            bits, hits.rows[mine], self.layout.starts[blocks], self.layout.rows[blocks], within
        )
