"""The record of queries as values: lines that are added up, and lines that are not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.errors import NotFound
from hive_bitmap.spark.advising.observed import ColumnTest, ExpressionTest, Kind, Shape, of_file, read

HEAD = {"application": "a-1", "since": 1000.0, "until": 1060.0, "forgotten": 0}
LINE: dict[str, Any] = {
    "database": "d",
    "table": "t",
    "tests": [["k", "equality", 1]],
    "key_sets": [["J"]],
    "queries": 2,
    "bytes": 100,
    "unsized": 0,
    "served": 1,
    "columns": {"k": 3},
}
USE = {"database": "d", "table": "t", "index": "k", "uses": 4}
SHAPE = Shape("d", "t", (ColumnTest("k", Kind.EQUALITY, 1),), (("j",),))


def lines(*fields: Any) -> list[str]:
    return [json.dumps(one) for one in fields]


def test_lines_add_up() -> None:
    corrected = {**LINE, "queries": -1, "bytes": -50, "served": 1, "columns": {}}
    other = {**HEAD, "application": "b", "since": 900, "forgotten": 3}
    seen = read(lines(HEAD, LINE, USE, other, LINE, corrected, USE))
    [(shape, tally)] = seen.shapes.items()
    assert shape == SHAPE
    assert (tally.queries, tally.bytes, tally.served, tally.columns["k"]) == (3, 150, 3, 6)
    assert (seen.queries, seen.uses["d.t", "k"], seen.since, seen.forgotten, seen.broken) == (6, 8, 900, 3, 0)


def test_expressions_keep_their_case() -> None:
    sql = "date_trunc('HOUR', ts)"
    seen = read(lines(HEAD, {**LINE, "expressions": [["TS", sql, "in", 4]]}))
    [shape] = seen.shapes
    assert shape.expressions == (ExpressionTest("ts", sql, Kind.IN, 4),)
    assert read(lines({**LINE, "expressions": [["ts", sql]]})).broken == 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        json.dumps({**HEAD, "since": float("nan")}),
        json.dumps({**HEAD, "since": 1e300}),
        json.dumps(HEAD).replace('"forgotten": 0', '"forgotten": 1e999'),
        json.dumps(LINE).replace('"k": 3', '"k": 1e999'),
        json.dumps({**LINE, "queries": True}),
        json.dumps({**LINE, "queries": 10**400}),
        "7",
        json.dumps({**LINE, "tests": [["k", "like", 1]]}),
        json.dumps({**LINE, "tests": [["k"]]}),
        json.dumps({**LINE, "bytes": "many"}),
        json.dumps({**LINE, "columns": ["k"]}),
        json.dumps({key: value for key, value in LINE.items() if key != "table"}),
        json.dumps({**HEAD, "since": "today"}),
        "\udcff",
    ],
)
def test_a_line_that_is_not_understood_is_counted(line: str) -> None:
    seen = read([*lines(HEAD, LINE), line, *lines(USE)])
    assert (seen.queries, seen.uses.total(), seen.broken) == (3, 4, 1)


def test_samples_are_bounded() -> None:
    seen = read(lines(*({**LINE, "samples": {"k": [f"v{number}"]}} for number in range(30))))
    assert len(seen.shapes[SHAPE].samples["k"]) == 8


def test_the_file_before_counts_too(tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    with pytest.raises(NotFound, match="advice_file"):
        of_file(path)
    for name in ("advice.json.1", "advice.json"):
        (tmp_path / name).write_bytes(b"\xff\xfe\n" + "\n".join(lines(HEAD, LINE)).encode())
    seen = of_file(path)
    assert (seen.queries, seen.broken) == (6, 2)
