"""Counting by key in shards, without Spark, with Python's Counter over the rows as the oracle."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering import tally as counting
from hive_bitmap.core.answering.tally import tally
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.predicates.nodes import TRUE, Compare, IsNull, Or, Predicate, Prefix
from hive_bitmap.core.selecting.candidates import restrict
from hive_bitmap.core.selecting.index_rows import COUNT, GROUP
from hive_bitmap.core.selecting.lookup_units import IndexPart, LookupUnit
from hive_bitmap.core.selecting.select import is_understood
from hive_bitmap.errors import CorruptIndex
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import COLUMNS, FILES, PREDICATES, Row, group_of, truth, unit_of

ENCODED = st.sampled_from(list(ENCODINGS))
KEYS = st.sampled_from([("k",), ("s",), ("k", "s"), ("s", "k")])


def counted(unit: LookupUnit, predicate: Predicate, keys: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    found = tally(unit, predicate, {}, keys)
    assert found is not None and found.column_names == [*keys, COUNT]
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert all(row[-1] > 0 for row in rows) and len({row[:-1] for row in rows}) == len(rows)
    return Counter({row[:-1]: row[-1] for row in rows})


def expected(files: list[list[Row]], predicate: Predicate, keys: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[key] for key in keys) for rows in files for row in rows if truth(predicate, row))


@given(FILES, PREDICATES, ENCODED, ENCODED, KEYS)
@settings(max_examples=60)
def test_keys_of_two_indexes_are_counted_as_python_counts_them(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, first: str, second: str, keys: tuple[str, ...]
) -> None:
    everywhere = list(range(len(files)))
    unit = unit_of(tmp_path, files, {"k": first, "s": second}, {"k": everywhere, "s": everywhere})
    predicate = predicate if is_understood(predicate, unit.parts, {}) else TRUE
    assert counted(unit, predicate, keys) == expected(files, predicate, keys)


@given(FILES, PREDICATES, ENCODED, KEYS)
@settings(max_examples=40)
def test_keys_of_one_composite_index_need_no_bitmaps(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, encoding: str, keys: tuple[str, ...]
) -> None:
    unit = composite(tmp_path, files, encoding)
    predicate = predicate if is_understood(predicate, unit.parts, {}) else TRUE
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(lookup, "bitmaps")
        assert counted(unit, predicate, keys) == expected(files, predicate, keys)


@given(FILES, PREDICATES, ENCODED, KEYS, st.lists(st.integers(0, 3), min_size=9, max_size=9), st.booleans())
@settings(max_examples=60)
def test_groups_of_files_are_counted_for_themselves(
    tmp_path: Path,
    files: list[list[Row]],
    predicate: Predicate,
    encoding: str,
    keys: tuple[str, ...],
    numbers: list[int],
    is_composite: bool,
) -> None:
    everywhere = list(range(len(files)))
    if is_composite:
        unit = composite(tmp_path, files, encoding)
    else:
        unit = unit_of(tmp_path, files, {"k": encoding, "s": encoding}, {"k": everywhere, "s": everywhere})
    predicate = predicate if is_understood(predicate, unit.parts, {}) else TRUE
    groups = numbers[: len(files)]
    found = tally(unit, predicate, {}, keys, groups=groups)
    assert found is not None and found.column_names == [*keys, GROUP, COUNT]
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert all(row[-1] > 0 for row in rows) and len({row[:-1] for row in rows}) == len(rows)
    wanted = Counter[tuple[object, ...]]()
    for number in set(groups):
        own = expected([some for some, group in zip(files, groups, strict=True) if group == number], predicate, keys)
        wanted.update({(*key, number): count for key, count in own.items()})
    assert Counter({row[:-1]: row[-1] for row in rows}) == wanted


def test_many_sparse_keys_within_a_selection(tmp_path: Path) -> None:
    """Bitmaps of thousands of rows, few of them set and some in runs of whole bytes, for both ways of counting."""
    rows = [{"k": n % 97 if n % 1000 > 60 else -1, "s": "ab"[n % 7 == 3], "f": 0.0} for n in range(6000)]
    files = [rows, rows[:1500]]
    predicates = [Compare("s", "=", "b"), Compare("s", "<>", "b"), Or((IsNull("s"), Prefix("s", "a")))]
    for encoding in ("gap", "plain", "ewah", "roaring"):
        unit = unit_of(tmp_path, files, {"k": encoding, "s": "gap"}, {"k": [0, 1], "s": [0, 1]}, 4000)
        assert len(unit.rows) == 3
        for predicate in predicates:
            assert counted(unit, predicate, ("k",)) == expected(files, predicate, ("k",))


def test_two_indexes_of_many_keys_are_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [[{"k": n % 4, "s": "abc"[n % 3], "f": 0.0} for n in range(12)]]
    unit = unit_of(tmp_path, files, {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    for most, answered in ((4, True), (3, True), (2, False)):
        monkeypatch.setattr(counting, "MOST_PARTS", most)
        assert (tally(unit, TRUE, {}, ("k", "s")) is not None) == answered


def test_nan_and_zero_are_one_key_each(tmp_path: Path) -> None:
    rows = [{"k": 1, "s": "a", "f": value} for value in (math.nan, -0.0, 0.0, None, -math.nan, 0.0, math.nan)]
    unit = unit_of(tmp_path, [rows, rows], {"f": "gap", "k": "gap"}, {"f": [0, 1], "k": [0, 1]})
    for predicate in (TRUE, Compare("k", "=", 1)):
        found = tally(unit, predicate, {}, ("f",))
        assert found is not None
        assert sorted(map(repr, found.to_pylist())) == [
            "{'f': 0.0, 'count': 6}",
            "{'f': None, 'count': 2}",
            "{'f': nan, 'count': 6}",
        ]


def test_keys_may_have_the_names_of_results_of_arrow() -> None:
    """Arrow names a sum of the column `count` `count_sum`."""
    names = ["count_sum", "_sum_of_n_sum", "f"]
    counts = pa.table([pa.array([1, 1]), pa.array(["a", None]), pa.array([math.nan, -0.5]), [2, 3]], [*names, COUNT])
    merged = counting.merge_counts([counts, counts])
    assert merged.schema == counts.schema and repr(merged.to_pylist()) == repr(
        [{**row, COUNT: 2 * row[COUNT]} for row in counts.to_pylist()]
    )
    sums = counting.grouped(counts.append_column("_sum_of_n", pa.array([7, 8])), names, [("_sum_of_n", "sum")])
    assert sums.column_names == [*names, "_sum_of_n"] and sums["_sum_of_n"].to_pylist() == [7, 8]


def test_what_is_kept_of_a_shard_is_of_the_files_that_were_asked_for(tmp_path: Path) -> None:
    files: list[list[Row]] = [[{"k": n % number, "s": "a", "f": 0.0} for n in range(9)] for number in (2, 3, 5)]
    unit = unit_of(tmp_path, files, {"k": "gap"}, {"k": [0, 1, 2]})
    whole = lookup_of(unit, TRUE)
    for wanted in ([0, 1, 2], [1], [0, 2], [0, 1, 2], [1]):
        some = restrict(whole, wanted).unit
        assert counted(some, TRUE, ("k",)) == expected([files[file] for file in wanted], TRUE, ("k",))
        found = counted(some, Compare("k", ">", 1), ("k",))
        assert found == expected([files[file] for file in wanted], Compare("k", ">", 1), ("k",))


@pytest.mark.parametrize("predicate", [TRUE, Compare("s", "=", "a")])
def test_an_index_that_misses_rows_is_damaged(tmp_path: Path, predicate: Predicate) -> None:
    """The index on k claims to know two files, but its shard has the rows of one only."""
    files = [[{"k": n % 3, "s": "a", "f": 0.0} for n in range(7)] for _ in range(2)]
    unit = unit_of(tmp_path, files, {"k": "gap", "s": "gap"}, {"k": [0], "s": [0, 1]})
    part = unit.parts["k"]
    believed = IndexPart(
        index=part.index, key=part.key, encoding=part.encoding, shards=part.shards, files=np.array([0, 1])
    )
    unit = LookupUnit(
        paths=unit.paths,
        file=unit.file,
        offset=unit.offset,
        length=unit.length,
        rows=unit.rows,
        parts={**unit.parts, "k": believed},
    )
    with pytest.raises(CorruptIndex):
        tally(unit, predicate, {}, ("k",))


def composite(folder: Path, files: list[list[Row]], encoding: str) -> LookupUnit:
    """A unit with one index on k and s."""
    simple = unit_of(folder, files, {"k": "gap"}, {"k": list(range(len(files)))})
    columns: tuple[Column, ...] = COLUMNS[:2]
    definition = Definition(name="both", database="db", table="t", columns=columns, encoding=encoding)
    report = group_of(folder, simple.paths, definition)
    shards = ((f"file:{folder}/{report.shard}", report.written.size),)
    every = np.arange(len(files))
    parts = {
        field.name: IndexPart(index="both", key=field, encoding=encoding, shards=shards, files=every)
        for field in key_fields(definition)
    }
    return LookupUnit(
        paths=simple.paths, file=simple.file, offset=simple.offset, length=simple.length, rows=simple.rows, parts=parts
    )
