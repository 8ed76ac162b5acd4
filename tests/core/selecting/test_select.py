"""Selecting rows by shards, without Spark, with Python over the rows as the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup, shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.indexing.group_indexing import Group, index_group
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.predicates.nodes import (
    NULL,
    And,
    Compare,
    Constant,
    Implied,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
    leaves_of,
)
from hive_bitmap.core.selecting.key_matches import key_matches
from hive_bitmap.core.selecting.lookup_units import IndexPart, LookupUnit
from hive_bitmap.core.selecting.select import count, is_understood, select

COLUMNS = (Column("k", "int"), Column("s", "string"), Column("f", "double"))
KEYS, TEXTS = [None, -1, 0, 1, 2, 3], [None, "", "a", "ab", "b", "é", "\U0010ffff", "x" * 5000]
Row = dict[str, Any]


def unit_of(
    folder: Path,
    files: Sequence[list[Row]],
    kinds: dict[str, str],
    known: dict[str, list[int]],
    block_rows: int = 5,
) -> LookupUnit:
    """Return a unit of files with blocks of `block_rows` rows, and with an index for each column in `kinds`.

    `kinds` has the encoding of the index of a column, or `compact`; `known` has the files that the index knows.
    """
    schema = pa.schema([("k", pa.int32()), ("s", pa.string()), ("f", pa.float64())])
    paths = []
    for number, rows in enumerate(files):
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{number}.parquet", row_group_size=block_rows)
        paths.append(f"file:{folder}/{number}.parquet")
    parts, described = {}, None
    for name, kind in kinds.items():
        column = next(column for column in COLUMNS if column.name == name)
        how = {"type": "COMPACT"} if kind == "compact" else {"encoding": kind}
        definition = Definition(name=name, database="db", table="t", columns=(column,), **how)
        described = described or group_of(folder, paths, definition)
        mine = tuple(paths[number] for number in known[name])
        report = group_of(folder, mine, definition)
        held = ((f"file:{folder}/{report.shard}", report.written.size),) if report.shard else ()
        encoding = "" if kind == "compact" else kind
        key, numbers = key_fields(definition)[0], np.array(known[name], np.int64)
        parts[name] = IndexPart(index=name, key=key, encoding=encoding, shards=held, files=numbers)
    assert described is not None
    counts = [len(offsets) for offsets in described.files["offsets"]]
    of_blocks = {"offset": "offsets", "length": "lengths", "rows": "rows"}
    flat = {to: described.files[name].combine_chunks().flatten().to_numpy() for to, name in of_blocks.items()}
    return LookupUnit(paths=tuple(paths), file=np.repeat(np.arange(len(files)), counts), **flat, parts=parts)


def group_of(folder: Path, paths: Sequence[str], definition: Definition) -> Any:
    options = ReadOptions("parquet", COLUMNS, "UTC")
    group = Group(
        paths=tuple(paths),
        bytes=1,
        read_options=options,
        schema_crc=1,
        definitions=(definition,),
        folders=(f"file:{folder}",),
    )
    return index_group(group)[0]


def truth(node: Predicate, row: Row) -> bool:
    """Return whether the predicate is TRUE for a row, or may be."""
    match node:
        case Constant(value):
            return value is True
        case Unknown() | SparkLeaf():
            return True
        case Implied(test):
            return truth(test, row)
        case And(children):
            return all(truth(child, row) for child in children)
        case Or(children):
            return any(truth(child, row) for child in children)
    value = row[node.column]
    if isinstance(node, IsNull):
        return (value is None) != node.negated
    if value is None:
        return False
    match node:
        case Compare(_, op, other):
            return {
                "=": value == other,
                "<>": value != other,
                "<": value < other,
                "<=": value <= other,
                ">": value > other,
                ">=": value >= other,
            }[op]
        case In(_, values, negated):
            return (value in values) != negated
        case Prefix(_, prefix, negated):
            return value.startswith(prefix) != negated
    raise AssertionError(node)


ROWS = st.fixed_dictionaries({"k": st.sampled_from(KEYS), "s": st.sampled_from(TEXTS), "f": st.just(0.0)})
FILES = st.lists(st.lists(ROWS, max_size=13), min_size=1, max_size=3)
OPS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.builds(Compare, st.just("k"), OPS, st.integers(-2, 4)),
    st.builds(Compare, st.just("s"), OPS, st.sampled_from(TEXTS[1:])),
    st.builds(In, st.just("k"), st.lists(st.integers(-2, 4), min_size=1, unique=True).map(tuple), st.booleans()),
    st.builds(
        In, st.just("s"), st.lists(st.sampled_from(TEXTS[1:]), min_size=1, unique=True).map(tuple), st.booleans()
    ),
    st.builds(IsNull, st.sampled_from("ks"), st.booleans()),
    st.builds(Prefix, st.just("s"), st.sampled_from(["", "a", "é", "\U0010ffff", "x"]), st.booleans()),
    st.sampled_from([Constant(True), Constant(False), NULL, Unknown("?", "?"), SparkLeaf("hash(k) = 1", "k")]),
    st.builds(Implied, st.builds(Compare, st.just("k"), OPS, st.integers(-2, 4))),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
KINDS = st.sampled_from(["gap", "plain", "ewah", "roaring", "compact"])


@given(FILES, PREDICATES, KINDS, st.one_of(KINDS, st.none()), st.data())
@settings(max_examples=60)
def test_selected_rows_hold_every_match_and_no_other_where_exact(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, first: str, second: str | None, data: st.DataObject
) -> None:
    kinds = {"k": first} | ({"s": second} if second else {})
    numbers = list(range(len(files)))
    known = {name: sorted(data.draw(st.sets(st.sampled_from(numbers)))) for name in kinds}
    unit = unit_of(tmp_path, files, kinds, known)
    found = select(unit, predicate, {})
    assert not found.damaged
    assert not (found.exact.any() and any(isinstance(leaf, Implied) for leaf in leaves_of(predicate)))
    counts = found.counts()
    counted = count(unit, predicate, {})
    assert counted.counts.tolist() == counts.tolist() and counted.exact.tolist() == found.exact.tolist()
    for number, rows in enumerate(files):
        blocks = np.flatnonzero(unit.file == number).tolist()
        assert len(rows) == unit.rows[blocks].sum()
        for ordinal, block in enumerate(blocks):
            here = rows[5 * ordinal : 5 * ordinal + 5]
            matching = {n for n, row in enumerate(here) if truth(predicate, row)}
            listed = found.block_rows(block)
            selected = set(range(len(here))) if listed is None else set(listed.tolist())
            assert len(selected) == counts[block]
            assert matching <= selected
            if found.exact[number]:
                assert matching == selected


def test_row_groups_are_skipped_by_their_bounds_but_never_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts beyond the size of Parquet's statistics, NULLs, and the last character of Unicode."""
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", 2)
    texts = [None, "", "a", "ab", "b", "\uffff", "\U00010000", "\U0010ffff", "\U0010ffffz"]
    texts += ["x" * 5000, "x" * 5000 + "y"]
    rows = [{"k": None, "s": text, "f": 0.0} for text in texts]
    unit = unit_of(tmp_path, [rows], {"s": "gap"}, {"s": [0]})
    values = [text for text in texts if text is not None]
    leaves: list[Predicate] = [IsNull("s"), IsNull("s", True)]
    leaves += [Compare("s", op, value) for op in ("=", "<>", "<", "<=", ">", ">=") for value in values]
    leaves += [Prefix("s", prefix, negated) for prefix in values for negated in (False, True)]
    leaves += [In("s", (value, "nowhere"), negated) for value in values for negated in (False, True)]
    for leaf in leaves:
        found = select(unit, leaf, {})
        got = [5 * block + row for block in range(len(unit.rows)) for row in found.block_rows(block).tolist()]
        assert got == [n for n, row in enumerate(rows) if truth(leaf, row)], leaf


def test_a_thousand_keys_read_each_row_group_that_may_hold_one_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the keys of a join: every third number up to 3,000, of which the shard has those up to 2,000."""
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", 100)
    rows = [{"k": key, "s": None, "f": 0.0} for key in range(2000)]
    unit = unit_of(tmp_path, [rows], {"k": "gap"}, {"k": [0]})
    reads: list[tuple[int, str]] = []
    read_row_group = pq.ParquetFile.read_row_group

    def noted(file: pq.ParquetFile, group: int, columns: list[str]) -> pa.Table:
        reads.append((group, columns[0]))
        return read_row_group(file, group, columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    keys = In("k", tuple(range(0, 3000, 3)))
    found = select(unit, keys, {})
    assert found.counts().sum() == 667 and found.exact.all()
    held = sum(np.concatenate([found.block_rows(block) + 5 * block for block in range(400)]) % 3)
    assert held == 0
    groups = len({group for group, _ in reads})
    assert groups == 20 and sorted(reads) == sorted(set(reads)) and len(reads) == 2 * groups  # keys, and bitmaps
    reads.clear()
    few = In("k", tuple(key for key in range(500)))
    lookup.clear_caches()
    assert select(unit, few, {}).counts().sum() == 500
    assert reads == [(group, "k") for group in range(5)]  # blocks that are selected whole need no bitmaps


def test_answers_of_spark_are_found_among_keys_nan_and_null_included(tmp_path: Path) -> None:
    rows = [{"k": None, "s": None, "f": value} for value in (math.nan, -0.0, 0.0, 1.5, None, -math.nan)]
    unit = unit_of(tmp_path, [rows], {"f": "gap"}, {"f": [0]})
    leaf = SparkLeaf("f = double('NaN') OR f IS NULL", "f")
    found = select(unit, leaf, {leaf: pa.array([math.nan, None])})
    assert [found.block_rows(block).tolist() for block in range(2)] == [[0, 4], [0]]
    assert found.exact.all() and is_understood(leaf, unit.parts, {leaf: pa.array([math.nan])})
    zeros = SparkLeaf("f = 0", "f")
    found = select(unit, zeros, {zeros: pa.array([0.0])})
    assert [found.block_rows(block).tolist() for block in range(2)] == [[1, 2], []]
    assert key_matches(zeros, pa.array([1.0, None]), {}).all()
    assert select(unit, zeros, {}).counts().sum() == len(rows) and not select(unit, zeros, {}).exact.any()


def test_a_missing_shard_means_all_rows(tmp_path: Path) -> None:
    rows = [{"k": n % 3, "s": "a", "f": 0.0} for n in range(12)]
    unit = unit_of(tmp_path, [rows, rows], {"k": "gap", "s": "gap"}, {"k": [0, 1], "s": [0, 1]})
    Path(unit.parts["k"].shards[0][0].removeprefix("file:")).unlink()
    lookup.clear_caches()
    found = select(unit, And((Compare("k", "=", 1), Compare("s", "=", "a"))), {})
    assert found.counts().tolist() == unit.rows.tolist() and sorted(found.damaged) == [0, 1] and not found.exact.any()
    assert select(unit, And((Compare("k", "=", 1), Compare("s", "=", "b"))), {}).counts().sum() == 0
