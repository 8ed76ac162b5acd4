"""Adding up partial aggregates of shards, without Spark, with Python's integers over the rows as the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering.answer_size import TooLarge
from hive_bitmap.core.answering.extremes import extremes, index_covers
from hive_bitmap.core.answering.key_merge import merged_counts
from hive_bitmap.core.answering.partial_sums import NotSummed, TooWide, add_up
from hive_bitmap.core.answering.tally import tally
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.indexing.group_indexing import Group, index_group
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, IsNull, Or, Predicate
from hive_bitmap.core.selecting.candidates import Lookup, is_tested_elsewhere, look_up
from hive_bitmap.core.selecting.index_rows import COUNT, GROUP
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, IndexPart, LookupUnit
from hive_bitmap.core.selecting.select import count
from hive_bitmap.errors import CorruptIndex
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import Row, truth

KEY_COLUMNS = (Column("k", "int"), Column("s", "string"))
TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(38,3)": pa.decimal128(38, 3),
}
EXACT = Context(prec=200)
PREDICATES: list[Predicate] = [
    TRUE,
    Compare("k", ">", 0),
    IsNull("k", False),
    And((Compare("k", "<=", 1), Compare("s", "=", "a"))),
    Compare("k", "=", 77),
]


def lookup_of_files(
    folder: Path,
    files: Sequence[list[Row]],
    type: str,
    predicate: Predicate,
    unreadable: frozenset[int] = frozenset(),
    kind: str = "BITMAP",
) -> tuple[Lookup, list[Aggregate]]:
    """Index files with the keys k and s and all aggregates of v; the `unreadable` files have texts for v.

    `kind` is the type of the index.
    """
    columns = (*KEY_COLUMNS, Column("v", type))
    paths = []
    for number, rows in enumerate(files):
        values = [row["v"] for row in rows]
        texts = [None if value is None else "12" for value in values]
        table = pa.table(
            {
                "k": pa.array([row["k"] for row in rows], pa.int32()),
                "s": pa.array([row["s"] for row in rows], pa.string()),
                "v": pa.array(texts, pa.string()) if number in unreadable else pa.array(values, TYPES[type]),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=4)
        paths.append(f"file:{folder}/{number}.parquet")
    aggregates = [Aggregate(function, columns[2]) for function in FUNCTIONS]
    definition = Definition(
        name="both",
        database="db",
        table="t",
        type=kind,
        columns=columns[:2],
        aggregates=(Aggregate("count"), *aggregates),
    )
    group = Group(
        paths=tuple(paths),
        bytes=1,
        read_options=ReadOptions("parquet", columns, "UTC"),
        schema_crc=1,
        definitions=(definition,),
        folders=(f"file:{folder}",),
    )
    report = index_group(group)[0]
    shards = ((f"file:{folder}/{report.shard}", report.written.size),) if report.shard else ()
    parts = {
        name: IndexPart(
            index="both",
            key=field,
            encoding=definition.bitmap_encoding or "",
            shards=shards,
            files=np.arange(len(files)),
            in_files=definition.counts_files,
            entries=report.shard_rows,
        )
        for field in key_fields(definition)
        for name in ([field.name, ANY_KEY] if field.name == "k" else [field.name])
    }
    counts = [len(offsets) for offsets in report.files["offsets"]]
    flat = {
        name: report.files[stored].combine_chunks().flatten().to_numpy()
        for name, stored in (("offset", "offsets"), ("length", "lengths"), ("rows", "rows"))
    }
    unit = LookupUnit(paths=tuple(paths), file=np.repeat(np.arange(len(files)), counts), **flat, parts=parts)
    return lookup_of(unit.by_file() if unit.has_whole_files else unit, predicate), aggregates


def with_other_index(folder: Path, lookup: Lookup, type: str) -> Lookup:
    """Return the lookup with an index of its own for the column s."""
    columns = (*KEY_COLUMNS, Column("v", type))
    by_s = Definition(name="by_s", database="db", table="t", columns=columns[1:2])
    options = ReadOptions("parquet", columns, "UTC")
    group = Group(
        paths=lookup.unit.paths,
        bytes=1,
        read_options=options,
        schema_crc=1,
        definitions=(by_s,),
        folders=(f"file:{folder}",),
    )
    [report] = index_group(group)
    part = IndexPart(
        index="by_s",
        key=key_fields(by_s)[0],
        encoding=by_s.bitmap_encoding or "",
        shards=((f"file:{folder}/{report.shard}", report.written.size),),
        files=np.arange(len(lookup.unit.paths)),
        entries=report.shard_rows,
    )
    return replace(lookup, unit=replace(lookup.unit, parts={**lookup.unit.parts, "s": part}))


def unscaled(value: Any) -> int | None:
    """Return a value times 1000; sums of integers are decimals."""
    return None if value is None else int(Decimal(value).scaleb(3, EXACT))


def expected(
    files: Sequence[list[Row]], predicate: Predicate, keys: Sequence[str], groups: Sequence[int] | None, left: set[int]
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    by_key: dict[tuple[Any, ...], list[int | None]] = {}
    for number, rows in enumerate(files):
        for row in rows if number not in left else []:
            if truth(predicate, row):
                key = tuple(row[name] for name in keys) + (() if groups is None else (groups[number],))
                by_key.setdefault(key, []).append(unscaled(row["v"]))
    sums = {}
    for key, values in by_key.items():
        known = [value for value in values if value is not None]
        total = (sum(known), len(known), min(known), max(known)) if known else (None, 0, None, None)
        sums[key] = (1000 * len(values), *total[:1], 1000 * total[1], *total[2:])
    return sums


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[list[Row]]]:
    type = draw(st.sampled_from(sorted(TYPES)))
    if type in ("int", "bigint"):
        bound = 1 << (31 if type == "int" else 63)
        value: st.SearchStrategy[Any] = st.integers(-bound, bound - 1) | st.sampled_from([-bound, bound - 1])
    else:
        digits, scale = (9, 2) if type == "decimal(9,2)" else (38, 3)
        most = 10 ** (digits if type == "decimal(9,2)" else 37) - 1  # thirty rows of 37 digits have sums of 38 or more
        whole = st.integers(-most, most) | st.sampled_from([-most, most])
        value = whole.map(lambda number: Decimal(number).scaleb(-scale, EXACT))
    row = st.fixed_dictionaries(
        {"k": st.sampled_from([None, -1, 0, 1, 2]), "s": st.sampled_from([None, "a", "b"]), "v": st.none() | value}
    )
    return type, draw(st.lists(st.lists(row, min_size=1, max_size=10), min_size=1, max_size=3))


@given(
    tables(),
    st.sampled_from(PREDICATES),
    st.sampled_from([(), ("k",), ("s",), ("k", "s"), ("s", "k")]),
    st.none() | st.lists(st.integers(0, 2), min_size=3, max_size=3),
    st.frozensets(st.integers(0, 2), max_size=2),
    st.sampled_from(["BITMAP", "AGGREGATE"]),
)
@settings(max_examples=60)
def test_sums_are_those_of_python(
    tmp_path: Path,
    table: tuple[str, list[list[Row]]],
    predicate: Predicate,
    keys: tuple[str, ...],
    numbers: list[int] | None,
    unreadable: frozenset[int],
    kind: str,
) -> None:
    type, files = table
    groups = None if numbers is None else numbers[: len(files)]
    lookup, aggregates = lookup_of_files(tmp_path, files, type, predicate, unreadable, kind)
    has_rows = {number for number, rows in enumerate(files) if any(truth(predicate, row) for row in rows)}
    left = {number for number in unreadable if number in has_rows}
    wanted = expected(files, predicate, keys, groups, left)
    for _ in range(2):  # the second time from memory
        try:
            sums, left_out = add_up(lookup, {}, keys, aggregates, groups=groups)
        except TooWide:
            of_files = expected(files, predicate, ("k", "s"), range(len(files)), left)
            assert any(abs(row[1] or 0) >= 10**38 for row in (*wanted.values(), *of_files.values()))
            return
        assert set(left_out) == left and all(abs(row[1] or 0) < 10**38 for row in wanted.values())
        if sums is None:
            assert left == set(range(len(files))) and not wanted
            return
        names = [*keys, *([] if groups is None else [GROUP]), COUNT, *(a.field.name for a in aggregates)]
        assert sums.column_names == names
        assert [field.type for field in sums.schema][-4:] == [aggregate.field.type for aggregate in aggregates]
        rows = [tuple(row.values()) for row in sums.to_pylist()]
        width = len(names) - 5
        assert {row[:width]: tuple(map(unscaled, row[width:])) for row in rows} == wanted and len(rows) == len(wanted)


@given(
    tables(),
    st.sampled_from([Compare("s", "=", "a"), IsNull("s", True), Or((Compare("s", "=", "b"), Compare("k", "=", 1)))]),
    st.sampled_from([(), ("k",)]),
    st.booleans(),
)
@settings(max_examples=60)
def test_other_indexes_select_whole_blocks(
    tmp_path: Path, table: tuple[str, list[list[Row]]], predicate: Predicate, keys: tuple[str, ...], is_sorted: bool
) -> None:
    type, files = table
    if is_sorted:  # so that many blocks are selected as a whole
        files = [sorted(rows, key=lambda row: str(row["s"])) for rows in files]
    lookup, aggregates = lookup_of_files(tmp_path, files, type, predicate)
    lookup = with_other_index(tmp_path, lookup, type)
    assert is_tested_elsewhere(lookup)
    blocks = [[rows[at : at + 4] for at in range(0, len(rows), 4)] for rows in files]
    partly = {
        number
        for number, parts in enumerate(blocks)
        if any(len({truth(predicate, row) is True for row in part}) > 1 for part in parts)
    }
    mixed = {int(file) for file in np.flatnonzero(~look_up(lookup, {}).exact)}
    assert mixed >= partly if isinstance(predicate, Or) else mixed == partly
    wanted = expected(files, predicate, keys, None, mixed)
    try:
        sums, left_out = add_up(lookup, {}, keys, aggregates)
    except TooWide:
        assert type == "decimal(38,3)"
        return
    assert set(left_out) == mixed and (sums is None) == (len(mixed) == len(files))
    rows = [] if sums is None else [tuple(row.values()) for row in sums.to_pylist()]
    assert {row[: len(keys)]: tuple(map(unscaled, row[len(keys) :])) for row in rows} == wanted


def test_a_damaged_index_of_a_condition_takes_its_files_away(tmp_path: Path) -> None:
    files = [[{"k": n, "s": "a", "v": n} for n in range(8)] for _ in range(2)]
    lookup, aggregates = lookup_of_files(tmp_path, files, "int", Compare("s", "=", "a"))
    lookup = with_other_index(tmp_path, lookup, "int")
    [(path, _)] = lookup.unit.parts["s"].shards
    shard = Path(path.removeprefix("file:"))
    shard.write_bytes(shard.read_bytes()[:-8] + b"damaged!")
    assert add_up(lookup, {}, ("k",), aggregates) == (None, (0, 1))


def test_a_sum_of_39_digits_is_refused(tmp_path: Path) -> None:
    most = Decimal(10**38 - 1).scaleb(-3, EXACT)
    for rows in (2, 9):  # within a block, and in blocks that each hold a sum
        files = [[{"k": 1, "s": "a", "v": most} for _ in range(rows // 2)] for _ in range(2)]
        lookup, aggregates = lookup_of_files(tmp_path, files, "decimal(38,3)", TRUE)
        with pytest.raises(TooWide, match=r"sum\(v\) has more than 38 digits"):
            add_up(lookup, {}, ("k",), aggregates)
        narrow = [aggregate for aggregate in aggregates if aggregate.function != "sum"]
        sums, _ = add_up(lookup, {}, ("k",), narrow)
        assert sums is not None and sums["_max_of_v"].to_pylist() == [most]


def test_sums_have_a_limit_and_miss_no_rows(tmp_path: Path) -> None:
    files = [[{"k": n, "s": "a", "v": n} for n in range(40)] for _ in range(2)]
    lookup, aggregates = lookup_of_files(tmp_path, files, "int", Compare("k", "<", 30))
    with pytest.raises(TooLarge):
        add_up(lookup, {}, ("k",), aggregates, limit=1000)
    assert add_up(lookup, {}, (), aggregates, limit=1000)[0] is not None
    rows = lookup.unit.rows.copy()
    rows[0] += 1
    with pytest.raises(CorruptIndex):
        add_up(lookup_of(replace(lookup.unit, rows=rows), TRUE), {}, ("k",), aggregates)


@given(
    tables(),
    st.sampled_from([*PREDICATES, Or((Compare("k", "=", 2), IsNull("s", False)))]),
    st.sampled_from([(), ("k",), ("s",), ("k", "s")]),
)
@settings(max_examples=30)
def test_an_aggregate_index_counts_rows(
    tmp_path: Path, table: tuple[str, list[list[Row]]], predicate: Predicate, keys: tuple[str, ...]
) -> None:
    type, files = table
    lookup, _ = lookup_of_files(tmp_path, files, type, predicate, kind="AGGREGATE")
    matching = [[row for row in rows if truth(predicate, row)] for rows in files]
    result = count(lookup.unit, predicate, {})
    assert result.counts.tolist() == list(map(len, matching)) and result.exact.all() and not result.damaged
    if keys:
        wanted = Counter(tuple(row[key] for key in keys) for rows in matching for row in rows)
        counted = tally(lookup.unit, predicate, {}, keys)
        assert counted is not None
        assert {tuple(row.values())[:-1]: row[COUNT] for row in counted.to_pylist()} == wanted
    if keys == ("k",) and index_covers(lookup, "k"):
        merged = list(merged_counts([lookup], "k", {}))
        found = {row["k"]: row[COUNT] for part in merged for row in part.to_pylist() if row[COUNT]}
        assert found == {key: rows for (key,), rows in wanted.items()}
        known = [key for (key,) in wanted if key is not None]
        ends = extremes([lookup], "k", {}, wanted.total()) if wanted else None
        assert ends is None or set(ends["k"].to_pylist()) == ({min(known), max(known)} if known else {None})


@given(tables(), st.sampled_from(PREDICATES), st.sampled_from(["BITMAP", "AGGREGATE"]), st.sampled_from([1, 3, 100]))
@settings(max_examples=30)
def test_sums_of_merged_keys_are_those_that_are_added_up(
    tmp_path: Path, table: tuple[str, list[list[Row]]], predicate: Predicate, kind: str, row_group: int
) -> None:
    type, files = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", row_group)
        lookup, aggregates = lookup_of_files(tmp_path, files, type, predicate, kind=kind)
    if not index_covers(lookup, "k"):
        return
    try:
        wanted, _ = add_up(lookup, {}, ("k",), aggregates)
    except TooWide:
        with pytest.raises(TooWide):
            list(merged_counts([lookup], "k", {}, aggregates))
        return
    assert wanted is not None
    merged = [row for part in merged_counts([lookup], "k", {}, aggregates) for row in part.to_pylist()]
    assert sorted(merged, key=str) == sorted(wanted.to_pylist(), key=str)


def test_unknown_values_are_not_merged(tmp_path: Path) -> None:
    files = [[{"k": n % 3, "s": "a", "v": n} for n in range(9)] for _ in range(2)]
    for predicate in (TRUE, Compare("k", ">", 0)):
        lookup, aggregates = lookup_of_files(tmp_path, files, "int", predicate, frozenset({1}))
        with pytest.raises(NotSummed, match="unknown"):
            list(merged_counts([lookup], "k", {}, aggregates))


def test_damage_of_an_aggregate_index_is_told(tmp_path: Path) -> None:
    files = [[{"k": n % 3, "s": "a", "v": n} for n in range(9)] for _ in range(2)]
    both = And((Compare("k", ">", 0), Compare("s", "=", "a")))
    lookup, _ = lookup_of_files(tmp_path, files, "int", both, kind="AGGREGATE")
    fewer = replace(lookup.unit, rows=lookup.unit.rows - 5)
    for predicate in (both, Compare("k", ">", 0)):
        result = count(fewer, predicate, {})
        assert set(result.damaged) == {0, 1} and not result.exact.any() and result.counts.tolist() == [4, 4]
    with pytest.raises(CorruptIndex):
        tally(fewer, both, {}, ("k",))
