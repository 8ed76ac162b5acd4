"""Evaluate a predicate over index rows that a server sends.

Index rows arrive in batches, and are decoded into one bit for each base row. Only index rows whose key may match are
fetched; their keys are tested again here. NOT is applied to the test of the keys, so no bitmap is complemented.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index.definition import BUCKET, OFFSET, OFFSETS, Definition
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, Unknown, by_column, only_column
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.key_matches import key_matches
from hive_bitmap.core.selecting.lookup_units import BlockNumbers, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, exact_files
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.hiveql import condition

COMPARED = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "date")
Bits = npt.NDArray[np.uint8]


def fetched(
    server: Server, definition: Definition, column: str, node: Predicate, within: str
) -> Iterator[pa.RecordBatch]:
    """Yield, in batches, the index rows whose key may match a predicate.

    The predicate `node` is over `column`. The order is arbitrary. A batch has a row for each key and block, with these
    columns: `key`, in the Arrow type of the column; `bucket` (string); `offset` (int64); and
    `definition.bitmap_fields`, if the index has bitmaps. For a type that is not in COMPARED, `key` is boolean: NULL for
    the key NULL, and TRUE for any other key. `within` is another condition, in HiveQL, on the index rows; "" for no
    condition. Raises ServerError, and NotFound for a column that the index does not have.
    """
    key = find(definition.columns, column, f"index {definition.name}")
    names = [_key(key), *(quote(field.name) for field in (BUCKET, *_stored(definition)))]
    conditions = [part for part in (condition(node, {column: key.type}), within) if part]
    where = f" WHERE ({') AND ('.join(conditions)})" if conditions else ""
    for rows in server.batches(f"SELECT {', '.join(names)} FROM {definition.sql_name}{where}"):
        yield _batch(definition, key, rows)


def _stored(definition: Definition) -> tuple[pa.Field, ...]:
    return (OFFSET, *definition.bitmap_fields) if definition.has_bitmaps else (OFFSETS,)


def _key(key: Column) -> str:
    return quote(key.name) if _is_compared(key) else f"IF({quote(key.name)} IS NULL, NULL, TRUE)"


def _is_compared(key: Column) -> bool:
    return key.type.partition("(")[0] in COMPARED


def _batch(definition: Definition, key: Column, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    keys, buckets, *stored = zip(*rows, strict=True)
    columns = {"key": _keys(key, keys), "bucket": pa.array(buckets, pa.string())}
    fields = _stored(definition)
    arrays = {field.name: _values(field, values) for field, values in zip(fields, stored, strict=True)}
    if definition.has_bitmaps:
        return pa.RecordBatch.from_pydict({**columns, "offset": arrays.pop(OFFSET.name), **arrays})
    offsets = arrays[OFFSETS.name]
    parents = pc.list_parent_indices(offsets)
    expanded = {name: column.take(parents) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict({**expanded, "offset": pc.list_flatten(offsets)})


def _keys(key: Column, values: Sequence[Any]) -> pa.Array:
    if not _is_compared(key):
        return pa.array(values, pa.bool_())
    if key.type == "date":
        values = [None if value is None else date.fromisoformat(value) for value in values]
    return pa.array(values, arrow_type(KeyColumn(key.name, key.type)))


def _values(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Convert values that a server sends to an Arrow array.

    The values belong to the stored column `field`. Servers send arrays as text like `[8,9]`.
    """
    return pa.array(json.loads(f"[{','.join(values)}]") if pa.types.is_list(field.type) else values, field.type)


def evaluation(
    server: Server, chosen: Mapping[str, Definition], within: Mapping[str, str]
) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """Return a function that does lookups through a server.

    `chosen` has the index of each column, by lower-case name. `within` has, by the name of each index, a condition in
    HiveQL that limits the rows of the index; "" for no limit. The function returns a result for each lookup, in the
    order of the lookups; the result is like the result of `select.count`. Lookups with the same predicate are evaluated
    together. No file is `damaged` in the results: if an index table has impossible rows, the function raises
    CorruptIndex. The function also raises ServerError.
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
        """Return the rows for which `node` may be TRUE.

        The result has a bit for each row, in the layout `self.layout`.
        """
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
        """Evaluate AND, beginning with predicates over a single column.

        Once no row is left, nothing more is fetched.
        """
        bits = selection.everything(self.layout)
        for child in sorted(children, key=lambda child: only_column(child) is None):
            if not bits.any():
                break
            np.bitwise_and(bits, self.rows_of(child), out=bits)
        return bits

    def _key_rows(self, column: str, node: Predicate) -> Bits:
        """Return the base rows whose key satisfies a predicate.

        The predicate `node` is over `column`. All rows of files that the column's index does not cover are included.
        """
        if column not in self.unit.parts:
            return selection.everything(self.layout)
        is_indexed = self.unit.covered(self.unit.parts[column])
        bits = selection.everything_in(self.layout, np.flatnonzero(~is_indexed[self.unit.file]))
        if not is_indexed.any():
            return bits
        blocks, definition = BlockNumbers(self.unit, is_indexed), self.chosen[column]
        for rows in fetched(self.server, definition, column, node, self.within[definition.name]):
            self._decode(definition, rows.filter(pa.array(key_matches(node, rows["key"], {}))), blocks, bits)
        return bits

    def _decode(self, definition: Definition, rows: pa.RecordBatch, blocks: BlockNumbers, bits: Bits) -> None:
        """Set the bits of the base rows that index rows stand for.

        `rows` are rows of the index `definition`, `blocks` finds the blocks of these rows, and `bits` has the bits to
        set. A row of a COMPACT index stands for all rows of its block.
        """
        row_blocks, positions = blocks.find(rows["bucket"].dictionary_encode(), rows["offset"].to_numpy())
        if not definition.has_bitmaps:
            np.bitwise_or(bits, selection.everything_in(self.layout, row_blocks), out=bits)
            return
        stored = [rows[field.name].take(pa.array(positions)) for field in definition.bitmap_fields]
        encoding = ENCODINGS[definition.encoding]
        encoding.decode_into(bits, stored, self.layout.starts[row_blocks], self.layout.rows[row_blocks])


def _concatenated(units: Sequence[LookupUnit]) -> LookupUnit:
    """Concatenate the files and blocks of units, in the order of the units."""
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
