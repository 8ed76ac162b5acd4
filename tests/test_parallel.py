from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from hive_bitmap.parallel import ahead

_asked: ContextVar[str] = ContextVar("_asked", default="nobody")


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_results_come_in_the_order_of_the_items(most: int) -> None:
    assert list(ahead(lambda n: n * n, range(50), most)) == [n * n for n in range(50)]
    assert list(ahead(lambda n: n * n, [], most)) == []


def test_the_next_items_are_worked_on_while_one_is_used() -> None:
    together = threading.Barrier(3, timeout=60)
    assert list(ahead(lambda _: together.wait() >= 0, range(6), 3)) == [True] * 6


def test_no_more_than_so_many_are_begun_before_they_are_used() -> None:
    begun: list[int] = []
    found = ahead(lambda n: begun.append(n) or n, range(100), 4)
    for used, result in enumerate(found, 1):
        assert result == used - 1
        assert len(begun) <= used + 4


def test_without_a_second_one_no_thread_is_made() -> None:
    here = threading.get_ident()
    assert set(ahead(lambda _: threading.get_ident(), range(3), 1)) == {here}


def test_an_error_ends_it() -> None:
    def fail(n: int) -> int:
        if n == 2:
            raise FileNotFoundError("2")
        return n

    found = ahead(fail, range(100), 3)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(FileNotFoundError, match="2"):
        next(found)


def test_threads_see_the_context_of_who_asks() -> None:
    token = _asked.set("me")
    try:
        assert list(ahead(lambda _: _asked.get(), range(3), 2)) == ["me"] * 3
    finally:
        _asked.reset(token)
