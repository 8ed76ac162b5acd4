"""A SELECT over one indexed table, answered by the counts of its keys: Spark does the rest over a few rows.

The block's own text is kept, but for its FROM, its WHERE and its aggregates. What Spark makes of it must have the names
and types of the original; where that is not so, or anything is not understood, there is no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.index import catalog, metastore
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query.aggregates import counts_apart
from hive_bitmap.query.names import Names
from hive_bitmap.query.planner import INDEX_ONLY, Plan
from hive_bitmap.query.prepare import prepare
from hive_bitmap.query.request import Request
from hive_bitmap.query.rewrite.choices import braced
from hive_bitmap.query.rewrite.expressions import Aggregate
from hive_bitmap.query.rewrite.finished import finished
from hive_bitmap.query.rewrite.groups import Groups, groups_of, key_sets
from hive_bitmap.query.rewrite.order import sort
from hive_bitmap.query.rewrite.shape import Shape, alias_of, clauses, keys_in, may_be_counted, shape_of
from hive_bitmap.query.rewrite.weights import folded, weighted
from hive_bitmap.query.rewrite.words import Words, read
from hive_bitmap.query.schemas import frame_of
from hive_bitmap.versions import arrow_schema, data_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

BLOCKS_REMEMBERED = 256
OURS = "hive_bitmap_"  # what the columns of counted rows that are not keys begin with


@dataclass(frozen=True)
class Answer:
    """The rows of a block, with the names and types that Spark gives them, and the plan of the count."""

    rows: DataFrame
    plan: Plan


@dataclass(frozen=True)
class _Text:
    """A select list, the rows that it is over, and what follows them.

    `alone` if Spark needs no job for it, `whole` if these rows are the result.
    """

    items: str
    rest: str
    rows: pa.Table
    alone: bool
    whole: bool = False


def answer_block(
    spark: SparkSession,
    block: str,
    table: str,
    *,
    single_row: bool = False,
    strategy: str | None = None,
    found: tuple[Table, list[Index]] | None = None,
    conf: Mapping[str, str] | None = None,
) -> Answer | None:
    """The block (one SELECT, from that word to the end, over nothing but `table`) by the index alone.

    The rows are counted now. None where the index does not answer for certain, or Spark is as quick. `single_row`:
    nobody asks how often the block's rows occur, as inside EXISTS. `strategy` may be INDEX_ONLY, whatever it costs.
    `found` are the table and its indexes, and `conf` the settings, if they were asked for a moment ago.
    """
    from pyspark.errors import PySparkException

    try:
        words = read(block)
        if not (single_row or may_be_counted(words)):
            return None
        _require_own_names(words)
        base, indexes = found or catalog.table_and_indexes(spark, table, catalog.INDEXES_REMEMBERED)
        if not indexes:
            return None
        columns = (*base.columns, *base.partition_columns)
        keys = keys_in(words, columns)
        _require_keys(keys, base, indexes)
        conf = metastore.settings(spark) if conf is None else conf
        schema = _schema(spark, block, base.full_name, columns, frozenset(conf.items()))
        shape = shape_of(words, columns, schema.names, single_row)
        if set(shape.keys) != set(keys):
            raise Unsupported("its keys are not understood")
        names, sets = tuple(key.name for key in keys), key_sets(shape)
        request = Request(table, _predicate(words, columns), None, True, strategy, keys=names)
        for apart in dict.fromkeys((tuple(sets or [names]), (names,))):
            asked = replace(request, apart=apart)
            prepared = prepare(spark, asked, (base, indexes), conf)
            if prepared.plan.strategy != INDEX_ONLY:
                raise Unsupported(prepared.plan.reason)
            counts = counts_apart(spark, asked, prepared)
            if counts is not None:
                texts = _texts(shape, counts, schema.names, grouped=sets is not None)
                return _first_alike(spark, texts, prepared.plan, schema)
        raise Unsupported("its keys cannot be counted")
    except (HiveBitmapError, PySparkException, pa.ArrowException) as e:
        log.info("not answered by the index: %s (%s)", block, str(e).partition("\n")[0])
        return None


@lru_cache(maxsize=BLOCKS_REMEMBERED)
def _schema(
    spark: SparkSession, block: str, table: str, columns: tuple[Column, ...], conf: frozenset[tuple[str, str]]
) -> StructType:
    """The schema of a block's result as Spark analyses it.

    It is asked once for a block over a table of the same columns under the same settings. What is remembered only
    refuses answers: where a function means something else by now, its type differs from what Spark then answers.
    """
    return spark.sql(block).schema


def _require_keys(keys: Sequence[Column], base: Table, indexes: Sequence[Index]) -> None:
    """Raise Unsupported for a key that no index counts."""
    usable = [index.definition for index in indexes if not index.why_not and index.definition.type == "BITMAP"]
    counted = {name.lower() for definition in usable for name in definition.column_names}
    counted |= {column.name.lower() for column in base.partition_columns}
    if others := [key.name for key in keys if key.name.lower() not in counted]:
        raise Unsupported(f"no index counts the keys of {others[0]}")


def _require_own_names(words: Words) -> None:
    """Raise Unsupported for a name that counted rows may have, too."""
    if ours := [name for at in range(words.end) if (name := words.name(at)).startswith(OURS)]:
        raise Unsupported(f"the name {ours[0]} is taken")


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


def _first_alike(spark: SparkSession, texts: Iterator[_Text], plan: Plan, schema: StructType) -> Answer | None:
    """The first text that Spark reads as a result of these names and types."""
    from pyspark.errors import PySparkException

    wanted = [(field.name, field.dataType) for field in schema]
    for text in texts:
        frame = _finished(spark, text.rows, schema) if text.whole else frame_of(spark, text.rows)
        # rows that are to be grouped or sorted lie in one partition, which does that in one stage
        frame = frame if text.alone else frame.coalesce(1)
        query = f"{braced(f'SELECT {text.items} FROM ')}{{rows}}{braced(text.rest)}"
        try:
            result = frame if text.whole else spark.sql(query, rows=frame)
            found = result.schema
        except PySparkException as e:
            log.debug("%s is not Spark's: %s", text.items, e)
            continue
        if [(field.name, field.dataType) for field in found] == wanted:
            return Answer(_noted(result, schema), plan)
    return None


def _finished(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows of a result, with its schema where these are its types already."""
    same = arrow_schema(schema).types == rows.schema.types
    return data_frame(spark, rows, schema) if same else frame_of(spark, rows)


def _noted(result: DataFrame, schema: StructType) -> DataFrame:
    """A result with what Spark notes beside its columns, as that it made up their names; it is told by names."""
    from pyspark.sql.types import StructField, StructType

    found, names = result.schema, {name.lower() for name in schema.names}
    if len(names) < len(schema) or [field.metadata for field in found] == [field.metadata for field in schema]:
        return result
    pairs = zip(found, schema, strict=True)
    return result.to(StructType([StructField(f.name, f.dataType, f.nullable, w.metadata) for f, w in pairs]))


def _texts(shape: Shape, counts: Sequence[pa.Table], names: Sequence[str], *, grouped: bool) -> Iterator[_Text]:
    """Over rows that are groups already, where these are made here (`grouped`) or keys are all that is asked; then,
    over the keys, with the grouping left to Spark.
    """
    if grouped:
        groups = groups_of(shape, counts)
        yield from _of_groups(shape, names, groups)
        if len(counts) > 1:
            return
    elif shape.asks_for_keys:
        yield from _of_groups(shape, names, Groups(counts[0], {}, {}))
    rows = weighted(_with_nothing(counts[0], shape), shape.aggregates)
    grouping = bool(shape.aggregates) or "GROUP" in shape.clauses or shape.distinct
    items, rest = _text(shape, names, {a: folded(a) for a in shape.aggregates}, grouping=True, distinct=shape.distinct)
    yield _Text(items, rest, rows, not (grouping or "ORDER" in shape.clauses))


def _of_groups(shape: Shape, names: Sequence[str], groups: Groups) -> Iterator[_Text]:
    """The rows of the result, where groups hold them; the text over groups, sorted here where that can be."""
    distinct = shape.distinct and not shape.asks_for_keys
    rows = None if distinct else sort(shape, names, groups.rows, groups.sorts)
    result = None if rows is None else finished(shape, names, rows, groups.columns)
    if result is not None:
        yield _Text("*", "", result, alone=True, whole=True)
    done = {"GROUP"} | ({"ORDER"} if rows is not None else set())
    items, rest = _text(shape, names, groups.written, grouping=False, distinct=distinct, done=done)
    yield _Text(items, rest, groups.rows if rows is None else rows, rows is not None)


def _text(
    shape: Shape,
    names: Sequence[str],
    written: Mapping[Aggregate, str],
    *,
    grouping: bool,
    distinct: bool,
    done: Collection[str] = (),
) -> tuple[str, str]:
    """The select list, and the clauses behind the rows but for those that are done."""
    items = [
        _source(shape, item.start, item.end, written) + f" AS {quote(name)}"
        for item, name in zip(shape.items, names, strict=True)
    ]
    pieces = [f" AS {quote(shape.alias)}"]
    for clause in ("GROUP", "HAVING", "ORDER", "LIMIT"):
        at, end = shape.clauses.get(clause, (0, 0))
        if clause == "HAVING" and not grouping and at < end:
            pieces.append("WHERE " + _source(shape, at + 1, end, written))
        elif at < end and clause not in done:
            pieces.append(_source(shape, at, end, written))
    return "DISTINCT " * distinct + ", ".join(items), " ".join(pieces)


def _source(shape: Shape, at: int, end: int, written: Mapping[Aggregate, str]) -> str:
    """The source of these words, its aggregates as they are written."""
    pieces = []
    for aggregate in shape.aggregates:
        if at <= aggregate.start < end:
            if at < aggregate.start:
                pieces.append(shape.words.source(at, aggregate.start))
            pieces.append(written[aggregate])
            at = aggregate.end
    if at < end:
        pieces.append(shape.words.source(at, end))
    return " ".join(pieces)
