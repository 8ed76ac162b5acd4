"""When a refresh may begin, and what two that are wanted come to."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.spark.following.refresh_queue import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_PARTITIONS,
    MOST_UNSETTLED,
    Outcome,
    RefreshKey,
    RefreshRequest,
    State,
)

KEY = RefreshKey("db", "t", 30.0)
ONE, TWO = (("p", "1"),), (("p", "2"),)
BY_WRITE = RefreshRequest(key=KEY, partitions=frozenset([ONE]), session="first")
BY_QUERY = RefreshRequest(key=KEY, partitions=frozenset([TWO]), session="second", by_query=True)


def ended(outcome: Outcome | None, wanted: RefreshRequest = BY_WRITE, times: int = 1, at: float = 100.0) -> State:
    state = State()
    for _ in range(times):
        state = state.after(wanted, outcome, at)
    return state


def test_the_first_refresh_is_due_at_once_and_the_next_after_the_interval() -> None:
    assert State().due == float("inf")
    assert State().wanting(BY_WRITE).due == float("-inf")
    assert ended(Outcome.CHANGED).wanting(BY_WRITE).due == 130.0


def test_a_refresh_in_vain_makes_queries_wait_longer_and_writes_not() -> None:
    vain = [ended(Outcome.IN_VAIN, BY_QUERY, times).wanting(BY_QUERY).due - 100.0 for times in (1, 2, 3, 20)]
    assert vain == [60.0, 120.0, 240.0, LONGEST_PAUSE]
    assert ended(Outcome.IN_VAIN, BY_QUERY, 3).wanting(BY_WRITE).due == 130.0
    assert ended(Outcome.IN_VAIN, BY_QUERY, 3).wanting(BY_QUERY).wanting(BY_WRITE).due == 130.0
    assert ended(Outcome.IN_VAIN, BY_WRITE, 3).wanting(BY_QUERY).due == 130.0


def test_what_fails_stays_wanted_and_waits_longer_each_time() -> None:
    pauses = [ended(None, times=times).due - 100.0 for times in (1, 2, 3, 30, 3000)]
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert ended(None, times=5).after(BY_WRITE, Outcome.CHANGED, 200.0).wanting(BY_WRITE).due == 230.0


def test_what_was_too_early_is_tried_after_the_interval() -> None:
    early = ended(Outcome.TOO_EARLY)
    assert early.request == BY_WRITE and early.due == 130.0 and early.failures == 0


def test_what_is_not_settled_is_tried_a_few_times() -> None:
    """Two processes that publish the same partition by turns may both end without the other's files."""
    state, times = State().wanting(BY_WRITE), 0
    while state.request is not None:
        state, times = replace(state, request=None).after(state.request, Outcome.UNSETTLED, 100.0), times + 1
        assert state.due == (130.0 if times < MOST_UNSETTLED else float("inf"))
    assert times == MOST_UNSETTLED
    again = state.after(BY_WRITE, Outcome.CHANGED, 100.0).after(BY_WRITE, Outcome.UNSETTLED, 100.0)
    assert again.request == BY_WRITE


def test_what_is_wanted_during_a_refresh_stays_wanted() -> None:
    for outcome in (*Outcome, None):
        after = State().wanting(BY_QUERY).after(BY_WRITE, outcome, 100.0)
        again = outcome in (None, Outcome.TOO_EARLY, Outcome.UNSETTLED)
        assert after.request is not None and after.request.session == "second"
        assert after.request.partitions == (frozenset([ONE, TWO]) if again else frozenset([TWO]))


@given(st.lists(st.none() | st.frozensets(st.integers(0, 3 * MOST_PARTITIONS), max_size=MOST_PARTITIONS), min_size=1))
def test_joined_refreshes_cover_all_partitions(several: list[frozenset[int] | None]) -> None:
    wanted = [
        replace(BY_WRITE, partitions=None if some is None else frozenset((("p", str(one)),) for one in some))
        for some in several
    ]
    state = State()
    for one in wanted:
        state = state.wanting(one)
    assert state.request is not None
    found = state.request.partitions
    if found is None:
        assert None in several or len({one for some in several if some for one in some}) > MOST_PARTITIONS
    else:
        assert found == {one for one in wanted for one in one.partitions or ()} and len(found) <= MOST_PARTITIONS
