"""One refresh: whom it is of, whether it did something, and whether another build is at work."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.following.refresh_queue import following
from hive_bitmap.spark.following.table_refresh import YOUNG_SECONDS, has_changed, has_looked, is_being_built
from hive_bitmap.spark.registry.catalog import Index
from tests.spark.building.generations import Workshop

PLAIN = Table(database="db", name="t", kind="MANAGED")
INDEX = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),))
NOTHING = BuildReport(
    definition=INDEX,
    base_files=0,
    base_bytes=0,
    base_rows=0,
    shards=0,
    index_rows=0,
    index_bytes=0,
    files_read=0,
    bytes_read=0,
    shards_kept=0,
    partitions_dropped=0,
    changed=0,
    seconds=1.0,
    unindexed=(),
)


def index(name: str, trusted: bool = True, **fields: Any) -> Index:
    return Index(definition=replace(INDEX, name=name, **fields), table=PLAIN, trusted=trusted)


def test_indexes_that_follow_are_those_that_say_so_and_are_trusted() -> None:
    indexes = [
        index("a", auto_refresh=True),
        index("b"),
        index("c", trusted=False, auto_refresh=True),
        replace(index("d", auto_refresh=True), problem="of an earlier build"),  # which a refresh may mend
        index("e", auto_refresh=True, enabled=False),
    ]
    assert [one.definition.name for one in following(indexes)] == ["a", "d", "e"]


@pytest.mark.parametrize(
    ("fields", "looked", "changed"),
    [
        ({}, False, False),
        ({"untouched": 3}, True, False),  # known to be up to date
        ({"base_files": 3}, True, False),
        ({"files_read": 1}, True, True),
        ({"partitions_dropped": 1}, True, True),
        ({"changed": 1}, True, True),  # files that changed meanwhile: it is to look again
        ({"shards_kept": 5, "seconds": 9.0}, False, False),
    ],
)
def test_whether_a_refresh_has_looked_and_changed_something(
    fields: dict[str, Any], looked: bool, changed: bool
) -> None:
    report = replace(NOTHING, **fields)
    assert (has_looked(report), has_changed(report)) == (looked, changed)


def begun(shop: Workshop, age: float = 0.0) -> str:
    """Begin a segment of this age, by its name."""
    when = datetime.fromtimestamp(time.time() - age, timezone.utc)
    name = f"generation-{when:%Y%m%dT%H%M%S}-0a1b2c3d"
    folder = f"{shop.definition.root}/{name}"
    generation.start(folder, None, shop.definition)
    return folder


def busy(shop: Workshop) -> bool:
    return is_being_built(Index(definition=shop.definition, table=PLAIN))


def test_a_build_of_this_machine_that_lives_is_waited_for(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    assert not busy(shop)
    begun(shop)
    assert busy(shop)


def test_a_build_that_is_complete_has_ended_or_began_long_ago_is_not(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    shop.carried_out(shop.change(shop.write("a", [1])))
    assert not busy(shop)
    begun(shop, age=YOUNG_SECONDS + 60)
    assert not busy(shop)
    marker = Path(local_path(f"{begun(shop)}/{generation.MARKER}"))
    assert busy(shop)
    text = marker.read_text().replace(f'"pid": {os.getpid()}', '"pid": 4194305')  # no process has this number
    marker.unlink()
    marker.write_text(text)
    assert not busy(shop)
