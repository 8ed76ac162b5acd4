"""Outcomes as the JVM is told of them: what is in each kind of JSON object, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hive_bitmap.core.planning.plan import IndexUse
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.spark.catalyst.outcomes import (
    ANSWERED,
    LEFT_ALONE,
    NARROWED,
    Counts,
    Empty,
    FetchPart,
    FramePart,
    Lasting,
    LeaveAlone,
    Outcome,
    ReadChoices,
    ReadFigures,
    ReadRows,
    Reply,
    Report,
    SparkPart,
)
from tests.core.planning.test_planner import BYTES
from tests.spark.catalyst.test_reporting import planned

USES = tuple(
    IndexUse(name=name, columns=("k",), encoding="gap", used=used, reason="")
    for name, used in [("a", True), ("b", False), ("c", True)]
)
PLAN = replace(planned(Strategy.BLOCKS, [5, 0], [0, 0]), indexes=USES)
REPORT = Report(table="db.t", action=NARROWED, strategy=Strategy.BLOCKS, figures=ReadFigures(1, 4, 1, 2))
LABEL = "blocks by the bitmap index: 1 of 4 blocks, 1 of 2 files"
ANY: Any = object()  # what stays in this process


def said(outcome: Outcome, **kept: Any) -> dict[str, Any]:
    """The object without its report, which `test_reporting` looks at."""
    told = json.loads(json.dumps(Reply(outcome=outcome, **kept).to_json()))
    assert told.pop("report").items() >= json.loads(json.dumps(outcome.report.to_json())).items()
    return told


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        (LeaveAlone(report=REPORT), {"outcome": "leave alone", "lasting": ""}),
        (
            LeaveAlone(report=REPORT, lasting=Lasting.FOR_CONDITION),
            {"outcome": "leave alone", "lasting": "condition"},
        ),
        (LeaveAlone(report=REPORT, lasting=Lasting.FOR_TABLE), {"outcome": "leave alone", "lasting": "table"}),
        (Empty(report=REPORT), {"outcome": "empty"}),
        (ReadChoices(report=REPORT, choices="x"), {"outcome": "read choices", "choices": "x", "label": LABEL}),
        (
            ReadRows(report=REPORT, parts=(FramePart(ANY),), size=7),
            {"outcome": "read rows", "bytes": 7, "label": LABEL, "parts": [{"read by": "tasks"}]},
        ),
        (Counts(report=REPORT, answer=ANY, source="db.t by a"), {"outcome": "counts", "label": "db.t by a"}),
    ],
)
def test_each_outcome_has_its_fields(outcome: Outcome, fields: dict[str, Any]) -> None:
    assert said(outcome) == fields


@pytest.mark.parametrize(
    ("outcome", "saved"),
    [
        (ReadChoices(report=replace(REPORT, plan=PLAN), choices="x"), 3 * BYTES),
        (Empty(report=replace(REPORT, plan=PLAN)), 3 * BYTES),
        (
            Counts(
                report=Report(table="t", action=ANSWERED, plan=replace(PLAN, strategy=Strategy.INDEX_ONLY)),
                answer=ANY,
                source="",
            ),
            4 * BYTES,
        ),
        (ReadChoices(report=REPORT, choices="x"), None),
        (LeaveAlone(report=replace(REPORT, action=LEFT_ALONE, plan=PLAN)), None),
    ],
)
def test_what_indexes_save_is_told_where_they_serve(outcome: Outcome, saved: int | None) -> None:
    told = said(outcome)
    assert (told.get("indexes"), told.get("bytes_saved")) == (None if saved is None else ["a", "c"], saved)


@pytest.mark.parametrize("columns", [None, (), ("k", "n")])
def test_indexed_columns_are_told_unless_they_are_known(columns: tuple[str, ...] | None) -> None:
    told = said(Empty(report=REPORT), indexed_columns=columns)
    assert told == {"outcome": "empty"} | ({} if columns is None else {"indexed_columns": list(columns)})


@pytest.mark.parametrize("asked", [False, True])
def test_ids_of_what_is_kept(asked: bool) -> None:
    """The JVM asks for an answer when it executes the plan; only a function that asks has it with the report."""
    outcome = Counts(report=replace(REPORT, asked=asked), answer=ANY, source="")
    told = Reply(outcome=outcome, plan="p1", answer="a1").to_json()
    assert told["answer"] == "a1" and told["report"]["plan"] == "p1" and "fetch" not in told
    assert told["report"].get("answer") == ("a1" if asked else None)
    parts = (FetchPart(ANY), SparkPart("2"), FramePart(ANY), FetchPart(ANY))
    fetched = Reply(outcome=ReadRows(report=REPORT, parts=parts, size=1), fetches=("f1", "f2")).to_json()
    assert fetched["parts"] == [
        {"read by": "python", "fetch": "f1"},
        {"read by": "spark", "choices": "2"},
        {"read by": "tasks"},
        {"read by": "python", "fetch": "f2"},
    ]
    assert "plan" not in fetched["report"] and "answer" not in fetched
