"""Describe a decision on a scan.

The description is JSON for `explain`, and a line for Spark's own EXPLAIN and UI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.explaining.blockmap import blocks_kept, files_kept
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.reasons import Reason
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.spark.catalyst.scans import Scan

NARROWED, ANSWERED, LEFT_ALONE = "narrowed", "answered", "left alone"  # the last one also in Reports.java


class ReadFigures(NamedTuple):
    """The numbers of blocks and files, read and in total.

    Totals are None where they were not counted.
    """

    blocks_selected: int
    blocks_total: int | None
    files_selected: int
    files_total: int | None


NOTHING_READ = ReadFigures(0, None, 0, None)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The decision on a scan, as `explanation.Relation` shows it.

    `action` is NARROWED, ANSWERED or LEFT_ALONE; `reason` explains LEFT_ALONE. `figures` are None if no index was
    looked up, `plan` is None if there is no plan. `asked` says that a function of hive_bitmap asks about the scan.
    `unindexed` describes the files that are not yet in an index that follows its table.
    """

    table: str
    action: str
    reason: Reason | None = None
    detail: str = ""
    condition: str = ""
    strategy: Strategy | None = None
    figures: ReadFigures | None = None
    costs: Mapping[Strategy, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False)
    asked: bool = False
    unindexed: str = ""

    @classmethod
    def of(cls, scan: Scan, action: str, reason: Reason | None, detail: str) -> Report:
        """Return the report of a scan that has no plan."""
        table = f"{scan.database}.{scan.table}"
        asked = not scan.must_pay
        return cls(table=table, condition=scan.condition, action=action, reason=reason, detail=detail, asked=asked)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of an `explanation.Relation` without the plan.

        A plan has no form in JSON.
        """
        texts = ("table", "action", "detail", "condition")
        chosen = {"reason": self.reason or "", "strategy": self.strategy or ""}
        figures = {} if self.figures is None else self.figures._asdict()
        optional = {"costs": dict(self.costs), **({"asked": True} if self.asked else {})}
        optional |= {"unindexed": self.unindexed} if self.unindexed else {}
        return {name: getattr(self, name) for name in texts} | chosen | figures | optional


def read_figures(plan: Plan) -> ReadFigures:
    """Count the blocks and files that a plan reads."""
    files = int(files_kept(plan).sum())
    return ReadFigures(blocks_kept(plan) or 0, plan.blocks_total or 0, files, plan.files.num_rows)


def bytes_saved(plan: Plan) -> int:
    """Return the bytes of base files that a plan skips.

    They are bytes of all columns; 0 if the plan has no figures.
    """
    if plan.bytes_total is None or plan.bytes_selected is None:
        return 0
    if plan.strategy == Strategy.INDEX_ONLY:
        return plan.bytes_total - _bytes_of(plan, plan.files["scanned"])
    if plan.strategy == Strategy.FILES:
        rows = pa.array(range(plan.files.num_rows), pa.int32())
        selected = pc.is_in(rows, value_set=plan.blocks.filter(pc.greater(plan.blocks["selected"], 0))["file"])
        return plan.bytes_total - _bytes_of(plan, pc.or_(selected, plan.files["scanned"]))
    return plan.bytes_total - plan.bytes_selected


def _bytes_of(plan: Plan, chosen: pa.ChunkedArray) -> int:
    return int(pc.sum(plan.files.filter(chosen)["size"]).as_py() or 0)


def label(report: Report) -> str:
    """Describe a narrowed scan in a line for Spark's EXPLAIN."""
    blocks, all_blocks, files, all_files = report.figures or NOTHING_READ
    read = f"{report.strategy} by the bitmap index: {blocks} of {all_blocks} blocks, {files} of {all_files} files"
    return f"{read}; {report.unindexed}" if report.unindexed else read
