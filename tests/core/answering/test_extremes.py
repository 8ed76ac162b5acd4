"""The smallest and the largest key of shards, without Spark, with Python's min and max over the rows as the oracle."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering.extremes import extremes, has_order, index_covers
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.selecting.candidates import Lookup, restrict
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.select import is_understood
from hive_bitmap.errors import CorruptIndex
from tests.core.answering.test_tally import composite
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import FILES, PREDICATES, Row, truth, unit_of


def require_found(lookups: list[Lookup], key: str, rows: list[Row]) -> None:
    """Require the extremes of these rows."""
    values = [row[key] for row in rows if row[key] is not None]
    table = extremes(lookups, key, {}, len(rows))
    expected: list[Any] = sorted({min(values), max(values)}) if values else [None]
    assert table.column_names == [key, COUNT]
    assert table[key].to_pylist() == expected
    assert sum(table[COUNT].to_pylist()) == len(rows)


@given(FILES, PREDICATES, st.sampled_from(["k", "s"]), st.data())
@settings(max_examples=40)
def test_extremes_are_pythons(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, key: str, data: st.DataObject
) -> None:
    """Also of some files of a shard, as where others are deleted: its statistics are only bounds then."""
    wanted = data.draw(st.sets(st.integers(0, len(files) - 1), min_size=1)) if files else set()
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    units = [composite(folder, some, "gap") for folder, some in zip(folders, (files, files[:1]), strict=True)]
    predicate = predicate if is_understood(predicate, units[0].parts, {}) else TRUE
    lookups = [restrict(lookup_of(units[0], predicate), sorted(wanted)), lookup_of(units[1], predicate)]
    rows = [row for number in sorted(wanted) for row in files[number]] + [row for file in files[:1] for row in file]
    rows = [row for row in rows if truth(predicate, row)]
    assert all(index_covers(lookup, key) for lookup in lookups)
    if rows:
        require_found(lookups, key, rows)


def test_few_row_groups_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.index.shard.ROW_GROUP_ROWS", 10)
    rows = [{"k": n, "s": "a", "f": 0.0} for n in range(200)]
    unit = unit_of(tmp_path, [rows], {"k": "gap"}, {"k": [0]})
    part = unit.parts["k"]
    [(path, size)] = part.shards
    assert len(shards.statistics(path, size, "k")) >= 10
    read: list[int] = []
    of_group = shards._row_group
    monkeypatch.setattr(
        shards,
        "_row_group",
        lambda opened, group, key, kind: read.append(group) or of_group(opened, group, key, kind),  # type: ignore[func-returns-value]
    )
    require_found([lookup_of(unit)], "k", rows)
    assert len(read) == 2
    read.clear()
    shards.clear_caches()
    rare = Compare("k", "<=", 42)
    require_found([lookup_of(unit, rare)], "k", rows[:43])
    assert len(read) < len(shards.statistics(path, size, "k"))


def test_an_index_of_other_columns_does_not_know(tmp_path: Path) -> None:
    files = [[{"k": n, "s": "a", "f": 0.0} for n in range(7)]]
    unit = unit_of(tmp_path, files, {"k": "gap", "s": "gap"}, {"k": [0], "s": [0]})
    assert index_covers(lookup_of(unit), "k")
    assert index_covers(lookup_of(unit, Compare("k", ">", 1)), "k")
    assert not index_covers(lookup_of(unit, Compare("s", "=", "a")), "k")
    assert not index_covers(lookup_of(unit), "f")


def test_more_keys_than_rows_is_damage(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [[{"k": n, "s": "a", "f": 0.0} for n in range(7)]], {"k": "gap"}, {"k": [0]})
    with pytest.raises(CorruptIndex, match="do not fit the 1 rows"):
        extremes([lookup_of(unit)], "k", {}, 1)


def test_a_missing_shard_is_damage(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [[{"k": n, "s": "a", "f": 0.0} for n in range(7)]], {"k": "gap"}, {"k": [0]})
    part = replace(unit.parts["k"], shards=((f"file:{tmp_path}/gone", 100),), files=np.array([0]))
    with pytest.raises(CorruptIndex):
        extremes([lookup_of(replace(unit, parts={"k": part}))], "k", {}, 7)


@pytest.mark.parametrize("type", ["int", "decimal(10,2)", "date", "timestamp", "string"])
def test_types_whose_order_is_that_of_stored_keys(type: str) -> None:
    assert has_order(Column("c", type))


@pytest.mark.parametrize(
    "type", ["double", "float", "char(3)", "varchar(3)", "boolean", "binary", "string collate UNICODE"]
)
def test_types_of_another_order(type: str) -> None:
    assert not has_order(Column("c", type))
