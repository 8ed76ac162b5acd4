"""Find sums that queries ask for, and describe indexes that would answer them.

An index of type AGGREGATE answers sums by its keys. One such index is described for each set of columns by which
queries sum. Unlike the proposed indexes, AGGREGATE indexes are not compared with each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

from hive_bitmap.core.explaining.measures import seconds, size
from hive_bitmap.core.index.aggregate_columns import Aggregate, texts
from hive_bitmap.core.index.definition import Definition, define
from hive_bitmap.core.samples.verdict import NOT_WORTH_IT
from hive_bitmap.core.table_info import Table, literal, quote
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.advising.observed import Shape, Tally
from hive_bitmap.spark.advising.useful_columns import MOST_COLUMNS, Columns
from hive_bitmap.spark.estimating.estimate import Estimate, estimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_NOTES = 3  # for each table


@dataclass(frozen=True, kw_only=True)
class AskedSums:
    """Aggregates that queries compute by the same columns of a table.

    `columns` are the columns that the queries group by or test, without partition columns. `functions` has the
    functions of each aggregated column. `queries` is the number of these queries; no index served them. `bytes` is the
    size of the files that they read, as far as it is known. Names are in lower case.
    """

    columns: Columns
    functions: Mapping[str, frozenset[str]]
    queries: int
    bytes: int

    def aggregates(self, table: Table) -> tuple[Aggregate, ...]:
        """Return the aggregates that the queries ask for.

        The result is in the order of the table's columns.
        """
        return tuple(
            Aggregate(function, column)
            for column in table.columns
            for function in sorted(self.functions.get(column.name.lower(), ()))
        )

    def text(self, table: Table) -> str:
        """Return the aggregates in the form of an index property.

        Aggregates that the index stores in any case are left out. These are the count, minimum and maximum of a column
        with a sum, and the count of a column with a minimum or maximum.
        """
        aggregates = self.aggregates(table)
        summed = {aggregate.column for aggregate in aggregates if aggregate.function == "sum"}
        bounded = {aggregate.column for aggregate in aggregates if aggregate.function in ("min", "max")} - summed
        return texts(
            aggregate
            for aggregate in aggregates
            if aggregate.function == "sum"
            or (aggregate.column not in summed and (aggregate.function != "count" or aggregate.column not in bounded))
        )


def asked_sums(shapes: Mapping[Shape, Tally], partitioned_by: Collection[str]) -> list[AskedSums]:
    """Return the sums that queries asked for, sorted by bytes read, most first.

    `shapes` has the queries of one table; only queries that no index served are considered. `partitioned_by` are the
    partition columns in lower case. Sums by partition columns only, or by more than MOST_COLUMNS other columns, are
    left out.
    """
    tallies: defaultdict[Columns, Tally] = defaultdict(Tally)
    functions: defaultdict[Columns, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for shape, tally in shapes.items():
        if shape.sums is None or tally.queries <= 0:
            continue
        columns = frozenset((*shape.sums.keys, *(test.column for test in shape.tests))) - set(partitioned_by)
        tallies[columns].add(tally)
        for name, needed in shape.sums.measures:
            if name not in columns:  # the sum of a key follows from its values
                functions[columns][name] |= set(needed)
    asked = [
        AskedSums(
            columns=columns,
            functions={name: frozenset(needed) for name, needed in functions[columns].items()},
            queries=tally.queries,
            bytes=tally.bytes,
        )
        for columns, tally in tallies.items()
        if 0 < len(columns) <= MOST_COLUMNS and functions[columns]
    ]
    return sorted(asked, key=lambda sums: (-sums.bytes, -sums.queries, sorted(sums.columns)))


def notes_on_sums(
    spark: SparkSession, base: Table, indexes: Sequence[Definition], shapes: Mapping[Shape, Tally]
) -> Iterator[str]:
    """Yield sentences on sums that queries ask for and no index answers.

    `indexes` are all indexes of the table `base`, and `shapes` has its queries. A sentence has the statement that
    creates an index for the sums, with the estimated size of the index, or says that the index is not worth it. There
    are at most MOST_NOTES sentences. If the estimate fails, a single sentence says why.
    """
    partitioned_by = {column.name.lower() for column in base.partition_columns}
    data_columns = {column.name.lower() for column in base.columns}
    described: list[tuple[AskedSums, Definition]] = []
    for asked in asked_sums(shapes, partitioned_by):
        if len(described) == MOST_NOTES or not data_columns.issuperset(asked.functions):
            continue
        if _is_held(asked, base, indexes):
            continue
        try:
            taken = {index.name for index in (*indexes, *(definition for _, definition in described))}
            described.append((asked, _definition(asked, base, taken)))
        except HiveBitmapError:
            continue  # a column cannot be a key or be aggregated, or the table has changed since
    if not described:
        return
    keys = [definition.column_names for _, definition in described]
    try:
        estimates = estimate(spark, base.spark_name, keys, type="AGGREGATE")
    except HiveBitmapError as e:
        yield f"sums of table {base.full_name} were not estimated: {e}"
        return
    for (asked, definition), estimated in zip(described, estimates, strict=True):
        yield _sentence(asked, base, definition, estimated)


def _is_held(asked: AskedSums, base: Table, indexes: Sequence[Definition]) -> bool:
    """Return whether an index of the table answers the sums already."""
    needed = set(asked.aggregates(base))
    return any(
        index.counts_rows and asked.columns <= index.lower_key_names and needed <= set(index.aggregates)
        for index in indexes
    )


def _definition(asked: AskedSums, base: Table, taken: Collection[str]) -> Definition:
    """Return the definition of an index that answers the sums.

    The name of the index is not in `taken`. Raise HiveBitmapError if such an index cannot be created.
    """
    index = define(base, sorted(asked.columns), type="AGGREGATE", aggregates=asked.text(base))
    names = chain([index.name], (f"{index.name}_sums{number or ''}" for number in count()))
    name = next(name for name in names if name not in taken)
    return define(base, sorted(asked.columns), name=name, type="AGGREGATE", aggregates=asked.text(base))


def _sentence(asked: AskedSums, base: Table, index: Definition, estimated: Estimate) -> str:
    by = ", ".join(index.column_names)
    aggregates = asked.text(base)
    queries = "1 query" if asked.queries == 1 else f"{asked.queries:,} queries"
    begin = f"{base.full_name}: {queries} of {size(asked.bytes)} asked for {aggregates} by ({by})"
    if estimated.verdict.startswith(NOT_WORTH_IT):
        return f"{begin}; an index of these columns is {estimated.verdict}"
    columns = ", ".join(map(quote, index.column_names))
    statement = (
        f"CREATE INDEX {quote(index.name)} ON TABLE {quote(index.database)}.{quote(index.table)} ({columns}) "
        f"AS 'AGGREGATE' IDXPROPERTIES ('aggregates'={literal(aggregates)})"
    )
    return (
        f"{begin}, which an index with sums would answer: {statement}; takes {size(estimated.index_bytes)} or more, "
        f"built in {seconds(estimated.seconds)}"
    )
