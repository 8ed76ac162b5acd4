"""What a planned build has in scope: what is read of an index, which folders and partitions go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.segments.covered import Covered, Listing
from hive_bitmap.core.segments.segment_plan import SegmentPlan
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.building import build_scope
from hive_bitmap.spark.building.build_scope import BuildPlan, Indexed, Scope, trusted
from hive_bitmap.spark.registry.catalog import Index
from tests.core.segments.segment_world import World
from tests.spark.building.generations import CRC, K, Workshop

BASE = Table(database="db", name="t", kind="MANAGED")
INDEX = Definition(name="i", database="db", table="t", columns=(K,))


def test_damage_that_came_after_a_manifest_was_read_is_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Workshop.at(tmp_path)
    a, b = shop.write("a.parquet", [1]), shop.write("b.parquet", [2])
    folders = [shop.carried_out(shop.change(file))[1].folder for file in (a, b)]
    covered, unreadable = build_scope._read(folders, shop.definition, fresh=True)
    assert covered.files["path"].to_pylist() == [a.path, b.path] and not unreadable
    [files] = [f for f in stores.listing(f"{folders[0]}/_manifest").files if f.path.endswith("files.parquet")]
    Path(local_path(files.path)).write_bytes(b"PAR1")
    assert build_scope._read(folders, shop.definition, fresh=False)[1] == ()
    covered, unreadable = build_scope._read(folders, shop.definition, fresh=True)
    assert covered.files["path"].to_pylist() == [b.path] and unreadable == (folders[0],)
    assert "a damaged part of the index is built from scratch" in caplog.text


def scope_of(world: World, made: SegmentPlan, listing: Listing) -> Scope:
    before = Indexed(definition=INDEX, covered=world.covered(), slots=world.slots, foreign=("file:/strange",), moved={})
    return Scope(before=before, plan=made, listing=listing)


def test_partitions_of_which_nothing_is_kept_are_dropped() -> None:
    world, table = World(), {((str(day),), f"file:/t/{day}"): 1 for day in range(4)}
    world.build(table)
    left = {file: 1 for file in table if file[0] in (("1",), ("2",))}
    listing, made = world.planned(left)
    scope = scope_of(world, made, listing)
    assert scope.dropped == [("0",), ("3",)] and scope.kept == frozenset()
    assert scope.gone == {*world.live(), "file:/strange"}
    attached = replace(scope, before=replace(scope.before, is_attached=True))  # another index's: nothing of it goes
    assert (attached.dropped, attached.gone) == ([], {"file:/strange"})


def test_a_plan_is_empty_if_nothing_is_written_and_no_slot_moved() -> None:
    nothing = Indexed(definition=INDEX, covered=Covered.by([]), slots={}, moved={})
    scope = Scope(before=nothing, plan=SegmentPlan((), ()), listing=Listing.of([]))
    plan = BuildPlan(base=BASE, sources=(), scopes=(scope,), changes=(), schema_crc=CRC)
    assert plan.is_empty
    strange = replace(scope, before=replace(nothing, foreign=("file:/strange",)))
    assert not replace(plan, scopes=(scope, strange)).is_empty


def index(name: str, problem: str = "", trusted: bool = True) -> Index:
    return Index(definition=replace(INDEX, name=name), table=BASE, problem=problem, trusted=trusted)


A, B, STRANGE = index("a"), index("b", "it lost a column"), index("x", "of another owner", trusted=False)


@pytest.mark.parametrize(
    ("indexes", "names", "told"),
    [
        ([], "", ""),
        ([A, B], "ab", ""),  # a problem is what a rebuild repairs
        ([A, STRANGE], "a", "not rebuilt: of another owner"),
        ([STRANGE], "x", ""),  # it is refused with its problem then, and not passed over
    ],
)
def test_indexes_that_are_not_trusted_are_left_out_and_told(
    indexes: list[Index], names: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "".join(one.definition.name for one in trusted(indexes)) == names
    assert caplog.messages == ([told] if told else [])
