"""A TTL cache by session."""

from __future__ import annotations

from typing import Any

from hive_bitmap.session_cache import TtlCache


class Session:
    """Stands for a SparkSession: the cache only needs to tell them apart."""


def test_values_are_kept_by_session_and_for_their_time() -> None:
    cache: TtlCache[str, int] = TtlCache()
    one: Any = Session()
    other: Any = Session()
    cache.put(one, "a", 1)
    assert (cache.get(one, "a", 60), cache.get(one, "a", 0), cache.get(other, "a", 60)) == (1, None, None)
    cache.drop(one, "a")
    assert cache.get(one, "a", 60) is None


def test_the_newest_values_are_kept() -> None:
    cache: TtlCache[int, int] = TtlCache(most=2)
    session: Any = Session()
    for number in (1, 2, 1, 3):
        cache.put(session, number, number)
    assert [cache.get(session, number, 60) for number in (1, 2, 3)] == [1, None, 3]


def test_what_was_looked_up_before_the_cache_was_cleared_is_not_kept() -> None:
    cache: TtlCache[str, int] = TtlCache()
    session: Any = Session()
    version = cache.version
    cache.clear()
    cache.put(session, "a", 1, version)
    assert cache.get(session, "a", 60) is None
    cache.put(session, "a", 2, cache.version)
    assert cache.get(session, "a", 60) == 2
