"""Determine the keys of indexes that would serve queries.

A key is the name of a column in lower case, or the SQL of an expression. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape

MOST_COLUMNS = 3  # most columns of a proposed index
MOST_TOGETHER = 3  # most indexes that only together answer a query
Columns = frozenset[str]
IndexSet = frozenset[Columns]  # indexes of one table, each by its columns


def useful_sets(shape: Shape, indexed: Collection[Columns]) -> set[IndexSet]:
    """Return sets of indexes that would serve a shape.

    `indexed` are the keys of existing indexes. No set has an index with more than MOST_COLUMNS columns, or an index
    whose columns are all in an existing index. An aggregation may be answered by one index of several columns, or by
    several indexes together. If the queries use some columns through expressions, the result has each set twice: with
    these columns, and with the expressions.
    """
    indexed = [shape.columns_of(keys) for keys in indexed]
    indexed_columns = frozenset[str]().union(*indexed)
    useful = {frozenset({frozenset((test.column,))}) for test in shape.tests if test.kind is not Kind.OTHER}
    if shape.key_sets is not None:
        all_needed = needed(shape)
        answering = {all_needed - indexed_columns, *map(frozenset, shape.key_sets), all_needed}
        answering = {columns for columns in answering if columns and answers(shape, [*indexed, columns])}
        useful |= {frozenset({columns}) for columns in answering if not any(other < columns for other in answering)}
        useful.add(_separate_indexes(shape, indexed))
    useful |= {frozenset({frozenset((test.sql,))}) for test in shape.expressions if test.kind is not Kind.OTHER}
    new = {
        indexes for indexes in useful if indexes and all(_is_new(shape.columns_of(keys), indexed) for keys in indexes)
    }
    expressions = {test.column: test.sql for test in shape.expressions}
    return new | {frozenset(frozenset(expressions.get(c, c) for c in keys) for keys in indexes) for indexes in new}


def _separate_indexes(shape: Shape, indexed: Collection[Columns]) -> IndexSet:
    """Return the smallest indexes that together answer a shape's aggregation.

    `indexed` are the columns of existing indexes, which the result does not repeat. The result is empty if more than
    MOST_TOGETHER indexes would be needed.
    """
    key_sets = {frozenset(keys) for keys in shape.key_sets or ()}
    missing = {keys for keys in key_sets if keys and not any(keys <= index for index in indexed)}
    missing = {keys for keys in missing if not any(keys < other for other in missing)}
    covered = frozenset[str]().union(*indexed, *missing)
    missing |= {frozenset((column,)) for column in _tested(shape.tests) - covered}
    return frozenset(missing) if len(missing) <= MOST_TOGETHER else frozenset()


def _is_new(columns: Columns, indexed: Collection[Columns]) -> bool:
    return 0 < len(columns) <= MOST_COLUMNS and not any(columns <= index for index in indexed)


def answers(shape: Shape, indexes: Collection[Columns]) -> bool:
    """Return whether these indexes can answer the aggregation of a shape.

    For each of `shape.key_sets`, a single index must have all columns of the set. Each tested column must be in some
    index. An expression in an index stands for its column.
    """
    if shape.key_sets is None:
        return False
    indexes = [shape.columns_of(keys) for keys in indexes]
    tested = _tested(shape.tests) <= frozenset[str]().union(*indexes)
    return tested and all(any(frozenset(keys) <= index for index in indexes) for keys in shape.key_sets)


def narrowing(shape: Shape, columns: Columns) -> ColumnTest | None:
    """Return the test that an index of these columns evaluates to narrow a scan.

    Return None if the index does not narrow scans of this shape.
    """
    if len(columns) != 1:
        return None
    of_expressions = (ColumnTest(test.sql, test.kind, test.values) for test in shape.expressions)
    tests = (test for test in (*shape.tests, *of_expressions) if test.kind is not Kind.OTHER)
    return next((test for test in tests if test.column in columns), None)


def needed(shape: Shape) -> Columns:
    """Return the columns that must be indexed to answer the aggregation of a shape."""
    return _tested(shape.tests).union(*(shape.key_sets or ()))


def sets_to_look_up(shape: Shape) -> list[Columns]:
    """Return the sets of columns that an aggregation looks up in indexes.

    A single index must have all columns of a set. The key sets of the shape come first, then a set of one column for
    each tested column.
    """
    keys = [frozenset(keys) for keys in shape.key_sets or () if keys]
    return [*keys, *(frozenset((column,)) for column in sorted(_tested(shape.tests)))]


def _tested(tests: Iterable[ColumnTest]) -> Columns:
    return frozenset(test.column for test in tests)
