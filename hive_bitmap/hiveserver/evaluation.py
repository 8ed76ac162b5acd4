"""The rows that a predicate selects, from index rows that a server sends: a batch at a time, into one bit a row.

Only index rows whose key matches are fetched: under NOT those of the other keys, so nothing is ever complemented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.bitmaps import ENCODINGS, selection
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.hiveserver.index_rows import fetched
from hive_bitmap.index.definition import Definition
from hive_bitmap.predicates.nodes import (
    And,
    Constant,
    Or,
    Predicate,
    SparkLeaf,
    Unknown,
    by_column,
    columns_of,
    only_column,
)
from hive_bitmap.selecting.candidates import Lookup
from hive_bitmap.selecting.key_matches import key_matches
from hive_bitmap.selecting.lookup_units import BlockNumbers, Flags, Longs, Unit
from hive_bitmap.selecting.select import LookupResult, is_understood

Bits = npt.NDArray[np.uint8]


def evaluation(
    server: Server, chosen: Mapping[str, Definition], within: str
) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """The way to look units up: those with one predicate together. `within` limits the index rows, in HiveQL.

    `chosen` has the index of each column, by lower-case name. Its results are those of `select.count`, one a lookup and
    in their order, without files that are `damaged`: CorruptIndex is raised where an index table holds what cannot be.
    Raises ServerError, too.
    """

    def evaluate(lookups: Sequence[Lookup]) -> list[LookupResult]:
        found: dict[int, LookupResult] = {}
        for predicate in dict.fromkeys(lookup.predicate for lookup in lookups):
            numbers = [number for number, lookup in enumerate(lookups) if lookup.predicate == predicate]
            units = [lookups[number].unit for number in numbers]
            whole = _together(units)
            asked = _ServerEvaluation(server, whole, chosen, within)
            try:
                counts = selection.counts(asked.rows_of(predicate), asked.layout)
            except (CorruptIndex, CorruptBitmap) as e:
                names = ", ".join(sorted({part.index for part in whole.parts.values()}))
                raise CorruptIndex(f"what the server sends of index {names} cannot be: {e}; rebuild it") from e
            exact = _exact(whole, predicate)
            files = np.cumsum([0, *(len(unit.paths) for unit in units)])
            blocks = np.cumsum([0, *(len(unit.rows) for unit in units)])
            for at, number in enumerate(numbers):
                of_files, of_blocks = slice(files[at], files[at + 1]), slice(blocks[at], blocks[at + 1])
                found[number] = LookupResult(counts[of_blocks], exact[of_files], {}, 0)
        return [found[number] for number in range(len(lookups))]

    return evaluate


@dataclass(frozen=True)
class _ServerEvaluation:
    server: Server
    unit: Unit
    chosen: Mapping[str, Definition]
    within: str

    @cached_property
    def layout(self) -> selection.BitLayout:
        return selection.layout(self.unit.rows)

    def rows_of(self, node: Predicate) -> Bits:
        """The rows that may match, a bit each, laid out as `layout`."""
        column = only_column(node)
        match node:
            case Constant(True) | Unknown() | SparkLeaf():
                return selection.everything(self.layout)
            case Constant():
                return selection.nothing(self.layout)
            case _ if column is not None:
                return self._key_rows(column, node)
            case And(children):
                return self._all(by_column(And, children))
            case Or(children):
                return reduce(np.bitwise_or, map(self.rows_of, by_column(Or, children)))
        raise TypeError(f"no predicate: {node!r}")

    def _all(self, children: Sequence[Predicate]) -> Bits:
        """Those of one column come first, for they may leave nothing to be fetched."""
        bits = selection.everything(self.layout)
        for child in sorted(children, key=lambda child: only_column(child) is None):
            if not bits.any():
                break
            np.bitwise_and(bits, self.rows_of(child), out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate) -> Bits:
        """The rows whose key satisfies a predicate over one column; all rows of files that its index does not know."""
        known = _known(self.unit, column)
        bits = selection.everything_in(self.layout, np.flatnonzero(~known[self.unit.file]))
        if not known.any():
            return bits
        blocks, definition = BlockNumbers(self.unit, known), self.chosen[column]
        for rows in fetched(self.server, definition, column, node, self.within):
            self._decode(definition, rows.filter(pa.array(key_matches(node, rows["key"], {}))), blocks, bits)
        return bits

    def _decode(self, definition: Definition, rows: pa.RecordBatch, blocks: BlockNumbers, bits: Bits) -> None:
        """OR what index rows stand for into `bits`; of type COMPACT that is whole blocks."""
        found, mine = blocks.find(rows["bucket"].dictionary_encode(), rows["offset"].to_numpy())
        if definition.type == "COMPACT":
            np.bitwise_or(bits, selection.everything_in(self.layout, found), out=bits)
            return
        stored = [rows[one.name].take(pa.array(mine)) for one in definition.bitmap_fields]
        encoding = ENCODINGS[definition.encoding]
        encoding.decode_into(bits, stored, self.layout.starts[found], self.layout.rows[found])


def _together(units: Sequence[Unit]) -> Unit:
    """The units as one, file behind file."""
    first = np.cumsum([0, *(len(unit.paths) for unit in units)])
    parts = {column: part for unit in units for column, part in unit.parts.items()}
    for column, part in parts.items():
        files = [unit.parts[column].files + at for unit, at in zip(units, first, strict=False) if column in unit.parts]
        parts[column] = replace(part, files=np.concatenate(files))
    return Unit(
        tuple(path for unit in units for path in unit.paths),
        _joined([unit.file + at for unit, at in zip(units, first, strict=False)]),
        _joined([unit.offset for unit in units]),
        _joined([unit.length for unit in units]),
        _joined([unit.rows for unit in units]),
        parts,
    )


def _joined(arrays: Sequence[Longs]) -> Longs:
    return np.concatenate(arrays)


def _known(unit: Unit, column: str) -> Flags:
    """Which files of a unit the index of a column knows."""
    known = np.zeros(len(unit.paths), bool)
    if column in unit.parts:
        known[unit.parts[column].files] = True
    return known


def _exact(unit: Unit, predicate: Predicate) -> Flags:
    """Of each file, whether every selected row satisfies the predicate."""
    exact = np.full(len(unit.paths), is_understood(predicate, unit.parts, {}))
    for column in columns_of(predicate):
        part = unit.parts.get(column.lower())
        exact &= _known(unit, column.lower()) & (part is not None and bool(part.encoding))
    return exact
