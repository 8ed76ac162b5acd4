"""From the text of a query to the same text over narrowed scans.

The text stays as it is, but that the name of a table whose scan pays to be narrowed becomes a placeholder for a
DataFrame, which `spark.sql` binds: to a view that is gone when the query is analysed, or, on Spark Connect, inside the
query's own plan. A query that is not understood, or fails with narrowed scans, is Spark's as it was written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.index import metastore
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query import settings
from hive_bitmap.query.planner import FULL_SCAN
from hive_bitmap.query.prepare import Request, prepare
from hive_bitmap.query.rewrite.answers import answer_block
from hive_bitmap.query.rewrite.choices import Choice, Rewriting
from hive_bitmap.query.rewrite.demands import Demand, ScanDemands, scans
from hive_bitmap.query.rewrite.dimensions import KeyList, read_dimensions
from hive_bitmap.query.rewrite.parameters import Arguments, spelled
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.tables import indexed, left_alone, sql_name
from hive_bitmap.query.rewrite.understood import mentioned, predicate, serves, stands_for_more
from hive_bitmap.query.rewrite.words import Words, words
from hive_bitmap.query.scan import narrow
from hive_bitmap.query.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def rewrite(spark: SparkSession, text: str, arguments: Arguments = None, *, thorough: bool = False) -> Rewriting:
    """How a query reads its tables; `thorough` if scans that no index can serve are to be planned too.

    Raises InvalidProperty for a setting that is not understood.
    """
    try:
        tokens = tokenize(text)
        read = words(text, tokens, spelled(tokens, arguments))
        found = sorted(scans(statement(read)), key=lambda one: one.scan.start)
    except HiveBitmapError as e:
        return Rewriting(text, why_not=str(e))
    looked = {one.scan: indexed(spark, one, thorough or _may_be_answered(one)) for one in found}
    tables = {scan: table for scan, table in looked.items() if table is not None}
    if not tables:
        return Rewriting(text)
    conf = metastore.settings(spark)
    said = settings.read(conf)
    if not said.enabled and not thorough:
        return Rewriting(text, why_not=said.why_off)
    first = read_dimensions(spark, read, found, tables, conf)
    choices = dict(first.choices)
    for one in found:
        if one.scan in tables and one.scan not in choices:
            answered = _answered(spark, read, one, arguments, tables[one.scan], conf)
            lists = first.lists.get(one.scan, ())
            choices[one.scan] = answered or _choice(
                spark, read, one, *tables[one.scan], lists, conf, hurry=not thorough
            )
    return Rewriting(text, tuple(choices[one.scan] for one in found if one.scan in choices))


def _choice(
    spark: SparkSession,
    read: Words,
    one: ScanDemands,
    base: Table,
    indexes: Sequence[Index],
    lists: Sequence[KeyList],
    conf: Mapping[str, str],
    *,
    hurry: bool,
) -> Choice:
    started = time.monotonic()
    columns = (*base.columns, *base.partition_columns)
    condition = predicate(one.demands, columns, one.scan.alias)
    whole = one.star or stands_for_more(conf)
    wanted = None if whole else mentioned(read, columns, whole=False)
    keys = tuple(made.condition for made in lists)
    request = Request(base.sql_name, condition, wanted, hurry=hurry, alias=one.scan.alias, lists=keys)
    prepared = prepare(spark, request, (base, list(indexes)), conf)
    pays = prepared.plan.strategy != FULL_SCAN
    why_not = left_alone(spark, read, one, base, conf) if pays else ""
    frame = narrow(spark, request, prepared) if pays and not why_not else None
    said = f"left alone, {why_not}" if why_not else f"{prepared.plan.strategy} ({prepared.plan.reason})"
    log.info("%s where %s: %s", base.full_name, condition, said)
    tail = "" if one.scan.aliased else f" AS {quote(one.scan.alias)}"
    return Choice(
        prepared.plan,
        one.scan.start,
        one.scan.end,
        "",
        tail,
        time.monotonic() - started,
        frame,
        one.scan.alias,
        why_not,
        tuple(map(str, lists)),
    )


def _answered(
    spark: SparkSession,
    read: Words,
    one: ScanDemands,
    arguments: Arguments,
    indexed: tuple[Table, list[Index]],
    conf: Mapping[str, str],
) -> Choice | None:
    """The block of a scan by the index alone; None if that cannot answer it."""
    block, base, started = one.block, indexed[0], time.monotonic()
    if not _may_be_answered(one) or (arguments and not read.is_spelled(block.start, block.end)):
        return None
    columns = (*base.columns, *base.partition_columns)
    if not all(serves(Demand(conjunct.text), columns, one.scan.alias) for conjunct in block.where):
        return None
    text, table = read.source(block.start, block.end), sql_name(one.scan)
    answer = answer_block(spark, text, table, single_row=block.exists, found=indexed, conf=conf)
    if answer is None or left_alone(spark, read, one, base, conf):
        return None
    log.info("%s is answered by the index alone (%s)", text, answer.plan.reason)
    start, end = read.tokens[block.start].start, read.tokens[block.end - 1].end
    whole = (block.start, block.end) == (0, read.end)
    return Choice(
        answer.plan,
        start,
        end,
        answer.head,
        answer.tail,
        time.monotonic() - started,
        answer.frame,
        result=answer.result if whole else None,
    )


def _may_be_answered(one: ScanDemands) -> bool:
    """Whether its block reads nothing else, and asks for less than the rows."""
    asks_less = one.block.counts or one.block.exists
    return (
        asks_less and [join.source for item in one.block.items for join in item] == [one.scan] and not one.block.inside
    )
