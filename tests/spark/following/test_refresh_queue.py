"""The queue of refreshes, in its own thread, with refreshes that do nothing but tell that they ran."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event

import pytest

from hive_bitmap.spark.following.refresh_queue import Outcome, RefreshKey, RefreshQueue, RefreshRequest

SECONDS = 60.0  # a test that waits so long has failed


def wanted(table: str, *partitions: str, interval: float = 0.0) -> RefreshRequest:
    return RefreshRequest(
        key=RefreshKey("db", table, interval), partitions=frozenset((("p", one),) for one in partitions), session=None
    )


class Refreshes:
    """Refreshes that are recorded; the first one waits for `go`, and all do what `does` says."""

    def __init__(self, does: Callable[[RefreshRequest], Outcome] = lambda wanted: Outcome.CHANGED) -> None:
        self.ran: list[RefreshRequest] = []
        self.began, self.go = Event(), Event()
        self._does = does

    def __call__(self, wanted: RefreshRequest) -> Outcome:
        self.ran.append(wanted)
        self.began.set()
        assert self.go.wait(SECONDS)
        return self._does(wanted)


def test_what_is_wanted_while_a_refresh_runs_is_one_refresh() -> None:
    refreshes = Refreshes()
    queue = RefreshQueue(refreshes)
    assert queue.wait(0) and queue.longest_interval() == 0
    assert queue.want(wanted("t", "1"))
    assert refreshes.began.wait(SECONDS)
    for partition in "2345":
        queue.want(wanted("t", partition))
    assert queue.is_wanted(RefreshKey("db", "t", 0.0)) and not queue.wait(0)
    refreshes.go.set()
    assert queue.wait(SECONDS)
    assert [sorted(one.partitions or ()) for one in refreshes.ran] == [
        [(("p", "1"),)],
        [(("p", two),) for two in "2345"],
    ]
    assert not queue.is_wanted(RefreshKey("db", "t", 0.0))


def test_a_refresh_within_the_interval_waits_and_others_do_not() -> None:
    refreshes = Refreshes()
    refreshes.go.set()
    queue = RefreshQueue(refreshes, clock=lambda: 1000.0)  # a clock that stands still
    for times in (1, 2):
        queue.want(wanted("rarely", "1", interval=50.0))
        queue.want(wanted("often", "1"))
        while [one.key.table for one in refreshes.ran].count("often") < times:
            time.sleep(0.01)
    assert [one.key.table for one in refreshes.ran].count("rarely") == 1
    assert queue.is_wanted(RefreshKey("db", "rarely", 50.0)) and queue.longest_interval() == 50.0


def test_a_failure_is_logged_once_stays_wanted_and_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    def fail(one: RefreshRequest) -> Outcome:
        if one.key.table == "bad":
            raise OSError("the store says no")
        return Outcome.CHANGED

    refreshes = Refreshes(fail)
    refreshes.go.set()
    now = [0.0]
    queue = RefreshQueue(refreshes, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        queue.want(wanted("bad", "1"))
        assert queue.wait(SECONDS) and queue.is_wanted(RefreshKey("db", "bad", 0.0))
        now[0] = 61.0  # the pause is over
        queue.want(wanted("good", "1"))  # wakes the thread
        while [one.key.table for one in refreshes.ran].count("bad") < 2:
            assert queue.want(wanted("good", "1"))
        assert queue.wait(SECONDS)
    assert {one.key.table for one in refreshes.ran} == {"bad", "good"}
    [said] = [record.getMessage() for record in caplog.records]
    assert said == (
        "refreshing the indexes of db.bad failed; it is tried again after 60 seconds, then less often: "
        "the store says no"
    )


def test_there_are_no_more_tables_than_the_queue_is_bounded_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.spark.following.refresh_queue.MOST_TABLES", 1)
    refreshes = Refreshes()
    queue = RefreshQueue(refreshes)
    assert queue.want(wanted("t", "1")) and not queue.want(wanted("u", "1"))
    refreshes.go.set()
    assert queue.want(wanted("t", "2")) and queue.wait(SECONDS)


def test_tables_that_rest_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.spark.following.refresh_queue.MOST_TABLES", 1)
    now = [0.0]
    refreshes = Refreshes()
    refreshes.go.set()
    queue = RefreshQueue(refreshes, lambda: now[0])
    assert queue.want(wanted("t", "1", interval=50.0)) and queue.wait(SECONDS)
    assert not queue.want(wanted("u", "1"))  # the table's next refresh has to wait for its interval
    now[0] += 50.0
    assert queue.want(wanted("u", "1")) and queue.wait(SECONDS)
    assert [one.key.table for one in refreshes.ran] == ["t", "u"]


def test_however_long_the_interval_is_others_have_their_turn() -> None:
    refreshes = Refreshes()
    refreshes.go.set()
    queue = RefreshQueue(refreshes)
    long = wanted("t", "1", interval=1e11)  # Python cannot wait for that long
    assert queue.want(long) and queue.wait(SECONDS) and queue.want(long)
    time.sleep(0.1)
    assert queue.want(wanted("u", "1"))
    while [one.key.table for one in refreshes.ran] != ["t", "u"]:
        time.sleep(0.01)
    assert not queue.wait(0.1) and queue.is_wanted(long.key)


def test_a_queue_that_is_idle_has_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.spark.following.refresh_queue.IDLE_SECONDS", 0.01)
    refreshes = Refreshes()
    refreshes.go.set()
    queue = RefreshQueue(refreshes)
    for number in (1, 2):
        queue.want(wanted("t", "1"))
        assert queue.wait(SECONDS) and len(refreshes.ran) == number
        while queue._thread is not None:
            time.sleep(0.01)
