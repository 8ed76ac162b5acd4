"""Keys merged from sorted shards, without Spark, with Python's Counter over the rows as the oracle."""

from __future__ import annotations

import datetime
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering import first_groups as choosing
from hive_bitmap.core.answering import key_merge
from hive_bitmap.core.answering.first_groups import Top, first_groups
from hive_bitmap.core.answering.key_merge import DISTINCT, is_merged, merge, merged_counts, some_groups, summary
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.selecting.candidates import Lookup, restrict
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.select import is_understood
from hive_bitmap.errors import CorruptIndex
from tests.core.answering.test_tally import composite
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import FILES, PREDICATES, Row, truth, unit_of

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.int8(): st.integers(-128, 127),
    pa.string(): st.text(max_size=3) | st.sampled_from(["a", "é", "\U0010ffff", "\uffff"]),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(datetime.timezone.utc)),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.decimal128(38, 0): st.integers(-(10**37), 10**37).map(Decimal),
}


def order(value: Any) -> Any:
    """Return what Spark orders by: the bytes of a text."""
    return value.encode() if isinstance(value, str) else value


@st.composite
def runs_of_keys(draw: st.DrawFn) -> tuple[pa.DataType, list[list[tuple[Any, int]]]]:
    """Draw runs of keys with counts, each in ascending order and NULL last; keys may be repeated."""
    type = draw(st.sampled_from(list(TYPES)))
    pool = draw(st.lists(TYPES[type], min_size=1, max_size=9))
    pair = st.tuples(st.sampled_from([*pool, None]), st.integers(1, 5))
    runs = draw(st.lists(st.lists(pair, max_size=12), max_size=4))
    return type, [sorted(run, key=lambda pair: (pair[0] is None, order(pair[0]))) for run in runs]


def tables(run: list[tuple[Any, int]], size: int, field: pa.Field) -> Iterator[pa.Table]:
    """Yield a run as row groups of at most `size` rows, whose keys are added up."""
    schema = pa.schema([field, (COUNT, pa.int64())])
    for start in range(0, len(run), size):
        counter: Counter[Any] = Counter()
        for key, count in run[start : start + size]:
            counter[key] += count
        yield pa.table([list(counter), list(counter.values())], schema)


def of_tables(merged: Sequence[pa.Table]) -> Counter[Any]:
    pairs = [tuple(row.values()) for table in merged for row in table.to_pylist()]
    assert len({key for key, _ in pairs}) == len(pairs)
    return Counter(dict(pairs))


@given(runs_of_keys(), st.integers(1, 4))
@settings(max_examples=150)
def test_runs_are_merged_in_the_order_of_their_keys(
    drawn: tuple[pa.DataType, list[list[tuple[Any, int]]]], size: int
) -> None:
    type, runs = drawn
    field = pa.field("k", type)
    merged = list(merge([tables(run, size, field) for run in runs], field))
    wanted: Counter[Any] = Counter()
    for key, count in (pair for run in runs for pair in run):
        wanted[key] += count
    assert of_tables(merged) == wanted
    ends = [[order(key) for key in table["k"].to_pylist()] for table in merged if table["k"][0].is_valid]
    assert all(max(before) < min(after) for before, after in pairwise(ends))
    assert all(not table["k"].null_count or (table.num_rows == 1 and table is merged[-1]) for table in merged)
    require_summary(summary(merged, field), wanted)


def require_summary(table: pa.Table, wanted: Counter[Any]) -> None:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    keys = [key for key in wanted if key is not None]
    assert table.column_names[1:] == [COUNT, DISTINCT] and len(rows) <= 3
    assert sum(count for _, count, _ in rows) == wanted.total()
    assert sum(count for key, count, _ in rows if key is None) == wanted[None]
    assert sum(distinct for *_, distinct in rows) == len(keys)
    assert {key for key, *_ in rows if key is not None} == (
        {min(keys, key=order), max(keys, key=order)} if keys else set()
    )
    assert all(count > 0 for _, count, _ in rows)


@given(
    st.dictionaries(st.integers(0, 40) | st.none(), st.integers(1, 4), max_size=30),
    st.builds(
        Top,
        rows=st.integers(0, 12),
        first=st.sampled_from(["most", "fewest"]),
        ties=st.sampled_from(["any", "smallest", "largest"]),
    ),
    st.integers(1, 7),
    st.sampled_from([0, 3, 1 << 16]),
)
@settings(max_examples=200)
def test_the_first_groups_are_among_those_that_are_kept(
    groups: dict[int | None, int], top: Top, size: int, held: int
) -> None:
    field = pa.field("k", pa.int32())
    run = sorted(groups.items(), key=lambda pair: (pair[0] is None, pair[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "HELD_ROWS", held)
        kept = of_tables([first_groups(merge([tables(run, size, field)], field), top, field)])
    assert kept.items() <= groups.items() and len(kept) <= 2 * top.rows + 1
    for null_first in (True, False):
        for of_ties in {"smallest": (1,), "largest": (-1,), "any": ()}[top.ties] or (0,):

            def rank(pair: tuple[int | None, int], sign: int = of_ties, first: bool = null_first) -> Any:
                key, count = pair
                return -count if top.first == "most" else count, (key is None) != first, sign * (key or 0)

            wanted, found = (sorted(pairs, key=rank)[: top.rows] for pairs in (groups.items(), kept.items()))
            if top.ties == "any":
                assert [count for _, count in found] == [count for _, count in wanted]
            else:
                assert found == wanted


@given(FILES, PREDICATES, st.sampled_from(["gap", "plain", "roaring"]), st.sampled_from(["k", "s"]), st.data())
@settings(max_examples=25)
def test_keys_of_many_shards_are_counted_as_python_counts_them(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, encoding: str, key: str, data: st.DataObject
) -> None:
    """By one index or by two, also of some files of a shard, and of row groups that share a key."""
    wanted = data.draw(st.sets(st.integers(0, len(files) - 1), min_size=1))
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", data.draw(st.sampled_from([1, 2, 5, 100])))
        units = []
        for folder, some in zip(folders, (files, files[:1]), strict=True):
            everywhere = list(range(len(some)))
            if data.draw(st.booleans()) and key == "k":
                units.append(composite(folder, some, encoding))
            else:
                units.append(unit_of(folder, some, {"k": encoding, "s": "gap"}, {"k": everywhere, "s": everywhere}))
    predicate = predicate if is_understood(predicate, units[0].parts, {}) else TRUE
    lookups = [restrict(lookup_of(units[0], predicate), sorted(wanted)), lookup_of(units[1], predicate)]
    merged = list(merged_counts(lookups, key, {}))
    rows = [row for number in sorted(wanted) for row in files[number]] + files[0]
    expected = Counter(row[key] for row in rows if truth(predicate, row))
    assert of_tables(merged) == expected
    require_summary(summary(merged, lookups[0].unit.parts[key].key.with_name(key)), expected)


@given(FILES, PREDICATES, st.integers(1, 9), st.data())
@settings(max_examples=50)
def test_any_groups_have_matching_rows(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, rows: int, data: st.DataObject
) -> None:
    """So many as are needed, or all groups; by one index or by two, of keys in any order."""
    shutil.rmtree(tmp_path / "index", ignore_errors=True)
    (tmp_path / "index").mkdir()
    everywhere = list(range(len(files)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", data.draw(st.sampled_from([1, 2, 100])))
        if data.draw(st.booleans()):
            unit = composite(tmp_path / "index", files, "gap")
        else:
            unit = unit_of(tmp_path / "index", files, {"k": "gap", "s": "gap"}, {"k": everywhere, "s": everywhere})
    predicate = predicate if is_understood(predicate, unit.parts, {}) else TRUE
    key = data.draw(st.sampled_from(["k", "s"]))
    taken = of_tables([some_groups([lookup_of(unit, predicate)], key, {}, rows)])
    groups = Counter(row[key] for file in files for row in file if truth(predicate, row))
    assert len(taken) == min(rows, len(groups)) and all(taken[one] <= groups[one] for one in taken)


@pytest.mark.parametrize("keys", [[None, None, "b"], ["b", None, "b"], [None, "a", "b"], ["a", None, None]])
def test_any_groups_of_the_second_column_of_an_index(tmp_path: Path, keys: list[str | None]) -> None:
    """NULLs are among the keys, or before the only other one."""
    unit = composite(tmp_path, [[{"k": number, "s": key, "f": 0.0} for number, key in enumerate(keys)]], "gap")
    assert of_tables([some_groups([lookup_of(unit)], "s", {}, 9)]) == Counter(keys)


def test_reading_stops_once_there_are_enough_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", 10)
    lookup = lookup_of(unit_of(tmp_path, [unit_rows(200)], {"k": "gap"}, {"k": [0]}))
    read: list[int] = []
    keys_of = shards.counted_keys
    monkeypatch.setattr(
        shards, "counted_keys", lambda *shard: (read.append(len(rows[0])) or rows for rows in keys_of(*shard))
    )
    for rows, groups_read in ((1, 1), (3, 1), (50, 20), (99, 20)):
        read.clear()
        assert some_groups([lookup], "k", {}, rows).num_rows == min(rows, 50)
        assert len(read) <= groups_read and (len(read) > 1) == (groups_read > 1), rows


def unit_rows(count: int) -> list[Row]:
    return [{"k": n % 50, "s": "a", "f": 0.0} for n in range(count)]


def test_three_row_groups_of_each_shard_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are read as the keys are merged: a thread may have begun with the third when the first is merged."""
    monkeypatch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", 10)
    lookup = lookup_of(unit_of(tmp_path, [unit_rows(200)], {"k": "gap"}, {"k": [0]}))
    read: list[int] = []
    keys_of = shards.counted_keys

    def counted_keys(*shard: Any) -> Iterator[Any]:
        for rows in keys_of(*shard):
            read.append(len(rows[0]))
            yield rows

    monkeypatch.setattr(shards, "counted_keys", counted_keys)
    merged = merged_counts([lookup], "k", {})
    next(merged)
    assert read in ([10, 10], [10, 10, 10])
    assert len(list(merged)) >= 9 and len(read) >= 20


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_cardinalities_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(shards, "BATCH_ROWS", rows)
    part = unit_of(tmp_path, [unit_rows(200)], {"k": "gap"}, {"k": [0]}).parts["k"]
    [shard] = part.shards
    read = list(shards.counted_keys(*shard, part.key))
    entries = list(shards.all_entries(*shard, [part.key], lambda stats: True))
    assert len(read) == len(entries) >= 20
    for (keys, buckets, offsets, cardinality, _), ([stored], entry) in zip(read, entries, strict=True):
        assert keys.to_pylist() == stored.to_pylist() and buckets.to_pylist() == entry.buckets.to_pylist()
        assert offsets.tolist() == entry.offsets.tolist()
        assert entry.cardinality is not None and cardinality.tolist() == entry.cardinality.tolist()
    stored_rows = pq.read_table(shards._sidecar(shard[0]))
    for other in (stored_rows.slice(1), pa.concat_tables([stored_rows, stored_rows.slice(0, 1)])):
        sink = pa.BufferOutputStream()
        pq.write_table(other, sink)
        content = sink.getvalue()
        monkeypatch.setattr(shards, "_sidecar", lambda path, content=content: pa.BufferReader(content))
        with pytest.raises(CorruptIndex, match="cardinalities"):
            list(shards.counted_keys(*shard, part.key))


def test_a_shard_without_some_rows_is_damage(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [unit_rows(20), unit_rows(20)], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0, 1]})
    for predicate in (TRUE, Compare("s", "=", "a")):
        with pytest.raises(CorruptIndex, match="some rows have none"):
            list(merged_counts([lookup_of(unit, predicate)], "k", {}))


def test_keys_are_merged_if_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = lookup_of(unit_of(tmp_path, [unit_rows(200)], {"k": "gap"}, {"k": [0]}))
    assert not asks(lookup)
    monkeypatch.setattr(key_merge, "FEW_KEYS", 5)
    lookup = with_entries(lookup)
    assert asks(lookup)
    assert not asks(lookup, columns=()) and not asks(lookup, keys=("k", "s")) and not asks(lookup, keys=())
    assert not asks(lookup, keys=("s",), columns=("s",))
    monkeypatch.setattr(key_merge, "FEW_KEYS", 1000)
    assert not asks(lookup) and is_merged([lookup], ["k"], ["k"], Top(rows=3, first="any"))
    assert not is_merged([lookup], ["k"], ["k"], Top(rows=3)) and not is_merged(
        [lookup], ["k"], [], Top(rows=3, first="any")
    )
    monkeypatch.setattr(key_merge, "FEW_KEYS", 5)
    for name, value in (("MOST_SHARDS", 0), ("MOST_ROWS", 100)):
        with monkeypatch.context() as patch:
            patch.setattr(key_merge, name, value)
            assert not asks(lookup)


def test_keys_that_are_not_the_first_column_are_not_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_merge, "FEW_KEYS", -1)
    lookup = lookup_of(composite(tmp_path, [unit_rows(20)], "gap"))
    assert [asks(lookup, keys=(key,), columns=(key,)) for key in ("k", "s")] == [True, False]


def asks(lookup: Lookup, keys: Sequence[str] = ("k",), columns: Sequence[str] = ("k",)) -> bool:
    return is_merged([lookup], keys, columns)


def with_entries(lookup: Lookup) -> Lookup:
    part = replace(lookup.unit.parts["k"], entries=200)
    return replace(lookup, unit=replace(lookup.unit, parts={"k": part}))


def test_a_shard_that_is_not_sorted_is_damage() -> None:
    field = pa.field("k", pa.int32())
    for run in ([(2, 1), (1, 1)], [(1, 1), (3, 1), (2, 1)]):
        with pytest.raises(CorruptIndex, match="not sorted"):
            list(merge([tables(run, 2, field)], field))
