"""What is told of a decision: figures of plans, bytes that are saved, the line in EXPLAIN, and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import PlanInputs, make_plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.spark.catalyst.decision import (
    ANSWERED,
    FIGURES,
    LEFT_ALONE,
    NARROWED,
    Report,
    bytes_saved,
    label,
    read_figures,
)
from tests.core.planning.test_planner import BYTES, INPUTS, looked_up, with_new_file
from tests.spark.catalyst.test_decide import SCAN


def planned(strategy: Strategy, *files: list[int], new: int = 0, inputs: PlanInputs = INPUTS, **lookup: Any) -> Plan:
    work = looked_up(*files, **lookup)
    plan = make_plan(inputs, (), with_new_file(work, blocks=new) if new else work)
    return replace(plan, strategy=strategy)


def figures(*numbers: int) -> dict[str, Any]:
    """The blocks and the files that are read, each with their total."""
    return dict(zip(FIGURES, numbers, strict=True))


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (planned(Strategy.BLOCKS, [5, 0, 2], [0, 0, 0]), figures(2, 6, 1, 2)),
        (planned(Strategy.BLOCKS, [5, 0], [0, 1], new=3), figures(3, 5, 3, 3)),  # a new file is read
        (planned(Strategy.BLOCKS, [0], [0]), figures(0, 2, 0, 2)),
        (planned(Strategy.BLOCKS), figures(0, 0, 0, 0)),
        (planned(Strategy.INDEX_ONLY, [5, 0], [0, 1]), figures(0, 4, 0, 2)),  # an answer reads no file
        (planned(Strategy.INDEX_ONLY, [5, 0], [0, 1], new=3), figures(1, 5, 1, 3)),
        (Plan(table="t", predicate=None, strategy=Strategy.FULL_SCAN, reason=""), figures(0, 0, 0, 0)),
    ],
)
def test_blocks_and_files_that_are_read(plan: Plan, read: dict[str, int]) -> None:
    assert read_figures(plan) == read


@pytest.mark.parametrize(
    ("plan", "saved"),
    [
        (planned(Strategy.BLOCKS, [5, 0, 2], [0, 0, 0]), 4),
        (planned(Strategy.ROWS, [5, 0, 2], [0, 0, 0]), 4),
        (planned(Strategy.FILES, [5, 0, 2], [0, 0, 0]), 3),  # the whole of a file that has a match
        (planned(Strategy.FILES, [5, 0], [0, 0], new=3), 2),
        (planned(Strategy.INDEX_ONLY, [5, 0, 2], [0, 0, 0]), 6),
        (planned(Strategy.INDEX_ONLY, [5, 0, 2], [0, 0, 0], new=2), 6),
        (planned(Strategy.BLOCKS, [5], [5]), 0),
        (planned(Strategy.FILES), 0),
    ],
)
def test_bytes_that_need_not_be_read(plan: Plan, saved: int) -> None:
    assert bytes_saved(plan) == saved * BYTES


@pytest.mark.parametrize("hidden", ["bytes_total", "bytes_selected"])
def test_where_figures_are_not_told_none_is_derived(hidden: str) -> None:
    plan = planned(Strategy.BLOCKS, [5, 0])
    assert bytes_saved(replace(plan, **{hidden: None})) == 0 < bytes_saved(plan)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            Report(table="t", action=NARROWED, strategy=Strategy.BLOCKS, **figures(2, 6, 1, 2)),
            "blocks by the bitmap index: 2 of 6 blocks, 1 of 2 files",
        ),
        (
            Report(
                table="t",
                action=NARROWED,
                strategy=Strategy.FILES,
                blocks_selected=0,
                files_selected=0,
                unindexed="1 file new",
            ),
            "files by the bitmap index: 0 of None blocks, 0 of None files; 1 file new",
        ),
        (
            Report(table="t", action=NARROWED, strategy=Strategy.ROWS),
            "rows by the bitmap index: 0 of None blocks, 0 of None files",
        ),
    ],
)
def test_the_line_in_explain(report: Report, line: str) -> None:
    assert label(report) == line


BARE = {"table": "t", "action": LEFT_ALONE, "detail": "", "condition": "", "reason": "", "strategy": "", "costs": {}}


@pytest.mark.parametrize(
    ("report", "more"),
    [
        (Report(table="t", action=LEFT_ALONE), {}),
        (
            Report(table="t", action=LEFT_ALONE, reason=Reason.TOO_SMALL, detail="why", condition="k = 1"),
            {"reason": "too_small", "detail": "why", "condition": "k = 1"},
        ),
        (
            Report(
                table="t",
                action=NARROWED,
                strategy=Strategy.ROWS,
                **figures(1, 2, 3, 4),
                costs={Strategy.ROWS: 0.5},
                plan=planned(Strategy.ROWS, [1]),
            ),
            {
                "action": NARROWED,
                "strategy": "rows",
                "costs": {"rows": 0.5},
                "blocks_selected": 1,
                "blocks_total": 2,
                "files_selected": 3,
                "files_total": 4,
            },
        ),
        (
            Report(table="t", action=ANSWERED, asked=True, unindexed="1 file"),
            {"action": ANSWERED, "asked": True, "unindexed": "1 file"},
        ),
    ],
)
def test_a_report_as_json(report: Report, more: dict[str, Any]) -> None:
    assert json.loads(json.dumps(report.to_json())) == BARE | more


@pytest.mark.parametrize("must_pay", [True, False])
def test_a_report_of_a_scan_that_has_no_plan(must_pay: bool) -> None:
    found = Report.of(replace(SCAN, must_pay=must_pay), LEFT_ALONE, Reason.CACHED, "because")
    assert (found.table, found.condition, found.detail) == ("db.t", "k = 3", "because")
    assert (found.reason, found.asked, found.plan) == (Reason.CACHED, not must_pay, None)
