"""Tests of the state of base files according to a manifest."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hive_bitmap.index.manifest import FILES, SHARDS, Freshness, Manifest
from hive_bitmap.stores import FileStatus

KNOWN = {"size": 9, "mtime_ms": 5, "etag": "e", "tail_crc32": 0, "schema_crc": 7}
MANIFEST = Manifest(
    "file:/i/generation",
    pa.Table.from_pylist(
        [{"path": "/a", "shard": "s", **KNOWN}, {"path": "/b", "shard": None, "reason": "encrypted", **KNOWN}], FILES
    ),
    SHARDS.empty_table(),
)


@pytest.mark.parametrize(
    ("file", "schema_crc", "state"),
    [
        (FileStatus("/a", 9, 5, "e"), 7, Freshness.FRESH),
        (FileStatus("/a", 9, 5, ""), None, Freshness.FRESH),
        (FileStatus("/a", 9, 5, "e"), 8, Freshness.STALE),
        (FileStatus("/a", 9, 6, "e"), None, Freshness.STALE),
        (FileStatus("/b", 9, 5, "e"), 7, Freshness.UNINDEXED),
        (FileStatus("/c", 9, 5, "e"), None, Freshness.UNINDEXED),
    ],
)
def test_each_state(file: FileStatus, schema_crc: int | None, state: Freshness) -> None:
    assert MANIFEST.freshness(file, schema_crc) is state


def test_files_that_are_gone_are_counted() -> None:
    assert MANIFEST.gone([FileStatus("/b", 1, 1, ""), FileStatus("/c", 1, 1, "")]) == 1
