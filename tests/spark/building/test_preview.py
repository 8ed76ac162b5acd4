"""What a preview says of a planned rebuild, given as a value."""

from __future__ import annotations

from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import CHANGED, NEW, UNBUILT, Manifest
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.building.build_scope import BuildPlan, Scope
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.building.preview import (
    BUILD,
    BYTE_SECONDS,
    DROP,
    JOB_SECONDS,
    REFRESH,
    ROW_SECONDS,
    PartitionPreview,
    Preview,
    preview_of,
)
from hive_bitmap.spark.building.refresh import Refresh, from_scratch
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.registry.catalog import Published
from tests.spark.building.test_refresh import SIZE, Known, manifest, planned

BASE = Table(database="db", name="t", kind="MANAGED", partition_columns=(Column("p", "int"),))
INDEX = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),))
OLD = Published("file:/i/generation")


def change(values: Values, plan: Refresh, published: Manifest | None = None, index: int = 0) -> Change:
    source = Source(values, "file:/w", ())
    return Change(
        index=index,
        partition=0,
        definition=INDEX,
        source=source,
        published=published,
        refresh=plan,
        folder="file:/new",
    )


def previewed(*changes: Change, cores: int = 1, gone: tuple[Values, ...] = ()) -> Preview:
    sources = tuple(change.source for change in changes)
    scope = Scope(definition=INDEX, published=dict.fromkeys(gone, OLD), partitions=tuple(range(len(sources))))
    plan = BuildPlan(base=BASE, sources=sources, scopes=(scope,), changes=changes, schema_crc=1)
    return preview_of(plan, 0, cores)


def new(*sizes: int) -> Refresh:
    return from_scratch([FileStatus(f"/{number}", size, 1, "") for number, size in enumerate(sizes)])


KEPT = [Known("/1"), Known("/2", "b")]
PUBLISHED = manifest(KEPT)  # of each shard 3 rows, of each file SIZE bytes
UP_TO_DATE = planned(PUBLISHED, KEPT)
CHANGED_ONE = planned(PUBLISHED, [*KEPT[:1], Known("/2", "b", mtime_ms=9), Known("/3")])
VANISHED = planned(manifest([Known("/1"), Known("/2")]), [Known("/1")])


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (
            change(("1",), new(10, 20)),
            PartitionPreview(name="p=1", what=BUILD, files=2, bytes=30, why=((UNBUILT, 2),)),
        ),
        (change((None,), new()), PartitionPreview(name="p=NULL", what=BUILD)),
        (
            change(("1",), CHANGED_ONE, PUBLISHED),
            PartitionPreview(
                name="p=1",
                what=REFRESH,
                files=2,
                bytes=2 * SIZE,
                shards_kept=1,
                why=((CHANGED, 1), (NEW, 1)),
            ),
        ),
        (change(("1",), VANISHED, PUBLISHED), PartitionPreview(name="p=1", what=REFRESH, shards_rewritten=1)),
        (change(("1",), UP_TO_DATE, PUBLISHED), None),
    ],
)
def test_what_happens_to_a_partition(one: Change, told: PartitionPreview | None) -> None:
    found = previewed(one)
    assert found.partitions == (() if told is None else (told,))
    assert found.untouched == (told is None)
    assert (found.files, found.bytes) == ((0, 0) if told is None else (told.files, told.bytes))


def test_partitions_that_go_come_last() -> None:
    one, other = change(("1",), new(10)), change(("2",), UP_TO_DATE, PUBLISHED)
    found = previewed(one, other, gone=(("1",), ("8",), ("9",)))
    assert [(part.name, part.what) for part in found.partitions] == [("p=1", BUILD), ("p=8", DROP), ("p=9", DROP)]
    assert found.untouched == 1
    assert str(found).endswith("; 2 partitions are dropped")


def test_changes_of_other_indexes_are_not_told() -> None:
    found = previewed(change(("1",), new(10)), change(("1",), new(10), index=1))
    assert (len(found.partitions), found.files) == (1, 1)


def test_reasons_are_added_up_the_most_frequent_first() -> None:
    found = previewed(
        change(("1",), new(10)),
        change(("2",), planned(manifest([]), [Known("/8"), Known("/9")]), manifest([])),
        change(("3",), CHANGED_ONE, PUBLISHED),
    )
    assert list(found.why.items()) == [(NEW, 3), (UNBUILT, 1), (CHANGED, 1)]
    assert "5 files of 410 B to read (3 new, 1 not indexed yet, 1 changed)" in str(found)


@pytest.mark.parametrize(
    ("changes", "cores", "seconds"),
    [
        ([], 1, 0.0),
        ([change(("1",), UP_TO_DATE, PUBLISHED)], 1, 0.0),
        ([change(("1",), VANISHED, PUBLISHED)], 1, 0.0),  # it reads no base files
        ([change(("1",), new(10**9))], 1, JOB_SECONDS + 10**9 * BYTE_SECONDS),
        ([change(("1",), new(10**9))], 4, JOB_SECONDS + 10**9 * BYTE_SECONDS / 4),
        # as many rows to a byte as there are: here 6 of 200
        (
            [change(("1",), new(10**6)), change(("2",), UP_TO_DATE, PUBLISHED)],
            1,
            JOB_SECONDS + 10**6 * BYTE_SECONDS + 30_000 * ROW_SECONDS,
        ),
        ([change(("1",), new(10**9), manifest([]))], 1, JOB_SECONDS + 10**9 * BYTE_SECONDS),
    ],
)
def test_how_long_it_takes(changes: list[Change], cores: int, seconds: float) -> None:
    assert previewed(*changes, cores=cores).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"partitions": ()}, "i on db.t: up to date"),
        (
            {"partitions": (PartitionPreview(name="p=1", what=DROP),)},
            "i on db.t: 0 files of 0 B to read (none), some 0 ms; 1 partitions are dropped",
        ),
    ],
)
def test_a_preview_in_a_sentence(fields: dict[str, Any], said: str) -> None:
    found = Preview(INDEX, untouched=3, **fields)
    assert str(found) == said
    assert repr(found) == f"Preview({said})"
