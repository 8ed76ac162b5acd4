from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from hive_bitmap.session_cache import TtlCache


class Session:
    """Anything that can be told from others of its kind."""


def test_what_a_session_was_told_is_its_own() -> None:
    recent: TtlCache[str, int] = TtlCache()
    one, other = Session(), Session()
    recent.keep(one, "t", 1)
    assert recent.get(one, "t", 30) == 1
    assert recent.get(other, "t", 30) is None
    assert recent.get(one, "u", 30) is None


def test_it_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("hive_bitmap.session_cache.time.monotonic", lambda: now)
    recent: TtlCache[str, int] = TtlCache()
    session = Session()
    recent.keep(session, "t", 1)
    now = 129.9
    assert recent.get(session, "t", 30) == 1
    assert recent.get(session, "t", 0) is None
    now = 130.0
    assert recent.get(session, "t", 30) is None
    recent.keep(session, "t", 2)
    assert recent.get(session, "t", 30) == 2


def test_the_newest_keys_are_kept() -> None:
    recent: TtlCache[str, int] = TtlCache(most=2)
    session = Session()
    for number, key in enumerate("abac"):
        recent.keep(session, key, number)
    assert [recent.get(session, key, 30) for key in "abc"] == [2, None, 3]


def test_dropped_and_cleared() -> None:
    recent: TtlCache[str, int] = TtlCache()
    session = Session()
    recent.drop(session, "t")
    for key in "tu":
        recent.keep(session, key, 1)
    recent.drop(session, "t")
    assert [recent.get(session, key, 30) for key in "tu"] == [None, 1]
    recent.clear()
    assert recent.get(session, "u", 30) is None


def test_a_session_that_ended_is_not_held() -> None:
    recent: TtlCache[str, int] = TtlCache()
    session: Any = Session()
    recent.keep(session, "t", 1)
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
