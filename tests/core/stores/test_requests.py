"""Requests are counted by kind, added up over processes, and told in a line."""

from __future__ import annotations

from collections import Counter
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.stores import requests
from hive_bitmap.core.stores.requests import LIST, READ, STATUS, WRITE, Requests

COUNTS = st.dictionaries(st.sampled_from([LIST, READ, STATUS, WRITE]), st.integers(1, 9))
REQUESTS = st.builds(Requests, COUNTS, st.integers(0, 10**9), st.integers(0, 10**9))


@given(REQUESTS, REQUESTS)
def test_what_is_added_can_be_taken_away(one: Requests, more: Requests) -> None:
    total = one + more
    assert Counter(total.by_kind) == Counter(one.by_kind) + Counter(more.by_kind)
    assert total.total == one.total + more.total
    assert (total.bytes_read, total.bytes_written) == (
        one.bytes_read + more.bytes_read,
        one.bytes_written + more.bytes_written,
    )
    assert total - one == more and total - total == Requests()
    assert one + Requests() == one


@pytest.mark.parametrize(
    ("counted", "text"),
    [
        (Requests(), "0 requests"),
        (Requests({"read": 3, "list": 1}), "4 requests (1 list, 3 read)"),
        (Requests({"read": 1}, 2_040_000, 960_000), "1 requests (1 read), 2.0 MB read, 1.0 MB written"),
        (Requests({}, 0, 10**9), "0 requests, 1000.0 MB written"),
    ],
)
def test_they_are_told_in_a_line(counted: Requests, text: str) -> None:
    assert str(counted) == text


def test_what_is_measured_is_what_happened_inside_the_block_in_all_threads() -> None:
    def send() -> None:
        for _ in range(1000):
            requests.count(READ)
            requests.count_bytes(3, 1)

    requests.count(LIST)
    before = requests.so_far()
    with requests.measured() as found:
        threads = [Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        requests.add(Requests({STATUS: 2}, 5))  # of a task
        assert found.requests == Requests()  # it is known when the block ends
    assert found.requests == Requests({READ: 4000, STATUS: 2}, 12_005, 4000)
    assert requests.so_far() == before + found.requests


def test_what_is_measured_is_known_also_after_an_error() -> None:
    with pytest.raises(KeyError), requests.measured() as found:
        requests.count(WRITE)
        raise KeyError
    assert found.requests == Requests({WRITE: 1})
