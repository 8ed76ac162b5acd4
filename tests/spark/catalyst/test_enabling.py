"""Switching the rule on and off, by stand-ins for a session and the Bridge of its JVM; who answers what the JVM asks.

That the JVM then asks, and that a program waits at its end, is for test_extension.py and tests/spark/following.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst import enabling, index_statements
from hive_bitmap.spark.catalyst.enabling import Answers

CONNECT: Any = SimpleNamespace()  # has no session of a JVM


class Context(SimpleNamespace):
    """One that has not been stopped; a key of caches."""

    __hash__ = object.__hash__


class World:
    """A classic session, the Bridge of its JVM, and in `done` what was asked of them, in order."""

    def __init__(self, **told: Any) -> None:
        self.done: list[Any] = []
        self.told = {"isEnabled": True, "isAnsweredByDriver": False, "areWritesTold": True, **told}
        self.context: Any = Context(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
        conf = SimpleNamespace(
            unset=lambda name: self.done.append(("unset", name)), get=lambda name, default: told.get(name, "hive")
        )
        self.spark: Any = SimpleNamespace(_jsparkSession="session", sparkContext=self.context, conf=conf)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            self.done.append((name, *given))
            return self.told.get(name)

        return asked


@dataclass
class Refresher:
    """One whose refreshes have ended in time, or have not."""

    ended: bool = True
    interval: float = 5.0
    waited: list[float] = field(default_factory=list)

    @property
    def queue(self) -> Any:
        return SimpleNamespace(longest_interval=lambda: self.interval)

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return self.ended

    def written(self, spark: Any, text: str) -> str:
        return f"written {text} {spark.name}"


@pytest.fixture
def among(monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    """Make a world, and have the module reach it."""

    def made(refresher: Refresher | None = None, **told: Any) -> World:
        world = World(**told)
        answers = SimpleNamespace(serving=SimpleNamespace(refresher=refresher), was_enabled=False)
        monkeypatch.setattr(enabling, "bridge", lambda spark: world)
        monkeypatch.setattr(enabling, "_answers", lambda context: answers)
        monkeypatch.setattr(enabling.jvm_bridge, "open_port", lambda spark: world.done.append("port"))
        monkeypatch.setattr(enabling.catalog, "on_change", lambda listener: world.done.append(listener))
        monkeypatch.setattr(enabling, "_wait_at_exit", lambda context: world.done.append(("at exit", context)))
        world.told["answers"] = answers
        return world

    return made


def test_a_session_is_enabled_once_the_jvm_can_call(among: Callable[..., World]) -> None:
    world = among()
    enabling.enable(world.spark)
    assert world.done == [
        "port",
        ("enable", "session", world.told["answers"]),
        enabling._forget_indexed_columns,
        ("unset", "hive_bitmap.enabled"),  # or a `SET hive_bitmap.enabled=false` of before would hold
        ("at exit", world.context),
    ]


def test_a_session_without_hive_is_warned_of_once(
    among: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    world = among(**{"spark.sql.catalogImplementation": "in-memory"})
    for _ in range(2):
        enabling.enable(world.spark)
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING and "enableHiveSupport()" in warning.getMessage()


@pytest.mark.parametrize("here", [True, False])
def test_functions_of_python_take_over_from_another_process_only(among: Callable[..., World], here: bool) -> None:
    world = among(isAnsweredByDriver=here)
    enabling.enable_chosen(world.spark)
    taken = ["port", ("enableChosen", "session", world.told["answers"]), enabling._forget_indexed_columns]
    assert world.done == [("isAnsweredByDriver",), *([] if here else taken)]


def test_a_client_of_spark_connect(among: Callable[..., World]) -> None:
    world = among()
    with pytest.raises(Unsupported) as raised:
        enabling.enable(CONNECT)
    assert str(raised.value) == (
        "a Spark Connect client plans nothing: start the server with the jar that `hive-bitmap jar` names, "
        f"--conf spark.sql.extensions={enabling.EXTENSION}"
    )
    with pytest.raises(Unsupported, match="cannot see the refreshes of its server: look at SHOW INDEX"):
        enabling.refreshed(CONNECT)
    enabling.disable(CONNECT)
    enabling.wait_at_end(CONNECT)
    assert not enabling.is_enabled(CONNECT) and world.done == []


def test_switching_off(among: Callable[..., World]) -> None:
    world = among(isEnabled=False)
    enabling.disable(world.spark)
    assert enabling.is_enabled(world.spark) is False
    assert world.done == [("disable",), ("isEnabled",)]
    assert enabling.is_enabled(among(isEnabled=True).spark) is True


@pytest.mark.parametrize(
    ("enabled", "told", "ended", "timeout", "asked", "answer"),
    [
        (False, True, False, 7.0, [], True),  # there is nobody to wait for
        (True, True, True, 7.0, [7], True),
        (True, True, False, 0.2, [1], False),  # whole seconds: none would be not to wait at all
        (True, True, True, 0.0, [0], True),
        (True, False, True, 7.0, [7], False),
    ],
)
def test_waiting_for_refreshes(
    among: Callable[..., World],
    enabled: bool,
    told: bool,
    ended: bool,
    timeout: float,
    asked: list[int],
    answer: bool,
) -> None:
    refresher = Refresher(ended)
    world = among(refresher, isEnabled=enabled, areWritesTold=told)
    assert enabling.refreshed(world.spark, timeout) is answer
    assert [one[2] for one in world.done if one[0] == "areWritesTold"] == asked
    assert refresher.waited == ([timeout] if enabled and told else [])


@pytest.mark.parametrize(("interval", "waited"), [(0.0, 0.0), (5.0, 5.0), (3600.0, 60.0)])
def test_the_end_of_a_program_waits_no_longer_than_the_interval_and_a_minute(
    among: Callable[..., World], interval: float, waited: float
) -> None:
    refresher = Refresher(interval=interval)
    world = among(refresher)
    enabling.wait_at_end(world.spark)
    assert refresher.waited == [waited]
    assert world.done == [("isEnabled",), ("areWritesTold", "session", 10)]
    enabling.wait_at_end(among(refresher, isEnabled=False).spark)
    assert refresher.waited == [waited]


@pytest.mark.parametrize(
    ("error", "level", "message"),
    [
        (None, logging.DEBUG, ""),
        (RuntimeError("no JVM"), logging.DEBUG, "did not wait for refreshes: no JVM"),
        (
            KeyboardInterrupt(),
            logging.INFO,
            "interrupted: queued refreshes are left to the next query that finds their files",
        ),
    ],
)
def test_the_end_of_a_program_does_not_fail(
    among: Callable[..., World],
    error: BaseException | None,
    level: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    waited: list[Any] = []

    def wait(spark: Any) -> None:
        waited.append(spark)
        if error is not None:
            raise error

    monkeypatch.setattr(enabling, "wait_at_end", wait)
    monkeypatch.setattr("pyspark.sql.SparkSession", lambda context: context)
    world = among()
    with caplog.at_level(logging.DEBUG, enabling.__name__):
        enabling._wait_if_running(world.context)
    assert waited == [world.context]
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == ([(level, message)] if message else [])
    stopped: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True)))
    for ended in (stopped, SimpleNamespace(_jsc=None)):
        enabling._wait_if_running(ended)
    assert len(waited) == 1


@pytest.mark.parametrize("active", ["classic", "connect", None])
def test_the_jvm_forgets_what_is_indexed_when_an_index_changes(
    among: Callable[..., World], active: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = among()
    sessions = {"classic": world.spark, "connect": CONNECT, None: None}
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(getActiveSession=lambda: sessions[active]))
    enabling._forget_indexed_columns()
    assert world.done == ([("forgetIndexed",)] if active == "classic" else [])


@dataclass(frozen=True)
class Session:
    """One of the JVM."""

    name: str

    def sessionUUID(self) -> str:  # noqa: N802 - as in Java
        return self.name


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Those of a process whose parts tell what they were given, and by which session of Python."""
    context: Any = "context"
    made = Answers(context)
    serving: Any = SimpleNamespace(
        answer=lambda spark, asked: f"planned {asked.text()} {spark.name}",
        execute=lambda spark, asked: f"executed {asked.text()} {spark.name}",
        refresher=Refresher(),
    )
    monkeypatch.setattr(made, "serving", serving)
    monkeypatch.setattr(index_statements, "answer", lambda spark, kind, text: f"statement {kind} {text} {spark.name}")
    monkeypatch.setattr(
        "pyspark.sql.SparkSession", lambda given, session: SimpleNamespace(context=given, name=session.name)
    )
    return made


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("plan", "planned t s"),
        ("execute", "executed t s"),
        ("written", "written t s"),
        ("parse", "statement parse t s"),
        ("run", "statement run t s"),
    ],
)
def test_who_answers_what_the_jvm_asks(answers: Answers, kind: str, told: str) -> None:
    asked = SimpleNamespace(kind=lambda: kind, text=lambda: "t")
    assert answers.apply(Session("s"), asked) == told


def test_a_session_of_the_jvm_is_always_the_same_one(answers: Answers) -> None:
    first, other = answers._session(Session("a")), answers._session(Session("b"))
    assert answers._session(Session("a")) is first is not other
    assert first.context == "context"  # type: ignore[attr-defined]


def test_the_sessions_that_were_not_used_for_long_are_forgotten(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, left = answers._session(Session("kept")), answers._session(Session("left"))
    for number in range(enabling.MAX_SESSIONS - 1):
        answers._session(Session(str(number)))
        assert answers._session(Session("kept")) is kept
    assert answers._session(Session("left")) is not left


def test_threads_that_ask_for_a_session_at_once_get_one(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    both = Barrier(2)

    def make(context: Any, session: Session) -> Any:
        both.wait(timeout=10)  # each thread has found that there is none
        return SimpleNamespace()

    monkeypatch.setattr("pyspark.sql.SparkSession", make)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(answers._session, [Session("s")] * 2)
    assert one is other
