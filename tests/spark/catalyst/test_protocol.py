"""What the optimizer rule and Python send to each other, against the golden files that docs/protocol.md shows.

A change of a golden file is a change of the protocol: raise its number on both sides.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.planning.plan import IndexUse, Plan
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.spark.catalyst.decision import (
    Counts,
    Decision,
    Empty,
    FetchPart,
    FramePart,
    Lasting,
    LeaveAlone,
    ReadChoices,
    ReadRows,
    Report,
    SparkPart,
)
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.jvm_bridge import PROTOCOL
from hive_bitmap.spark.reading.file_set import FileSet
from tests.asking import answer, frame, indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).with_name("protocol")
DOCS = Path(__file__).parents[3] / "docs" / "protocol.md"
QUERY = """
SELECT e.id, u.name FROM events e JOIN users u ON e.k = u.k
WHERE e.p = '2026-01' AND (e.k IN (3, 5) OR NOT e.s LIKE 'a%') AND length(e.s) > 2 AND u.k < (
  SELECT max(k) FROM events WHERE s = 'x')
"""
NARROWED = Report(
    table="d.events",
    action="narrowed",
    detail="90% ..",
    condition="(k = 3)",
    strategy="blocks",
    blocks_selected=3,
    blocks_total=20,
    files_selected=1,
    files_total=4,
)
NOTHING: Any = None
USED = IndexUse(name="k", columns=("k",), encoding="gap", used=True, reason="serves k")
PLAN = Plan(
    table="d.events",
    predicate="(k = 3)",
    strategy=Strategy.BLOCKS,
    reason="90% ..",
    indexes=(USED, replace(USED, name="s", used=False)),
    bytes_total=1000,
    bytes_selected=100,
)


def golden(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


@pytest.fixture
def asked(spark: SparkSession, database: str, questions: list[Any]) -> dict[str, Any]:
    """The question about QUERY, with fixed words where each run has its own."""
    spark.sql("CREATE TABLE events (id BIGINT, k INT, s STRING, p STRING) USING parquet PARTITIONED BY (p)")
    spark.sql("CREATE TABLE users (k INT, name STRING) USING parquet")
    spark.sql("INSERT INTO events VALUES (1, 3, 'abc', '2026-01')")
    spark.sql("INSERT INTO users VALUES (3, 'Ada')")
    for table in ("events", "users"):
        hive_bitmap.build(spark, table, ["k"])
    texts: list[str] = []
    with indexed(spark, "blocks"):
        answer(frame(spark, QUERY))
        texts = [question.text() for question in questions]
    asked: dict[str, Any] = json.loads(max(texts, key=len).replace(database, "d"))
    asked |= {"session": "<uuid>", "user": "<user>", "settings": "<version>", "cores": "2"}
    for scan in asked["scans"]:
        scan["version"] = "<version>"
        if "expressions" in scan:
            scan["expressions"] = ["<version>" for _ in scan["expressions"]]
        if "listing_summary" in scan:
            scan["listing_summary"] = "<bytes> <files> <digest> <split bytes>"
        for runtime_filter in scan["runtime_filters"]:
            runtime_filter["bytes"] = "<bytes>"
    return asked


def test_the_rule_writes_the_question(asked: dict[str, Any]) -> None:
    assert asked == golden("question.json")


def test_python_reads_the_question() -> None:
    question = golden("question.json")
    assert question["protocol"] == PROTOCOL
    text = json.dumps(question).replace("<bytes> <files> <digest> <split bytes>", "1024 2 5f2a 4096")
    scans = [Scan.of(number, fields, 2) for number, fields in enumerate(json.loads(text)["scans"])]
    assert {scan.table for scan in scans} == {"events", "users"}
    assert {scan.listed for scan in scans} <= {None, ListingSummary(1024, 2, "5f2a", 4096)}
    for scan in scans:
        assert set(scan.columns) <= {"id", "k", "s", "p", "name"}


DECISIONS: dict[str, Decision] = {
    "too small": LeaveAlone(
        report=Report(table="d.users", action="left alone", reason="too_small", detail="the 700 bytes .."),
        lasting=Lasting.FOR_TABLE,
    ),
    "empty": Empty(report=NARROWED),
    "blocks": ReadChoices(
        report=replace(NARROWED, plan=PLAN), id="7f3c-1", choices="0\t1024\t1764547200000\t77\t\t4\t512"
    ),
    "rows": ReadRows(report=NARROWED, id="7f3c-2", parts=(FramePart(NOTHING),), size=2048, files=FileSet(base=NOTHING)),
    "rows beside Spark's": ReadRows(
        report=NARROWED,
        id="7f3c-3",
        parts=(FramePart(NOTHING), SparkPart("1\t99\t0\t0\timmutable\t0\t99")),
        size=2048,
    ),
    "fetch": ReadRows(
        report=NARROWED, id="7f3c-4", parts=(FetchPart(plan=NOTHING, columns=(), tasks=(), most=0),), size=2048
    ),
    "counts": Counts(
        report=Report(table="d.events", action="answered"),
        id="7f3c-5",
        prepared=NOTHING,
        source="d.events by k",
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_python_writes_the_reply(name: str) -> None:
    columns = ["k"] if name == "too small" else None
    place = list(DECISIONS).index(name)
    assert DECISIONS[name].to_json(columns) == golden("reply.json")["scans"][place]


def test_the_page_shows_both() -> None:
    page = DOCS.read_text()
    assert f"protocol {PROTOCOL}" in page
    shown = [json.loads(block.split("```")[0]) for block in page.split("```json\n")[1:]]
    assert shown == [golden("question.json"), golden("reply.json")]
