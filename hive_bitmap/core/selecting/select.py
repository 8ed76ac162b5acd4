"""Select the rows of each block that may match a predicate.

The predicate is evaluated over shards. The same functions run in the driver and in tasks. A unit is a set of base files
that are looked up together. An index rules out rows only in the files that it covers. An index with a damaged shard
rules out no further rows once the damage is noticed. Deleted rows of the unit are never selected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.index import checksums, lookup
from hive_bitmap.core.index.checksums import Unreadable
from hive_bitmap.core.predicates.nodes import (
    And,
    Constant,
    Implied,
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
from hive_bitmap.core.selecting.index_rows import INCONSISTENT, index_rows
from hive_bitmap.core.selecting.key_matches import MatchingKeys, key_matches, may_hold
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, BlockNumbers, Flags, Longs, LookupUnit, deleted_bits
from hive_bitmap.errors import CorruptBitmap, CorruptIndex

log = logging.getLogger(__name__)
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LookupResult:
    """How many rows of each block of a unit may match."""

    counts: Longs  # for each block, the number of selected rows
    exact: Flags  # for each file, whether every selected row matches
    damaged: Mapping[int, Unreadable]  # the error of the index, by position of the file in `LookupUnit.paths`
    index_bytes: int  # bytes of the bitmaps that were read


def select(unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> Selection:
    """Select the rows of a unit for which the predicate may be TRUE.

    The selection has all rows for which the predicate is TRUE, and possibly other rows. `matching_keys` has the keys
    for which the leaves that only Spark evaluates are TRUE; a leaf without keys in `matching_keys` may match any row.
    If an index is damaged, the leaves over its column may match any row of its files. The error is then not raised but
    recorded in `damaged`.
    """
    selected = Selection.of(unit, predicate, matching_keys)
    selected.evaluate(predicate)
    return selected


def count(unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> LookupResult:
    """Count the rows of each block that `select` would select.

    For a predicate over one column, cardinalities are added up, because no row has two keys. Bitmaps are then needed
    only for blocks with deleted rows. If each file of the unit is one block, cardinalities are added up for predicates
    over several columns, too.
    """
    column = only_column(predicate)
    if unit.has_whole_files and column is None:
        return _count_in_files(unit, predicate, matching_keys)
    if column is None or column not in unit.parts:
        selected = select(unit, predicate, matching_keys)
        return selected.result(selected.counts())
    selected = Selection.of(unit, predicate, matching_keys)
    deleted = selected.deleted_counts(predicate) if unit.deleted else 0
    return selected.result(selected.matching_counts(column, predicate) - deleted)


def count_whole_blocks(unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> LookupResult:
    """Find, without bitmaps, the blocks of which all rows or no rows are selected.

    The count of a block is the number of its rows if all rows are selected, and 0 if no row is selected. For other
    blocks, the count is an estimate between these numbers, and the files of these blocks are not `exact`.
    """
    selected = Selection.of(unit, predicate, matching_keys)
    counts = selected.estimated_counts(predicate)
    selected.exact &= np.bincount(unit.file, (counts > 0) & (counts < unit.rows), len(unit.paths)) == 0
    return selected.result(counts)


def _count_in_files(unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> LookupResult:
    """Count the matching rows of each file through an AGGREGATE index.

    The predicate is over several columns of the index, or TRUE.
    """
    exact, part = exact_files(unit, predicate, matching_keys), unit.parts[ANY_KEY]
    covered = unit.covered(part)
    if isinstance(predicate, Constant) or not exact.any():
        return LookupResult(unit.rows.copy(), exact & covered, {}, 0)
    counts = np.zeros(len(unit.rows), np.int64)
    try:
        for rows in index_rows(unit, [ANY_KEY], predicate, matching_keys):
            counts += np.bincount(rows.block, np.where(rows.true, rows.cardinality, 0), len(counts)).astype(np.int64)
        if (counts > unit.rows).any():
            raise CorruptIndex(INCONSISTENT)
    except CorruptIndex as e:
        checksums.log_whole(log, f"index {part.index}", e)
        damaged = dict.fromkeys(part.files.tolist(), e)
        return LookupResult(unit.rows.copy(), np.zeros(len(exact), bool), damaged, 0)
    return LookupResult(np.where(covered, counts, unit.rows), exact & covered, {}, 0)


def matching_share(unit: LookupUnit, node: Predicate, matching_keys: MatchingKeys) -> float:
    """Return the share of the rows that are in the bitmaps to decode.

    The predicate is over one column. `select` decodes the bitmaps of the matching keys or the bitmaps of the other
    keys, whichever have fewer rows; so the share is at most 0.5. The share is 0 if no index has the column, or if the
    index is damaged.
    """
    share = selected_share(unit, node, matching_keys)
    return min(share, 1 - share)


def selected_share(unit: LookupUnit, node: Predicate, matching_keys: MatchingKeys) -> float:
    """Return the share of the rows that a predicate over one column selects.

    Only keys and cardinalities are read. The share is 1 if no index has the column, or if the index is damaged.
    """
    column = only_column(node)
    if column is None or column not in unit.parts:
        return 1.0
    selected = Selection(unit=unit, matching_keys=matching_keys, exact=np.zeros(len(unit.paths), bool))
    return int(selected.matching_counts(column, node).sum()) / max(int(unit.rows.sum()), 1)


def is_understood(predicate: Predicate, columns: Mapping[str, object], matching_keys: MatchingKeys) -> bool:
    """Return whether indexes answer every leaf of a predicate exactly.

    The keys of `columns` are the lower-case names of the indexed columns. A leaf that only Spark evaluates must be in
    `matching_keys`.
    """
    for leaf in leaves_of(predicate):
        if isinstance(leaf, (Unknown, Implied)) or (isinstance(leaf, SparkLeaf) and leaf not in matching_keys):
            return False
        if not isinstance(leaf, Constant) and leaf.column.lower() not in columns:
            return False
    return True


def exact_files(unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> Flags:
    """Return for each file whether every selected row matches.

    The result assumes that no index is damaged.
    """
    exact = np.full(len(unit.paths), is_understood(predicate, unit.parts, matching_keys))
    for column in columns_of(predicate):
        part = unit.parts.get(column.lower())
        exact &= unit.covered(part) if part is not None and part.counts else False
    return exact


@dataclass(frozen=True, kw_only=True)
class _Hits:
    """The index rows with a matching key in one row group of a shard.

    Each array has an item for each of these index rows.
    """

    shard: tuple[str, int]  # path and size in bytes
    group: int
    rows: Longs  # positions of the index rows in the row group
    blocks: Longs  # numbers of their blocks in the unit
    cardinality: Longs  # how many base rows have the key


@dataclass(kw_only=True)
class Selection:
    """The evaluation of a predicate over a unit, and the rows that may match.

    The cheap steps come first: finding the matching keys of each block, and the number of rows with these keys. Then
    bitmaps are decoded, but only for blocks that may still have a matching row (`alive`, a flag for each block).
    `bits` has a bit for each row, in the order of `layout`, set if the row may match (`bitmaps.selection`). None stands
    for all rows, in `bits` and in the results of methods.
    """

    unit: LookupUnit
    matching_keys: MatchingKeys
    exact: Flags  # for each file, whether every selected row matches; false for files whose index is damaged
    bits: Bits | None = None
    damaged: dict[int, Unreadable] = field(default_factory=dict)  # the error of the index, by position of the file
    index_bytes: int = 0  # bytes of the bitmaps that were read

    @classmethod
    def of(cls, unit: LookupUnit, predicate: Predicate, matching_keys: MatchingKeys) -> Selection:
        """Begin the evaluation of a predicate, with the predicate's `exact_files`."""
        return cls(unit=unit, matching_keys=matching_keys, exact=exact_files(unit, predicate, matching_keys))

    def __post_init__(self) -> None:
        self.layout = selection.layout(self.unit.rows)
        self._covered = {column: self.unit.covered(part) for column, part in self.unit.parts.items()}
        self._hits: dict[tuple[str, Predicate, bool], list[_Hits]] = {}
        self._block_numbers: dict[str, BlockNumbers] = {}

    def evaluate(self, predicate: Predicate) -> None:
        """Set `bits` to the rows for which the predicate may be TRUE, without deleted rows."""
        self.bits = self._live(self._rows_of(predicate, self.unit.rows > 0))
        self._hits.clear()

    def result(self, counts: Longs) -> LookupResult:
        """Return the result of a lookup with these counts of blocks."""
        return LookupResult(counts, self.exact, self.damaged, self.index_bytes)

    def counts(self) -> Longs:
        """Return the number of selected rows of each block of the unit."""
        return self.layout.rows.copy() if self.bits is None else selection.counts(self.bits, self.layout)

    def block_rows(self, block: int) -> Longs | None:
        """Return the numbers of the selected rows of a block, 0-based and ascending.

        None stands for all rows.
        """
        return None if self.bits is None else selection.rows(self.bits, self.layout, block)

    def _rows_of(self, node: Predicate, alive: Flags, within: Bits | None = None) -> Bits | None:
        """Return the rows of the `alive` blocks for which `node` may be TRUE.

        None stands for all rows, in the result and in `within`. The caller intersects the result with `within`, so
        matching rows outside `within` may be missing.
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
                return self._intersection(by_column(And, children), alive, within)
            case Or(children):
                return self._union(by_column(Or, children), alive, within)
        raise TypeError(f"not a predicate: {node!r}")

    def _live(self, bits: Bits | None) -> Bits | None:
        """Return a selection (None: all rows) without the deleted rows of the unit."""
        if not self.unit.deleted:
            return bits
        selected = selection.everything(self.layout) if bits is None else bits
        return selection.and_not(selected, deleted_bits(self.unit, self.layout))

    def deleted_counts(self, predicate: Predicate) -> Longs:
        """Count the deleted rows of each block that may satisfy the predicate."""
        deleted = deleted_bits(self.unit, self.layout)
        selected = self._rows_of(predicate, selection.any_in(deleted, self.layout), deleted)
        return selection.counts(deleted if selected is None else selected & deleted, self.layout)

    def matching_counts(self, column: str, node: Predicate) -> Longs:
        """Count the rows of each block that match a predicate over one column.

        `node` is the predicate. If the index has no counts (COMPACT), all rows of each block with a matching key are
        counted. All rows of a block are also counted if no index has the column, if the index is damaged, or if the
        index does not cover the block's file.
        """
        part = self.unit.parts.get(column)
        if part is None:
            return self.unit.rows
        if isinstance(node, IsNull) and node.negated and part.counts:
            # Every row has exactly one key, which may be NULL, so a single key is looked up in place of all others.
            not_null = self.unit.rows - self.matching_counts(column, replace(node, negated=False))
            return np.where(self._covered[column][self.unit.file], not_null, self.unit.rows)
        counts = np.zeros(len(self.unit.rows), np.int64)
        for hits in self._matching(column, node):
            counts += np.bincount(hits.blocks, hits.cardinality, len(counts)).astype(np.int64)
        if (counts > self.unit.rows).any():
            if part.counts:
                self._mark_damaged(column, CorruptIndex("its keys share rows"))
            counts = np.minimum(counts, self.unit.rows)
        return np.where(self._covered[column][self.unit.file], counts, self.unit.rows)

    def estimated_counts(self, node: Predicate) -> Longs:
        """Estimate how many rows of each block match a predicate.

        An estimate that is 0 or the number of all rows is certain in files for which the predicate is exact.
        """
        column = only_column(node)
        match node:
            case Constant(True) | Unknown():
                return self.unit.rows
            case Constant():
                return np.zeros_like(self.unit.rows)
            case _ if column is not None:
                return self.matching_counts(column, node)
            case And(children):
                return reduce(np.minimum, map(self.estimated_counts, by_column(And, children)))
            case Or(children):
                return reduce(np.maximum, map(self.estimated_counts, by_column(Or, children)))
        raise TypeError(f"not a predicate: {node!r}")

    def _intersection(self, children: Sequence[Predicate], alive: Flags, within: Bits | None) -> Bits | None:
        """Return the rows of the `alive` blocks for which all children may be TRUE.

        None stands for all rows, in the result and in `within`. Predicates over one column are evaluated first, the
        most selective first, and then all other predicates. Rows outside `within` may be missing.
        """
        bounds = [self._upper_bounds(child) for child in children]
        for bound in bounds:
            alive = alive & (bound > 0)
        bits: Bits | None = None
        order = sorted(
            range(len(children)), key=lambda n: (only_column(children[n]) is None, int(bounds[n][alive].sum()))
        )
        for place in order:
            if not alive.any():
                return selection.nothing(self.layout)
            more = self._rows_of(children[place], alive, within if bits is None else bits)
            if more is None:
                continue
            bits = more if bits is None else np.bitwise_and(bits, more, out=bits)
            alive = alive & selection.any_in(bits, self.layout)
        return bits

    def _upper_bounds(self, node: Predicate) -> Longs:
        """Return an upper bound of the matching rows of each block.

        A row matches if `node` is TRUE.
        """
        column = only_column(node)
        return self.unit.rows if column is None else self.matching_counts(column, node)

    def _union(self, children: Sequence[Predicate], alive: Flags, within: Bits | None) -> Bits | None:
        bits = selection.nothing(self.layout)
        for child in children:
            more = self._rows_of(child, alive, within)
            if more is None:
                return None
            np.bitwise_or(bits, more, out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate, alive: Flags, within: Bits | None) -> Bits | None:
        """Return the rows of `alive` blocks that match a predicate over one column.

        `node` is the predicate, over the column `column`. None stands for all rows, in the result and in `within`. All
        rows of files that the index does not cover are included. Rows outside `within` may be missing. If more than
        half of the rows in partly matching blocks match, the bitmaps of the other keys are decoded, and their rows are
        subtracted from all rows of these blocks. The subtraction is right because every row has exactly one key.
        """
        if column not in self.unit.parts:
            return None
        counts = self.matching_counts(column, node)
        mixed = alive & (counts > 0) & (counts < self.unit.rows)  # blocks in which some rows match, but not all
        negated = 2 * int(counts[mixed].sum()) > int(self.unit.rows[mixed].sum())
        bits = selection.nothing(self.layout)
        try:
            for hits in self._matching(column, node, negated):
                self._decode(column, hits, mixed, within, bits)
        except (CorruptIndex, CorruptBitmap) as e:
            self._mark_damaged(column, e)
            return selection.everything_in(self.layout, np.flatnonzero(alive))
        if negated:
            bits = selection.and_not(selection.everything_in(self.layout, np.flatnonzero(mixed)), bits)
        whole = np.flatnonzero(alive & (counts == self.unit.rows))
        return bits if not len(whole) else bits | selection.everything_in(self.layout, whole)

    def _matching(self, column: str, node: Predicate, negated: bool = False) -> list[_Hits]:
        """Return the index rows whose key matches `node`.

        If `negated`, return all other index rows instead. `node` is a predicate over the column. The result is empty if
        the index is damaged.
        """
        where = (column, node, negated)
        if where not in self._hits:
            try:
                self._hits[where] = list(self._find(column, node, negated))
            except CorruptIndex as e:
                self._hits[where] = []
                self._mark_damaged(column, e)
        return self._hits[where]

    def _find(self, column: str, node: Predicate, negated: bool) -> Iterator[_Hits]:
        part = self.unit.parts[column]
        if column not in self._block_numbers:
            self._block_numbers[column] = BlockNumbers(self.unit, self._covered[column])
        blocks = self._block_numbers[column]
        for path, size in part.shards:
            for entries in lookup.find(
                path,
                size,
                part.key,
                lambda stats: negated or may_hold(node, stats),
                lambda keys: key_matches(node, keys, self.matching_keys) != negated,
                part.kind,
            ):
                numbers, rows = blocks.find(entries.buckets, entries.offsets)
                cardinality = self.unit.rows[numbers] if entries.cardinality is None else entries.cardinality[rows]
                yield _Hits(
                    shard=(path, size),
                    group=entries.group,
                    rows=entries.rows[rows],
                    blocks=numbers,
                    cardinality=cardinality,
                )

    def _mark_damaged(self, column: str, error: Unreadable) -> None:
        part = self.unit.parts[column]
        checksums.log_whole(log, f"index {part.index}", error)
        self.damaged.update((int(file), error) for file in part.files)
        self.exact[part.files] = False
        self._covered[column][:] = False
        for where in self._hits:
            if where[0] == column:
                self._hits[where] = []

    def _decode(self, column: str, hits: _Hits, selected: Flags, within: Bits | None, bits: Bits) -> None:
        """OR the bitmaps of hits in `selected` blocks into `bits`.

        `column` is the column of the index. Rows outside `within` may be left out; if `within` is None, no row is left
        out.
        """
        part = self.unit.parts[column]
        chosen = np.flatnonzero(selected[hits.blocks])
        if not len(chosen):
            return
        blocks = hits.blocks[chosen]
        bitmaps = lookup.bitmaps(*hits.shard, hits.group, part.encoding)
        self.index_bytes += bitmaps.or_into(
            bits, hits.rows[chosen], self.layout.starts[blocks], self.layout.rows[blocks], within
        )
