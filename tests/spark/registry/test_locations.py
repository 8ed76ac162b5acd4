"""Where an index may lie: folders that overlap, and folders that are marked as another index's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.errors import AlreadyExists
from hive_bitmap.spark.registry.locations import canonical, overlap, require_unmarked

PARTS = st.lists(st.sampled_from(["a", "ab", "b", "a b"]), max_size=4)


@given(PARTS, PARTS, st.sampled_from(["", "/"]))
def test_folders_overlap_if_one_begins_with_all_parts_of_the_other(one: list[str], other: list[str], end: str) -> None:
    shared = min(len(one), len(other))
    places = [f"file:/w{''.join(f'/{part}' for part in parts)}" for parts in (one, other)]
    assert overlap(places[0] + end, places[1]) is (one[:shared] == other[:shared])
    assert overlap(*places) is overlap(*places[::-1])


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("file:/", "file:/w", True),
        ("s3a://b", "s3a://b/x", True),
        ("s3a://b", "s3a://bc/x", False),
        ("hdfs://nn:8020/w", "file:/w", False),
        ("file:/w/t", "file:/w/t2", False),
    ],
)
def test_roots_and_stores(one: str, other: str, do: bool) -> None:
    assert overlap(one, other) is do


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("", ""),
        ("t", ""),
        ("file:t", ""),
        ("file:/w//t/", "file:/w/t"),
        ("s3://b/x", "s3a://b/x"),
        ("s3a://b/x/", "s3a://b/x"),
    ],
)
def test_places_that_no_store_has_are_nowhere(place: str, found: str) -> None:
    assert canonical(place) == found


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The root of an index, with its marker."""
    root = f"file:{tmp_path}/of i"
    definition = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), root=root, id="0" * 32)
    roots.claim(definition, "metastore")
    return root


@pytest.mark.parametrize("below", ["", "/deeper", "/deeper/still"])
def test_a_folder_of_another_index_is_taken(root: str, below: str) -> None:
    with pytest.raises(AlreadyExists) as raised:
        require_unmarked(root + below)
    told = str(raised.value)
    assert told.startswith(f"folder {root}{below} belongs to index ")
    assert told.endswith(f"run clean with the location {root}")


def test_a_folder_beside_it_or_above_it_is_free(root: str) -> None:
    require_unmarked(f"{root}2")
    require_unmarked(root.rpartition("/")[0])
    require_unmarked(f"{root.rpartition('/')[0]}/nowhere/at all")


def test_a_marker_that_cannot_be_read_keeps_its_own_folder_only(root: str) -> None:
    """Above, others may keep what this user cannot read."""
    marker = Path(root.removeprefix("file:")) / roots.MARKER
    marker.unlink()
    marker.write_text("{")
    with pytest.raises(AlreadyExists, match=r"belongs to an index whose marker cannot be read \("):
        require_unmarked(root)
    require_unmarked(f"{root}/deeper")
