"""Tests that a flipped bit in a shard is found, with checksums or without; Arrow is the oracle for what is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.auditing import audit
from hive_bitmap.core.auditing.audit import ShardItem, audit_shard
from hive_bitmap.core.auditing.base_file_check import RecordedFile, recorded_blocks
from hive_bitmap.core.auditing.stored_shard import StoredShard
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import shard
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.indexing.group_indexing import Group, ShardReport, index_group
from hive_bitmap.core.indexing.staged_values import ReadOptions

COLUMNS = (Column("k", "int"), Column("s", "string"))
VALUE = Column("v", "int")
AGGREGATES = (Aggregate("count"), *(Aggregate(function, VALUE) for function in FUNCTIONS))
KINDS: dict[str, dict[str, Any]] = {
    "compact": {"type": "COMPACT"},
    "aggregate": {"type": "AGGREGATE", "aggregates": AGGREGATES},
}
FLIPS = 25


@pytest.fixture(params=["gap", "plain", "ewah", "roaring", *KINDS])
def item(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShardItem:
    """A shard with a few row groups, for two files with five blocks each."""
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", 60)
    rng = np.random.default_rng(1)
    keys = pa.array(rng.integers(0, 7, 300), pa.int32(), mask=rng.random(300) < 0.1)
    texts = pa.array([["a", "b", None][n] for n in rng.integers(0, 3, 300)])
    values = pa.array(rng.integers(-(1 << 31), 1 << 31, 300), pa.int32(), mask=rng.random(300) < 0.2)
    table = pa.table({"k": keys, "s": texts, "v": values})
    paths = (f"file:{tmp_path}/a.parquet", f"file:{tmp_path}/b.parquet")
    for path in paths:
        pq.write_table(table, local(path), row_group_size=60)
    kind = KINDS.get(request.param, {"encoding": request.param})
    definition = Definition(name="i", database="db", table="t", columns=COLUMNS, **kind)
    options = ReadOptions("parquet", (*COLUMNS, VALUE), "UTC")
    group = Group(
        paths=paths,
        bytes=1,
        read_options=options,
        schema_crc=1,
        definitions=(definition,),
        folders=(f"file:{tmp_path}",),
    )
    (report,) = index_group(group)
    return ShardItem(0, stored(report, definition, f"file:{tmp_path}"), known(report), options)


def stored(report: ShardReport, definition: Definition, folder: str) -> StoredShard:
    written, path = report.written, f"{folder}/{report.shard}"
    names = (path.rpartition("/")[2], cardinalities_path(path).rpartition("/")[2])
    return StoredShard(
        definition=definition,
        path=path,
        size=written.size,
        rows=report.shard_rows,
        cardinality_size=written.cardinality_size,
        sums=written.sums[names[0]],
        cardinality_sums=written.sums.get(names[1]),
    )


def known(report: ShardReport) -> tuple[RecordedFile, ...]:
    return tuple(
        RecordedFile(
            Fingerprint.of(row),
            recorded_blocks(row),
            frozenset(row["indirect"]),
            True,
        )
        for row in report.files.to_pylist()
    )


def local(path: str) -> Path:
    return Path(path.removeprefix("file:"))


def files_of(item: ShardItem) -> list[Path]:
    path = item.stored.path
    return [local(each) for each in (path, cardinalities_path(path)) if local(each).exists()]


def content(path: Path) -> pa.Table | None:
    """Return what Arrow reads of a file; None if it cannot read it."""
    try:
        return pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False).read()
    except (OSError, pa.ArrowException):
        return None


def flips(path: Path, end: int) -> list[bytes]:
    """Return copies of a file's bytes, each with one bit flipped somewhere before `end`."""
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    at = [0, *rng.integers(0, end, FLIPS).tolist(), end - 1]
    return [whole[:n] + bytes([whole[n] ^ 1 << int(rng.integers(8))]) + whole[n + 1 :] for n in at]


def test_what_was_written_is_right(item: ShardItem) -> None:
    found = audit_shard(item)
    assert (found.files, found.blocks, found.rows, found.stale, found.problems.messages) == (2, 10, 600, 0, [])


def test_any_flipped_bit_is_told_by_the_sums(item: ShardItem) -> None:
    for path in files_of(item):
        whole = path.read_bytes()
        for damaged in flips(path, len(whole)):
            path.write_bytes(damaged)
            assert audit_shard(item).problems.count == 1
        path.write_bytes(whole)


def test_a_flipped_bit_that_changes_what_is_read_is_told_without_sums(item: ShardItem) -> None:
    """Except in the footer: without a checksum, Arrow may read a damaged footer without an error."""
    unchecked = replace(item, stored=replace(item.stored, sums=None, cardinality_sums=None))
    for path in files_of(item):
        whole, right = path.read_bytes(), content(path)
        footer = pq.read_metadata(path).serialized_size + 8
        told = 0
        for damaged in flips(path, len(whole) - footer):
            path.write_bytes(damaged)
            found = audit_shard(unchecked).problems
            assert found.count or content(path) == right
            told += found.count > 0
        assert told > FLIPS / 2
        path.write_bytes(whole)


def test_blocks_of_a_manifest_that_lacks_their_starts() -> None:
    blocks = recorded_blocks({"offsets": [4, 9], "lengths": [5, 6], "rows": [1, 2], "starts": None})
    assert (blocks.offset.tolist(), blocks.start.tolist(), blocks.rows.tolist()) == ([4, 9], [4, 9], [1, 2])


def test_damaged_cardinalities_leave_the_bitmaps_compared(item: ShardItem) -> None:
    if not item.stored.definition.has_bitmaps:
        return
    _, counts = files_of(item)
    counts.unlink()
    found = audit_shard(item)
    assert (found.files, found.rows, found.problems.count) == (2, 600, 1)
    assert found.problems.messages[0].startswith(f"cardinalities file:{counts} cannot be read")


def test_passes_over_the_shard_see_the_same(item: ShardItem, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one pass for each block; there is a wrong row in every block, as key 0 is replaced by 99."""
    path = files_of(item)[0]
    rows = pq.read_table(path)
    keys = [99 if key == 0 else key for key in rows["k"].to_pylist()]
    pq.write_table(rows.set_column(0, "k", pa.array(keys, pa.int32())), path, store_schema=False)
    lied = replace(item, stored=replace(item.stored, size=path.stat().st_size, sums=None))
    once = audit_shard(lied)
    monkeypatch.setattr(audit, "PASS_BYTES", 1)
    gathered = []
    gather = audit._gather
    monkeypatch.setattr(audit, "_gather", lambda *args: gathered.append(args[3:]) or gather(*args))
    assert audit_shard(lied) == once
    of_files = [(file, file + 1) for file in range(2)] if item.stored.definition.counts_files else []
    assert gathered == [(block, block + 1) for block in range(10)] + of_files
    assert once.problems.count > 10


def test_a_wrong_aggregate_of_a_file_is_told(item: ShardItem) -> None:
    if not item.stored.definition.counts_files:
        return
    path = files_of(item)[0]
    right = pq.read_table(path)
    for aggregate in AGGREGATES:
        number = right.schema.get_field_index(aggregate.field.name)
        values = right[aggregate.field.name].to_pylist()
        values[3] = None if aggregate.function == "max" else values[3] + 1
        wrong = right.set_column(number, aggregate.field, pa.array(values, aggregate.field.type))
        pq.write_table(wrong, path, store_schema=False)
        found = audit_shard(replace(item, stored=replace(item.stored, size=path.stat().st_size, sums=None)))
        [message] = found.problems.messages
        assert f"has {aggregate} = {values[3]}, but its rows of the file have" in message
