"""Which set of indexes is chosen: marginal gains, costs and limits, in small workloads and in random ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.samples.extrapolate import Spread
from hive_bitmap.spark.advising.gains import Gain, TableFigures, gain, gain_by_answers
from hive_bitmap.spark.advising.index_set import LITTLE, PossibleIndex, Step, UnchosenIndex, Workload, choose
from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape, Tally
from hive_bitmap.spark.advising.useful_columns import Columns, useful_sets
from tests.spark.advising.test_gains import TABLE as OF_TWO_COLUMNS

TABLE = replace(OF_TWO_COLUMNS, columns=[Column(name, "bigint") for name in "abcg"], key=Spread(0.1, 1e-4))
COUNT_BY_A, COUNT_BY_G = Shape("d", "t", (), (("a",),)), Shape("d", "t", (), (("g",),))
COUNT_G_WHERE_A = Shape("d", "t", (ColumnTest("a", Kind.EQUALITY, 1),), (("g",),))
ROWS_OF_A, ROWS_OF_B = (Shape("d", "t", (ColumnTest(name, Kind.EQUALITY, 1),), None) for name in "ab")


def tally(queries: int) -> Tally:
    return Tally(queries=queries, bytes=queries * TABLE.bytes, columns=Counter({"*": queries}))


def workload(
    asked: dict[Shape, int],
    build_seconds: float = 1.0,
    *,
    name: str = "d.t",
    indexed: Sequence[Columns] = (),
    figures: TableFigures = TABLE,
) -> Workload:
    sets = {one for shape in asked for one in useful_sets(shape, indexed)}
    return Workload(
        table=name,
        shapes={shape: tally(queries) for shape, queries in asked.items()},
        indexed=indexed,
        possible={
            columns: PossibleIndex(
                figures=replace(figures, index_bytes=figures.index_bytes * len(columns)), build_seconds=build_seconds
            )
            for one in sets
            for columns in one
        },
        sets=sets,
    )


def written(steps: Sequence[Step]) -> list[str]:
    return [" ".join("".join(sorted(columns)) for columns in step.sorted_indexes) for step in steps]


def reasons(left_out: Sequence[UnchosenIndex]) -> dict[str, tuple[bool, bool, bool]]:
    """Return whether each index would save more, would save something alone, and only the limit keeps it out."""
    return {
        "".join(sorted(one.columns)): (one.step.gain.seconds > 0, one.alone.seconds > 0, one.step.worth_it)
        for one in left_out
    }


def test_the_best_step_comes_first_with_what_it_saves() -> None:
    steps, left_out = choose([workload({COUNT_BY_A: 10, COUNT_BY_G: 20})], 10, 1)
    assert (written(steps), left_out) == (["g", "a"], [])
    assert steps[0].queries == 20 and steps[0].gain == gain_by_answers(tally(20), TABLE, 1)
    assert steps[1].queries == 10 and steps[1].build_seconds == 1.0


def test_a_query_that_a_step_has_served_does_not_count_for_the_next() -> None:
    """One index serves both queries; that of the other column saves less of one of them, which is gained already."""
    both = Shape("d", "t", (ColumnTest("a", Kind.EQUALITY, 1), ColumnTest("b", Kind.EQUALITY, 1)), None)
    steps, left_out = choose([workload({both: 10, ROWS_OF_A: 10})], 10, 1)
    assert written(steps) == ["a"] and steps[0].queries == 20
    assert steps[0].gain.seconds == pytest.approx(gain(tally(20), TABLE, ROWS_OF_A.tests[0]).seconds)
    assert reasons(left_out) == {"b": (False, True, False)}


def test_indexes_that_only_together_answer_are_one_step() -> None:
    by_rows = Shape("d", "t", (ColumnTest("o", Kind.OTHER, 0),), (("g",),))
    load = workload({by_rows: 50})
    small = replace(load.possible[frozenset("og")], figures=replace(TABLE, index_bytes=4 * 10**6))
    steps, left_out = choose([replace(load, possible={**load.possible, frozenset("og"): small})], 10, 1)
    assert written(steps) == ["g o"] and steps[0].build_seconds == 2.0 and steps[0].queries == 50
    assert reasons(left_out) == {"go": (False, True, False)}


def test_a_step_is_taken_apart_if_a_part_saves_something() -> None:
    """Two indexes of a column each serve more queries than one of both, and only the latter is left out."""
    steps, left_out = choose([workload({COUNT_G_WHERE_A: 50, COUNT_BY_G: 20, ROWS_OF_A: 40})], 10, 1)
    assert sorted(written(steps)) == ["a", "g"] and set(reasons(left_out)) == {"ag"}
    assert sum(step.queries for step in steps) >= 110


def test_of_steps_that_save_about_as_much_the_smallest_is_taken() -> None:
    load = workload({COUNT_G_WHERE_A: 50})
    small = replace(load.possible[frozenset("ag")], figures=replace(TABLE, index_bytes=10**5))
    assert written(choose([replace(load, possible={**load.possible, frozenset("ag"): small})], 10, 1)[0]) == ["ag"]


def test_an_index_that_adds_little_is_left_out() -> None:
    steps, left_out = choose([workload({COUNT_BY_A: 1000, COUNT_BY_G: 10}, build_seconds=0.001)], 10, 1)
    assert written(steps) == ["a"] and reasons(left_out) == {"g": (True, True, False)}


def test_what_costs_more_than_it_saves_is_left_out() -> None:
    steps, left_out = choose([workload({COUNT_BY_A: 10, COUNT_BY_G: 1}, build_seconds=3.0)], 10, 1)
    assert written(steps) == ["a"] and reasons(left_out) == {"g": (True, True, False)}
    dear = workload({COUNT_BY_A: 1}, build_seconds=50.0)
    assert choose([dear], 10, 1)[0] == [] and written(choose([dear], 10, 1000)[0]) == ["a"]


def test_what_saves_nothing_is_left_out() -> None:
    everywhere = replace(TABLE, key=Spread(1.0, 0.5))
    steps, left_out = choose([workload({ROWS_OF_A: 100}, figures=everywhere)], 10, 1)
    assert (steps, reasons(left_out)) == ([], {"a": (False, False, False)})


def test_the_limit_counts_indexes_of_all_tables() -> None:
    loads = [workload({COUNT_BY_A: 10}, name="d.t"), workload({COUNT_BY_G: 20}, name="d.u")]
    steps, left_out = choose(loads, 1, 1)
    assert [step.workload.table for step in steps] == ["d.u"] and reasons(left_out) == {"a": (True, True, True)}
    assert [step.workload.table for step in choose(loads, 2, 1)[0]] == ["d.u", "d.t"]


def test_what_an_index_that_exists_answers_is_not_gained_again() -> None:
    assert choose([workload({COUNT_BY_A: 10}, indexed=[frozenset("a")])], 10, 1) == ([], [])
    steps, _ = choose([workload({COUNT_G_WHERE_A: 50}, indexed=[frozenset("g")])], 10, 1)
    assert written(steps) == ["a"]


shapes = st.builds(
    lambda tested, keys: Shape(
        "d", "t", tuple(ColumnTest(name, Kind.EQUALITY, 1) for name in sorted(tested)), keys and (tuple(sorted(keys)),)
    ),
    st.sets(st.sampled_from("abc"), max_size=2),
    st.none() | st.sets(st.sampled_from("abg"), min_size=1, max_size=2),
)


@settings(max_examples=60)
@given(
    st.dictionaries(shapes, st.integers(1, 50), min_size=1, max_size=5),
    st.floats(0.01, 20),
    st.integers(1, 5),
    st.sampled_from([1e-6, 1e-4, 0.2]),
    st.integers(1, 50),
)
def test_gains_add_up_and_no_better_step_is_left(
    asked: dict[Shape, int], build_seconds: float, limit: int, of_rows: float, times: int
) -> None:
    load = workload(asked, build_seconds, figures=replace(TABLE, key=Spread(0.3, of_rows)))
    steps, left_out = choose([load], limit, times)
    chosen = frozenset[Columns]().union(*(step.indexes for step in steps))
    assert len(chosen) == sum(len(step.indexes) for step in steps) <= limit
    assert all(step.gain.seconds * times > step.build_seconds and step.queries > 0 for step in steps)
    total = sum(load.gain(shape, chosen).seconds for shape in asked)
    assert sum(step.gain.seconds for step in steps) == pytest.approx(total)
    assert {one.columns for one in left_out} == load.possible.keys() - chosen
    for indexes in load.sets:
        more = sum(load.gain(shape, chosen | indexes).seconds for shape in asked) - total
        fits = len(chosen | indexes) <= limit
        assert not fits or more <= max(load.build_seconds(indexes - chosen) / times, LITTLE * total) + 1e-9
    turned = dict(reversed(asked.items()))
    again, _ = choose([workload(turned, build_seconds, figures=replace(TABLE, key=Spread(0.3, of_rows)))], limit, times)
    assert written(again) == written(steps)


def test_more_indexes_never_save_less() -> None:
    load = workload({COUNT_G_WHERE_A: 5, COUNT_BY_G: 3, ROWS_OF_A: 2, ROWS_OF_B: 7})
    columns = sorted(load.possible, key=sorted)
    for number in range(len(columns)):
        for some in itertools.combinations(columns, number):
            for one in columns:
                for shape in load.shapes:
                    before = load.gain(shape, frozenset(some))
                    assert load.gain(shape, frozenset({*some, one})).seconds >= before.seconds
    assert load.gain(COUNT_BY_G, frozenset()) == Gain()
