"""The plan that a function gets of what the rule has reported, or a plan that says why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.spark.catalyst.decision import ANSWERED, LEFT_ALONE, NARROWED
from hive_bitmap.spark.catalyst.explanation import Relation
from hive_bitmap.spark.querying.decided import plan_of

PLAN = Plan(table="db.t", predicate="k = 1", strategy=Strategy.ROWS, reason="cheap")


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (
            {"table": "db.t", "action": LEFT_ALONE, "reason": "not_selective", "detail": "it costs no more"},
            ("db.t", Strategy.FULL_SCAN, "it costs no more", Reason.NOT_SELECTIVE),
        ),
        (
            {"table": "", "action": LEFT_ALONE, "reason": "of another version", "detail": "why"},
            ("asked", Strategy.FULL_SCAN, "why", Reason.ERROR),
        ),
        (
            {"table": "db.t", "action": NARROWED, "strategy": "files"},
            ("asked", Strategy.FILES, "no row satisfies the predicate", None),
        ),
        (
            {"table": "db.t", "action": NARROWED, "strategy": "rows", "files_selected": 1, "files_total": 2},
            ("db.t", Strategy.FULL_SCAN, "there is too little memory to store its plan", Reason.UNSUPPORTED),
        ),
        (
            {"table": "", "action": ANSWERED},
            ("asked", Strategy.FULL_SCAN, "there is too little memory to store its plan", Reason.UNSUPPORTED),
        ),
    ],
)
def test_a_scan_without_a_plan(relation: dict[str, Any], expected: tuple[str, Strategy, str, str | None]) -> None:
    found = plan_of(Relation(**relation), "asked")
    assert (found.table, found.strategy, found.reason, found.code) == expected


@pytest.mark.parametrize("action", [LEFT_ALONE, NARROWED, ANSWERED])
def test_a_plan_that_is_kept_is_the_answer(action: str) -> None:
    assert plan_of(Relation(table="db.t", action=action, reason="off", plan=PLAN), "asked") is PLAN


def test_nothing_is_read_where_no_row_can_match() -> None:
    found = plan_of(Relation(table="db.t", action=NARROWED), "asked")
    assert (found.blocks_total, found.blocks_selected, found.rows_selected, found.bytes_selected) == (0, 0, 0, 0)
