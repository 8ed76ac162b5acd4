"""Which index serves each column of a request, as tables of cases."""

from __future__ import annotations

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import Aggregate, Measure
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.planning.index_choice import Unserved, choose, choose_for_sums, explain_indexes
from hive_bitmap.core.planning.strategy import Reason
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Predicate, Unknown

COLUMNS = [Column(name, "int") for name in "abc"]
A, AB, C, OFF = (
    Definition(name=name, database="d", table="t", columns=tuple(COLUMNS[place] for place in places))
    for name, places in [("a", (0,)), ("ab", (0, 1)), ("c", (2,)), ("off", (1,))]
)
B = Definition(name="b", database="d", table="t", columns=(COLUMNS[1],))
LISTS = Definition(name="lists", database="d", table="t", type="COMPACT", columns=(COLUMNS[1],))
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


V = Column("V", "int")
SUM = Measure(column="v", functions=("sum", "count", "min", "max"))
HELD = tuple(Aggregate(function, V) for function in SUM.functions)
A_SUMS, AB_SUMS, OTHER = (
    Definition(name=name, database="d", table="t", columns=columns, aggregates=aggregates)
    for name, columns, aggregates in (
        ("a_sums", (COLUMNS[0],), HELD),
        ("ab_sums", tuple(COLUMNS[:2]), HELD),
        ("other", (COLUMNS[2],), tuple(Aggregate(function, Column("V", "bigint")) for function in SUM.functions)),
    )
)


@pytest.mark.parametrize(
    ("indexes", "predicate", "keys", "chosen", "why"),
    [
        ([(A, ""), (A_SUMS, ""), (AB_SUMS, "")], TRUE, ["a"], "a_sums", "serves a; holds sum(V), "),
        ([(A_SUMS, ""), (AB_SUMS, "")], TESTED, [], "ab_sums", "serves a, b; holds sum(V), "),
        ([(AB_SUMS, "")], Compare("P", "=", 1), ["b"], "ab_sums", "serves b; holds sum(V), "),
        ([(AB_SUMS, ""), (A_SUMS, "")], TRUE, [], "a_sums", "holds sum(V), count(V), min(V), max(V)"),
        ([(A_SUMS, "")], TRUE, ["c"], None, "no index holds sum(v) by c"),
        ([(A_SUMS, "")], TESTED, [], None, "no index holds sum(v) by a, b"),
        ([(A_SUMS, ""), (LISTS, "")], TESTED, [], None, "no index holds sum(v) by a, b"),
        ([(A_SUMS, ""), (B, "it is stale")], TESTED, [], None, "no index holds sum(v) by a, b; it is stale"),
        ([(A, ""), (OTHER, "")], TRUE, ["a"], None, "no index holds sum(v)"),
        ([(A_SUMS, "it is not enabled")], TRUE, ["a"], None, "no index holds sum(v); it is not enabled"),
    ],
)
def test_an_index_of_sums_has_all_keys_and_aggregates(
    indexes: list[tuple[Definition, str]], predicate: Predicate, keys: list[str], chosen: str | None, why: str
) -> None:
    choice = choose_for_sums(indexes, predicate, keys, [SUM], [V], ["p"])
    if chosen is None:
        assert choice.unserved == Unserved(Reason.NOT_TESTED, why) and not choice.by_column
        return
    assert choice.unserved is None and {index.name for index in choice.by_column.values()} == {chosen}
    assert "" in choice.by_column and {*keys} <= {*choice.by_column} and "p" not in choice.by_column
    [use] = [use for use in choice.uses if use.used]
    assert use.name == chosen and use.reason.startswith(why)


def test_other_indexes_test_what_the_index_of_sums_does_not() -> None:
    choice = choose_for_sums([(A, ""), (A_SUMS, ""), (B, ""), (LISTS, "")], TESTED, ["a"], [SUM], [V])
    assert {column: index.name for column, index in choice.by_column.items()} == {"a": "a_sums", "b": "b", "": "a_sums"}
    used = {use.name: use.reason for use in choice.uses if use.used}
    assert used.keys() == {"a_sums", "b"} and used["b"] == "serves b"
    assert used["a_sums"] == "serves a; holds sum(V), count(V), min(V), max(V)"


def test_a_measure_without_aggregates_is_held_by_no_index() -> None:
    day = Measure(column="p", functions=("count", "max"))
    choice = choose_for_sums([(A_SUMS, "")], TRUE, [], [SUM, day], [V])
    assert choice.unserved == Unserved(Reason.NOT_TESTED, "no index holds sum(v), max(p)")


def test_a_key_that_cannot_be_used_is_told_with_the_index_that_is_not_used() -> None:
    choice = choose([(A, "")], TRUE, keys=["day"], count=True).noting({"a": "index a has day, but"})
    assert choice.unserved is not None and choice.unserved.reason.endswith("; index a has day, but")
    assert [use.reason for use in choice.uses] == ["index a has day, but"]
    served = choose([(A, "")], TRUE, keys=["a"], count=True)
    assert served.noting({"a": "index a has day, but"}) == served
