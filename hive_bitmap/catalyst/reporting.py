"""What `explain` tells of a scan, and what Spark's own EXPLAIN and UI show of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from hive_bitmap.catalyst.scans import Scan
from hive_bitmap.explaining.plan import Plan

Read = tuple[int, int, int, int]  # blocks that are read, blocks of all, files that are read, files of all


def read_of_all(plan: Plan) -> Read:
    """What a plan reads of all that it looked at."""
    selected = {*plan.blocks.filter(pc.greater(plan.blocks["selected"], 0))["file"].to_pylist()}
    files = len(selected) + sum(plan.files["scanned"].to_pylist())
    return plan.blocks_selected or 0, plan.blocks_total or 0, files, plan.files.num_rows


def label(strategy: str, read: Read) -> str:
    """What is read of all, as `read_of_all` tells it, for Spark's EXPLAIN."""
    blocks, all_blocks, files, all_files = read
    return f"{strategy} by the bitmap index: {blocks} of {all_blocks} blocks, {files} of {all_files} files"


def report(scan: Scan, action: str, reason: str, detail: str, more: Mapping[str, Any] | None = None) -> str:
    """What `explain` tells of a scan, as JSON."""
    said = {
        "table": f"{scan.database}.{scan.table}",
        "condition": scan.condition,
        "action": action,
        "reason": reason,
        "detail": detail,
    }
    return json.dumps({**said, **(more or {})})
