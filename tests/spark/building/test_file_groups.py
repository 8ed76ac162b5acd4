"""Base files in groups, a shard each: how large they are, who shares them, and what is rewritten beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import FILES, SHARDS
from hive_bitmap.core.indexing.group_indexing import Group
from hive_bitmap.core.indexing.segment_change import BaseFile, Change
from hive_bitmap.core.indexing.shard_compaction import Compaction
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.spark.building.build_job import Job
from hive_bitmap.spark.building.file_groups import (
    GROUP_BYTES,
    SMALL_GROUP_BYTES,
    count_shards,
    distinct,
    grouped,
    jobs_like,
    shard_bytes,
)
from hive_bitmap.spark.metastore.base_files import Source
from tests.spark.building.generations import new_segment, texts

MIB = 1 << 20
COLUMNS = (Column("k", "int"), Column("n", "int"))
TEMPLATE = Group(
    paths=(),
    bytes=0,
    read_options=ReadOptions("parquet", COLUMNS, "UTC"),
    schema_crc=7,
    definitions=(),
    folders=(),
)


def files(*sizes: int, etag: str = "") -> list[FileStatus]:
    return [FileStatus(f"file:/w/{number:03}", size, 1, etag) for number, size in enumerate(sizes)]


def of(found: Sequence[FileStatus], *values: str) -> list[BaseFile]:
    """The same files in a partition."""
    return [BaseFile(values, file) for file in found]


def change(index: int, *read: FileStatus, values: tuple[str, ...] = (), **fields: Any) -> Change:
    by = tuple(Column(f"p{number}", "string") for number in range(len(values)))
    columns = {"columns": COLUMNS[:1], "partitioned_by": by}
    return Change(
        **{
            "index": index,
            "definition": Definition(name=f"i{index}", database="db", table="t", **columns),  # type: ignore[arg-type]
            "segment": new_segment(),
            "folder": f"file:/i{index}/p{''.join(values)}",
            "read": tuple(of(read, *values)),
            **fields,
        }
    )


def jobs(changes: list[Change], cores: int) -> list[Job]:
    return jobs_like(TEMPLATE, changes, cores, texts)


@pytest.mark.parametrize(
    ("total", "cores", "bytes"),
    [
        (0, 4, SMALL_GROUP_BYTES),
        (64 * MIB, 4, SMALL_GROUP_BYTES),
        (128 * MIB, 4, 16 * MIB),
        (1 << 40, 4, GROUP_BYTES),
        (1 << 40, 1 << 16, SMALL_GROUP_BYTES),
    ],
)
def test_shards_occupy_the_cores_within_limits(total: int, cores: int, bytes: int) -> None:
    assert shard_bytes(total, cores) == bytes


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 60))
def test_groups_are_the_files_in_order_and_about_equal(sizes: list[int], target: int) -> None:
    given = of(files(*sizes))
    groups = [list(group) for group in grouped(given, target)]
    assert [file for group in groups for file in group] == given
    assert all(groups) and len(groups) <= max(round(sum(sizes) / target), 1)
    each = sum(sizes) / max(round(sum(sizes) / target), 1)
    largest = max(sizes, default=0)
    assert all(sum(file.status.size for file in group) <= 1.5 * each + largest for group in groups)
    assert all(sum(file.status.size for file in some + more) > each - largest for some, more in pairwise(groups))


@pytest.mark.parametrize(
    ("sizes", "target", "groups"),
    [
        ([], 10, []),
        ([5], 10, [1]),
        ([100], 10, [1]),  # a file is never cut
        ([0, 0, 0], 10, [3]),
        ([7, 4, 9], 10, [2, 1]),  # the nearer end
        ([10] * 6, 20, [2, 2, 2]),
        ([10] * 6, 25, [3, 3]),
        ([30, 1, 1, 1], 11, [1, 3]),
        ([1, 1, 1, 30], 11, [3, 1]),
        ([1000, *[1] * 100], 10, [1, *[10] * 10]),
    ],
)
def test_groups_of_files(sizes: list[int], target: int, groups: list[int]) -> None:
    assert [len(group) for group in grouped(of(files(*sizes)), target)] == groups


def test_a_group_has_a_path_once() -> None:
    a, b, c = files(1, 1, 1)
    shared = [*of([a, b], "1"), *of([b, c], "2"), *of([b], "3")]
    found = [[(file.values, file.status.path[-1]) for file in group] for group in distinct(shared)]
    assert found == [[(("1",), "0"), (("1",), "1"), (("2",), "2")], [(("2",), "1")], [(("3",), "1")]]


def test_shards_are_counted_whatever_the_partitions() -> None:
    one, other = Source(("1",), "", tuple(files(*[8 * MIB] * 4))), Source(("2",), "", tuple(files(MIB)))
    assert count_shards([one, other, Source(("3",), "", ())], 4) == 4
    assert count_shards([one, other], 1) == 2  # 16 MiB each
    assert count_shards([], 4) == 0


def test_a_file_that_several_indexes_need_is_read_once() -> None:
    a, b, c, d = files(1, 2, 4, 8)
    found = jobs([change(0, c, a, values=("0",)), change(1, d, a, values=("0",)), change(2, a, values=("1",))], 4)
    works = {(job.segments, job.work.paths, job.work.bytes) for job in found if isinstance(job.work, Group)}
    assert works == {
        ((0, 1), (a.path,), 1),
        ((0,), (c.path,), 4),
        ((1,), (d.path,), 8),
        ((2,), (a.path,), 1),  # of another partition
    }
    [shared] = [job.work for job in found if job.segments == (0, 1)]
    assert isinstance(shared, Group)
    assert [one.name for one in shared.definitions] == ["i0", "i1"]
    assert shared.folders == ("file:/i0/p0", "file:/i1/p0")
    assert (shared.read_options, shared.schema_crc) == (TEMPLATE.read_options, TEMPLATE.schema_crc)
    assert shared.values == (("0",),) and shared.typed is not None and shared.typed["p0"].to_pylist() == ["0"]
    assert {job.work.values for job in found if isinstance(job.work, Group)} == {(("0",),), (("1",),)}
    assert b.path not in {path for _, paths, _ in works for path in paths}


def test_files_of_a_group_are_in_the_order_of_the_plan() -> None:
    given = files(*[MIB] * 24)
    one, two = jobs([change(0, *given)], 1)
    paths = [path for job in (one, two) if isinstance(job.work, Group) for path in job.work.paths]
    assert paths == [file.path for file in given]


def test_files_that_are_never_written_again_are_named() -> None:
    mutable, immutable = files(1)[0], replace(files(1)[0], path="file:/w/x", etag=IMMUTABLE)
    [job] = jobs([change(0, mutable, immutable)], 4)
    assert isinstance(job.work, Group) and dict(job.work.immutable) == {"file:/w/x": immutable}


def test_shards_are_rewritten_beside_what_is_read() -> None:
    kept = pa.Table.from_pylist(
        [
            {"path": f"file:/w/{name}", "values": [], "size": 5, "mtime_ms": 1, "etag": "e", "shard": shard}
            for name, shard in [("a", "file:/old/s1"), ("b", "file:/old/s2"), ("c", "file:/older/s3"), ("d", None)]
        ],
        FILES,
    )
    shards = pa.Table.from_pylist(
        [
            {"shard": f"file:/old{'er' * (n == 3)}/s{n}", "size": 10 * n, "rows": 1, "cardinality_size": 0}
            for n in (1, 2, 3)
        ],
        SHARDS,
    )
    rewritten = (("file:/old/s1", "file:/old/s2"), ("file:/older/s3",))
    segment = new_segment(["file:/old", "file:/older"], kept, rewritten=rewritten)
    moved = change(1, segment=segment, shards=shards, moved={"file:/w/a": "file:/before/a"})
    new = files(1)[0]
    group, *works = [job.work for job in jobs([change(0, new), moved], 4)]
    assert isinstance(group, Group) and group.paths == (new.path,)
    one, other = (work for work in works if isinstance(work, Compaction))
    assert one.shards == (("file:/old/s1", 10), ("file:/old/s2", 20)) and other.shards == (("file:/older/s3", 30),)
    assert (one.group.paths, one.group.bytes) == (("file:/w/a", "file:/w/b"), 10)
    assert one.files["path"].to_pylist() == ["file:/w/a", "file:/w/b"]
    assert (one.former, one.group.folders) == ({"file:/w/a": "file:/before/a"}, (moved.folder,)) and not other.former


def test_nothing_to_do_is_no_job() -> None:
    assert jobs([], 4) == []
    assert jobs([change(0)], 4) == []
