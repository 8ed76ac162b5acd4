"""Which columns could have an index that serves queries: a function of the shapes of a table's queries. No Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape

MOST_COLUMNS = 3  # of an index that is proposed
MOST_TOGETHER = 3  # indexes that only together answer a query
Columns = frozenset[str]
IndexSet = frozenset[Columns]  # indexes of one table, each by its columns


def useful_sets(shape: Shape, indexed: Collection[Columns]) -> set[IndexSet]:
    """Return sets of indexes that would serve queries of this shape, beside those `indexed`.

    No index in them has only columns of one that exists. An aggregation may be answered by one index of several
    columns, or by several indexes together.
    """
    known = frozenset[str]().union(*indexed)
    found = {frozenset({frozenset((test.column,))}) for test in shape.tests if test.kind is not Kind.OTHER}
    if shape.key_sets is not None:
        wanted = needed(shape)
        answering = {wanted - known, *map(frozenset, shape.key_sets), wanted}
        answering = {columns for columns in answering if columns and answers(shape, [*indexed, columns])}
        found |= {frozenset({one}) for one in answering if not any(other < one for other in answering)}
        found.add(_apart(shape, indexed))
    return {indexes for indexes in found if indexes and all(_is_new(columns, indexed) for columns in indexes)}


def _apart(shape: Shape, indexed: Collection[Columns]) -> IndexSet:
    """Return the smallest indexes that answer the aggregation of a shape together; none if they are too many."""
    key_sets = {frozenset(keys) for keys in shape.key_sets or ()}
    missing = {keys for keys in key_sets if keys and not any(keys <= index for index in indexed)}
    missing = {keys for keys in missing if not any(keys < other for other in missing)}
    covered = frozenset[str]().union(*indexed, *missing)
    missing |= {frozenset((column,)) for column in _tested(shape.tests) - covered}
    return frozenset(missing) if len(missing) <= MOST_TOGETHER else frozenset()


def _is_new(columns: Columns, indexed: Collection[Columns]) -> bool:
    return 0 < len(columns) <= MOST_COLUMNS and not any(columns <= index for index in indexed)


def answers(shape: Shape, indexes: Collection[Columns]) -> bool:
    """Return whether these indexes hold the answer to the aggregation of a shape.

    One index has to have all columns of a set of keys; any index serves a test.
    """
    if shape.key_sets is None:
        return False
    tested = _tested(shape.tests) <= frozenset[str]().union(*indexes)
    return tested and all(any(frozenset(keys) <= index for index in indexes) for keys in shape.key_sets)


def narrowing(shape: Shape, columns: Columns) -> ColumnTest | None:
    """Return the test that an index of these columns evaluates in order to narrow a scan; None if there is none."""
    if len(columns) != 1:
        return None
    return next((test for test in shape.tests if test.column in columns and test.kind is not Kind.OTHER), None)


def needed(shape: Shape) -> Columns:
    """Return the columns that have to be indexed so that the aggregation of a shape is answered."""
    return _tested(shape.tests).union(*(shape.key_sets or ()))


def parts(shape: Shape) -> list[Columns]:
    """Return what the answer to the aggregation of a shape is looked up by: its sets of keys, then its tests."""
    keys = [frozenset(keys) for keys in shape.key_sets or () if keys]
    return [*keys, *(frozenset((column,)) for column in sorted(_tested(shape.tests)))]


def _tested(tests: Iterable[ColumnTest]) -> Columns:
    return frozenset(test.column for test in tests)
