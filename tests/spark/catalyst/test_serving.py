"""How questions of the JVM are answered and what is kept of the answers, without a JVM: stand-ins give its JSON.

That the rule sends such questions and takes such replies is for test_protocol.py, with Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, HiveBitmapError, ServerError, StoreError
from hive_bitmap.spark.catalyst import driver_reads, serving
from hive_bitmap.spark.catalyst.conditions import condition
from hive_bitmap.spark.catalyst.decisions import Ask, IndexedTable
from hive_bitmap.spark.catalyst.driver_reads import Fetch
from hive_bitmap.spark.catalyst.index_answers import Answer
from hive_bitmap.spark.catalyst.jvm_bridge import PROTOCOL
from hive_bitmap.spark.catalyst.outcomes import (
    LEFT_ALONE,
    NARROWED,
    Counts,
    FetchPart,
    FramePart,
    LeaveAlone,
    Outcome,
    ReadChoices,
    ReadRows,
    Report,
)
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.catalyst.serving import Serving
from hive_bitmap.spark.preparing.request import Request
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
PLAN = Plan(table="d.events", predicate="k = 3", strategy=Strategy.BLOCKS, reason="because", candidates=NO_RESULTS)


def index(name: str, *columns: int, follows: bool = False) -> Index:
    of = tuple(TABLE.columns[number] for number in columns)
    return Index(
        definition=Definition(name=name, database="d", table="events", columns=of, auto_refresh=follows), table=TABLE
    )


class Question:
    """What Question.java, Counting.java and Fetching.java let Python ask, and what they were asked."""

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
    decided: Outcome | Exception | Callable[[Scan, Ask], Outcome] | None = None
    tables: list[IndexedTable] = field(default_factory=list)
    serving: Serving = field(default_factory=Serving)

    def __post_init__(self) -> None:
        give = self.monkeypatch.setattr
        give(serving.jvm_settings, "of_map", lambda spark, found: self.conf)
        give(serving.metastore, "table_of", lambda spark, number: TABLE)
        give(serving.catalog, "indexes_on", self._indexes_on)
        give(serving, "decide", self._decide)
        give(serving, "parse", lambda text: ScanListing(()))

    def _indexes_on(self, spark: Any, base: Table, seconds: float) -> list[Index]:
        return self.indexes

    def _decide(self, scan: Scan, table: IndexedTable, ask: Ask) -> Outcome:
        self.tables.append(table)
        if isinstance(self.decided, Exception):
            raise self.decided
        if callable(self.decided):
            return self.decided(scan, ask)
        return self.decided or LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.NO_INDEX, "none"))

    def reply(self, question: Question) -> list[dict[str, Any]]:
        text = self.serving.answer(NOBODY, question)
        assert text is not None
        told = json.loads(text)
        assert told.keys() == {"protocol", "scans"} and told["protocol"] == PROTOCOL
        return list(told["scans"])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def report(**given: Any) -> Report:
    return Report(table="d.events", action=NARROWED, detail="because", **given)


def test_the_question_of_the_protocol_has_a_reply_for_each_scan(world: World) -> None:
    told = world.reply(Question(json.loads(TEXT)))
    assert [(one["outcome"], one["report"]["table"]) for one in told] == [
        ("leave alone", "d.events"),
        ("leave alone", "d.users"),
    ]
    assert [one.base for one in world.tables] == [TABLE, TABLE]


def test_what_is_kept_under_a_version_is_asked_for_once(world: World) -> None:
    for changed, asked in (
        ({}, ["settings", ("table", 0)]),
        ({}, []),
        ({"version": "2"}, [("table", 0)]),
        ({"version": "2"}, []),
    ):
        question = Question(fields(**changed))
        world.reply(question)
        assert question.asked == asked
    for name in ("session", "settings"):  # the settings of another session, or others of this one
        question = Question({**fields(), name: "other"})
        world.reply(question)
        assert question.asked == ["settings"]


def test_the_columns_of_all_indexes_are_told_until_the_jvm_knows_them(world: World) -> None:
    [told] = world.reply(Question(fields(indexed_known=False)))
    assert told["indexed_columns"] == ["k", "s"]
    [told] = world.reply(Question(fields(indexed_known=True)))
    assert "indexed_columns" not in told
    world.indexes = []
    [told] = world.reply(Question(fields(indexed_known=False)))
    assert told["indexed_columns"] == []  # so that it need not ask again


def test_the_columns_are_told_of_a_scan_on_which_nothing_can_be_decided(world: World) -> None:
    world.decided = CorruptIndex("a shard is damaged")
    [told] = world.reply(Question(fields(indexed_known=False)))
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
    question = Question(fields())
    if strict == "true" and reason == "error":
        with pytest.raises(type(error)) as raised:
            world.serving.answer(NOBODY, question)
        assert raised.value is error
        return
    [told] = world.reply(question)
    assert (told["outcome"], told["lasting"]) == ("leave alone", "")  # it may be over soon
    assert told["report"]["reason"] == reason and told["report"]["detail"] == str(error)
    assert "plan" not in told["report"]


def test_one_scan_that_fails_does_not_take_the_others_with_it(world: World) -> None:
    def decided(scan: Scan, ask: Ask) -> Outcome:
        if scan.number == 0:
            raise CorruptIndex("damaged")
        return ReadChoices(report=report(), choices="x")

    world.decided = decided
    assert [one["outcome"] for one in world.reply(Question(json.loads(TEXT)))] == ["leave alone", "read choices"]


def test_a_bug_is_not_hidden_and_not_told_to_a_jvm_that_waits_no_longer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.decided = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        world.serving.answer(NOBODY, Question(fields()))
    with caplog.at_level(logging.INFO, serving.__name__):
        assert world.serving.answer(NOBODY, Question(fields(), late=True)) is None
    assert caplog.messages == ["planning was late, and its jobs were cancelled"]


@pytest.mark.parametrize("theirs", [None, PROTOCOL - 1, str(PROTOCOL)])
def test_a_jar_of_another_protocol_has_all_scans_left_alone(
    world: World, theirs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but their names is read of the scans, and nothing at all is asked."""
    other = {"protocol": theirs, "scans": [{"database": "d", "table": "t"}, {"database": "e", "table": "u"}]}
    question = Question(other)
    for _ in range(2):
        told = world.reply(question)
    assert [(one["outcome"], one["report"]["table"], one["report"]["reason"]) for one in told] == [
        ("leave alone", "d.t", "unsupported"),
        ("leave alone", "e.u", "unsupported"),
    ]
    assert question.asked == [] and len(caplog.messages) == 1
    assert told[0]["report"]["detail"] in caplog.messages[0]
    assert "start Spark with the jar that `hive-bitmap jar` prints" in caplog.messages[0]


def test_settings_that_are_none_are_logged_once(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_WARNINGS", 2)
    for session, names in enumerate((["enbled"], ["enbled", "stategy"], ["another"])):
        world.conf = {f"hive_bitmap.{name}": "x" for name in names}
        world.reply(Question({**fields(), "session": str(session)}))
    assert [message.split(";")[0] for message in caplog.messages] == [
        "hive_bitmap has no setting hive_bitmap.enbled",
        "hive_bitmap has no setting hive_bitmap.stategy",
    ]


def test_rows_of_ours_are_given_to_the_jvm_as_a_frame(world: World) -> None:
    frame: Any = SimpleNamespace(_jdf="of the JVM")
    world.decided = ReadRows(report=report(), parts=(FramePart(frame),), size=7)
    question = Question(fields())
    [told] = world.reply(question)
    assert (told["outcome"], told["bytes"], question.frames) == ("read rows", 7, {(0, 0): "of the JVM"})


def test_plans_are_kept_under_ids_that_no_other_process_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.decided = ReadChoices(report=report(plan=PLAN), choices="")
    ids = [world.reply(Question(fields()))[0]["report"]["plan"] for _ in range(2)]
    ids += [World(monkeypatch, decided=world.decided).reply(Question(fields()))[0]["report"]["plan"]]
    assert len(set(ids)) == 3
    assert world.serving.plans.get(ids[0]) == replace(PLAN, candidates=None)
    assert world.serving.plans.get(ids[2]) is None
    [told] = world.reply(Question(fields(must_pay=False)))  # a function asks, which is told what was found
    kept = world.serving.plans.get(told["report"]["plan"])
    assert kept is not None and kept.candidates is NO_RESULTS


def test_what_is_asked_of_the_jvm_while_a_scan_is_decided_on(world: World) -> None:
    found: list[Any] = []

    def decided(scan: Scan, ask: Ask) -> Outcome:
        found.append((ask.listing_summary(), ask.small_side(0), ask.small_side(1)))
        found.append(ask.listing(ListingSummary(1, 1, "digest")))
        assert ask.deleted(ScanListing((((), (FileStatus("/unknown", 1, 1, ""),)),)), {"/unknown": "id"}) == {}
        return LeaveAlone(report=report())

    world.decided = decided
    scans = json.loads(TEXT)
    question = Question({**scans, "scans": [fields(listing_summary="5 2 told 0")["scans"][0], scans["scans"][0]]})
    world.reply(question)
    (told, no_side, side), first, (asked, *_), second = found
    assert (told, no_side, side) == (ListingSummary(5, 2, "told"), None, ["in", "k", "1"])
    assert asked == ListingSummary(10, 1, "abc") and first is second  # of the same digest
    assert question.asked[2:] == [
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
        ({}, PLAN, "2 files not indexed yet"),
        ({"hive_bitmap.auto_refresh": "false"}, PLAN, ""),
        ({}, replace(PLAN, candidates=None), ""),
        ({}, None, ""),
    ],
)
def test_files_that_were_found_unindexed_are_told(
    world: World, conf: dict[str, str], plan: Plan | None, unindexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(spark: Any, base: Table, indexes: Sequence[Index], results: LookupResults) -> str:
        assert (base, list(indexes), results) == (TABLE, world.indexes, NO_RESULTS)
        return "2 files not indexed yet"

    monkeypatch.setattr(world.serving.refresher, "seen", seen)
    world.conf, world.decided = conf, ReadChoices(report=report(plan=plan), choices="")
    [told] = world.reply(Question(fields()))
    assert told["report"].get("unindexed", "") == unindexed


class Counted(Answer):
    """An answer that is known without an index."""

    def counts(self, spark: Any, counting: Any, settings: Mapping[str, str]) -> Any:
        assert settings == {"hive_bitmap.enabled": "true"}
        return COUNTS.get(self.cores)


COUNTS: dict[int, Any] = {
    1: ((pa.table({"k": [1, 2], "n": [10, 20]}), pa.table({"n": pa.array([], pa.int64())})), [3, 5]),
    2: ((), []),
}


def answer(cores: int) -> Answer:
    request = Request(table="d.events", predicate=None, columns=(), count=True)
    return Counted(request=request, base=TABLE, condition=condition(["constant", True], ()), listing=None, cores=cores)


def counting(id: str) -> Question:
    return Question({"answer": id, "session": "s", "settings": "1"})


def test_counts_are_sent_by_batches_of_each_key_set(world: World) -> None:
    world.conf = {"hive_bitmap.enabled": "true"}
    world.decided = Counts(report=report(), answer=answer(1), source="d.events by by_k")
    [told] = world.reply(Question(fields()))
    asked = counting(told["answer"])
    assert world.serving.counts(NOBODY, asked) == "[3, 5]"
    assert [number for number, _, _ in asked.added] == [0, 1]  # an empty one, too
    for (_, schema, batch), rows in zip(asked.added, (2, 0), strict=True):
        names = [(one["name"], {"long": pa.int64()}[one["type"]]) for one in json.loads(schema)["fields"]]
        assert pa.ipc.read_record_batch(pa.py_buffer(batch), pa.schema(names)).num_rows == rows


def test_counts_that_spark_has_to_find_itself(world: World) -> None:
    world.conf = {"hive_bitmap.enabled": "true"}
    assert world.serving.counts(NOBODY, counting("an id of a process that has ended")) is None
    for cores, told in ((2, "[]"), (3, None)):
        world.serving.answers.put("id", answer(cores))
        asked = counting("id")
        assert world.serving.counts(NOBODY, asked) == told and asked.added == []


def test_rows_are_fetched_once_the_plan_is_executed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = Fetch(plan=PLAN, columns=("k",), tasks=(), most=10)
    world.decided = ReadRows(report=report(), parts=(FetchPart(fetch),), size=3)
    [told] = world.reply(Question(fields()))
    assert (told["outcome"], told["bytes"]) == ("read rows", 3)
    [part] = told["parts"]
    found: dict[int, pa.Table | None] = {id(fetch): pa.table({"k": [1, 2, 3]})}
    monkeypatch.setattr(driver_reads, "rows", lambda spark, fetch: found[id(fetch)])
    fetching = Question({"fetch": part["fetch"]})
    assert world.serving.fetched(NOBODY, fetching) == "" and len(fetching.added) == 1
    found[id(fetch)] = None  # they are too many by now
    for of in (part["fetch"], "gone"):
        fetching = Question({"fetch": of})
        assert world.serving.fetched(NOBODY, fetching) is None and fetching.added == []
