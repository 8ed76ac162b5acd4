"""Compare one block with its rows in an index table.

Every row must be in the bitmap of its key, and in no other bitmap. Stored bitmaps are decoded as a query decodes them,
and nothing is encoded again, so that errors of the encoder are found. The distinct keys are numbered. For each binary
digit of these numbers, two unions of bitmaps are computed: one of the bitmaps whose key number has the digit 0, and one
of the bitmaps whose key number has the digit 1. Each union must equal the set of rows whose key number has this digit.
A row that is in a wrong bitmap, in two bitmaps or in no bitmap makes a union wrong for at least one digit. With k keys,
each bitmap is decoded log2(k) times, and two unions for each digit are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.auditing.aggregate_check import expected_aggregate, wrong_aggregates
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import Aggregate, merged
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import CARDINALITY, key_fields
from hive_bitmap.core.indexing.group_indexing import NO_VALUES
from hive_bitmap.errors import CorruptBitmap

MOST_MESSAGES = 20
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # for blocks with more than 2 GiB of values


@dataclass
class Problems:
    """The number of problems, and the messages of the first MOST_MESSAGES."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        """Add one problem."""
        self.add_many(1, lambda _: message)

    def add_many(self, count: int, message: Callable[[int], str]) -> None:
        """Add `count` problems.

        `message(i)` describes the i-th problem, and is called for the first few problems only.
        """
        self.messages += [message(number) for number in range(min(count, MOST_MESSAGES - len(self.messages)))]
        self.count += count

    def add_all(self, problems: Problems, prefix: str = "") -> None:
        """Add all of `problems` to this object, each message with a prefix."""
        self.messages += [prefix + message for message in problems.messages[: MOST_MESSAGES - len(self.messages)]]
        self.count += problems.count


def compare_block(
    definition: Definition,
    keys: pa.Table,
    stored: pa.Table,
    aggregated: Mapping[Column, pa.ChunkedArray] = NO_VALUES,
) -> Problems:
    """Compare the stored index rows of a block with its base rows.

    Return the problems. `keys` holds the indexed columns of all rows of the block, in the form of `Format.key_columns`.
    `stored` holds the index rows of the block, one for each key in any order. The schema of `stored` is
    `shard.built_schema`, without `_cardinality` if cardinalities are unknown, and without bitmaps and aggregates for
    types other than BITMAP. `aggregated` holds the aggregated columns that can be read. Aggregates of other columns are
    not compared.
    """
    names = definition.column_names
    base, index = _numbers([keys[name] for name in names], [stored[name] for name in names], key_fields(definition))
    problems = Problems()
    _compare_keys(problems, base, index, keys, stored.select(names))
    if CARDINALITY.name in stored.column_names:
        _compare_cardinalities(problems, base, index, stored[CARDINALITY.name], stored.select(names))
    if definition.has_bitmaps:
        _compare_aggregates(problems, definition, base, index, aggregated, stored)
        columns = [stored[field.name].combine_chunks() for field in definition.bitmap_fields]
        try:
            _compare_rows(problems, definition, columns, base, index, stored.select(names))
        except CorruptBitmap as e:
            problems.add(str(e))
    return problems


def block_aggregates(
    definition: Definition, keys: pa.Table, aggregated: Mapping[Column, pa.ChunkedArray] = NO_VALUES
) -> pa.Table:
    """Return the distinct keys of a block with their expected aggregates.

    `keys` holds the indexed columns of all rows of the block, and `aggregated` the aggregated columns that can be read.
    The aggregates of other columns are NULL.
    """
    names, fields = definition.column_names, key_fields(definition)
    columns = [keys[name] for name in names]
    base, _ = _numbers(columns, [column.slice(0, 0) for column in columns], fields)
    _, first, base = np.unique(base, return_index=True, return_inverse=True)
    rows = pa.table(
        [column.take(pa.array(first)).cast(key.type) for column, key in zip(columns, fields, strict=True)], names
    )
    for aggregate in definition.aggregates:
        is_known = aggregate.column is None or aggregate.column in aggregated
        values = None if aggregate.column is None else aggregated.get(aggregate.column)
        expected = expected_aggregate(aggregate, base, np.arange(len(first)), values) if is_known else None
        rows = rows.append_column(
            aggregate.field, pa.nulls(len(first), aggregate.field.type) if expected is None else expected
        )
    return rows


def compare_file(
    definition: Definition, blocks: Sequence[pa.Table], stored: pa.Table, unread: Collection[Column]
) -> Problems:
    """Compare the stored aggregates of a file in an AGGREGATE index.

    Return the problems. `blocks` has the `block_aggregates` of each block of the file, and `stored` the index rows of
    the file. `unread` are aggregated columns that could not be read in some block; their aggregates are not compared.
    """
    names, problems = definition.column_names, Problems()
    rows = pa.concat_tables(blocks).combine_chunks()
    base, index = _numbers([rows[name] for name in names], [stored[name] for name in names], key_fields(definition))
    distinct, groups = np.unique(base, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    expected = merged(definition.aggregates, rows.take(pa.array(order)), groups[order])
    at = np.searchsorted(distinct, index)
    occurs = np.isin(index, distinct)  # other keys are reported for their blocks
    of_stored = expected.take(pa.array(at[occurs]))
    stored_rows = stored.filter(pa.array(occurs))
    for aggregate in definition.aggregates:
        if aggregate.column not in unread:
            _add_wrong(
                problems, aggregate, of_stored[aggregate.field.name].combine_chunks(), stored_rows, names, "file"
            )
    return problems


def _numbers(
    base: Sequence[pa.ChunkedArray], stored: Sequence[pa.ChunkedArray], fields: Sequence[pa.Field]
) -> tuple[Longs, Longs]:
    """Number the distinct keys of the base rows and the stored rows.

    `base` and `stored` have the key columns, of the types in `fields`. Equal keys have the same number in both. Return
    the number of the key of each base row, and of each stored row.
    """
    numbers: Longs | None = None
    for base_column, stored_column, key in zip(base, stored, fields, strict=True):
        kind = _LARGE.get(key.type, key.type)
        values = pa.chunked_array(
            [*base_column.cast(kind).chunks, *stored_column.cast(kind).chunks], kind
        ).combine_chunks()
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if numbers is None:
            numbers = indices
        else:
            _, numbers = np.unique(numbers * len(encoded.dictionary) + indices, return_inverse=True)
    assert numbers is not None, "an index has at least one column"
    return numbers[: len(base[0])], numbers[len(base[0]) :]


def _compare_keys(problems: Problems, base: Longs, index: Longs, keys: pa.Table, stored: pa.Table) -> None:
    """Report keys of the block that do not have exactly one stored row.

    Stored rows whose key is not in the block are reported, too. Reports are added to `problems`. `base` and `index`
    have the key number of each base row and each stored row (`_numbers`).
    """
    count = int(max(base.max(initial=-1), index.max(initial=-1))) + 1
    rows, copies = np.bincount(base, minlength=count), np.bincount(index, minlength=count)
    missing = np.flatnonzero((rows > 0) & (copies == 0))
    first = _first(base, count)
    problems.add_many(
        len(missing),
        lambda i: f"key ({_key(keys, first[missing[i]])}) has no row, but {rows[missing[i]]} rows of the block hold it",
    )
    first_stored = _first(index, count)
    extra = np.flatnonzero((rows == 0) & (copies > 0))
    problems.add_many(
        len(extra), lambda i: f"key ({_key(stored, first_stored[extra[i]])}) has a row, but the block does not hold it"
    )
    double = np.flatnonzero(copies > 1)
    problems.add_many(
        len(double),
        lambda i: f"key ({_key(stored, first_stored[double[i]])}) has {copies[double[i]]} rows instead of one",
    )


def _compare_cardinalities(
    problems: Problems, base: Longs, index: Longs, cardinality: pa.ChunkedArray, stored: pa.Table
) -> None:
    """Report each cardinality that is not the number of rows of its key.

    `base` and `index` have the key number of each base row and each stored row (`_numbers`). Reports are added to
    `problems`. Stored rows whose key is not in the block are reported by `_compare_keys` only. Counts may be
    answered from cardinalities alone, so a wrong cardinality would make them wrong.
    """
    rows = np.bincount(base, minlength=int(index.max(initial=-1)) + 1)[index]
    wrong = np.flatnonzero((cardinality.fill_null(-1).to_numpy() != rows) & (rows > 0))
    problems.add_many(
        len(wrong),
        lambda i: (
            f"key ({_key(stored, wrong[i])}) has cardinality {cardinality[int(wrong[i])].as_py()}, "
            f"but {rows[wrong[i]]} rows of the block hold it"
        ),
    )


def _compare_aggregates(
    problems: Problems,
    definition: Definition,
    base: Longs,
    index: Longs,
    aggregated: Mapping[Column, pa.ChunkedArray],
    stored: pa.Table,
) -> None:
    """Report wrong stored aggregates.

    Reports are added to `problems`. `base` and `index` have the number of the key of each base row and each stored row
    (`_numbers`). `aggregated` has the values of the aggregated columns that can be read. Aggregates of other columns
    are not compared.
    """
    occurs = np.isin(index, base)  # other keys are reported by `_compare_keys`
    if not occurs.all():
        index, stored = index[occurs], stored.filter(pa.array(occurs))
    for aggregate in definition.aggregates:
        if aggregate.column is None or aggregate.column in aggregated:
            values = None if aggregate.column is None else aggregated[aggregate.column]
            expected = expected_aggregate(aggregate, base, index, values)
            _add_wrong(problems, aggregate, expected, stored, definition.column_names, "block")


def _add_wrong(
    problems: Problems, aggregate: Aggregate, expected: pa.Array, stored: pa.Table, names: Sequence[str], place: str
) -> None:
    """Report each stored value of an aggregate that differs from the expected value.

    `expected` has an item for each row of `stored`. `names` are the key columns. `place` is "block" or "file", for the
    message.
    """
    actual = stored[aggregate.field.name].combine_chunks()
    wrong = wrong_aggregates(aggregate, expected, actual, stored)
    problems.add_many(
        len(wrong),
        lambda i: (
            f"key ({_key(stored.select(names), wrong[i])}) has {aggregate} = {actual[int(wrong[i])]}, "
            f"but its rows of the {place} have {expected[int(wrong[i])]}"
        ),
    )


def _compare_rows(
    problems: Problems, definition: Definition, columns: Sequence[pa.Array], base: Longs, index: Longs, stored: pa.Table
) -> None:
    """Report base rows that are missing from the right bitmap, or in a wrong one.

    `columns` are the stored bitmaps. `base` and `index` have the key number of each base row and each stored row
    (`_numbers`). Reports are added to `problems`. A row that is in no bitmap is reported only if its key has a stored
    row; otherwise `_compare_keys` reports the key. Raise CorruptBitmap for a stored bitmap that does not fit the block.
    """
    nbytes = (len(base) + 7) // 8
    digits = max(1, int(max(base.max(initial=0), index.max(initial=0))).bit_length())
    rows = np.full(len(index), len(base), np.int64)
    unions, wrong = [], np.zeros(2 * nbytes, np.uint8)
    for digit in range(digits):
        union = np.zeros(2 * nbytes, np.uint8)  # first half: bitmaps with digit 0; second half: with digit 1
        ENCODINGS[definition.encoding].decode_into(union, columns, (index >> digit & 1) * nbytes, rows)
        is_one = (base >> digit & 1).astype(bool)
        expected = np.concatenate([np.packbits(bits, bitorder="little") for bits in (~is_one, is_one)])
        wrong |= union ^ expected
        unions.append(union)
    either = _bits(wrong[:nbytes] | wrong[nbytes:], len(base))
    wrong_rows = np.flatnonzero(
        either & (np.isin(base, index) | _bits(unions[0][:nbytes] | unions[0][nbytes:], len(base)))
    )
    problems.add_many(
        len(wrong_rows), lambda i: f"row {wrong_rows[i]} {_where(unions, int(wrong_rows[i]), index, stored)}"
    )


def _where(unions: Sequence[Bytes], row: int, index: Longs, stored: pa.Table) -> str:
    """Describe which bitmaps hold a misplaced row.

    `unions` has the two unions of bitmaps for each binary digit of key numbers. `row` is the position of the base row
    in the block. `stored` has the keys of the stored rows, and `index` the number of each of these keys.
    """
    nbytes = len(unions[0]) // 2
    digits = [[bool(union[half + row // 8] >> (row % 8) & 1) for half in (0, nbytes)] for union in unions]
    if any(in_zeros and in_ones for in_zeros, in_ones in digits):
        return "is in the bitmaps of several keys"
    if not any(digits[0]):
        return "is in no bitmap"
    number = sum(in_ones << position for position, (_, in_ones) in enumerate(digits))
    return f"is in the bitmap of another key: ({_key(stored, int(np.flatnonzero(index == number)[0]))})"


def _bits(packed: Bytes, rows: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=rows, bitorder="little").astype(bool)


def _first(numbers: Longs, count: int) -> Longs:
    """Return the first position of each number in `numbers`.

    The result has an item for each number from 0 to `count` - 1; -1 for a number that does not occur.
    """
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def _key(table: pa.Table, row: int) -> str:
    return ", ".join(f"{name}={table[name][int(row)].as_py()!r}" for name in table.column_names)
