"""Slots: where new segments go, and that whatever two builders do, a slot holds what one of them put there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.segments import slots

EMPTY = "file:/i/empty"
INDEX = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), root="file:/i")
SEGMENTS = [f"file:/i/generation-20260101T00000{number}-0000000{number}" for number in range(6)]
SLOTS = st.dictionaries(st.integers(0, 9), st.sampled_from([EMPTY, *SEGMENTS, "file:/strange"]), max_size=8)


def moved(before: slots.Slots, made: slots.Moves) -> dict[int, str]:
    return {**before, **dict.fromkeys(made.added, EMPTY), **made.moved}


@given(SLOTS, st.lists(st.sampled_from(SEGMENTS), unique=True), st.sets(st.sampled_from(SEGMENTS)))
def test_moves(before: dict[int, str], new: list[str], gone: set[str]) -> None:
    new = [folder for folder in new if folder not in gone]
    made = slots.plan_moves(before, EMPTY, new, gone)
    after = moved(before, made)
    kept = {folder for folder in before.values() if folder not in gone}
    assert set(after.values()) - {EMPTY} == (kept | set(new)) - {EMPTY}
    placed = [folder for folder in after.values() if folder in SEGMENTS]
    assert len(placed) == len(set(placed)), "a segment is in two slots"
    assert all(before.get(number, EMPTY) in (EMPTY, *SEGMENTS) for number in made.moved), "a strange slot is moved"
    emptied = {**before, **dict.fromkeys(made.added, EMPTY), **dict.fromkeys(made.vacated, EMPTY)}
    assert not gone & set(emptied.values()), "one by one, a reader would see a row twice"
    again = slots.plan_moves(after, EMPTY, new, gone)
    assert not again.added and not again.moved


def test_slots_are_added_only_where_none_is_free() -> None:
    made = slots.plan_moves({0: SEGMENTS[0], 3: EMPTY}, EMPTY, SEGMENTS[1:4], [SEGMENTS[0]])
    assert made.added == (1,) and made.vacated == (0,) and set(made.moved) == {0, 1, 3}


def test_two_builders_choose_different_empty_slots_by_the_names_of_their_segments() -> None:
    chosen = {next(iter(slots.plan_moves(dict.fromkeys(range(8), EMPTY), EMPTY, [one], ()).moved)) for one in SEGMENTS}
    assert len(chosen) == len(SEGMENTS)


@pytest.mark.parametrize("folder", ["file:/i", "file:/other/generation-20260101T000000-00000000", "file:/i/day=1"])
def test_what_is_no_segment_of_the_index_is_strange(folder: str) -> None:
    known = {0: EMPTY, 1: SEGMENTS[1], 2: folder, 3: SEGMENTS[0]}
    assert slots.foreign(known, INDEX) == [2] and slots.segments(known, INDEX) == SEGMENTS[:2]
