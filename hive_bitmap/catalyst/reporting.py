"""Describe a decision on a scan: as JSON for `explain`, as a line for Spark's own EXPLAIN and UI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from hive_bitmap.catalyst.scans import Scan
from hive_bitmap.explaining.plan import Plan

NARROWED, ANSWERED, LEFT_ALONE = "narrowed", "answered", "left alone"  # the last one also in Reports.java


class ReadFigures(NamedTuple):
    """How many blocks and files a plan reads, and how many there are; named as in `explanation.Relation`."""

    blocks_selected: int
    blocks_total: int
    files_selected: int
    files_total: int


def read_figures(plan: Plan) -> ReadFigures:
    """Count the blocks and files that a plan reads. A file that is read whole counts as one that is read."""
    selected = {*plan.blocks.filter(pc.greater(plan.blocks["selected"], 0))["file"].to_pylist()}
    files = len(selected) + sum(plan.files["scanned"].to_pylist())
    return ReadFigures(plan.blocks_selected or 0, plan.blocks_total or 0, files, plan.files.num_rows)


def label(strategy: str, figures: ReadFigures) -> str:
    """Describe a narrowed scan in a line for Spark's EXPLAIN."""
    blocks, all_blocks, files, all_files = figures
    return f"{strategy} by the bitmap index: {blocks} of {all_blocks} blocks, {files} of {all_files} files"


def report(scan: Scan, action: str, reason: str, detail: str, more: Mapping[str, Any] | None = None) -> str:
    """Return the decision on a scan as a JSON object: the fields of an `explanation.Relation`, with the plan's id.

    `action` is NARROWED, ANSWERED or LEFT_ALONE; if left alone, `reason` is a key of REASONS.
    """
    fields = {
        "table": f"{scan.database}.{scan.table}",
        "condition": scan.condition,
        "action": action,
        "reason": reason,
        "detail": detail,
    }
    return json.dumps({**fields, **(more or {})})


def report_of_unread(table: str, reason: str, detail: str) -> str:
    """Return the report of a scan that is left alone and of which nothing but the table is read."""
    return json.dumps({"table": table, "action": LEFT_ALONE, "reason": reason, "detail": detail})
