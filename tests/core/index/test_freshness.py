"""Tests of the state of base files according to a manifest."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import FILES, SHARDS, Freshness, Manifest
from hive_bitmap.core.stores import FileStatus

KNOWN = {"size": 9, "mtime_ms": 5, "etag": "e", "tail_crc32": 0, "schema_crc": 7}
MANIFEST = Manifest(
    "file:/i/generation",
    pa.Table.from_pylist(
        [{"path": "/a", "shard": "s", **KNOWN}, {"path": "/b", "shard": None, "reason": "encrypted", **KNOWN}], FILES
    ),
    SHARDS.empty_table(),
)


@pytest.mark.parametrize(
    ("file", "schemas", "state"),
    [
        (FileStatus("/a", 9, 5, "e"), [6, 7], Freshness.FRESH),
        (FileStatus("/a", 9, 5, ""), None, Freshness.FRESH),
        (FileStatus("/a", 9, 5, "e"), [8], Freshness.STALE),
        (FileStatus("/a", 9, 5, "e"), [], Freshness.STALE),
        (FileStatus("/a", 9, 6, "e"), None, Freshness.STALE),
        (FileStatus("/b", 9, 5, "e"), [7], Freshness.UNINDEXED),
        (FileStatus("/c", 9, 5, "e"), None, Freshness.UNINDEXED),
    ],
)
def test_each_state(file: FileStatus, schemas: list[int] | None, state: Freshness) -> None:
    assert MANIFEST.freshness(file, schemas) is state


def test_files_of_other_schemas_are_unindexed() -> None:
    assert MANIFEST.valid_under(None) is MANIFEST.valid_under([7, 8]) is MANIFEST
    others = MANIFEST.valid_under([8])
    assert others.shard_of == [None, None] and others.files.schema == FILES
    assert "changed since" in others.files["reason"][0].as_py()
    assert others.freshness(FileStatus("/a", 9, 5, "e"), None) is Freshness.UNINDEXED


@pytest.mark.parametrize(
    ("format", "reading", "columns", "stays"),
    [
        ("parquet", (), "a:int b:int", True),
        ("parquet", (), "b:string", True),
        ("orc", (), "a:int b:int", True),
        ("orc", (), "a:int b:int c:int", True),
        ("orc", (), "b:int a:int", False),
        ("orc", (), "a:int", False),
        ("orc", (), "a:bigint b:int", False),
        ("textfile", ("serde",), "a:int b:int", True),
        ("textfile", ("serde",), "a:int b:int c:int", False),
        ("textfile", ("other",), "a:int b:int", False),
    ],
)
def test_what_leaves_files_indexed(format: str, reading: tuple[str, ...], columns: str, stays: bool) -> None:
    indexed = schema_crc([Column("a", "int"), Column("b", "int")], "UTC", ("serde",) if reading else ())
    now = [Column(*column.split(":")) for column in columns.split()]
    valid = valid_schemas(format, now, "UTC", reading)
    assert (valid is None or indexed in valid) == stays


def test_files_that_are_gone_are_counted() -> None:
    assert MANIFEST.gone([FileStatus("/b", 1, 1, ""), FileStatus("/c", 1, 1, "")]) == 1
