"""A plan as text, and what of it may be told to whom."""

from __future__ import annotations

from dataclasses import fields, replace

import pyarrow as pa
import pytest

from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA, FILES_SCHEMA, IndexUse, Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy

USES = (
    IndexUse(name="by_k", columns=("k",), encoding="gap", used=True, reason=""),
    IndexUse(name="by_ab", columns=("a", "b"), encoding=None, used=False, reason="the predicate tests neither"),
)
FILE = {"path": "file:/w/1", "partition": "", "state": "fresh", "reason": "", "size": 9, "scanned": False, "blocks": 2}
PLAN = Plan(
    table="db.t",
    predicate="k = 3",
    strategy=Strategy.BLOCKS,
    reason="few blocks",
    indexes=USES,
    files=pa.Table.from_pylist([FILE], FILES_SCHEMA),
    blocks=pa.Table.from_pylist([], BLOCKS_SCHEMA),
    blocks_total=4000,
    blocks_selected=12,
    rows_total=None,
    rows_selected=1234,
    bytes_total=9,
    bytes_selected=5,
    index_bytes=7,
    costs={Strategy.BLOCKS: 0.1254, Strategy.FULL_SCAN: 2},
    deleted=1,
)
UNSEEN = Plan(table="db.t", predicate=None, strategy=Strategy.FULL_SCAN, reason="no index", code=Reason.NO_INDEX)


def test_a_plan_is_summed_up_in_a_few_lines() -> None:
    assert str(PLAN).splitlines() == [
        "db.t where k = 3",
        "blocks: few blocks",
        "index by_k (k): used",
        "index by_ab (a, b): not used: the predicate tests neither",
        "reads 12 of 4,000 blocks of 1 files",
        "finds 1,234 of some rows",
        "estimates blocks 0.125 s, full scan 2.000 s",
    ]


def test_a_plan_for_which_no_file_was_looked_at_has_no_figures() -> None:
    assert str(UNSEEN).splitlines() == ["db.t where TRUE", "full scan: no index"]
    assert not UNSEEN.looked_up and PLAN.looked_up
    assert UNSEEN.files.schema == FILES_SCHEMA and UNSEEN.blocks.schema == BLOCKS_SCHEMA
    assert replace(UNSEEN, blocks_total=0).looked_up  # of no file


def test_what_was_looked_up_is_neither_shown_nor_compared() -> None:
    assert "candidates" not in repr(PLAN)
    assert replace(PLAN, candidates=object()) == PLAN  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, "the cheapest way; figures are hidden, because hive_bitmap.engine_reads_only is true"),
        (Reason.NOT_SELECTIVE, "the cheapest way; figures are hidden, because hive_bitmap.engine_reads_only is true"),
        (Reason.NO_INDEX, "few blocks"),
    ],
)
def test_who_must_not_learn_how_many_rows_there_are_is_told_no_figure(code: Reason | None, told: str) -> None:
    """A reason of prices has figures in it; all others say what is there anyhow."""
    hidden = replace(PLAN, code=code).without_figures
    nothing = Plan(table="", predicate=None, strategy=Strategy.BLOCKS, reason="")
    plain = {"table", "predicate", "strategy", "reason", "indexes", "code"}
    for field in fields(Plan):
        of_nothing, left = getattr(nothing, field.name), getattr(hidden, field.name)
        assert field.name in plain or left == of_nothing, field.name
    assert (hidden.table, hidden.predicate, hidden.strategy) == ("db.t", "k = 3", Strategy.BLOCKS)
    assert (hidden.indexes, hidden.code, hidden.reason) == (USES, code, told)
