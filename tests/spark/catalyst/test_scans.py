"""First checks of a scan, by its figures alone: whether it is too small for an index, and which small sides to read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.index.aggregate_columns import Aggregate, Measure
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.planning.settings import read
from hive_bitmap.core.planning.strategy import STRATEGIES, Strategy
from hive_bitmap.spark.catalyst.scans import (
    ListingSummary,
    RuntimeFilter,
    Scan,
    Sums,
    why_too_small,
    worthwhile_runtime_filters,
)
from hive_bitmap.spark.registry.catalog import Index
from tests.spark.catalyst.test_decide import INDEX, SCAN, TABLE

DEFAULTS = read({})
SMALL, LARGE = ListingSummary(1000, 1, "a"), ListingSummary(10**11, 100, "b")


def of_files(listed: ListingSummary | None) -> Scan:
    return replace(SCAN, listed=listed)


def test_a_scan_is_too_small_by_the_bytes_of_its_columns() -> None:
    assert (why_too_small(of_files(SMALL), TABLE, DEFAULTS) or "").startswith("the 1,000 bytes of its columns")
    assert why_too_small(of_files(LARGE), TABLE, DEFAULTS) is None
    wide = replace(TABLE, columns=(*TABLE.columns, *(Column(f"c{number}", "string") for number in range(100))))
    between = of_files(ListingSummary(100_000_000, 1, "c"))
    assert why_too_small(between, TABLE, DEFAULTS) is None
    assert why_too_small(between, wide, DEFAULTS)  # the other columns are not read


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_a_strategy_none_is_too_small(strategy: str) -> None:
    assert why_too_small(of_files(SMALL), TABLE, replace(DEFAULTS, strategy=Strategy(strategy))) is None


def test_what_cannot_be_told_is_not_too_small() -> None:
    assert why_too_small(of_files(None), TABLE, DEFAULTS) is None
    assert why_too_small(replace(of_files(SMALL), native=False), TABLE, DEFAULTS) is None


OF_ID = Index(definition=Definition(name="id", database="db", table="t", columns=TABLE.columns[1:]), table=TABLE)
KEYS = [RuntimeFilter(column, 1000) for column in ("id", "K", "id")]
BOTH = replace(SCAN, runtime_filters=tuple(KEYS))


@pytest.mark.parametrize(
    ("indexes", "listed", "strategy", "numbers"),
    [
        ([INDEX], LARGE, None, [1]),
        ([INDEX, OF_ID], LARGE, None, [0, 1, 2]),
        ([], LARGE, None, []),
        ([INDEX], SMALL, None, []),  # its scan takes less time than a job
        ([INDEX], None, None, []),
        ([INDEX], SMALL, Strategy.BLOCKS, [1]),
        ([INDEX], LARGE, Strategy.FULL_SCAN, []),
        ([replace(INDEX, problem="its table has changed")], LARGE, None, []),
    ],
)
def test_a_small_side_is_read_first_where_it_pays(
    indexes: list[Index], listed: ListingSummary | None, strategy: Strategy | None, numbers: list[int]
) -> None:
    scan = replace(BOTH, listed=listed)
    assert worthwhile_runtime_filters(scan, TABLE, indexes, replace(DEFAULTS, strategy=strategy)) == numbers
    assert worthwhile_runtime_filters(replace(scan, native=False), TABLE, indexes, DEFAULTS) == []


def test_a_small_side_also_filters_the_column_of_a_key() -> None:
    def key(*names: str) -> KeyExpression:
        columns = tuple(Column(name, "int") for name in names)
        return KeyExpression(alias="x", type="bigint", sql="f", canonical=f"f({names})", columns=columns)

    one, two = key("ID"), key("id", "k")
    definition = Definition(
        name="x", database="db", table="t", columns=(one.stored, two.stored), expressions=(one, two)
    )
    index = Index(definition=definition, table=TABLE)
    for used, numbers in (({one.name}, [0, 2]), ({two.name}, []), (set(), [])):
        scan = replace(BOTH, keys=frozenset(used), listed=LARGE)
        assert worthwhile_runtime_filters(scan, TABLE, [index], DEFAULTS) == numbers


def test_the_bytes_of_the_small_side_count() -> None:
    """A scan of 60 files pays for a small side that is read at once, not for one that takes as long."""
    listed = ListingSummary(20_000_000, 60, "c")
    for size, numbers in ((1000, [0]), (100_000_000, [])):
        scan = replace(SCAN, runtime_filters=(RuntimeFilter("k", size),), listed=listed)
        assert worthwhile_runtime_filters(scan, TABLE, [INDEX], DEFAULTS) == numbers


def test_measures_that_are_keys_or_partitions_are_counted_as_keys() -> None:
    """`v` is aggregated by an index, `k` is a key, `P` a partition, `u` neither, and `w` may be no key."""
    names = ("k", "v", "u", "w")
    columns = tuple(Column(name, "int") for name in names)
    table = replace(TABLE, columns=columns, partition_columns=(Column("P", "int"),))
    held = (Aggregate("count", columns[1]), Aggregate("max", columns[1]))
    index = Definition(name="i", database="db", table="t", columns=(columns[0], columns[3]), aggregates=held)
    fields = {
        "keys": ["x"],
        "measures": [
            {"column": name, "functions": ["max", "count"], "may_be_key": name != "w"}
            for name in ("K", "v", "P", "u", "w")
        ],
    }
    sums = Sums.of(fields).by_keys_of(table, [index])
    assert sums.keys == ("x", "K", "P")
    assert sums.measures == (
        Measure(column="v", functions=("count", "max"), may_be_key=True),
        Measure(column="u", functions=("count", "max"), may_be_key=True),
        Measure(column="w", functions=("count", "max")),
    )
    assert not sums.has_sum and sums.to_json()["measures"][0] == {"column": "v", "functions": ("count", "max")}
