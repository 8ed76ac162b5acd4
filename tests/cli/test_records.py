"""The records that commands print, and the columns of their tables: a table has no column that a record lacks."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from hive_bitmap.cli.records import (
    BUILD_COLUMNS,
    LEFTOVER_FIELDS,
    PREVIEW_COLUMNS,
    REBUILD_COLUMNS,
    behind_its_table,
    details,
    leftover_record,
)
from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, columns_of, record_of
from hive_bitmap.core.index.markers import Author
from hive_bitmap.core.index.refresh_record import RefreshRecord
from hive_bitmap.spark.building.preview import PartitionPreview, Preview
from hive_bitmap.spark.maintaining.clean import Leftover
from hive_bitmap.spark.maintaining.show import IndexStatus, PartitionStatus
from tests.spark.following.test_table_refresh import INDEX, NOTHING

REPORT = replace(NOTHING, base_rows=1000, seconds=1.23456, changed=2, unindexed=(("file:/w/a", "it is odd"),))
PREVIEW = Preview(
    INDEX, (PartitionPreview(name="p=1", what="build", files=2, bytes=30, why=(("new", 2),)),), 3, seconds=1.26
)
PARTITION = PartitionStatus(
    name="p=1",
    values=("1",),
    fresh=1,
    stale=2,
    unindexed=3,
    gone=4,
    stale_bytes=50,
    unindexed_bytes=60,
    base_rows=None,
    index_rows=8,
    index_bytes=9,
    built=None,
)
STATUS = IndexStatus(INDEX, (PARTITION,))
NAMES = {field.name for field in INDEX_FIELDS}


@pytest.mark.parametrize(
    ("fields", "record"),
    [
        (columns_of([REPORT], BUILD_COLUMNS), record_of(REPORT)),
        (columns_of([REPORT], REBUILD_COLUMNS), record_of(REPORT)),
        (columns_of([PREVIEW], PREVIEW_COLUMNS), record_of(PREVIEW)),
        (columns_of([PREVIEW], PREVIEW_COLUMNS), record_of(Preview(INDEX, (), 3))),
        (columns_of(PREVIEW.partitions), record_of(PREVIEW)["partitions"][0]),
        (columns_of([STATUS]), record_of(STATUS)),
        (columns_of([PARTITION]), record_of(STATUS)["partitions"][0]),
    ],
)
def test_a_record_has_what_its_table_shows_and_is_json(fields: list[Field], record: dict[str, Any]) -> None:
    assert all(isinstance(field.show(record[field.name]), str) for field in fields)
    assert json.loads(json.dumps(record)).keys() == record.keys()


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, {"encoding": "gap"}),
        ({"type": "COMPACT"}, {"encoding": None}),
        ({"next_encoding": "ewah"}, {"encoding": "gap", "next_encoding": "ewah"}),
        ({"properties": (("a", "b"),)}, {"encoding": "gap", "properties": {"a": "b"}}),
        ({"catalog": "lake"}, {"encoding": "gap", "table": "lake.db.t"}),
    ],
)
def test_the_definition_of_an_index(change: dict[str, Any], more: dict[str, Any]) -> None:
    status = IndexStatus(replace(INDEX, index_table="x", **change), ())
    record = {name: value for name, value in record_of(status).items() if name in NAMES}
    expected = {"index": "i", "table": "db.t", "columns": ["k"], "compression": "zstd", "index_table": "db.x"}
    assert record == expected | {"type": change.get("type", "BITMAP")} | more


def test_a_build() -> None:
    record = record_of(REPORT)
    assert (record["seconds"], record["changed_meanwhile"], record["base_rows"]) == (1.235, 2, 1000)
    assert record["unindexed"] == [{"path": "file:/w/a", "reason": "it is odd"}]


def test_a_preview() -> None:
    record = record_of(PREVIEW)
    assert (record["files_read"], record["bytes_read"], record["why"], record["seconds"]) == (2, 30, {"new": 2}, 1.3)
    assert record["partitions_changed"] == len(record["partitions"]) == 1
    assert (record["partitions"][0]["partition"], record["partitions"][0]["what"]) == ("p=1", "build")


def test_the_state_of_an_index() -> None:
    record = record_of(STATUS)
    assert [record[name] for name in ("fresh", "stale", "unindexed", "gone", "index_bytes")] == [1, 2, 3, 4, 9]
    assert (record["base_rows"], record["built"], record["last_refresh"], record["lag_seconds"]) == (None,) * 3 + (0,)
    assert "keys" not in record
    assert record_of(replace(STATUS, keys=7))["keys"] == 7


def behind(lag: float, error: str | None) -> str:
    """What is said of an index whose oldest change that it has not seen is so old, and whose last refresh did this."""
    part = replace(PARTITION, unseen_since=time.time() - lag if lag else None)
    last = None if error is None else RefreshRecord(author=Author("h", 1, 0.0), seconds=1.0, files=0, error=error)
    return behind_its_table(IndexStatus(INDEX, (part,), last_refresh=last))


@pytest.mark.parametrize(
    ("lag", "error", "said"),
    [
        (0, None, ""),
        (0, "", ""),
        (90, None, "i is 90.0 s behind its table, by 110 B"),
        (90, "", "i is 90.0 s behind its table, by 110 B"),
    ],
)
def test_how_far_an_index_is_behind(lag: float, error: str | None, said: str) -> None:
    assert behind(lag, error) == said


def test_a_refresh_that_failed_is_told_also_where_nothing_is_new() -> None:
    told = behind(0, "no space left")
    assert told.startswith("i is 0 ms behind its table, by 110 B; its last refresh, at 1970-01-01")
    assert told.endswith(" failed: no space left")


@pytest.mark.parametrize(
    ("fields", "dry_run", "what"),
    [
        ({"seconds": 0.0}, True, "would be deleted"),
        ({"seconds": 0.0}, False, "deleted"),
        ({"seconds": 5400.0}, False, "kept for 1.5 hours more"),
        ({"seconds": 0.0, "kept": "a file of others"}, False, "a file of others"),
    ],
)
def test_folders_that_nothing_references(fields: dict[str, Any], dry_run: bool, what: str) -> None:
    record = leftover_record(Leftover(path="file:/w/i/g", bytes=7, why="replaced", **fields), dry_run)
    assert (record["what"], record["bytes"], record["path"]) == (what, 7, "file:/w/i/g")
    assert all(field.name in record for field in LEFTOVER_FIELDS)


def test_details_for_people() -> None:
    record = {"a_b": 1234, "c": True, "d": "", "e": {"x_y": 1, "z": ""}, "f": [], "g": 1.5, "h": None}
    assert details(record) == [
        ("a b", "1,234"),
        ("c", "true"),
        ("d", "-"),
        ("e", "x y 1"),
        ("f", ""),
        ("g", "1.5"),
        ("h", "-"),
    ]
