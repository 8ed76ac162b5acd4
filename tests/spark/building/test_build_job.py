"""The job of a build: how work is divided among tasks, and what a task does with its share. No Spark is needed."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.index.manifest import FILES
from hive_bitmap.core.indexing.group_indexing import Group, ShardReport
from hive_bitmap.core.indexing.shard_compaction import Compaction
from hive_bitmap.spark.building.build_job import Job, balanced, run_jobs, weight
from tests.spark.building.generations import Workshop
from tests.spark.building.test_file_groups import TEMPLATE


def job(size: int, number: int = 0) -> Job:
    group = Group(**{**vars(TEMPLATE), "bytes": size, "paths": (f"file:/w/{number}",)})
    return Job((number,), group)


def tasks_of(jobs: list[Job], capacity: list[int]) -> list[list[Job]]:
    ordered = iter(balanced(jobs, capacity))
    return [[next(ordered) for _ in range(count)] for count in capacity]


@pytest.mark.parametrize(
    ("sizes", "capacity", "loads"),
    [
        ([], [], []),
        ([5], [1], [5]),
        ([1, 1, 1, 9], [2, 2], [10, 2]),
        ([9, 1, 8, 2], [2, 2], [10, 10]),
        ([3, 3, 3], [1, 2], [3, 6]),
        ([0, 0, 7], [1, 1, 1], [7, 0, 0]),
    ],
)
def test_tasks_have_about_as_much_to_read(sizes: list[int], capacity: list[int], loads: list[int]) -> None:
    found = tasks_of([job(size, number) for number, size in enumerate(sizes)], capacity)
    assert [sum(one.work.bytes for one in task) for task in found] == loads


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 8))
def test_every_job_is_done_once_and_no_task_has_much_more_than_need_be(sizes: list[int], tasks: int) -> None:
    tasks = min(tasks, len(sizes))
    bounds = [len(sizes) * task // tasks for task in range(tasks + 1)]
    jobs = [job(size, number) for number, size in enumerate(sizes)]
    capacity = [end - start for start, end in pairwise(bounds)]
    found = tasks_of(jobs, capacity)
    assert sorted(one.segments for task in found for one in task) == sorted(one.segments for one in jobs)
    in_order = [sum(sizes[start:end]) for start, end in pairwise(bounds)]
    loads = [sum(one.work.bytes for one in task) for task in found]
    assert max(loads) <= 2 * max(in_order)


class Counter:
    """What tasks add, as Spark's accumulator takes it."""

    def __init__(self) -> None:
        self.added: list[tuple[int, int, int]] = []

    def add(self, done: tuple[int, int, int]) -> None:
        self.added.append(done)


def carried_out(jobs: list[Job], counter: Counter | None) -> list[ShardReport]:
    sent = pa.record_batch([pa.array([pickle.dumps(jobs)], pa.binary())], ["items"])
    return [pickle.loads(one.as_py()) for batch in run_jobs([sent], counter) for one in batch["result"]]


def test_a_task_reports_each_shard_under_the_numbers_of_the_build(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    a, b = shop.write("a.parquet", [1, 2, 3]), shop.write("b.parquet", [4])
    folders = tuple(f"file:{tmp_path}/{name}" for name in ("one", "other"))
    for folder in folders:
        Path(folder.removeprefix("file:")).mkdir()
    fields = {**vars(shop.template), "definitions": (shop.definition,) * 2, "folders": folders}
    jobs = [
        Job((5, 3), Group(**{**fields, "paths": (a.path, b.path), "bytes": a.size + b.size})),
        Job((4,), Group(**{**fields, "paths": (b.path,), "definitions": (shop.definition,), "folders": folders[:1]})),
    ]
    counter = Counter()
    reports = carried_out(jobs, counter)
    assert [(one.index, one.base_rows) for one in reports] == [(5, 4), (3, 4), (4, 1)]
    # files are counted once, however many indexes there are of them
    assert counter.added == [(2, 4, a.size + b.size), (1, 1, b.size)]
    assert carried_out([], counter) == [] and len(counter.added) == 2


def test_files_that_cannot_be_read_have_no_bytes_that_count(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    gone = f"file:{tmp_path}/base/gone.parquet"
    change = shop.change()
    Path(change.folder.removeprefix("file:")).mkdir(parents=True)
    fields = {**vars(shop.template), "definitions": (shop.definition,), "folders": (change.folder,)}
    counter = Counter()
    [report] = carried_out([Job((0,), Group(**{**fields, "paths": (gone,)}))], counter)
    assert (report.shard, report.files.num_rows, counter.added) == (None, 0, [(1, 0, 0)])


def test_a_compaction_reads_no_base_files_that_count(tmp_path: Path) -> None:
    counter = Counter()
    group = Group(**{**vars(TEMPLATE), "folders": (f"file:{tmp_path}",)})
    work = Compaction((), FILES.empty_table(), group)
    assert Job((0,), work).group is group
    assert carried_out([Job((0,), work)], counter) == [] and counter.added == []


def test_work_on_local_disks_is_done_alone() -> None:

    local = Job((0,), Group(**{**vars(TEMPLATE), "bytes": 5, "folders": ("file:/i",)}))
    remote = Job((0,), Group(**{**vars(TEMPLATE), "bytes": 5, "folders": ("s3a://bucket/i",)}))
    assert (weight(local), weight(remote)) == (math.inf, 5)
