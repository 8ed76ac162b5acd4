"""What is left to Spark because it would be quicker: by prices that make bitmaps dear, over real shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap.core.answering.count_budget import CountPrices, bytes_to_look_up, count_cost, share_in_memory
from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.index import lookup
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Or, Predicate
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import unit_of

DEAR_BITMAPS = CountPrices(key_byte=0.0, bitmap_byte=1.0)
K, RARE, HALF = Compare("k", "=", 1), Compare("s", "=", "nowhere"), Compare("s", "=", "a")


@pytest.mark.parametrize(
    ("keys", "predicate", "fallback_reason"),
    [
        ((), K, False),  # cardinalities of one index add up
        (("k",), TRUE, False),
        (("k",), K, False),
        (("k",), HALF, True),  # the bitmaps of all keys
        (("k", "s"), TRUE, True),
        ((), And((K, HALF)), True),
        ((), Or((Compare("k", "=", 9), RARE)), False),  # no key matches: nothing is decoded
    ],
)
def test_only_what_decodes_bitmaps_may_be_dear(
    tmp_path: Path, keys: tuple[str, ...], predicate: Predicate, fallback_reason: bool
) -> None:
    rows = [{"k": n % 3, "s": "ab"[n % 2], "f": 0.0} for n in range(40)]
    unit = unit_of(tmp_path, [rows], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    lookups = [lookup_of(unit, predicate)]
    assert bool(count_cost(lookups, {}, keys, 2, DEAR_BITMAPS).why_slower) == fallback_reason
    cost = count_cost(lookups, {}, keys, 2)
    assert cost.why_slower is None
    assert cost.seconds < cost.by_spark


def test_many_keys_are_merged_if_spark_groups_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.answering.key_merge.FEW_KEYS", -1)
    rows = [{"k": n % 30, "s": "ab"[n % 20 == 7], "f": 0.0} for n in range(600)]
    unit = unit_of(tmp_path, [rows], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    unit = replace(unit, parts={**unit.parts, "k": replace(unit.parts["k"], entries=600)})
    prices = CountPrices(spark_start=0.0, merged_row=2.0, merged_bitmap=2.0, spark_row=8.0, spark_key=1.0)
    for predicate, merges in ((TRUE, True), (Compare("s", "=", "a"), True), (Compare("s", "=", "b"), False)):
        cost = count_cost([lookup_of(unit, predicate)], {}, ["k"], 2, prices, mergeable={"k"})
        assert (cost.why_slower is None) == merges and cost.seconds == 1200
    assert count_cost([lookup_of(unit, TRUE)], {}, ["k"], 2, prices).seconds < 1
    nowhere = count_cost([lookup_of(unit, Compare("k", ">", 50))], {}, ["k"], 2, prices, mergeable={"k"})
    assert nowhere.seconds == 0, "no row group has such a key"


@pytest.mark.parametrize(("entries", "seconds"), [(100, 100.0), (600, 402.0), (10**6, 402.0)])
def test_any_groups_cost_no_more_than_some_index_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, seconds: float
) -> None:
    """A row group, and as many index rows as have the groups: of a condition that selects half of the rows."""
    monkeypatch.setattr("hive_bitmap.core.answering.count_budget.ROW_GROUP_ROWS", 400)
    rows = [{"k": n % 30, "s": "ab"[n % 2], "f": 0.0} for n in range(600)]
    unit = unit_of(tmp_path, [rows], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    unit = replace(unit, parts={**unit.parts, "k": replace(unit.parts["k"], entries=entries)})
    prices, half = CountPrices(merged_row=0.0, merged_bitmap=1.0), Compare("s", "=", "a")
    cost = count_cost([lookup_of(unit, half)], {}, ["k"], 2, prices, mergeable={"k"}, top=Top(rows=1, first="any"))
    assert cost.seconds == seconds


def test_an_index_of_large_keys_is_dearer_than_a_column(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [[{"k": 1, "s": "a", "f": 0.0}]], {"k": "gap"}, {"k": [0]})
    assert (
        count_cost(
            [lookup_of(unit, TRUE)],
            {},
            ["k"],
            2,
            CountPrices(key_byte=1.0),
        ).why_slower
        is not None
    )


def test_the_share_in_memory_is_by_bytes(tmp_path: Path) -> None:
    rows = [{"k": n % 3, "s": "ab"[n % 2], "f": 0.0} for n in range(40)]
    unit = unit_of(tmp_path, [rows], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    lookup.clear_caches()
    lookups = [lookup_of(unit, HALF)]
    assert share_in_memory(lookups, ["k"]) == 0
    for column, share in (("k", 0.5), ("s", 1.0)):
        part = unit.parts[column]
        for path, size in part.shards:
            assert list(lookup.all_entries(path, size, [part.key], lambda _: True))
        assert share_in_memory(lookups, ["k"]) == pytest.approx(share, abs=0.1)
    assert share_in_memory([lookup_of(unit, TRUE)]) == 0


def test_what_is_damaged_is_not_in_memory(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [[{"k": 1, "s": "a", "f": 0.0}]], {"k": "gap"}, {"k": [0]})
    lookup.clear_caches()
    for path, _ in unit.parts["k"].shards:
        Path(path.removeprefix("file:")).write_bytes(b"?")
    assert share_in_memory([lookup_of(unit, K)]) == 0


def test_only_row_groups_in_which_keys_may_match_are_looked_up(tmp_path: Path) -> None:
    rows = [{"k": n % 3, "s": "ab"[n % 2], "f": 0.0} for n in range(40)]
    unit = unit_of(tmp_path, [rows], {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    size = {column: sum(size for _, size in unit.parts[column].shards) for column in ("k", "s")}

    def read(predicate: Predicate) -> float:
        return bytes_to_look_up([lookup_of(unit, predicate)])

    assert read(TRUE) == 0  # it tests no key
    assert read(K) == size["k"]
    assert read(And((K, HALF))) == size["k"] + size["s"]
    assert read(Or((Compare("k", "=", 9), RARE))) == 0
    for path, _ in unit.parts["k"].shards:
        Path(path.removeprefix("file:")).unlink()
    lookup.clear_caches()
    assert read(Or((K, HALF))) == size["s"]  # files of a shard that is gone are read whole
