"""Which index serves each column of a request, as tables of cases."""

from __future__ import annotations

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.planning.index_choice import Unserved, choose, explain_indexes
from hive_bitmap.core.planning.strategy import Reason
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Unknown

COLUMNS = [Column(name, "int") for name in "abc"]
A, AB, C, OFF = (
    Definition(name=name, database="d", table="t", columns=tuple(COLUMNS[place] for place in places))
    for name, places in [("a", (0,)), ("ab", (0, 1)), ("c", (2,)), ("off", (1,))]
)
TESTED = And((Compare("A", "=", 1), Compare("b", "=", 2)))


def test_each_index_says_why_it_is_used_or_not() -> None:
    columns = [Column(name, "int") for name in "abc"]
    a, ab, c, off = (
        Definition(name=name, database="d", table="t", columns=tuple(columns[place] for place in places))
        for name, places in [("a", (0,)), ("ab", (0, 1)), ("c", (2,)), ("off", (1,))]
    )
    uses = explain_indexes(
        [(a, ""), (ab, ""), (c, ""), (off, "it is not enabled")],
        {"a": a},
        And((Compare("A", "=", 1), Compare("b", "=", 2))),
    )
    assert [(use.name, use.used, use.reason) for use in uses] == [
        ("a", True, "serves a"),
        ("ab", False, "index a serves the same column"),
        ("c", False, "the predicate does not test c"),
        ("off", False, "it is not enabled"),
    ]
    [counted, unused] = explain_indexes([(a, ""), (c, "")], {"": a}, TRUE)
    assert (counted.reason, unused.reason) == ("knows how many rows there are", "the predicate tests no indexed column")


@pytest.mark.parametrize(
    ("indexes", "predicate", "keys", "unserved"),
    [
        ([], TESTED, [], Unserved(Reason.NO_INDEX, "the table has no index")),
        ([(A, "")], TESTED, [], None),
        ([(A, "")], TESTED, ["c"], Unserved(Reason.NOT_TESTED, "no index of type BITMAP has the key c")),
        (
            [(C, "")],
            TESTED,
            [],
            Unserved(Reason.NOT_TESTED, "no index has a column that the predicate tests"),
        ),
        (
            [(C, "")],
            Unknown("f(a)", "not understood"),
            [],
            Unserved(Reason.NOT_UNDERSTOOD, "no index has a column that the predicate tests"),
        ),
        (
            [(OFF, "it is not enabled")],
            TESTED,
            [],
            Unserved(Reason.NO_INDEX, "no index has a column that the predicate tests; it is not enabled"),
        ),
    ],
)
def test_why_no_index_serves_a_request(indexes, predicate, keys, unserved) -> None:  # type: ignore[no-untyped-def]
    assert choose(indexes, predicate, keys=keys, count=bool(keys)).unserved == unserved


def test_a_count_of_all_rows_is_served_by_any_index_and_their_rows_by_none() -> None:
    counted = choose([(C, "")], TRUE, count=True, has_condition=False)
    assert (counted.unserved, counted.by_column) == (None, {"": C})
    rows = choose([(C, "")], TRUE, has_condition=False)
    assert rows.unserved == Unserved(Reason.NOT_TESTED, "no condition that can be looked up in an index")


def test_indexes_that_are_not_used_in_the_end_say_so() -> None:
    choice = choose([(A, ""), (OFF, "it is not enabled")], TESTED)
    assert [(use.used, use.reason) for use in choice.unused("not wanted")] == [
        (False, "not wanted"),
        (False, "it is not enabled"),
    ]
