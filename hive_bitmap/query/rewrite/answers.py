"""A SELECT over one indexed table, answered by the counts of its keys: Spark does the rest over a few rows.

The block's own text is kept, but for its FROM, its WHERE and its aggregates. What Spark makes of it must have the names
and types of the original; where that is not so, or anything is not understood, there is no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.index import catalog
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query.aggregates import counts_by_key
from hive_bitmap.query.names import Names
from hive_bitmap.query.planner import INDEX_ONLY, Plan
from hive_bitmap.query.prepare import INDEXES_REMEMBERED, Request, prepare
from hive_bitmap.query.rewrite.choices import braced
from hive_bitmap.query.rewrite.expressions import Aggregate
from hive_bitmap.query.rewrite.shape import Shape, alias_of, clauses, keys_in, may_be_counted, shape_of
from hive_bitmap.query.rewrite.weights import folded, single, weighted
from hive_bitmap.query.rewrite.words import Words, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What takes the place of a block: `head`, a name for the rows of `frame`, `tail`; and the plan of the count."""

    head: str
    tail: str
    frame: DataFrame
    plan: Plan

    def template(self, name: str) -> str:
        """The text with a placeholder of this name for the rows, as `spark.sql` takes it with keyword arguments."""
        return f"{braced(self.head)}{{{name}}}{braced(self.tail)}"


def answer_block(
    spark: SparkSession,
    block: str,
    table: str,
    *,
    single_row: bool = False,
    strategy: str | None = None,
    found: tuple[Table, list[Index]] | None = None,
) -> Answer | None:
    """The block (one SELECT, from that word to the end, over nothing but `table`) by the index alone.

    The rows are counted now. None where the index does not answer for certain, or Spark is as quick. `single_row`:
    nobody asks how often the block's rows occur, as inside EXISTS. `strategy` may be INDEX_ONLY, whatever it costs.
    `found` are the table and its indexes, if they were looked up a moment ago.
    """
    from pyspark.errors import PySparkException

    try:
        words = read(block)
        if not (single_row or may_be_counted(words)):
            return None
        base, indexes = found or catalog.table_and_indexes(spark, table, INDEXES_REMEMBERED)
        if not indexes or spark.catalog.isCached(table):
            return None
        columns = (*base.columns, *base.partition_columns)
        keys = keys_in(words, columns)
        request = Request(table, _predicate(words, columns), None, True, strategy, keys=tuple(k.name for k in keys))
        prepared = prepare(spark, request, (base, indexes))
        if prepared.plan.strategy != INDEX_ONLY:
            raise Unsupported(prepared.plan.reason)
        schema = [(field.name, field.dataType) for field in spark.sql(block).schema.fields]
        shape = shape_of(words, columns, [name for name, _ in schema], single_row)
        counts = counts_by_key(spark, request, prepared)
        if set(shape.keys) != set(keys) or counts is None:
            raise Unsupported("its keys cannot be counted")
        rows = weighted(_with_nothing(counts, shape), shape.aggregates)
        return _first_alike(spark, shape, rows, prepared.plan, schema)
    except (HiveBitmapError, PySparkException) as e:
        log.info("not answered by the index: %s (%s)", block, str(e).partition("\n")[0])
        return None


def _predicate(words: Words, columns: tuple[Column, ...]) -> str | None:
    """The text of WHERE, its columns without the name that the block has for the table."""
    found = clauses(words)
    if "WHERE" not in found:
        return None
    at, end = found["WHERE"]
    if at + 1 == end:
        raise Unsupported("its WHERE is empty")
    return Names(columns, alias_of(words, found)).unqualified(words.tokens[at + 1 : end], words.text)


def _with_nothing(counts: pa.Table, shape: Shape) -> pa.Table:
    """The counts; of no rows at all, where the block has no keys but aggregates, that there are 0 of them."""
    if shape.keys or counts.num_rows or not shape.aggregates or "GROUP" in shape.clauses:
        return counts
    return pa.table([pa.array([0], pa.int64())], counts.schema)


def _first_alike(
    spark: SparkSession, shape: Shape, rows: pa.Table, plan: Plan, schema: list[tuple[str, Any]]
) -> Answer | None:
    """The first text that Spark reads as a result of these names and types."""
    from pyspark.errors import PySparkException

    frame = spark.createDataFrame(rows)
    for items, rest, alone in _texts(shape, [name for name, _ in schema]):
        # rows that are to be grouped or sorted lie in one partition, which does that in one stage
        answer = Answer(f"SELECT {items} FROM ", rest, frame if alone else frame.coalesce(1), plan)
        try:
            found = spark.sql(answer.template("rows"), rows=answer.frame).schema.fields
        except PySparkException as e:
            log.debug("%s is not Spark's: %s", items, e)
            continue
        if [(field.name, field.dataType) for field in found] == schema:
            return answer
    return None


def _texts(shape: Shape, names: list[str]) -> Iterator[tuple[str, str, bool]]:
    """What is selected, and what follows the rows: where each of them is a group, without grouping; else with it.

    Each with whether Spark can answer it without a job.
    """
    grouped = "GROUP" in shape.clauses or bool(shape.aggregates)
    keys = set(shape.groups) if grouped else {item.column for item in shape.items if shape.distinct and shape.bare}
    if shape.plain and keys == set(shape.keys) and (grouped or keys) and not shape.tests_aliases:
        calls = [single(aggregate) for aggregate in shape.aggregates]
        if None not in calls:
            replaced = dict(zip(shape.aggregates, calls, strict=True))
            yield *_text(shape, names, lambda one: str(replaced[one]), False), "ORDER" not in shape.clauses
    yield *_text(shape, names, folded, True), not (grouped or shape.distinct or "ORDER" in shape.clauses)


def _text(shape: Shape, names: list[str], written: Callable[[Aggregate], str], grouping: bool) -> tuple[str, str]:
    distinct = "DISTINCT " * (shape.distinct and (grouping or bool(shape.aggregates)))
    items = [
        _source(shape, item.start, item.end, written) + f" AS {quote(name)}"
        for item, name in zip(shape.items, names, strict=True)
    ]
    pieces = [f" AS {quote(shape.alias)}"]
    for clause in ("GROUP", "HAVING", "ORDER", "LIMIT"):
        at, end = shape.clauses.get(clause, (0, 0))
        if clause == "HAVING" and not grouping and at < end:
            pieces.append("WHERE " + _source(shape, at + 1, end, written))
        elif at < end and (grouping or clause != "GROUP"):
            pieces.append(_source(shape, at, end, written))
    return distinct + ", ".join(items), " ".join(pieces)


def _source(shape: Shape, at: int, end: int, written: Callable[[Aggregate], str]) -> str:
    """The source of these words, its aggregates as they are written."""
    pieces = []
    for aggregate in shape.aggregates:
        if at <= aggregate.start < end:
            if at < aggregate.start:
                pieces.append(shape.words.source(at, aggregate.start))
            pieces.append(written(aggregate))
            at = aggregate.end
    if at < end:
        pieces.append(shape.words.source(at, end))
    return " ".join(pieces)
