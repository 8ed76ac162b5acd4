"""Which columns an index could have to serve queries: a table of cases, and answers against their definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape
from hive_bitmap.spark.advising.useful_columns import MOST_COLUMNS, answers, candidates_of, narrowing


def shape(tests: str, *key_sets: str, aggregated: bool = False) -> Shape:
    """Return a shape with equalities of these columns, ranges for capitals; `o` is tested in another way."""
    kinds = {name: Kind.OTHER if name == "o" else Kind.EQUALITY if name.islower() else Kind.RANGE for name in tests}
    found = tuple(ColumnTest(name.lower(), kind, 1) for name, kind in kinds.items())
    return Shape("d", "t", found, tuple(map(tuple, key_sets)) if key_sets or aggregated else None)


@pytest.mark.parametrize(
    ("asked", "indexed", "columns"),
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
        (shape("a", "g"), [], ["a", "ag"]),
        (shape("o", "g"), ["o"], ["g"]),
        (shape("", "gh"), ["g", "h"], ["gh"]),
        (shape("", "g", "h"), ["g"], ["h"]),
        (shape("", ""), [], []),  # Spark counts all rows without values
        (shape("abcd", "e"), [], ["a", "b", "c", "d"]),
    ],
)
def test_candidates(asked: Shape, indexed: list[str], columns: list[str]) -> None:
    found = candidates_of(asked, [frozenset(one) for one in indexed])
    assert sorted("".join(sorted(one)) for one in found) == columns


names = st.sets(st.sampled_from("abcdo"), max_size=3)


@given(names, st.lists(names, max_size=2), st.lists(names, max_size=3))
def test_each_candidate_serves_and_is_new(tests: set[str], sets: list[set[str]], indexed: list[set[str]]) -> None:
    asked = shape("".join(sorted(tests)), *("".join(sorted(one)) for one in sets))
    known = [frozenset(one) for one in indexed]
    for columns in candidates_of(asked, known):
        assert 0 < len(columns) <= MOST_COLUMNS and not any(columns <= index for index in known)
        assert narrowing(asked, columns) or answers(asked, columns, known)
        if answers(asked, columns, known):
            all_columns = frozenset[str]().union(columns, *known)
            assert tests <= all_columns and all(any(one <= index for index in [*known, columns]) for one in sets)
