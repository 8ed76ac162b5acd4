"""Whether an index is looked up at all, and where: by sizes of shards and prices, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.answering.count_budget import COUNT_PRICES, CountCost
from hive_bitmap.core.index import lookup as shard_lookup
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Predicate
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.lookup_units import IndexPart, LookupUnit
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.preparing import index_lookup
from hive_bitmap.spark.preparing.index_lookup import (
    DRIVER_INDEX_BYTES,
    DRIVER_STATISTICS_BYTES,
    count_seconds,
    evaluated,
    is_small,
)
from hive_bitmap.spark.preparing.request import NoEngine
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import unit_of

NOBODY: Any = None  # in place of a session, which is asked for nothing
K, S = Compare("k", "=", 1), Compare("s", "=", "a")


def lookup(unit: LookupUnit, predicate: Predicate = K) -> Lookup:
    return lookup_of(unit, predicate)


def shards(**sizes: Sequence[int]) -> LookupUnit:
    """A unit whose indexes have shards of these sizes, none of which exists."""
    none = np.zeros(0, np.int64)
    parts = {
        name: IndexPart(
            index=name,
            key=pa.field(name, pa.int32()),
            encoding="gap",
            shards=tuple((f"file:/gone/{name}-{number}", size) for number, size in enumerate(held)),
            files=none,
        )
        for name, held in sizes.items()
    }
    return LookupUnit(paths=(), file=none, offset=none, length=none, rows=none, parts=parts)


@pytest.mark.parametrize(
    ("lookups", "small"),
    [
        ([], True),
        ([lookup(shards(k=[DRIVER_INDEX_BYTES]))], True),
        ([lookup(shards(k=[DRIVER_INDEX_BYTES // 2] * 3), S)], True),  # which is not tested
        # beyond that, the statistics say what would be read; of shards that are gone, nothing
        ([lookup(shards(k=[DRIVER_INDEX_BYTES + 1]))], True),
        ([lookup(shards(k=[DRIVER_STATISTICS_BYTES]))], True),
        ([lookup(shards(k=[DRIVER_STATISTICS_BYTES + 1]))], False),
        ([lookup(shards(k=[DRIVER_STATISTICS_BYTES], s=[1]), And((K, S)))], False),
        ([lookup(shards(k=[1 << 30]))] * 9, True),  # the same shards once
    ],
)
def test_little_is_looked_up_by_this_process(lookups: list[Lookup], small: bool) -> None:
    assert is_small(lookups) is small


@pytest.mark.parametrize("limit", [0, 10**9])
def test_what_the_statistics_do_not_exclude_counts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(index_lookup, "DRIVER_INDEX_BYTES", limit)
    unit = unit_of(tmp_path, [[{"k": 1, "s": "a", "f": 0.0}]], {"k": "gap"}, {"k": [0]})
    assert is_small([lookup(unit)]) is (limit > 0)
    assert is_small([lookup(unit, Compare("k", "=", 9))])  # no row group may hold it
    assert is_small([lookup(unit, TRUE)])


def asked_seconds(
    unit: LookupUnit, key_sets: Sequence[Sequence[str]], *costs: CountCost, is_forced: bool = False
) -> tuple[float, float]:
    """The seconds of the index and of Spark, where counts by these key sets have these costs."""
    given = iter(costs)
    asked = []

    def cost(keys: Sequence[str]) -> CountCost:
        asked.append(tuple(keys))
        return next(given)

    seconds = count_seconds([lookup(unit)], key_sets, cost, is_forced=is_forced)
    assert asked == [tuple(keys) for keys in key_sets]
    return seconds


CHEAP = CountCost(seconds=0.5, by_spark=COUNT_PRICES.spark_start + 2.0)
DEAR = replace(CHEAP, why_slower="Spark reads the column in less time")


@pytest.fixture
def unit(tmp_path: Any) -> LookupUnit:
    return unit_of(tmp_path, [[{"k": n % 2, "s": "a", "f": 0.0} for n in range(7)]], {"k": "gap"}, {"k": [0]})


@pytest.mark.parametrize(
    ("key_sets", "is_forced", "costs", "seconds", "by_spark"),
    [
        ((), False, [], 0.0, 0.0),  # no count: nothing is compared
        (((),), False, [CHEAP], 0.5, 2.0),
        ((("k",), ("s",)), False, [CHEAP, CHEAP], 1.0, 4.0),
        ((("k",),), True, [DEAR], 0.5, 2.0),
    ],
)
def test_what_a_count_takes(
    unit: LookupUnit,
    key_sets: Sequence[Sequence[str]],
    is_forced: bool,
    costs: list[CountCost],
    seconds: float,
    by_spark: float,
) -> None:
    shard_lookup.clear_caches()
    found = asked_seconds(unit, key_sets, *costs, is_forced=is_forced)
    assert found == pytest.approx((COUNT_PRICES.answer_start + seconds, COUNT_PRICES.spark_start + by_spark))


def test_nothing_is_compared_where_nothing_is_looked_up() -> None:
    found = count_seconds([], [["k"]], lambda keys: pytest.fail("compared"), is_forced=False)
    assert found == (COUNT_PRICES.answer_start, COUNT_PRICES.spark_start)


def test_lookups_are_done_in_this_process(unit: LookupUnit) -> None:
    [found] = evaluated(NOBODY, NoEngine(), {}, [lookup(unit)])
    assert found.counts.tolist() == [2, 1] and found.exact.all()


def test_what_is_in_memory_is_expected_to_take_less(unit: LookupUnit) -> None:
    part = unit.parts["k"]
    for path, size in part.shards:
        assert list(shard_lookup.all_entries(path, size, [part.key], lambda _: True))
    seconds, _ = asked_seconds(unit, (("k",),), CHEAP)
    assert seconds == pytest.approx(COUNT_PRICES.answer_start + 0.5 * COUNT_PRICES.in_memory)


def test_one_key_set_that_spark_counts_sooner_is_enough(unit: LookupUnit) -> None:
    with pytest.raises(Unsupported, match=r"^Spark reads the column in less time$"):
        asked_seconds(unit, (("k",), ("s",)), CHEAP, DEAR)
