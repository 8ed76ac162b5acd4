"""What a preview says of a planned rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import CHANGED, NEW
from hive_bitmap.core.indexing.segment_change import Change
from hive_bitmap.core.segments.segment_plan import Rules
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.building.build_scope import BuildPlan, Indexed, Scope
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
from tests.core.segments.segment_world import World, at

P = Column("p", "string")
BASE = Table(database="db", name="t", kind="MANAGED", partition_columns=(P,))
INDEX = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), partitioned_by=(P,))
TODAY: dict[tuple[Values, str], int] = {(("1",), "file:/1/a"): 1, (("1",), "file:/1/b"): 1, (("2",), "file:/2/a"): 1}
NOW = at(0, remove_dead=True)


def previewed(
    before: Mapping[tuple[Values, str], int],
    after: Mapping[tuple[Values, str], int],
    rules: Rules = NOW,
    cores: int = 1,
    size: int = 100,
) -> Preview:
    world = World(size=size)
    world.build(before)
    listing, made = world.planned(after, rules=rules)
    indexed = Indexed(definition=INDEX, covered=world.covered(), slots=world.slots, full=rules.full, moved={})
    changes = tuple(Change(index=0, definition=INDEX, segment=one, folder="", read=()) for one in made.new)
    scopes = (Scope(before=indexed, plan=made, listing=listing),)
    return preview_of(BuildPlan(base=BASE, sources=(), scopes=scopes, changes=changes, schema_crc=1), 0, cores)


def test_what_happens_to_each_partition() -> None:
    after = {**TODAY, (("1",), "file:/1/b"): 2, (("3",), "file:/3/a"): 1, ((None,), "file:/n/a"): 1}
    del after[("2",), "file:/2/a"]
    found = previewed(TODAY, after)
    assert set(found.partitions) == {
        PartitionPreview(name="p=1", what=REFRESH, files=1, bytes=100, why=((CHANGED, 1),)),
        PartitionPreview(name="p=3", what=BUILD, files=1, bytes=100, why=((NEW, 1),)),
        PartitionPreview(name="p=NULL", what=BUILD, files=1, bytes=100, why=((NEW, 1),)),
        PartitionPreview(name="p=2", what=DROP),
    }
    assert (found.files, found.bytes, found.untouched, dict(found.why)) == (3, 300, 0, {NEW: 2, CHANGED: 1})
    assert (found.shards_kept, found.shards_rewritten) == (1, 0)
    assert "3 files of 300 B to read (2 new, 1 changed)" in str(found)
    assert str(found).endswith("; 1 partitions are dropped")


def test_partitions_that_do_not_change_are_counted() -> None:
    found = previewed(TODAY, {**TODAY, (("3",), "file:/3/a"): 1})
    assert ([one.name for one in found.partitions], found.untouched) == (["p=3"], 2)
    assert previewed(TODAY, TODAY).partitions == () and str(previewed(TODAY, TODAY)) == "i on db.t: up to date"


def test_a_full_rebuild_builds_each_partition() -> None:
    found = previewed(TODAY, TODAY, at(0, full=True))
    assert {one.what for one in found.partitions} == {BUILD} and found.files == 3


@pytest.mark.parametrize(
    ("before", "after", "cores", "seconds"),
    [
        (TODAY, TODAY, 1, 0.0),
        (TODAY, dict(list(TODAY.items())[:2]), 1, 0.0),  # it reads no base files
        ({}, {(("1",), "x"): 1}, 1, JOB_SECONDS + 10**9 * BYTE_SECONDS),
        ({}, {(("1",), "x"): 1}, 4, JOB_SECONDS + 10**9 * BYTE_SECONDS / 4),
        # as many rows to a byte as there are: here one a file
        (TODAY, {**TODAY, (("9",), "x"): 1}, 1, JOB_SECONDS + 10**9 * BYTE_SECONDS + ROW_SECONDS),
    ],
)
def test_how_long_it_takes(
    before: Mapping[tuple[Values, str], int], after: Mapping[tuple[Values, str], int], cores: int, seconds: float
) -> None:
    assert previewed(before, after, cores=cores, size=10**9).seconds == pytest.approx(seconds)


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
