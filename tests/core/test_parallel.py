from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from hive_bitmap.core.parallel import prefetched

_caller: ContextVar[str] = ContextVar("_caller", default="nobody")


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_results_come_in_the_order_of_the_items(most: int) -> None:
    assert list(prefetched(lambda n: n * n, range(50), most)) == [n * n for n in range(50)]
    assert list(prefetched(lambda n: n * n, [], most)) == []


def test_results_are_computed_ahead_in_parallel() -> None:
    together = threading.Barrier(3, timeout=60)
    assert list(prefetched(lambda _: together.wait() >= 0, range(6), 3)) == [True] * 6


def test_the_number_of_pending_results_is_limited() -> None:
    begun: list[int] = []
    found = prefetched(lambda n: begun.append(n) or n, range(100), 4)
    for used, result in enumerate(found, 1):
        assert result == used - 1
        assert len(begun) <= used + 4


def test_with_a_limit_of_one_no_thread_is_started() -> None:
    here = threading.get_ident()
    assert set(prefetched(lambda _: threading.get_ident(), range(3), 1)) == {here}


def test_an_error_is_raised() -> None:
    def fail(n: int) -> int:
        if n == 2:
            raise FileNotFoundError("2")
        return n

    found = prefetched(fail, range(100), 3)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(FileNotFoundError, match="2"):
        next(found)


def test_threads_have_the_context_of_the_caller() -> None:
    token = _caller.set("me")
    try:
        assert list(prefetched(lambda _: _caller.get(), range(3), 2)) == ["me"] * 3
    finally:
        _caller.reset(token)
