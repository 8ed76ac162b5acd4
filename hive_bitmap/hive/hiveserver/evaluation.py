"""Evaluate a predicate over index rows that a server sends.

Rows arrive in batches and are decoded into one bit for each base row. Only index rows with a matching key are fetched.
For a negated leaf these are the rows of the other keys, so no bitmap is complemented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, Unknown, by_column, only_column
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.key_matches import key_matches
from hive_bitmap.core.selecting.lookup_units import BlockNumbers, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, exact_files
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.index_rows import fetched

Bits = npt.NDArray[np.uint8]


def evaluation(
    server: Server, chosen: Mapping[str, Definition], within: Mapping[str, str]
) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """Return a function that does lookups through a server.

    `chosen` has the index of each column, by lower-case name. `within` are conditions in HiveQL that limit the rows of
    indexes, by name. The function returns a result for each lookup, in their order, like those of `select.count`; it
    evaluates lookups with the same predicate together. No file is `damaged` in the results: it raises CorruptIndex if
    an index table has impossible rows. It also raises ServerError.
    """

    def evaluate(lookups: Sequence[Lookup]) -> list[LookupResult]:
        results: dict[int, LookupResult] = {}
        for predicate in dict.fromkeys(lookup.predicate for lookup in lookups):
            numbers = [number for number, lookup in enumerate(lookups) if lookup.predicate == predicate]
            units = [lookups[number].unit for number in numbers]
            whole = _concatenated(units)
            server_evaluation = _ServerEvaluation(server, whole, chosen, within)
            try:
                counts = selection.counts(server_evaluation.rows_of(predicate), server_evaluation.layout)
            except (CorruptIndex, CorruptBitmap) as e:
                names = ", ".join(sorted({part.index for part in whole.parts.values()}))
                raise CorruptIndex(f"the rows of index {names} from the server are invalid: {e}; rebuild it") from e
            exact = exact_files(whole, predicate, {})
            files = np.cumsum([0, *(len(unit.paths) for unit in units)])
            blocks = np.cumsum([0, *(len(unit.rows) for unit in units)])
            for at, number in enumerate(numbers):
                of_files, of_blocks = slice(files[at], files[at + 1]), slice(blocks[at], blocks[at + 1])
                results[number] = LookupResult(counts[of_blocks], exact[of_files], {}, 0)
        return [results[number] for number in range(len(lookups))]

    return evaluate


@dataclass(frozen=True)
class _ServerEvaluation:
    server: Server
    unit: LookupUnit
    chosen: Mapping[str, Definition]
    within: Mapping[str, str]

    @cached_property
    def layout(self) -> selection.BitLayout:
        return selection.layout(self.unit.rows)

    def rows_of(self, node: Predicate) -> Bits:
        """Return the rows that may match, as bits by `layout`."""
        column = only_column(node)
        match node:
            case Constant(True) | Unknown():
                return selection.everything(self.layout)
            case Constant():
                return selection.nothing(self.layout)
            case _ if column is not None:
                return self._key_rows(column, node)
            case And(children):
                return self._intersection(by_column(And, children))
            case Or(children):
                return reduce(np.bitwise_or, map(self.rows_of, by_column(Or, children)))
        raise TypeError(f"no predicate: {node!r}")

    def _intersection(self, children: Sequence[Predicate]) -> Bits:
        """Evaluate AND, with predicates over a single column first.

        After these there may be no rows left, so that nothing more has to be fetched.
        """
        bits = selection.everything(self.layout)
        for child in sorted(children, key=lambda child: only_column(child) is None):
            if not bits.any():
                break
            np.bitwise_and(bits, self.rows_of(child), out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate) -> Bits:
        """Return the rows with a key that satisfies a predicate over `column`.

        They include all rows of files that the index of the column lacks.
        """
        if column not in self.unit.parts:
            return selection.everything(self.layout)
        is_indexed = self.unit.known(self.unit.parts[column])
        bits = selection.everything_in(self.layout, np.flatnonzero(~is_indexed[self.unit.file]))
        if not is_indexed.any():
            return bits
        blocks, definition = BlockNumbers(self.unit, is_indexed), self.chosen[column]
        for rows in fetched(self.server, definition, column, node, self.within[definition.name]):
            self._decode(definition, rows.filter(pa.array(key_matches(node, rows["key"], {}))), blocks, bits)
        return bits

    def _decode(self, definition: Definition, rows: pa.RecordBatch, blocks: BlockNumbers, bits: Bits) -> None:
        """OR the base rows of index rows into `bits`.

        A row of a COMPACT index stands for all rows of its block.
        """
        row_blocks, positions = blocks.find(rows["bucket"].dictionary_encode(), rows["offset"].to_numpy())
        if not definition.has_bitmaps:
            np.bitwise_or(bits, selection.everything_in(self.layout, row_blocks), out=bits)
            return
        stored = [rows[field.name].take(pa.array(positions)) for field in definition.bitmap_fields]
        encoding = ENCODINGS[definition.encoding]
        encoding.decode_into(bits, stored, self.layout.starts[row_blocks], self.layout.rows[row_blocks])


def _concatenated(units: Sequence[LookupUnit]) -> LookupUnit:
    """Concatenate the files and blocks of units, in their order."""
    first = np.cumsum([0, *(len(unit.paths) for unit in units)])
    parts = {column: part for unit in units for column, part in unit.parts.items()}
    for column, part in parts.items():
        files = [unit.parts[column].files + at for unit, at in zip(units, first, strict=False) if column in unit.parts]
        parts[column] = replace(part, files=np.concatenate(files))
    return LookupUnit(
        paths=tuple(path for unit in units for path in unit.paths),
        file=np.concatenate([unit.file + at for unit, at in zip(units, first, strict=False)]),
        offset=np.concatenate([unit.offset for unit in units]),
        length=np.concatenate([unit.length for unit in units]),
        rows=np.concatenate([unit.rows for unit in units]),
        parts=parts,
    )
