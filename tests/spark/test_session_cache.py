from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from hive_bitmap.spark.session_cache import TtlCache, belongs_to, clear


class Session:
    """A stand-in for a session, which is compared by identity."""

    def __init__(self, application: str = "app") -> None:
        self.sparkContext = SimpleNamespace(applicationId=application)


def test_sessions_do_not_share_values() -> None:
    cache: TtlCache[str, int] = TtlCache()
    one, other = Session(), Session()
    cache.put(one, "t", 1)
    assert cache.get(one, "t", 30) == 1
    assert cache.get(other, "t", 30) is None
    assert cache.get(one, "u", 30) is None


def test_sessions_of_a_user_share_what_is_kept_by_user() -> None:
    by_session: TtlCache[str, int] = TtlCache()
    cache: TtlCache[str, int] = TtlCache(by_user=True)
    ada, again, bob, elsewhere, unknown = Session(), Session(), Session(), Session("other"), Session()
    for session, user in ((ada, "ada"), (again, "ada"), (bob, "bob"), (elsewhere, "ada")):
        belongs_to(session, user)
    for one in (by_session, cache):
        one.put(ada, "t", 1)
    assert [cache.get(one, "t", 30) for one in (ada, again, bob, elsewhere, unknown)] == [1, 1, None, None, None]
    assert by_session.get(again, "t", 30) is None
    cache.drop(again, "t")
    assert cache.get(ada, "t", 30) is None


def test_what_is_kept_by_user_outlives_a_session_but_not_all() -> None:
    cache: TtlCache[str, Session] = TtlCache(by_user=True)
    one, other, value = Session(), Session(), Session()
    belongs_to(one, "ada")
    belongs_to(other, "ada")
    cache.put(one, "t", value)
    gone = weakref.ref(value)
    del one, value
    gc.collect()
    assert cache.get(other, "t", 30) is gone() is not None
    del other
    gc.collect()
    assert gone() is None


def test_values_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("hive_bitmap.spark.session_cache.time.monotonic", lambda: now)
    cache: TtlCache[str, int] = TtlCache()
    session = Session()
    cache.put(session, "t", 1)
    now = 129.9
    assert cache.get(session, "t", 30) == 1
    assert cache.get(session, "t", 0) is None
    now = 130.0
    assert cache.get(session, "t", 30) is None
    cache.put(session, "t", 2)
    assert cache.get(session, "t", 30) == 2


def test_the_newest_keys_are_kept() -> None:
    cache: TtlCache[str, int] = TtlCache(most=2)
    session = Session()
    for number, key in enumerate("abac"):
        cache.put(session, key, number)
    assert [cache.get(session, key, 30) for key in "abc"] == [2, None, 3]


def test_drop_and_clear() -> None:
    cache: TtlCache[str, int] = TtlCache()
    session = Session()
    cache.drop(session, "t")
    for key in "tu":
        cache.put(session, key, 1)
    cache.drop(session, "t")
    assert [cache.get(session, key, 30) for key in "tu"] == [None, 1]
    clear(cache)
    assert cache.get(session, "u", 30) is None


def test_the_cache_does_not_keep_sessions_alive() -> None:
    cache: TtlCache[str, int] = TtlCache()
    session: Any = Session()
    cache.put(session, "t", 1)
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None


def test_what_was_looked_up_before_the_cache_was_cleared_is_not_kept() -> None:
    cache: TtlCache[str, int] = TtlCache()
    session = Session()
    version = cache.version
    clear(cache)
    cache.put(session, "t", 1, version)
    assert cache.get(session, "t", 30) is None
    cache.put(session, "t", 2, cache.version)
    assert cache.get(session, "t", 30) == 2


def test_all_caches_are_cleared_in_one_place() -> None:
    caches: list[TtlCache[str, int]] = [TtlCache(), TtlCache()]
    session = Session()
    for number, cache in enumerate(caches):
        cache.put(session, "t", number)
    assert [cache.get(session, "t", 30) for cache in caches] == [0, 1]
    clear(caches[0])
    assert [cache.get(session, "t", 30) for cache in caches] == [None, 1]
    versions = [cache.version for cache in caches]
    clear()
    assert [cache.get(session, "t", 30) for cache in caches] == [None, None]
    assert [cache.version for cache in caches] == [version + 1 for version in versions]
