"""Which columns an index could have to serve queries: a table of cases, and answers against their definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.spark.advising.observed import ColumnTest, ExpressionTest, Kind, Shape
from hive_bitmap.spark.advising.useful_columns import (
    MOST_COLUMNS,
    MOST_TOGETHER,
    IndexSet,
    answers,
    narrowing,
    sets_to_look_up,
    useful_sets,
)


def shape(tests: str, *key_sets: str, aggregated: bool = False) -> Shape:
    """Return a shape with equalities of these columns, ranges for capitals; `o` is tested in another way."""
    kinds = {name: Kind.OTHER if name == "o" else Kind.EQUALITY if name.islower() else Kind.RANGE for name in tests}
    found = tuple(ColumnTest(name.lower(), kind, 1) for name, kind in kinds.items())
    return Shape("d", "t", found, tuple(map(tuple, key_sets)) if key_sets or aggregated else None)


def written(indexes: IndexSet) -> str:
    """Return a set of indexes as text: "a gh" are one of `a` and one of `g` and `h`."""
    return " ".join(sorted("".join(sorted(columns)) for columns in indexes))


@pytest.mark.parametrize(
    ("asked", "indexed", "sets"),
    [
        (shape("a"), [], ["a"]),
        (shape("aB"), [], ["a", "b"]),
        (shape("ao"), [], ["a"]),
        (shape("a"), ["a"], []),
        (shape("a"), ["ab"], []),
        (shape("o"), [], []),
        (shape("", "g"), [], ["g"]),
        (shape("a", "g"), ["a"], ["g"]),
        (shape("a", "g"), ["g"], ["a"]),
        (shape("a", "g"), [], ["a", "a g", "ag"]),
        (shape("o", "g"), [], ["g o", "go"]),
        (shape("o", "g"), ["o"], ["g"]),
        (shape("", "gh"), ["g", "h"], ["gh"]),
        (shape("", "g", "h"), ["g"], ["h"]),
        (shape("", "g", "h"), [], ["g h", "gh"]),
        (shape("", ""), [], []),  # Spark counts all rows without values
        (shape("ab", "g"), [], ["a", "a b g", "abg", "b"]),
        (shape("abcd", "e"), [], ["a", "b", "c", "d"]),
    ],
)
def test_sets(asked: Shape, indexed: list[str], sets: list[str]) -> None:
    found = useful_sets(asked, [frozenset(one) for one in indexed])
    assert sorted(map(written, found)) == sets


def test_an_expression_serves_in_place_of_its_column() -> None:
    hour = "date_trunc('HOUR', ts)"
    tested = ExpressionTest("ts", hour, Kind.EQUALITY, 1)
    other = ColumnTest("ts", Kind.OTHER, 0)
    by_hour, by_column = frozenset({hour}), frozenset({"ts"})
    narrowed = Shape("d", "t", (other,), None, (tested,))
    assert useful_sets(narrowed, []) == {frozenset({by_hour})}
    assert narrowing(narrowed, by_hour) == ColumnTest(hour, Kind.EQUALITY, 1)
    assert narrowing(narrowed, by_column) is None
    grouped = Shape("d", "t", (other,), (("ts", "k"),), (ExpressionTest("ts", hour, Kind.OTHER, 0),))
    assert useful_sets(grouped, []) == {frozenset({frozenset({"ts", "k"})}), frozenset({frozenset({hour, "k"})})}
    assert answers(grouped, [frozenset({hour, "k"})]) and answers(grouped, [frozenset({"ts", "k"})])
    assert not answers(grouped, [by_hour, frozenset({"k"})])
    for indexed in (by_hour, by_column, frozenset({hour, "k"})):
        assert useful_sets(narrowed, [indexed]) == set()
    assert not answers(Shape("d", "t", (), (("ts",),)), [by_hour])


names = st.sets(st.sampled_from("abcdo"), max_size=3)


@given(names, st.lists(names, max_size=2), st.lists(names, max_size=3))
def test_each_set_serves_and_is_new(tests: set[str], sets: list[set[str]], indexed: list[set[str]]) -> None:
    asked = shape("".join(sorted(tests)), *("".join(sorted(one)) for one in sets))
    known = [frozenset(one) for one in indexed]
    for found in useful_sets(asked, known):
        assert 0 < len(found) <= MOST_TOGETHER
        for columns in found:
            assert 0 < len(columns) <= MOST_COLUMNS and not any(columns <= index for index in known)
        narrows = len(found) == 1 and all(narrowing(asked, columns) for columns in found)
        assert narrows or answers(asked, [*known, *found])
        if answers(asked, [*known, *found]):
            all_columns = frozenset[str]().union(*found, *known)
            assert tests <= all_columns and all(any(one <= index for index in [*known, *found]) for one in sets)
            for part in sets_to_look_up(asked):
                assert any(part <= index for index in [*known, *found])
