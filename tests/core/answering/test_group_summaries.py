"""Summaries of a column for each group of another, against Python's sets over the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering import group_summaries as summing
from hive_bitmap.core.answering.answer_size import TooLarge
from hive_bitmap.core.answering.group_summaries import GroupSummary, group_summaries, is_summarized
from hive_bitmap.core.answering.key_merge import DISTINCT
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.errors import CorruptIndex
from tests.core.answering.test_partial_sums import PREDICATES, lookup_of_files
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import Row, truth

ROW = st.fixed_dictionaries(
    {"k": st.sampled_from([None, -1, 0, 1, 2]), "s": st.sampled_from([None, "a", "b", "c", "d"]), "v": st.just(1)}
)


def expected(rows: list[Row], needed: GroupSummary) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(row[needed.group], []).append(row[needed.column])
    known = {group: [key for key in keys if key is not None] for group, keys in groups.items()}
    return {
        group: (len(keys), keys.count(None), len(set(known[group])), min(known[group], default=None),
                max(known[group], default=None))
        for group, keys in groups.items()
    }  # fmt: skip


def told(rows: list[dict[str, Any]], needed: GroupSummary) -> dict[Any, tuple[Any, ...]]:
    """What Spark's functions make of the rows of summaries."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        assert row[COUNT] > 0
        groups.setdefault(row[needed.group], []).append(row)
    result = {}
    for group, of_group in groups.items():
        assert len(of_group) <= 3
        keys = [row[needed.column] for row in of_group if row[needed.column] is not None]
        counts = [sum(row[name] for row in of_group) for name in (COUNT, DISTINCT)]
        nulls = sum(row[COUNT] for row in of_group if row[needed.column] is None)
        result[group] = (counts[0], nulls, counts[1], min(keys, default=None), max(keys, default=None))
    return result


@given(
    st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=3),
    st.sampled_from(PREDICATES),
    st.sampled_from(["BITMAP", "AGGREGATE"]),
    st.sampled_from([GroupSummary(group="k", column="s"), GroupSummary(group="s", column="k")]),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0, 1 << 16]),
)
@settings(max_examples=40)
def test_summaries_are_those_of_the_rows(
    tmp_path: Path,
    files: list[list[Row]],
    predicate: Predicate,
    kind: str,
    needed: GroupSummary,
    row_group: int,
    held: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", row_group)
        patch.setattr(summing, "FEW_KEYS", -1)
        patch.setattr(summing, "HELD_ROWS", held)
        lookups = [lookup_of_files(tmp_path, files, "int", predicate, kind=kind)[0]]
        assert is_summarized(lookups, needed.columns, needed)
        found = group_summaries(lookups, needed, {}, 1 << 20)
    assert found.column_names == [needed.group, needed.column, COUNT, DISTINCT]
    matching = [row for rows in files for row in rows if truth(predicate, row)]
    assert told(found.to_pylist(), needed) == expected(matching, needed)


def test_what_is_not_summarized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[list[Row]] = [[{"k": n, "s": str(n), "v": n} for n in range(20)]]
    lookup, _ = lookup_of_files(tmp_path, files, "int", TRUE)
    needed = GroupSummary(group="k", column="s")
    assert not is_summarized([lookup], ("k", "s"), needed)  # few keys
    monkeypatch.setattr(summing, "FEW_KEYS", 5)
    assert is_summarized([lookup], ("k", "s"), needed) and is_summarized([lookup], ("s", "k"), needed)
    assert not is_summarized([lookup], ("k",), needed) and not is_summarized([lookup], ("k", "s"), None)
    deleted = lookup_of(lookup.unit, TRUE, deletes=("a",))
    other = lookup_of(lookup.unit, Compare("v", "=", 1))
    assert not is_summarized([deleted], ("k", "s"), needed) and not is_summarized([other], ("k", "s"), needed)
    monkeypatch.setattr(summing, "MOST_PAIRS", -1)
    assert not is_summarized([lookup], ("k", "s"), needed)


def test_limits_and_damage_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    files: list[list[Row]] = [[{"k": n, "s": str(n), "v": n} for n in range(20)]]
    lookup, _ = lookup_of_files(tmp_path, files, "int", TRUE)
    needed = GroupSummary(group="k", column="s")
    monkeypatch.setattr(summing, "HELD_ROWS", 1)
    with pytest.raises(TooLarge):
        group_summaries([lookup], needed, {}, 500)
    more = replace(lookup.unit, rows=lookup.unit.rows + 1)
    with pytest.raises(CorruptIndex):
        group_summaries([lookup_of(more, TRUE)], needed, {}, 1 << 20)
