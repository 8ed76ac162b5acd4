"""How questions of the JVM are answered and what is kept of the answers, without a JVM: stand-ins give its JSON.

That the rule sends such questions and takes such replies is for test_protocol.py, with Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pyarrow as pa
import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.planning.learnt_prices import ENOUGH, Factors, LearntPrices
from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA, Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, HiveBitmapError, ServerError, StoreError
from hive_bitmap.spark.catalyst import driver_rows, execution, question, serving
from hive_bitmap.spark.catalyst.decision import (
    LEFT_ALONE,
    NARROWED,
    Counts,
    Decision,
    FetchPart,
    FramePart,
    LeaveAlone,
    ReadChoices,
    ReadRows,
    Report,
    SparkPart,
)
from hive_bitmap.spark.catalyst.question import Question
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.catalyst.serving import Serving
from hive_bitmap.spark.jvm_bridge import PROTOCOL
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.reading.file_set import FileSet
from hive_bitmap.spark.registry.catalog import Index

TEXT = (Path(__file__).parent / "protocol" / "question.json").read_text()
TEXT = TEXT.replace("<bytes> <files> <digest> <split bytes>", "10 1 digest 0")


class _Session:
    sparkContext = SimpleNamespace(applicationId="app")  # noqa: N815 - as in PySpark


NOBODY: Any = _Session()
TABLE = Table(
    database="d",
    name="events",
    kind="MANAGED",
    provider="parquet",
    columns=(Column("k", "int"), Column("s", "string"), Column("id", "bigint")),
    location="file:/w/events",
)
NO_RESULTS = LookupResults(partitions=(), lookups=(), results=(), whole_files=(), deleted=0)
UNINDEXED = replace(NO_RESULTS, whole_files=(WholeFile(0, FileStatus("/w", 5, 1, ""), Freshness.UNINDEXED, ""),))
PLAN = Plan(table="d.events", predicate="k = 3", strategy=Strategy.BLOCKS, reason="because", candidates=NO_RESULTS)
WHOLE = replace(PLAN, candidates=UNINDEXED)


def index(name: str, *columns: int, follows: bool = False) -> Index:
    of = tuple(TABLE.columns[number] for number in columns)
    return Index(
        definition=Definition(name=name, database="d", table="events", columns=of, auto_refresh=follows), table=TABLE
    )


class JvmQuestion:
    """What Question.java and Execution.java let Python ask, and what they were asked."""

    def __init__(self, fields: Mapping[str, Any], late: bool = False) -> None:
        self._fields, self._late = fields, late
        self.asked: list[Any] = []
        self.frames: dict[tuple[int, int], Any] = {}
        self.added: list[Any] = []

    def text(self) -> str:
        return json.dumps(self._fields)

    def isLate(self) -> bool:  # noqa: N802 - as in Java
        return self._late

    def settings(self) -> None:
        self.asked.append("settings")

    def table(self, number: int) -> int:
        self.asked.append(("table", number))
        return number

    def rows(self, number: int, part: int, frame: Any) -> None:
        self.frames[number, part] = frame

    def listingSummary(self, number: int) -> str | None:  # noqa: N802
        self.asked.append(("listing summary", number))
        return None if number == 0 else "10 1 abc 0"

    def listing(self, number: int) -> Any:
        self.asked.append(("listing", number))
        return SimpleNamespace(length=lambda: 0, substring=lambda start, end: "")

    def readFirst(self, number: int, filter: int) -> str | None:  # noqa: N802
        self.asked.append(("read first", number, filter))
        return None if filter == 0 else '["in", "k", "1"]'

    def deleted(self, number: int, files: str) -> Any:
        self.asked.append(("deleted", number, files))
        return SimpleNamespace(length=lambda: 6, substring=lambda start, end: "[null]")

    def add(self, *sent: Any) -> None:
        self.added.append(sent)


def fields(**changed: Any) -> dict[str, Any]:
    """Those of protocol/question.json, with one scan, of which `changed` are other fields."""
    found = json.loads(TEXT)
    return {**found, "scans": [{**found["scans"][0], **changed}]}


@dataclass
class World:
    """A JVM and its catalog: `decided` is what is decided on each scan, or raised."""

    monkeypatch: pytest.MonkeyPatch
    conf: dict[str, str] = field(default_factory=dict)
    indexes: list[Index] = field(default_factory=lambda: [index("by_k", 0), index("by_k_s", 0, 1)])
    decided: Decision | Exception | Callable[[Question], Decision] | None = None
    tables: list[ResolvedTable] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    serving: Serving = field(default_factory=Serving)

    def __post_init__(self) -> None:
        give = self.monkeypatch.setattr
        give(serving.jvm_settings, "of_map", lambda spark, found: self.conf)
        give(serving.metastore, "table_of", lambda spark, number: TABLE)
        give(serving.catalog, "indexes_on", self._indexes_on)
        give(serving, "decide", self._decide)
        give(question, "parse", lambda text: ScanListing(()))
        give(serving.catalog, "segments", lambda spark, index, seconds: self.segments)

    def _indexes_on(self, spark: Any, base: Table, seconds: float) -> list[Index]:
        return self.indexes

    def _decide(self, asked: Question, table: ResolvedTable) -> Decision:
        self.tables.append(table)
        if isinstance(self.decided, Exception):
            raise self.decided
        if callable(self.decided):
            return self.decided(asked)
        return self.decided or LeaveAlone(report=Report.of(asked.scan, LEFT_ALONE, Reason.NO_INDEX, "none"))

    def reply(self, asked: JvmQuestion) -> list[dict[str, Any]]:
        text = self.serving.answer(NOBODY, asked)
        assert text is not None
        told = json.loads(text)
        assert told.keys() == {"protocol", "prices", "scans"} and told["protocol"] == PROTOCOL
        return list(told["scans"])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def report(**given: Any) -> Report:
    return Report(table="d.events", action=NARROWED, detail="because", **given)


def test_the_question_of_the_protocol_has_a_reply_for_each_scan(world: World) -> None:
    told = world.reply(JvmQuestion(json.loads(TEXT)))
    assert [(one["decision"], one["report"]["table"]) for one in told] == [
        ("leave alone", "d.events"),
        ("leave alone", "d.users"),
    ]
    assert [one.base for one in world.tables] == [TABLE, TABLE]


def test_what_is_kept_under_a_version_is_asked_for_once(world: World) -> None:
    for changed, wanted in (
        ({}, ["settings", ("table", 0)]),
        ({}, []),
        ({"version": "2"}, [("table", 0)]),
        ({"version": "2"}, []),
    ):
        asked = JvmQuestion(fields(**SHARED, **changed))
        world.reply(asked)
        assert asked.asked == wanted
    for name in ("session", "settings"):  # the settings of another session, or others of this one
        asked = JvmQuestion({**fields(**SHARED), name: "other"})
        world.reply(asked)
        assert asked.asked == ["settings"]


def test_the_columns_of_all_indexes_are_told_until_the_jvm_knows_them(world: World) -> None:
    [told] = world.reply(JvmQuestion(fields(indexed_known=False)))
    assert told["indexed_columns"] == ["k", "s"]
    [told] = world.reply(JvmQuestion(fields(indexed_known=True)))
    assert "indexed_columns" not in told
    world.indexes = []
    [told] = world.reply(JvmQuestion(fields(indexed_known=False)))
    assert told["indexed_columns"] == []  # so that it need not ask again


def test_the_columns_are_told_of_a_scan_on_which_nothing_can_be_decided(world: World) -> None:
    world.decided = CorruptIndex("a shard is damaged")
    [told] = world.reply(JvmQuestion(fields(indexed_known=False)))
    assert told["indexed_columns"] == ["k", "s"]
    assert (told["report"]["reason"], told["report"]["detail"]) == ("error", "a shard is damaged")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreError("s3a://b does not answer"), "store"),
        (CorruptIndex("a shard is damaged"), "error"),
        (ServerError("the metastore fails"), "error"),
    ],
)
@pytest.mark.parametrize("strict", ["false", "true"])
def test_a_scan_that_fails_is_left_alone_unless_the_session_is_strict(
    world: World, error: HiveBitmapError, reason: str, strict: str
) -> None:
    world.conf, world.decided = {"hive_bitmap.strict": strict}, error
    asked = JvmQuestion(fields())
    if strict == "true" and reason == "error":
        with pytest.raises(type(error)) as raised:
            world.serving.answer(NOBODY, asked)
        assert raised.value is error
        return
    [told] = world.reply(asked)
    assert (told["decision"], told["lasting"]) == ("leave alone", "")  # it may be over soon
    assert told["report"]["reason"] == reason and told["report"]["detail"] == str(error)
    assert "plan" not in told["report"]


def test_one_scan_that_fails_does_not_take_the_others_with_it(world: World) -> None:
    def decided(asked: Question) -> Decision:
        if asked.scan.number == 0:
            raise CorruptIndex("damaged")
        return ReadChoices(report=report(), choices="x")

    world.decided = decided
    assert [one["decision"] for one in world.reply(JvmQuestion(json.loads(TEXT)))] == ["leave alone", "read choices"]


def test_a_bug_is_not_hidden_and_not_told_to_a_jvm_that_waits_no_longer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.decided = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        world.serving.answer(NOBODY, JvmQuestion(fields()))
    with caplog.at_level(logging.INFO, serving.__name__):
        assert world.serving.answer(NOBODY, JvmQuestion(fields(), late=True)) is None
    assert caplog.messages == ["planning was late, and its jobs were cancelled"]


@pytest.mark.parametrize("theirs", [None, PROTOCOL - 1, str(PROTOCOL)])
def test_a_jar_of_another_protocol_has_all_scans_left_alone(
    world: World, theirs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but their names is read of the scans, and nothing at all is asked."""
    other = {"protocol": theirs, "scans": [{"database": "d", "table": "t"}, {"database": "e", "table": "u"}]}
    asked = JvmQuestion(other)
    for _ in range(2):
        told = world.reply(asked)
    assert [(one["decision"], one["report"]["table"], one["report"]["reason"]) for one in told] == [
        ("leave alone", "d.t", "unsupported"),
        ("leave alone", "e.u", "unsupported"),
    ]
    assert asked.asked == [] and len(caplog.messages) == 1
    assert told[0]["report"]["detail"] in caplog.messages[0]
    assert "start Spark with the jar that `hive-bitmap jar` prints" in caplog.messages[0]


def test_settings_that_are_none_are_logged_once(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_WARNINGS", 2)
    for session, names in enumerate((["enbled"], ["enbled", "stategy"], ["another"])):
        world.conf = {f"hive_bitmap.{name}": "x" for name in names}
        world.reply(JvmQuestion({**fields(), "session": str(session)}))
    assert [message.split(";")[0] for message in caplog.messages] == [
        "hive_bitmap has no setting hive_bitmap.enbled",
        "hive_bitmap has no setting hive_bitmap.stategy",
    ]


def test_rows_of_ours_are_given_to_the_jvm_as_a_frame(world: World) -> None:
    frame: Any = SimpleNamespace(_jdf="of the JVM")
    world.decided = ReadRows(report=report(), parts=(FramePart(frame),), size=7)
    asked = JvmQuestion(fields())
    [told] = world.reply(asked)
    assert (told["decision"], told["bytes"], asked.frames) == ("read rows", 7, {(0, 0): "of the JVM"})


def test_decisions_are_kept_under_ids_that_no_other_process_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.decided = ReadChoices(report=report(plan=PLAN), choices="")
    ids = [world.reply(JvmQuestion(fields()))[0]["id"] for _ in range(2)]
    ids += [World(monkeypatch, decided=world.decided).reply(JvmQuestion(fields()))[0]["id"]]
    assert len(set(ids)) == 3
    kept = world.serving.decisions.get(ids[0])
    assert kept is not None and kept.report.plan == replace(PLAN, candidates=None)
    assert world.serving.decisions.get(ids[2]) is None
    [told] = world.reply(JvmQuestion(fields(must_pay=False)))  # a function asks, which is told what was found
    kept = world.serving.decisions.get(told["report"]["id"])
    assert kept is not None and kept.report.plan is not None and kept.report.plan.candidates is NO_RESULTS


SHARED = {
    "listing_summary": "5 2 digest 0",
    "runtime_filters": [],
    "expressions": ["a version"],
    "tree": ["expression", "k", 0, "(k % 2) = 1"],
}


@pytest.mark.parametrize(
    ("decided", "changed", "seconds", "again"),
    [
        ("counts", {}, 10_000, False),
        ("choices", {}, 10, False),
        ("choices", {}, 70, True),  # its price may be another by now
        ("counts", {"condition": "k > 9"}, 0, True),
        ("counts", {"listing_summary": "5 2 other 0"}, 0, True),
        ("counts", {"version": "2"}, 0, True),
        ("counts", {"limit": 5}, 0, True),
        ("counts", {"expressions": ["another version"]}, 0, True),
        ("left alone", {}, 0, True),  # the JVM keeps that
        ("rows of tasks", {}, 0, True),
        ("unindexed files", {}, 0, True),
    ],
)
def test_a_question_that_was_asked_before_gets_the_same_decision(
    world: World, monkeypatch: pytest.MonkeyPatch, decided: str, changed: dict[str, Any], seconds: float, again: bool
) -> None:
    frame: Any = SimpleNamespace(_jdf="of the JVM")
    world.decided = {
        "counts": counted(1),
        "choices": ReadChoices(report=report(plan=PLAN), choices=""),
        "left alone": LeaveAlone(report=report(plan=PLAN)),
        "rows of tasks": ReadRows(report=report(plan=PLAN), parts=(FramePart(frame),), size=7),
        "unindexed files": ReadChoices(report=report(plan=WHOLE), choices=""),
    }[decided]
    monkeypatch.setattr(world.serving.refresher, "seen", lambda *given: "")
    [first] = world.reply(JvmQuestion(fields(**SHARED)))
    now = serving.time.monotonic()
    monkeypatch.setattr(serving.time, "monotonic", lambda: now + seconds)
    [second] = world.reply(JvmQuestion(fields(**{**SHARED, **changed})))
    assert len(world.tables) == (2 if again else 1) and (first["id"] != second["id"]) is again


@pytest.mark.parametrize("changed", ["segments", "an index", "user", "settings"])
def test_a_decision_ends_with_what_it_depends_on(world: World, changed: str) -> None:
    world.decided = counted(1)
    [first] = world.reply(JvmQuestion(fields(**SHARED)))
    asked = fields(**SHARED)
    if changed == "segments":
        world.segments = ["file:/new"]
    elif changed == "an index":
        world.indexes = world.indexes[:1]
    else:
        asked[changed] = "another"
    [second] = world.reply(JvmQuestion(asked))
    assert first["id"] != second["id"]


@pytest.mark.parametrize(
    "depends",
    [
        {"runtime_filters": [{"column": "k", "bytes": 9}]},
        {"must_pay": False},
    ],
)
def test_what_depends_on_more_than_the_question_is_decided_anew(world: World, depends: dict[str, Any]) -> None:
    world.decided = counted(1)
    asked = fields(**{**SHARED, **depends})
    assert world.reply(JvmQuestion(asked))[0]["id"] != world.reply(JvmQuestion(asked))[0]["id"]


@pytest.mark.parametrize("lists", [True, False])
def test_a_decision_is_shared_if_spark_lists_the_files(
    world: World, monkeypatch: pytest.MonkeyPatch, lists: bool
) -> None:
    """Spark lists the files of a partitioned table only when it is asked, and those of a SerDe table never."""
    summaries = iter(["5 2 one 0", "5 2 one 0", "5 2 another 0"] if lists else [None] * 3)
    monkeypatch.setattr(JvmQuestion, "listingSummary", lambda *given: next(summaries))
    world.decided = counted(1)
    asked = fields(**{name: value for name, value in SHARED.items() if name != "listing_summary"})
    first, second, third = (world.reply(JvmQuestion(asked))[0]["id"] for _ in range(3))
    assert (first == second) is lists and second != third


def test_a_decision_ends_with_its_listing(world: World) -> None:
    def decided(asked: Question) -> Decision:
        listing = asked.listing
        assert listing is not None
        return replace(counted(1), listing=ref(listing))

    world.decided = decided
    ids = [world.reply(JvmQuestion(fields(**SHARED)))[0]["id"] for _ in range(2)]
    BUDGET.clear("listings")
    ids += [world.reply(JvmQuestion(fields(**SHARED)))[0]["id"] for _ in range(2)]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_no_files_are_listed_of_a_table_without_indexes(world: World) -> None:
    world.indexes = []
    asked = JvmQuestion(fields())
    [told] = world.reply(asked)
    assert told["report"]["reason"] == "no_index" and ("listing summary", 0) not in asked.asked


FULL = replace(PLAN, strategy=Strategy.FULL_SCAN, costs={Strategy.FULL_SCAN: 0.5, Strategy.ROWS: 0.4}, rows_total=1000)
ROWS = replace(FULL, strategy=Strategy.ROWS)
BLOCKS = replace(
    FULL,
    strategy=Strategy.BLOCKS,
    costs={Strategy.BLOCKS: 0.5, Strategy.FILES: 0.5},
    blocks=pa.table([[0, 0, 1], [4, 9, 4], [5, 5, 5], [300, 200, 500], [3, 0, 0]], schema=BLOCKS_SCHEMA),
)


@pytest.mark.parametrize(
    ("plan", "rows", "frozen", "factors"),
    [
        (FULL, 1000, False, (2.0, 2.0)),
        (FULL, 999, False, (1.0, 1.0)),  # Spark has left out rows by its statistics
        (ROWS, -1, False, (2.5, 2.5)),
        (BLOCKS, 300, False, (2.0, 2.0)),
        (replace(BLOCKS, strategy=Strategy.FILES), 500, False, (2.0, 2.0)),
        (replace(BLOCKS, strategy=Strategy.FILES), 300, False, (1.0, 1.0)),
        (replace(BLOCKS, rows_total=None), 300, False, (1.0, 1.0)),  # files that are not indexed are read, too
        (FULL, 1000, True, (1.0, 1.0)),
        (PLAN, -1, False, (1.0, 1.0)),  # without a price
    ],
)
def test_what_queries_took_is_learnt(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    rows: int,
    frozen: bool,
    factors: tuple[float, float],
) -> None:
    prices = LearntPrices()
    monkeypatch.setattr(serving, "PRICES", prices)
    plan = plan if frozen else replace(plan, factors=Factors("file", "parquet"))
    world.decided = ReadChoices(report=report(plan=plan), choices="")
    [first] = world.reply(JvmQuestion(fields(**SHARED)))
    measured = [
        {"decision": id, "seconds": 1.0, "rows": rows} for id in ["of another process", *ENOUGH * [first["id"]]]
    ]
    text = world.serving.answer(NOBODY, JvmQuestion({**fields(**SHARED), "measured": measured}))
    assert text is not None
    reply, learnt = json.loads(text), prices.factors("file:/w", "parquet")
    assert (learnt.spark.factor, learnt.own.factor) == factors
    has_learnt = factors != (1.0, 1.0)
    assert reply["prices"] == has_learnt
    assert (reply["scans"][0]["id"] != first["id"]) is has_learnt  # a decision by other prices is not used again


def test_only_kept_decisions_can_be_asked_for(world: World) -> None:
    world.decided = counted(1)
    asked = fields(**SHARED)
    assert world.serving.answer(NOBODY, JvmQuestion({**asked, "only_kept": True})) is None and not world.tables
    [first] = world.reply(JvmQuestion(asked))
    [second] = world.reply(JvmQuestion({**asked, "only_kept": True}))
    assert first == second and len(world.tables) == 1


def test_a_question_that_several_ask_at_once_is_decided_once(world: World) -> None:
    decided, waits = Event(), Event()

    def slow(asked: Question) -> Decision:
        decided.set()
        waits.wait(10)
        return counted(1)

    world.decided = slow
    with ThreadPoolExecutor(3) as pool:
        replies = [pool.submit(world.reply, JvmQuestion(fields(**SHARED))) for _ in range(3)]
        assert decided.wait(10)
        waits.set()
        ids = {reply.result()[0]["id"] for reply in replies}
    assert len(ids) == len(world.tables) == 1


def test_a_query_does_not_wait_for_another_that_does_not_end(world: World) -> None:
    world.conf = {"hive_bitmap.planning_seconds": "0.02"}
    decided, waits = Event(), Event()

    def slow(asked: Question) -> Decision:
        if not decided.is_set():
            decided.set()
            waits.wait(30)
        return counted(1)

    world.decided = slow
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(world.reply, JvmQuestion(fields(**SHARED)))
        assert decided.wait(10)
        [second] = world.reply(JvmQuestion(fields(**SHARED)))
        assert not first.done()
        waits.set()
        assert first.result()[0]["id"] != second["id"]


def test_one_plan_at_a_time_goes_on_after_its_query_has_stopped_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "SECONDS_BETWEEN_LOOKS", 0.0)
    [scan] = fields()["scans"]
    late, other, in_time = (
        Question(spark=NOBODY, jvm=JvmQuestion({}, late=is_late), scan=Scan.of(0, scan, 2))
        for is_late in (True, True, False)
    )
    late.take_turn()
    late.take_turn()
    in_time.take_turn()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.take_turn)
        assert not waiting.done()
        late.end()
        waiting.result(timeout=10)
        other.end()
        in_time.end()


def test_what_is_asked_of_the_jvm_while_a_scan_is_decided_on(world: World) -> None:
    found: list[Any] = []

    def decided(asked: Question) -> Decision:
        found.append((asked.scan.listed, asked.small_side(0), asked.small_side(1)))
        of_digest = replace(asked.scan, listed=ListingSummary(1, 1, world.serving._process))
        found.append(replace(asked, scan=of_digest).listing)
        asked.listing = ScanListing((((), (FileStatus("/unknown", 1, 1, ""),)),))
        assert asked.deleted({"/unknown": "id"}) == {}
        return LeaveAlone(report=report())

    world.decided = decided
    of_one, of_both = fields(listing_summary="5 2 told 0"), json.loads(TEXT)
    asked = JvmQuestion({**of_both, "scans": [*of_one["scans"], of_both["scans"][0]]})
    world.reply(asked)
    (told, no_side, side), first, (listed, *_), second = found
    assert (told, no_side, side) == (ListingSummary(5, 2, "told"), None, ["in", "k", "1"])
    assert listed == ListingSummary(10, 1, "abc") and first is second  # of the same digest
    assert asked.asked[2:] == [
        ("read first", 0, 0),
        ("read first", 0, 1),
        ("listing", 0),
        ("deleted", 0, "[0]"),
        ("listing summary", 1),
        ("read first", 1, 0),
        ("read first", 1, 1),
        ("deleted", 1, "[0]"),
    ]


@pytest.mark.parametrize(
    ("conf", "plan", "unindexed"),
    [
        ({}, WHOLE, "2 files not indexed yet"),
        ({"hive_bitmap.auto_refresh": "false"}, WHOLE, ""),
        ({}, PLAN, ""),
        ({}, replace(PLAN, candidates=None), ""),
        ({}, None, ""),
    ],
)
def test_files_that_were_found_unindexed_are_told(
    world: World, conf: dict[str, str], plan: Plan | None, unindexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(spark: Any, base: Table, indexes: Sequence[Index], results: LookupResults) -> str:
        assert (base, list(indexes), results) == (TABLE, world.indexes, UNINDEXED)
        return "2 files not indexed yet"

    monkeypatch.setattr(world.serving.refresher, "seen", seen)
    world.conf, world.decided = conf, ReadChoices(report=report(plan=plan), choices="")
    [told] = world.reply(JvmQuestion(fields()))
    assert told["report"].get("unindexed", "") == unindexed


COUNTS: dict[int, Any] = {
    1: ((pa.table({"k": [1, 2], "n": [10, 20]}), pa.table({"n": pa.array([], pa.int64())})), [3, 5]),
    2: ((), []),
    3: None,
}


def counted(number: int) -> Counts:
    """A decision whose counts are those of COUNTS with this number."""
    request = Request(table=str(number), predicate=None, columns=(), count=True)
    resolved = ResolvedTable(base=TABLE, indexes=(), conf={}, cores=2)
    prepared = Prepared(plan=PLAN, request=request, resolved=resolved)
    return Counts(report=report(), prepared=prepared, source="d.events by by_k")


@pytest.fixture(autouse=True)
def known_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "counts", lambda spark, decision: COUNTS[int(decision.prepared.request.table)])


def test_counts_are_sent_by_batches_of_each_key_set(world: World) -> None:
    world.decided = counted(1)
    [told] = world.reply(JvmQuestion(fields()))
    asked = JvmQuestion({"decision": told["id"]})
    assert world.serving.execute(NOBODY, asked) == "[3, 5]"
    assert [number for number, _, _ in asked.added] == [0, 1]  # an empty one, too
    for (_, schema, batch), rows in zip(asked.added, (2, 0), strict=True):
        names = [(one["name"], {"long": pa.int64()}[one["type"]]) for one in json.loads(schema)["fields"]]
        assert pa.ipc.read_record_batch(pa.py_buffer(batch), pa.schema(names)).num_rows == rows


def test_counts_that_spark_has_to_find_itself(world: World) -> None:
    gone = JvmQuestion({"decision": "an id of a process that has ended"})
    assert world.serving.execute(NOBODY, gone) is None
    for number, told in ((2, "[]"), (3, None), (3, None)):
        world.serving.decisions.put("id", replace(counted(number), id="id"))
        asked = JvmQuestion({"decision": "id"})
        assert world.serving.execute(NOBODY, asked) == told and asked.added == []
    assert world.serving.decisions.get("id") is None  # the same question is planned again


def test_rows_are_fetched_once_the_plan_is_executed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = FetchPart(plan=PLAN, columns=("k",), tasks=(), most=10)
    world.decided = ReadRows(report=report(), parts=(SparkPart("x"), fetch), size=3)
    [told] = world.reply(JvmQuestion(fields()))
    assert (told["decision"], told["bytes"]) == ("read rows", 3)
    found: dict[int, pa.Table | None] = {id(fetch): pa.table({"k": [1, 2, 3]})}
    monkeypatch.setattr(driver_rows, "rows", lambda spark, fetch: found[id(fetch)])
    fetching = JvmQuestion({"decision": told["id"], "part": 1})
    assert world.serving.execute(NOBODY, fetching) == "" and len(fetching.added) == 1
    found[id(fetch)] = None  # they are too many by now
    for of in (told["id"], "gone"):
        fetching = JvmQuestion({"decision": of, "part": 1})
        assert world.serving.execute(NOBODY, fetching) is None and fetching.added == []


@pytest.mark.parametrize("is_current", [True, False])
def test_files_are_compared_before_tasks_read_them(world: World, is_current: bool) -> None:
    class Files(FileSet):
        def is_current(self, spark: Any) -> bool:
            return is_current

    frame: Any = SimpleNamespace(_jdf="of the JVM")
    world.decided = ReadRows(report=report(), parts=(FramePart(frame),), size=3, files=Files(base=TABLE))
    [told] = world.reply(JvmQuestion(fields()))
    comparing = JvmQuestion({"decision": told["id"]})
    assert told["compares_files"] and world.serving.execute(NOBODY, comparing) == ("" if is_current else None)
