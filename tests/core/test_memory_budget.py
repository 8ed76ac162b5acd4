"""Tests of the budget of all caches: what was used least recently goes first, whatever its kind."""

from __future__ import annotations

import pytest

from hive_bitmap.core.memory_budget import ENTRY_BYTES, Cache, CachedFunction, CacheUse, MemoryBudget


def of_length(budget: MemoryBudget, kind: str) -> Cache[str, str]:
    return Cache(kind, len, budget)


def test_kinds_share_the_budget_and_the_order_of_use() -> None:
    budget = MemoryBudget(3 * (ENTRY_BYTES + 100))
    one, other = of_length(budget, "one"), of_length(budget, "other")
    one.put("a", "x" * 100)
    other.put("b", "y" * 100)
    one.put("c", "z" * 100)
    assert one.get("a") is not None  # used now, so the other one goes first
    other.put("d", "w" * 100)
    assert (one.get("a"), other.get("b"), one.get("c"), other.get("d")) == ("x" * 100, None, "z" * 100, "w" * 100)
    weight = ENTRY_BYTES + 100
    assert budget.uses() == (CacheUse("one", 2, 2 * weight), CacheUse("other", 1, weight))


def test_a_smaller_capacity_evicts_and_a_value_is_replaced() -> None:
    budget = MemoryBudget(1 << 20)
    cache = of_length(budget, "texts")
    for number in range(10):
        cache.put(str(number), "x" * 1000)
        cache.put(str(number), "y" * 1000)
    budget.resize(5 * (ENTRY_BYTES + 1000))
    [use] = budget.uses()
    assert (use.entries, use.bytes) == (5, 5 * (ENTRY_BYTES + 1000))
    assert cache.get("4") is None and cache.get("5") == "y" * 1000


def test_a_value_that_would_evict_nearly_all_others_is_not_kept() -> None:
    budget = MemoryBudget(10_000)
    cache = of_length(budget, "texts")
    cache.put("small", "x")
    cache.put("large", "x" * 5_000)
    assert not budget.fits(5_000) and cache.get("large") is None and cache.get("small") == "x"


def test_a_value_is_made_once_and_an_error_is_not_kept() -> None:
    cache = of_length(MemoryBudget(10_000), "texts")
    with pytest.raises(ValueError, match="not yet"):
        cache.of("a", lambda: (_ for _ in ()).throw(ValueError("not yet")))
    assert cache.of("a", lambda: "first") == "first"
    assert cache.of("a", lambda: "second") == "first"


def test_one_value_is_forgotten_alone() -> None:
    budget, made = MemoryBudget(1 << 20), []
    function = CachedFunction(lambda one, other: made.append((one, other)) or f"{one}{other}", of_length(budget, "x"))
    assert (function(1, 2), function(3, 4)) == ("12", "34")
    for _ in range(2):
        function.forget(1, 2)
    assert (function(1, 2), function(3, 4)) == ("12", "34")
    assert made == [(1, 2), (3, 4), (1, 2)]
    assert [(use.entries, use.bytes) for use in budget.uses()] == [(2, 2 * (ENTRY_BYTES + 2))]


def test_two_caches_of_a_kind_do_not_share_keys() -> None:
    budget = MemoryBudget(10_000)
    one, other = of_length(budget, "texts"), of_length(budget, "texts")
    one.put("a", "x")
    assert other.get("a") is None
    other.clear()
    assert one.get("a") is None  # a kind is emptied for all
