"""Counting keys: how many rows of a unit that satisfy a predicate hold each key. Pure: shards in, counts out.

Where one index holds the keys and all that the predicate tests, cardinalities add up and no bitmap is read; those of
all rows are added once and kept in memory. Else the rows are selected first, and the bits that each key's bitmap shares
with them are counted: all keys of a row group of a shard at once. Of two indexes, the one with fewer keys splits the
selection into parts, a part a key.

Every row of a block has exactly one key, so the counts of a block must add up to what was selected of it: an index of
which they do not is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.bitmaps import selection
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.index import lookup
from hive_bitmap.predicates.nodes import TRUE, And, Constant, Or, Predicate, columns_of
from hive_bitmap.selecting.key_matches import Answers, key_matches, may_hold
from hive_bitmap.selecting.lookup_units import BlockNumbers, Flags, Longs, Unit
from hive_bitmap.selecting.select import Selection, select

COUNT = "count"  # the last column of a tally; those of the keys are lower-case names
MOST_PARTS = 16  # keys of the index that splits a selection
Bits = npt.NDArray[np.uint8]
_NO_KEY = pa.table({"": [0]}).select([])


@dataclass(frozen=True)
class _Rows:
    """Index rows of one row group: the keys of each run of equal keys, and of each row its run, block and number."""

    shard: tuple[str, int]
    group: int
    keys: pa.Table
    run: Longs
    block: Longs
    cardinality: Longs
    number: Longs
    true: Flags  # whether the predicate is TRUE of the row's key


@dataclass(frozen=True)
class _Part:
    """Some of the selected rows, with the key that all of them have (a row; without columns if there is no such)."""

    key: pa.Table
    bits: Bits


def tally(unit: Unit, predicate: Predicate, answers: Answers, keys: Sequence[str]) -> pa.Table | None:
    """The distinct keys of the unit's rows of which the predicate is TRUE, each with how often it occurs.

    The columns are `keys` (lower-case names), in the Arrow types of the index, and COUNT (int64).

    Every file must be known to the indexes of the keys, and of the predicate exactly. None where the keys lie in two
    indexes and both have more than MOST_PARTS, or in more than two. Raises CorruptIndex or CorruptBitmap for a damaged
    index.
    """
    columns = (*keys, *(column.lower() for column in columns_of(predicate)))
    nothing = pa.schema([*(unit.parts[key].key.with_name(key) for key in keys), (COUNT, pa.int64())]).empty_table()
    if len({unit.parts[column].index for column in columns}) == 1:
        sums = partial(_sums, unit, predicate, answers, nothing.schema)
        shards = unit.parts[keys[0]].shards
        return lookup.remembered((shards, unit.paths, tuple(nothing.schema)), sums) if predicate == TRUE else sums()
    together: dict[str, list[str]] = {}
    for key in keys:
        together.setdefault(unit.parts[key].index, []).append(key)
    groups = sorted(together.values(), key=lambda group: len(together) == 2 and not _few(unit, group))
    if len(groups) > 2 or (len(groups) == 2 and not _few(unit, groups[0])):
        return None
    selected = select(unit, predicate, answers)
    if selected.damaged:
        raise CorruptIndex("; ".join(dict.fromkeys(selected.damaged.values())))
    bits = selection.everything(selected.layout) if selected.bits is None else selected.bits
    parts = [_Part(_NO_KEY, bits)] if len(groups) == 1 else _parts(selected, bits, groups[0])
    return added([nothing, *_by_overlap(selected, parts, groups[-1])])


def is_countable(unit: Unit, keys: Sequence[str]) -> bool:
    """Whether `tally` counts these keys: of one index, or of two of which one has no more than MOST_PARTS."""
    if any(key not in unit.parts for key in keys):
        return True  # then no file of the unit is counted by these indexes, but read
    together: dict[str, list[str]] = {}
    for key in keys:
        together.setdefault(unit.parts[key].index, []).append(key)
    groups = list(together.values())
    return len(groups) < 2 or (len(groups) == 2 and any(_few(unit, group) for group in groups))


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of keys and counts, with the columns of the first, as one with each key once; NaN is one key."""
    schema = tables[0].schema
    if len(schema) == 1:
        total = sum(table[COUNT][0].as_py() for table in tables if table.num_rows)
        return pa.table({COUNT: [total] if total else []}, schema=schema)
    together = pa.concat_tables(table.select(schema.names) for table in tables)
    for place, field in enumerate(schema):  # as the bits that they are: NaN differs from itself
        if pa.types.is_floating(field.type):
            bits = pa.int32() if field.type.bit_width == 32 else pa.int64()
            together = together.set_column(place, field.name, together[place].combine_chunks().view(bits))
    summed = together.group_by(schema.names[:-1], use_threads=False).aggregate([(COUNT, "sum")])
    columns = [summed[name].combine_chunks() for name in (*schema.names[:-1], f"{COUNT}_sum")]
    viewed = [
        column.view(field.type) if column.type != field.type else column
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(viewed, schema=schema)


def _sums(unit: Unit, predicate: Predicate, answers: Answers, schema: pa.Schema) -> pa.Table:
    """The tally by cardinalities alone, with these columns."""
    tables, held = [schema.empty_table()], np.zeros(len(unit.rows), np.int64)
    for rows in _rows(unit, schema.names[:-1], predicate, answers):
        held += np.bincount(rows.block, rows.cardinality, len(held)).astype(np.int64)
        tables.append(_summed(rows, np.where(rows.true, rows.cardinality, 0)))
    if (held > unit.rows).any() or (predicate == TRUE and (held != unit.rows).any()):
        raise CorruptIndex("its keys share rows, or some rows have none")
    return added(tables)


def _by_overlap(selected: Selection, parts: Sequence[_Part], keys: Sequence[str]) -> Iterator[pa.Table]:
    """The keys of one index in each part of a selection."""
    layout, encoding = selected.layout, selected.unit.parts[keys[0]].encoding
    wanted = np.array([selection.counts(part.bits, layout) for part in parts], np.int64).reshape(
        len(parts), len(layout.rows)
    )
    alive: Flags = wanted.sum(axis=0) > 0
    held = np.zeros_like(wanted)
    for rows in _rows(selected.unit, keys, TRUE, {}):
        mine = np.flatnonzero(alive[rows.block])
        if not len(mine):
            continue
        blocks = rows.block[mine]
        found = lookup.bitmaps(*rows.shard, rows.group, encoding).shared(
            [part.bits for part in parts], rows.number[mine], layout.starts[blocks], layout.rows[blocks]
        )
        for number, part in enumerate(parts):
            held[number] += np.bincount(blocks, found[number], held.shape[1]).astype(np.int64)
            counts = np.zeros(len(rows.block), np.int64)
            counts[mine] = found[number]
            summed = _summed(rows, counts)
            for name in part.key.column_names:
                summed = summed.append_column(name, pa.repeat(part.key[name][0], summed.num_rows))
            yield summed
    if (held != wanted).any():
        raise CorruptIndex("its keys share rows, or some rows have none")


def _few(unit: Unit, keys: Sequence[str]) -> bool:
    """Whether an index has no more than MOST_PARTS of these keys."""
    found: set[tuple[Any, ...]] = set()
    for rows in _rows(unit, keys, TRUE, {}):
        found.update(_values_of(rows))
        if len(found) > MOST_PARTS:
            return False
    return True


def _parts(selected: Selection, bits: Bits, keys: Sequence[str]) -> list[_Part]:
    """The selected rows by their key in an index."""
    unit, layout = selected.unit, selected.layout
    encoding = unit.parts[keys[0]].encoding
    found: dict[tuple[Any, ...], _Part] = {}
    for rows in _rows(unit, keys, TRUE, {}):
        for run, value in enumerate(_values_of(rows)):
            part = found.setdefault(value, _Part(rows.keys.slice(run, 1), selection.nothing(layout)))
            mine = np.flatnonzero(rows.run == run)
            blocks = rows.block[mine]
            lookup.bitmaps(*rows.shard, rows.group, encoding).or_into(
                part.bits, rows.number[mine], layout.starts[blocks], layout.rows[blocks], bits
            )
    for part in found.values():
        np.bitwise_and(part.bits, bits, out=part.bits)
    held = sum((selection.counts(part.bits, layout) for part in found.values()), np.zeros(len(unit.rows), np.int64))
    if (held != selection.counts(bits, layout)).any():
        raise CorruptIndex("its keys share rows, or some rows have none")
    return list(found.values())


def _values_of(rows: _Rows) -> Iterator[tuple[Any, ...]]:
    """The keys as Python's values, a tuple a run."""
    return zip(*(column.to_pylist() for column in rows.keys.columns), strict=True)


def _rows(unit: Unit, keys: Sequence[str], predicate: Predicate, answers: Answers) -> Iterator[_Rows]:
    """The rows of the index of these keys, which also holds what the predicate tests."""
    part = unit.parts[keys[0]]
    blocks = BlockNumbers(unit, unit.known(part))
    tested = [column.lower() for column in columns_of(predicate)]
    names = list(dict.fromkeys((*tested, *keys)))
    fields = [unit.parts[name].key for name in names]
    for shard in part.shards:
        for values, entries in lookup.keyed(
            *shard, fields, lambda stats: len(tested) != 1 or may_hold(predicate, stats)
        ):
            columns = dict(zip(names, values, strict=True))
            block, kept = blocks.find(entries.buckets, entries.offsets)
            changed = np.zeros(len(kept), bool)
            changed[:1] = True
            for key in keys:
                codes = columns[key].indices.to_numpy(zero_copy_only=False)[kept]
                changed[1:] |= codes[1:] != codes[:-1]
            first = kept[changed]
            assert entries.cardinality is not None
            yield _Rows(
                shard,
                entries.group,
                pa.table({key: _values(columns[key], first) for key in keys}),
                np.cumsum(changed) - 1,
                block,
                entries.cardinality[kept],
                entries.rows[kept],
                _true(predicate, columns, answers)[kept],
            )


def _values(column: pa.DictionaryArray, rows: Longs) -> pa.Array:
    return column.dictionary.take(column.indices.take(pa.array(rows)))


def _true(node: Predicate, columns: Mapping[str, pa.DictionaryArray], answers: Answers) -> Flags:
    """Of which rows of an index, whose columns these are, the predicate is TRUE."""
    match node:
        case Constant(value):
            return np.full(len(next(iter(columns.values()))), value is True)
        case And(children):
            return reduce(np.logical_and, (_true(child, columns, answers) for child in children))
        case Or(children):
            return reduce(np.logical_or, (_true(child, columns, answers) for child in children))
    [name] = columns_of(node)
    column = columns[name.lower()]
    return key_matches(node, column.dictionary, answers)[column.indices.to_numpy(zero_copy_only=False)]


def _summed(rows: _Rows, counts: Longs) -> pa.Table:
    """The keys with the sums of the counts of their rows, where that is not 0."""
    runs = rows.keys.num_rows
    sums = np.bincount(rows.run, counts, runs).astype(np.int64)
    held = np.flatnonzero(sums)
    return rows.keys.take(pa.array(held)).append_column(COUNT, pa.array(sums[held]))
