"""Decisions as the JVM is told of them: what is in each kind of JSON object, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hive_bitmap.core.index.aggregate_columns import Measure
from hive_bitmap.core.planning.plan import IndexUse
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.spark.catalyst.decision import (
    ANSWERED,
    LEFT_ALONE,
    NARROWED,
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
from hive_bitmap.spark.catalyst.scans import Sums
from hive_bitmap.spark.reading.file_set import FileSet
from tests.core.planning.test_planner import BYTES
from tests.spark.catalyst.test_reporting import figures, planned

USES = tuple(
    IndexUse(name=name, columns=("k",), encoding="gap", used=used, reason="")
    for name, used in [("a", True), ("b", False), ("c", True)]
)
PLAN = replace(planned(Strategy.BLOCKS, [5, 0], [0, 0]), indexes=USES)
REPORT = Report(table="db.t", action=NARROWED, strategy=Strategy.BLOCKS, **figures(1, 4, 1, 2))
LABEL = "blocks by the bitmap index: 1 of 4 blocks, 1 of 2 files"
ANY: Any = object()  # what stays in this process
FETCH = FetchPart(plan=ANY, columns=(), tasks=(), most=0)


def said(outcome: Decision, **kept: Any) -> dict[str, Any]:
    """The object without its report, which `test_reporting` looks at."""
    told: dict[str, Any] = json.loads(json.dumps(outcome.to_json(**kept)))
    assert told.pop("report").items() >= json.loads(json.dumps(outcome.report.to_json())).items()
    return told


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        (LeaveAlone(report=REPORT), {"decision": "leave alone", "lasting": ""}),
        (
            LeaveAlone(report=REPORT, lasting=Lasting.FOR_CONDITION),
            {"decision": "leave alone", "lasting": "condition"},
        ),
        (LeaveAlone(report=REPORT, lasting=Lasting.FOR_TABLE), {"decision": "leave alone", "lasting": "table"}),
        (Empty(report=REPORT), {"decision": "empty"}),
        (ReadChoices(report=REPORT, choices="x"), {"decision": "read choices", "choices": "x", "label": LABEL}),
        (
            ReadRows(report=REPORT, parts=(FramePart(ANY),), size=7),
            {"decision": "read rows", "bytes": 7, "label": LABEL, "parts": [{"read by": "tasks"}]},
        ),
        (
            Counts(report=REPORT, prepared=ANY, source="db.t by a"),
            {"decision": "counts", "label": "db.t by a"},
        ),
        (
            Counts(
                report=REPORT,
                prepared=ANY,
                source="db.t by a",
                sums=Sums(("a",), (Measure(column="v", functions=("count", "min")),)),
            ),
            {
                "decision": "counts",
                "label": "db.t by a",
                "sums": {"keys": ["a"], "measures": [{"column": "v", "functions": ["count", "min"]}]},
            },
        ),
    ],
)
def test_each_outcome_has_its_fields(outcome: Decision, fields: dict[str, Any]) -> None:
    assert said(outcome) == fields


@pytest.mark.parametrize(
    ("outcome", "saved"),
    [
        (ReadChoices(report=replace(REPORT, plan=PLAN), choices="x"), 3 * BYTES),
        (Empty(report=replace(REPORT, plan=PLAN)), 3 * BYTES),
        (
            Counts(
                report=Report(table="t", action=ANSWERED, plan=replace(PLAN, strategy=Strategy.INDEX_ONLY)),
                prepared=ANY,
                source="",
            ),
            4 * BYTES,
        ),
        (ReadChoices(report=REPORT, choices="x"), None),
        (LeaveAlone(report=replace(REPORT, action=LEFT_ALONE, plan=PLAN)), None),
    ],
)
def test_what_indexes_save_is_told_where_they_serve(outcome: Decision, saved: int | None) -> None:
    told = said(outcome)
    assert (told.get("indexes"), told.get("bytes_saved")) == (None if saved is None else ["a", "c"], saved)


@pytest.mark.parametrize("columns", [None, (), ("k", "n")])
def test_indexed_columns_are_told_unless_they_are_known(columns: tuple[str, ...] | None) -> None:
    told = said(Empty(report=REPORT), indexed_columns=columns)
    assert told == {"decision": "empty"} | ({} if columns is None else {"indexed_columns": list(columns)})


def test_the_id_of_what_is_kept() -> None:
    """The JVM names it when it executes the plan, and `explain` has it with the report."""
    told = Counts(report=REPORT, id="d1", prepared=ANY, source="").to_json()
    assert told["id"] == told["report"]["id"] == "d1"
    parts = (FETCH, SparkPart("2"), FramePart(ANY), FETCH)
    rows = ReadRows(report=REPORT, parts=parts, size=1)
    assert rows.to_json()["parts"] == [
        {"read by": "python"},
        {"read by": "spark", "choices": "2"},
        {"read by": "tasks"},
        {"read by": "python"},
    ]
    told = Empty(report=REPORT).to_json()
    assert "id" not in told and "id" not in told["report"]


@pytest.mark.parametrize(("compared", "fields"), [(None, {}), (FileSet(base=ANY), {"compares_files": True})])
def test_files_to_compare_are_told(compared: FileSet | None, fields: dict[str, Any]) -> None:
    told = ReadRows(report=REPORT, parts=(), size=1, files=compared).to_json()
    assert {name: value for name, value in told.items() if name == "compares_files"} == fields


def test_rows_of_a_session_are_its_own() -> None:
    rows = ReadRows(report=REPORT, parts=(FETCH, FramePart(ANY)), size=1)
    assert not rows.is_shareable and ReadRows(report=REPORT, parts=rows.parts[:1], size=1).is_shareable
    assert rows.without_frames().parts == (FETCH, FramePart(None))
