"""One block and its rows in an index table: whether row r lies in exactly the bitmap of its key, for every r and key.

What is stored is decoded as a query decodes it, and never encoded again, so a fault of the encoder shows. Bitmaps are
told apart by the binary digits of their keys' numbers: for each digit, the union of the bitmaps where it is 0 and that
of those where it is 1 must be the rows whose keys' numbers have that digit. A row in a wrong bitmap, in two, or in none
then differs in at least one digit, at the cost of log2(keys) decodings and two bitmaps of memory for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.errors import CorruptBitmap
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.shard import CARDINALITY
from hive_bitmap.index.table_schema import key_fields
from hive_bitmap.verifying.problems import Problems

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # a whole block may pass 2 GiB


def compare_block(definition: Definition, keys: pa.Table, stored: pa.Table) -> Problems:
    """What is wrong with the stored rows of one block.

    `keys` holds the indexed columns of the block, a row for each of its rows, as `Format.key_columns` reads them.
    `stored` holds the block's rows of the index table, a row a key in any order, with the schema
    `table_schema.built_schema`, without `_cardinality` where that is not known, and without bitmaps for COMPACT. What
    is wrong is returned, never raised.
    """
    names = definition.column_names
    fields = [pa.field(name, field.type) for name, field in zip(names, key_fields(definition), strict=True)]
    base, held = _numbers([keys[name] for name in names], [stored[name] for name in names], fields)
    problems = Problems()
    _compare_keys(problems, base, held, keys, stored.select(names))
    if CARDINALITY.name in stored.column_names:
        _compare_cardinalities(problems, base, held, stored[CARDINALITY.name], stored.select(names))
    if definition.type == "BITMAP":
        columns = [stored[field.name].combine_chunks() for field in definition.bitmap_fields]
        try:
            _compare_rows(problems, definition, columns, base, held, stored.select(names))
        except CorruptBitmap as e:
            problems.add(str(e))
    return problems


def _numbers(
    base: Sequence[pa.ChunkedArray], stored: Sequence[pa.ChunkedArray], fields: Sequence[pa.Field]
) -> tuple[Longs, Longs]:
    """A number for each distinct key, the same in both tables: of each row of the block, and of each stored row."""
    numbers: Longs | None = None
    for mine, theirs, field in zip(base, stored, fields, strict=True):
        kind = _LARGE.get(field.type, field.type)
        values = pa.chunked_array([*mine.cast(kind).chunks, *theirs.cast(kind).chunks], kind).combine_chunks()
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if numbers is None:
            numbers = indices
        else:
            _, numbers = np.unique(numbers * len(encoded.dictionary) + indices, return_inverse=True)
    assert numbers is not None, "an index has at least one column"
    return numbers[: len(base[0])], numbers[len(base[0]) :]


def _compare_keys(problems: Problems, base: Longs, held: Longs, keys: pa.Table, stored: pa.Table) -> None:
    count = int(max(base.max(initial=-1), held.max(initial=-1))) + 1
    rows, copies = np.bincount(base, minlength=count), np.bincount(held, minlength=count)
    missing = np.flatnonzero((rows > 0) & (copies == 0))
    first = _first(base, count)
    problems.add_many(
        len(missing),
        lambda i: f"key ({_key(keys, first[missing[i]])}) has no row, but {rows[missing[i]]} rows of the block hold it",
    )
    at = _first(held, count)
    extra = np.flatnonzero((rows == 0) & (copies > 0))
    problems.add_many(
        len(extra), lambda i: f"key ({_key(stored, at[extra[i]])}) has a row, but the block does not hold it"
    )
    double = np.flatnonzero(copies > 1)
    problems.add_many(
        len(double), lambda i: f"key ({_key(stored, at[double[i]])}) has {copies[double[i]]} rows instead of one"
    )


def _compare_cardinalities(
    problems: Problems, base: Longs, held: Longs, said: pa.ChunkedArray, stored: pa.Table
) -> None:
    """Counts are answered from them alone, so each must be the number of the rows of its key."""
    rows = np.bincount(base, minlength=int(held.max(initial=-1)) + 1)[held]
    wrong = np.flatnonzero((said.fill_null(-1).to_numpy() != rows) & (rows > 0))
    problems.add_many(
        len(wrong),
        lambda i: (
            f"key ({_key(stored, wrong[i])}) has cardinality {said[int(wrong[i])].as_py()}, "
            f"but {rows[wrong[i]]} rows of the block hold it"
        ),
    )


def _compare_rows(
    problems: Problems, definition: Definition, columns: Sequence[pa.Array], base: Longs, held: Longs, stored: pa.Table
) -> None:
    """Raises CorruptBitmap for a stored bitmap that does not fit the block."""
    nbytes = (len(base) + 7) // 8
    digits = max(1, int(max(base.max(initial=0), held.max(initial=0))).bit_length())
    rows = np.full(len(held), len(base), np.int64)
    unions, wrong = [], np.zeros(2 * nbytes, np.uint8)
    for digit in range(digits):
        union = np.zeros(2 * nbytes, np.uint8)  # of the bitmaps with digit 0, and of those with digit 1
        ENCODINGS[definition.encoding].decode_into(union, columns, (held >> digit & 1) * nbytes, rows)
        one = (base >> digit & 1).astype(bool)
        expected = np.concatenate([np.packbits(bits, bitorder="little") for bits in (~one, one)])
        wrong |= union ^ expected
        unions.append(union)
    either = _bits(wrong[:nbytes] | wrong[nbytes:], len(base))
    found = np.flatnonzero(either & (np.isin(base, held) | _bits(unions[0][:nbytes] | unions[0][nbytes:], len(base))))
    problems.add_many(len(found), lambda i: f"row {found[i]} {_where(unions, int(found[i]), base, held, stored)}")


def _where(unions: Sequence[Bytes], row: int, base: Longs, held: Longs, stored: pa.Table) -> str:
    """In which bitmaps a row lies that is not in that of its key alone."""
    nbytes = len(unions[0]) // 2
    digits = [[bool(union[half + row // 8] >> (row % 8) & 1) for half in (0, nbytes)] for union in unions]
    if any(zero and one for zero, one in digits):
        return "is in the bitmaps of several keys"
    if not any(digits[0]):
        return "is in no bitmap"
    number = sum(one << position for position, (_, one) in enumerate(digits))
    return f"is in the bitmap of another key: ({_key(stored, int(np.flatnonzero(held == number)[0]))})"


def _bits(packed: Bytes, rows: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=rows, bitorder="little").astype(bool)


def _first(numbers: Longs, count: int) -> Longs:
    """Where each number first stands; -1 where it does not."""
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def _key(table: pa.Table, row: int) -> str:
    return ", ".join(f"{name}={table[name][int(row)].as_py()!r}" for name in table.column_names)
