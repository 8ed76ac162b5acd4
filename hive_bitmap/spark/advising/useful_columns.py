"""Which columns could have an index that serves queries: a function of the shapes of a table's queries. No Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape

MOST_COLUMNS = 3  # of an index that is proposed
Columns = frozenset[str]


def candidates_of(shape: Shape, indexed: Collection[Columns]) -> set[Columns]:
    """Return the sets of columns of which an index would serve queries of this shape, beside those `indexed`."""
    known = frozenset[str]().union(*indexed)
    found = {frozenset((test.column,)) for test in shape.tests if test.kind is not Kind.OTHER}
    if shape.key_sets is not None:
        wanted = needed(shape)
        answering = {wanted - known, *map(frozenset, shape.key_sets), wanted}
        answering = {columns for columns in answering if answers(shape, columns, indexed)}
        found |= {columns for columns in answering if not any(other < columns for other in answering)}
    return {
        columns
        for columns in found
        if 0 < len(columns) <= MOST_COLUMNS and not any(columns <= index for index in indexed)
    }


def answers(shape: Shape, columns: Columns, indexed: Collection[Columns]) -> bool:
    """Return whether an index of these columns, with those that exist, holds the answer to the aggregation of a shape.

    One index has to have all columns of a set of keys; any index serves a test.
    """
    if shape.key_sets is None:
        return False
    all_indexes = [*indexed, columns]
    tested = _tested(shape.tests) <= frozenset[str]().union(*all_indexes)
    return tested and all(any(frozenset(keys) <= index for index in all_indexes) for keys in shape.key_sets)


def narrowing(shape: Shape, columns: Columns) -> ColumnTest | None:
    """Return the test that an index of these columns evaluates in order to narrow a scan; None if there is none."""
    if len(columns) != 1:
        return None
    return next((test for test in shape.tests if test.column in columns and test.kind is not Kind.OTHER), None)


def needed(shape: Shape) -> Columns:
    """Return the columns that have to be indexed so that the aggregation of a shape is answered."""
    return _tested(shape.tests).union(*(shape.key_sets or ()))


def _tested(tests: Iterable[ColumnTest]) -> Columns:
    return frozenset(test.column for test in tests)
