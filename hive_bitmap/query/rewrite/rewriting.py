"""From the text of a query to the same text over narrowed scans.

The text stays as it is, but that the name of a table whose scan pays to be narrowed becomes a placeholder for a
DataFrame, which `spark.sql` binds: to a view that is gone when the query is analysed, or, on Spark Connect, inside the
query's own plan. A query that is not understood, or fails with narrowed scans, is Spark's as it was written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, is_cached, quote
from hive_bitmap.query import settings
from hive_bitmap.query.planner import FULL_SCAN
from hive_bitmap.query.prepare import prepare
from hive_bitmap.query.request import Request
from hive_bitmap.query.rewrite.answers import answer_block
from hive_bitmap.query.rewrite.choices import Choice, Fold, Rewriting
from hive_bitmap.query.rewrite.demands import Demand, ScanDemands, scans
from hive_bitmap.query.rewrite.dimensions import KeyList, read_dimensions
from hive_bitmap.query.rewrite.nested import Nest, flattened, nests
from hive_bitmap.query.rewrite.parameters import Arguments, spelled
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.tables import Seen, indexed, left_alone, sql_name
from hive_bitmap.query.rewrite.tree import Query, Scan
from hive_bitmap.query.rewrite.understood import mentioned, misread, predicate, serves
from hive_bitmap.query.rewrite.views import Expanded, Place, expanded, is_same
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
    return _rewrite(spark, text, arguments, Seen(spark), thorough)


def _rewrite(spark: SparkSession, text: str, arguments: Arguments, seen: Seen, thorough: bool) -> Rewriting:
    try:
        told, read, query, plain = _expanded(text, arguments, seen)
    except HiveBitmapError as e:
        return Rewriting(text, why_not=str(e))
    if told.places and settings.read(seen.conf).engine_reads_only:
        seen.views = False  # who may see a view need not be let to see its tables
        return _rewrite(spark, text, arguments, seen, thorough)
    served = any(seen.may_serve(sql_name(one.scan)) for one in plain)
    found = _in_order(scans(query, seen.columns)) if served else plain
    nested = nests(query) if served else {}
    looked = {one.scan: indexed(seen, one, thorough or one.scan in nested or _may_be_answered(one)) for one in found}
    tables = {scan: table for scan, table in looked.items() if table is not None}
    if not tables:
        return Rewriting(text)
    conf, said = seen.conf, settings.read(seen.conf)
    if not said.enabled and not thorough:
        return Rewriting(text, why_not=said.why_off)
    if setting := misread(conf):
        return Rewriting(text, why_not=f"{setting} is {conf[setting]}")
    first = read_dimensions(spark, read, found, tables, seen, conf)
    choices = dict(first.choices)
    for one in found:
        if one.scan in tables and one.scan not in choices:
            answered = _answered(spark, read, one, nested.get(one.scan), arguments, tables[one.scan], conf)
            lists = first.lists.get(one.scan, ())
            choices[one.scan] = answered or _choice(
                spark, read, one, *tables[one.scan], lists, conf, hurry=not thorough
            )
    made = [_in_view(choices[one.scan], one.scan, told.places) for one in found if one.scan in choices]
    replaced = [scan for scan, choice in choices.items() if choice.frame is not None]
    used = [place for place in told.places if any(_holds(place, scan) for scan in replaced)]
    if not all(_stands(spark, place, seen) for place in used):
        return _rewrite(spark, text, arguments, seen, thorough)
    folds = [Fold(place.start, place.end, place.name) for place in told.places if place not in used]
    return Rewriting(text, tuple(made), "", read.text, tuple(_outermost(folds)))


def _expanded(text: str, arguments: Arguments, seen: Seen) -> tuple[Expanded, Words, Query, list[ScanDemands]]:
    """The query, its views' queries in place of their names, and its scans, of whose tables no columns are known.

    Raises HiveBitmapError if it is not understood.
    """
    read, query = _understood(text, arguments)
    plain = _in_order(scans(query))
    told = expanded(read, [(one.scan, text[one.scan.start : one.scan.end]) for one in plain], seen.view)
    if told.places:
        read, query = _understood(told.text, arguments)
        plain = _in_order(scans(query))
    return told, read, query, plain


def _understood(text: str, arguments: Arguments) -> tuple[Words, Query]:
    tokens = tokenize(text)
    read = words(text, tokens, spelled(tokens, arguments))
    return read, statement(read)


def _in_order(found: Iterable[ScanDemands]) -> list[ScanDemands]:
    """The scans as they stand in the text."""
    return sorted(found, key=lambda one: one.scan.start)


def _holds(place: Place, scan: Scan) -> bool:
    """Whether a scan stands in the query of a view."""
    return place.start <= scan.start < place.end


def _stands(spark: SparkSession, place: Place, seen: Seen) -> bool:
    """Whether the query of a view may stand in place of its name; else `seen` learns it."""
    if left_alone(place.words, place.scan, seen.conf) or is_cached(spark, place.name):
        seen.spurn(place.name)
        return False
    if not is_same(spark, place):
        seen.doubt(place.name)
        return False
    return True


def _outermost(folds: Sequence[Fold]) -> list[Fold]:
    return [one for one in folds if not any(f.start < one.start and one.end < f.end for f in folds)]


def _in_view(choice: Choice, scan: Scan, places: Sequence[Place]) -> Choice:
    """The choice, with the view around its scan, the outermost one, if there is one."""
    around = [place for place in places if _holds(place, scan)]
    return replace(choice, view=max(around, key=lambda place: place.end - place.start).name) if around else choice


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
    wanted = None if one.star else mentioned(read, columns, whole=False)
    keys = tuple(made.condition for made in lists)
    request = Request(base.sql_name, condition, wanted, hurry=hurry, alias=one.scan.alias, lists=keys)
    prepared = prepare(spark, request, (base, list(indexes)), conf)
    pays = prepared.plan.strategy != FULL_SCAN
    why_not = left_alone(read, one.scan, conf) if pays else ""
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
    nest: Nest | None,
    arguments: Arguments,
    indexed: tuple[Table, list[Index]],
    conf: Mapping[str, str],
) -> Choice | None:
    """The block of a scan, or the one around it, by the index alone; None if that cannot answer it."""
    block, base, started = nest.block if nest else one.block, indexed[0], time.monotonic()
    if not (nest or _may_be_answered(one)) or (arguments and not read.is_spelled(block.start, block.end)):
        return None
    columns = (*base.columns, *base.partition_columns)
    alias, table = nest.alias if nest else one.scan.alias, sql_name(one.scan)
    if not all(serves(Demand(conjunct.text), columns, alias) for conjunct in block.where):
        return None
    if left_alone(read, one.scan, conf):
        return None
    text = read.source(block.start, block.end)
    if nest:
        try:
            text = flattened(read, nest, table, columns)
        except Unsupported as e:
            log.info("not answered by the index: %s (%s)", text, e)
            return None
    answer = answer_block(spark, text, table, single_row=block.exists, found=indexed, conf=conf)
    if answer is None:
        return None
    log.info("%s is answered by the index alone (%s)", text, answer.plan.reason)
    start, end = read.tokens[block.start].start, read.tokens[block.end - 1].end
    whole = (block.start, block.end) == (0, read.end)
    return Choice(
        answer.plan,
        start,
        end,
        "SELECT * FROM ",
        "",
        time.monotonic() - started,
        answer.rows,
        result=answer.rows if whole else None,
    )


def _may_be_answered(one: ScanDemands) -> bool:
    """Whether its block reads nothing else, and asks for less than the rows."""
    asks_less = one.block.counts or one.block.exists
    return (
        asks_less and [join.source for item in one.block.items for join in item] == [one.scan] and not one.block.inside
    )
