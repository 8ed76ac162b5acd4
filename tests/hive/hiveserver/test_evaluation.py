"""Predicates over index rows that a server sends: SQLite, which takes the same conditions; rows decide."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, IsNull, Or, Predicate
from hive_bitmap.core.selecting.lookup_units import LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, count
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.evaluation import evaluation
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import COLUMNS, FILES, KINDS, PREDICATES, Row, truth, unit_of


def definitions_of(kinds: Mapping[str, str]) -> dict[str, Definition]:
    return {
        name: Definition(
            name=name,
            database="db",
            table="t",
            columns=tuple(column for column in COLUMNS if column.name == name),
            index_table=f"db__t_{name}__",
            **({"type": "COMPACT"} if kind == "compact" else {"encoding": kind}),
        )
        for name, kind in kinds.items()
    }


def sent(value: Any) -> Any:
    """A value as a HiveServer2 sends it: arrays as text."""
    return json.dumps(value) if isinstance(value, list) else value


@contextlib.contextmanager
def serving(units: Sequence[LookupUnit], chosen: Mapping[str, Definition]) -> Iterator[tuple[Server, list[str]]]:
    """A server that has the index tables of these units, and the statements that it is sent."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("ATTACH ':memory:' AS db")
        connection.create_function("IF", 3, lambda test, one, other: one if test else other)
        for column, definition in chosen.items():
            stored = [field.name for field in definition.bitmap_fields]
            names = [column, "_bucketname", *(["_offset", *stored] if definition.has_bitmaps else ["_offsets"])]
            connection.execute(f"CREATE TABLE {definition.sql_name} ({', '.join(names)})")
            for path, _ in {shard for unit in units if column in unit.parts for shard in unit.parts[column].shards}:
                rows = pq.read_table(local_path(path)).select(names).to_pylist()
                connection.executemany(
                    f"INSERT INTO {definition.sql_name} VALUES ({', '.join('?' * len(names))})",
                    [[sent(value) for value in row.values()] for row in rows],
                )
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        yield Server(connection), statements


def evaluated(
    units: Sequence[tuple[LookupUnit, Predicate]], kinds: Mapping[str, str], within: str = ""
) -> list[LookupResult]:
    chosen = definitions_of(kinds)
    with serving([unit for unit, _ in units], chosen) as (server, _):
        return evaluation(server, chosen, dict.fromkeys(kinds, within))([lookup_of(*one) for one in units])


@given(FILES, PREDICATES, KINDS, st.one_of(KINDS, st.none()), st.data())
@settings(max_examples=80)
def test_rows_that_may_match_are_counted(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, first: str, second: str | None, data: st.DataObject
) -> None:
    kinds = {"k": first} | ({"s": second} if second else {})
    numbers = list(range(len(files)))
    known = {name: sorted(data.draw(st.sets(st.sampled_from(numbers)))) for name in kinds}
    unit = unit_of(tmp_path, files, kinds, known)
    [found] = evaluated([(unit, predicate)], kinds)
    for number, rows in enumerate(files):
        for ordinal, block in enumerate(np.flatnonzero(unit.file == number).tolist()):
            matching = sum(truth(predicate, row) for row in rows[5 * ordinal : 5 * ordinal + 5])
            counted = found.counts[block]
            assert matching == counted if found.exact[number] else matching <= counted <= unit.rows[block]
    by_shards = count(unit, predicate, {})
    assert (found.counts.tolist(), found.exact.tolist()) == (by_shards.counts.tolist(), by_shards.exact.tolist())


def rows_of(*keys: int | None) -> list[Row]:
    return [{"k": key, "s": f"{key}", "f": 0.0} for key in keys]


K1 = Compare("k", "=", 1)


def test_lookups_of_one_predicate_are_done_together_and_told_apart(tmp_path: Path) -> None:
    kinds = {"k": "gap"}
    units = []
    for number, files in enumerate([[rows_of(1, 2), rows_of(1, 1)], [rows_of(3)], [rows_of(*[1] * 7)]]):
        (tmp_path / str(number)).mkdir()
        units.append(unit_of(tmp_path / str(number), files, kinds, {"k": list(range(len(files)))}))
    chosen = definitions_of(kinds)
    with serving(units, chosen) as (server, statements):
        predicates: list[Predicate] = [K1, IsNull("k"), K1]
        wanted = [lookup_of(*pair) for pair in zip(units, predicates, strict=True)]
        found = evaluation(server, chosen, dict.fromkeys(chosen, ""))(wanted)
    assert [one.counts.tolist() for one in found] == [[1, 2], [0], [5, 2]]
    assert [one.exact.tolist() for one in found] == [[True, True], [True], [True]]
    assert len(statements) == 2  # one for each predicate


def test_what_cannot_match_any_more_is_not_fetched(tmp_path: Path) -> None:
    kinds = {"k": "gap", "s": "gap"}
    unit = unit_of(tmp_path, [rows_of(1, 2)], kinds, {"k": [0], "s": [0]})
    chosen = definitions_of(kinds)
    either = Or((Compare("s", "=", "1"), Compare("k", "=", 2)))
    for first, tables in [(Compare("k", "=", 9), 1), (K1, 3)]:
        with serving([unit], chosen) as (server, statements):
            evaluation(server, chosen, dict.fromkeys(chosen, ""))([lookup_of(unit, And((either, first)))])
        assert len(statements) == tables
    with serving([unit], chosen) as (server, statements):
        [found] = evaluation(server, chosen, dict.fromkeys(chosen, ""))([lookup_of(unit, TRUE)])
    assert statements == [] and found.counts.tolist() == [2] and found.exact.all()


def test_index_rows_are_limited_to_partitions(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows_of(1, 2)], {"k": "gap"}, {"k": [0]})
    chosen = definitions_of({"k": "gap"})
    with serving([unit], chosen) as (server, statements):
        evaluation(server, chosen, dict.fromkeys(chosen, "`_offset` < 99 OR 1 = 2"))([lookup_of(unit, K1)])
    [statement] = statements
    assert statement.endswith(" WHERE (`k` = 1) AND (`_offset` < 99 OR 1 = 2)")


@pytest.mark.parametrize("change", ["_offset = _offset + 1", "_bitmaps = x'ffffffffffff'"])
def test_rows_that_cannot_be_are_of_a_damaged_index(tmp_path: Path, change: str) -> None:
    unit = unit_of(tmp_path, [rows_of(1, 2)], {"k": "gap"}, {"k": [0]})
    chosen = definitions_of({"k": "gap"})
    with serving([unit], chosen) as (server, _):
        server.connection.execute(f"UPDATE {chosen['k'].sql_name} SET {change}")
        with pytest.raises(CorruptIndex, match=r"^the rows of index k from the server are invalid: .*; rebuild it$"):
            evaluation(server, chosen, dict.fromkeys(chosen, ""))([lookup_of(unit, K1)])


def test_rows_of_files_that_are_not_asked_about_do_not_count(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows_of(1, 2)], {"k": "gap"}, {"k": [0]})
    chosen = definitions_of({"k": "gap"})
    with serving([unit], chosen) as (server, _):
        server.connection.execute(f"UPDATE {chosen['k'].sql_name} SET _bucketname = 'file:/elsewhere'")
        [found] = evaluation(server, chosen, dict.fromkeys(chosen, ""))([lookup_of(unit, K1)])
    assert found.counts.tolist() == [0]
