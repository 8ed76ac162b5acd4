"""From the text of a query to the same text over narrowed scans.

The text stays as it is, but that the name of a table whose scan pays to be narrowed becomes a placeholder for a
DataFrame, which `spark.sql` binds: to a view that is gone when the query is analysed, or, on Spark Connect, inside the
query's own plan. A query that is not understood, or fails with narrowed scans, is Spark's as it was written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError, InvalidPredicate
from hive_bitmap.index import catalog, metastore
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query.names import path_at
from hive_bitmap.query.nodes import Compare, Constant, In, IsNull, Predicate, Prefix, Unknown, leaves_of
from hive_bitmap.query.planner import FULL_SCAN, Plan
from hive_bitmap.query.predicates import parse
from hive_bitmap.query.prepare import INDEXES_REMEMBERED, Request, prepare
from hive_bitmap.query.rewrite.answers import answer_block, braced
from hive_bitmap.query.rewrite.demands import Demand, ScanDemands, scans
from hive_bitmap.query.rewrite.parameters import Arguments, spelled
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.words import Words, words
from hive_bitmap.query.scan import narrow
from hive_bitmap.query.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """What became of the scan of an indexed table: its plan, and the rows to put in its place, None if it stays.

    `start` and `end` are the offsets of what is replaced in the text, by a placeholder between `head` and `tail`: the
    table's name, or, where the index alone answers, a block. `alias` is what the block calls the table, `seconds` is
    what planning took, and `why_not` tells why a plan that would pay is not followed.
    """

    plan: Plan
    start: int
    end: int
    head: str
    tail: str
    seconds: float
    frame: DataFrame | None = None
    alias: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Rewriting:
    """A query's text and the choices for its scans of indexed tables; `why_not` if it was not looked into."""

    text: str
    choices: tuple[Choice, ...] = ()
    why_not: str = ""

    @property
    def replaced(self) -> list[Choice]:
        """The choices that change the query."""
        return [choice for choice in self.choices if choice.frame is not None]

    @property
    def template(self) -> str:
        """The text with placeholders, its own braces doubled, as `spark.sql` takes it with keyword arguments."""
        pieces, copied = [], 0
        for number, choice in enumerate(self.replaced):
            pieces.append(braced(self.text[copied : choice.start] + choice.head))
            pieces.append(f"{{{_placeholder(number)}}}{braced(choice.tail)}")
            copied = choice.end
        return "".join([*pieces, braced(self.text[copied:])])

    @property
    def frames(self) -> dict[str, DataFrame]:
        """What the placeholders stand for."""
        return {_placeholder(n): choice.frame for n, choice in enumerate(self.replaced) if choice.frame is not None}


def rewrite(spark: SparkSession, text: str, arguments: Arguments = None, *, thorough: bool = False) -> Rewriting:
    """How a query reads its tables; `thorough` if scans that no index can serve are to be planned too.

    Raises InvalidProperty for a setting that is not understood.
    """
    try:
        tokens = tokenize(text)
        read = words(text, tokens, spelled(tokens, arguments))
        found = list(scans(statement(read)))
    except HiveBitmapError as e:
        return Rewriting(text, why_not=str(e))
    choices: list[Choice] = []
    for one in sorted(found, key=lambda one: one.scan.start):
        indexed = _indexed(spark, one, thorough)
        if indexed is not None:
            choices.append(
                _answered(spark, read, one, arguments, indexed)
                or _choice(spark, read, one, *indexed, hurry=not thorough)
            )
    return Rewriting(text, tuple(choices))


def _indexed(spark: SparkSession, one: ScanDemands, thorough: bool) -> tuple[Table, list[Index]] | None:
    """The table of a scan and its indexes; None if none can serve, or it is not one of the session's own catalog."""
    name = one.scan.name
    sql_name = ".".join(map(quote, name))
    thorough |= _may_be_answered(one)
    if len(name) > 3 or not (one.demands or thorough):
        return None
    try:
        columns = catalog.indexed_columns(spark, sql_name, INDEXES_REMEMBERED)
        if columns is not None and not (columns and thorough) and columns.isdisjoint(_names(one.demands)):
            return None
        base, indexes = catalog.table_and_indexes(spark, sql_name, INDEXES_REMEMBERED)
    except HiveBitmapError:  # Spark says what it says of such a name
        return None
    if not indexes or base.kind == "TEMPORARY":
        return None
    named = name[0] if len(name) == 3 else spark.catalog.currentCatalog()
    return (base, indexes) if named.lower() == "spark_catalog" else None


def _names(demands: Sequence[Demand]) -> set[str]:
    """Every word of the demands that may be a column."""
    tokens = (token for demand in demands for token in tokenize(demand.text))
    return {part for token in tokens for part in path_at([token], 0)[0]}


def _choice(
    spark: SparkSession, read: Words, one: ScanDemands, base: Table, indexes: Sequence[Index], *, hurry: bool
) -> Choice:
    started = time.monotonic()
    conf = metastore.settings(spark)
    columns = (*base.columns, *base.partition_columns)
    predicate = _predicate(one.demands, columns, one.scan.alias)
    whole = one.star or conf.get("spark.sql.parser.quotedRegexColumnNames", "false").lower() == "true"
    wanted = None if whole else _mentioned(read, columns)
    request = Request(base.sql_name, predicate, wanted, hurry=hurry, alias=one.scan.alias)
    prepared = prepare(spark, request, (base, list(indexes)))
    pays = prepared.plan.strategy != FULL_SCAN
    why_not = _why_not(spark, read, one, base, conf) if pays else ""
    frame = narrow(spark, request, prepared) if pays and not why_not else None
    said = f"left alone, {why_not}" if why_not else f"{prepared.plan.strategy} ({prepared.plan.reason})"
    log.info("%s where %s: %s", base.full_name, predicate, said)
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
    )


def _answered(
    spark: SparkSession, read: Words, one: ScanDemands, arguments: Arguments, indexed: tuple[Table, list[Index]]
) -> Choice | None:
    """The block of a scan by the index alone; None if that cannot answer it."""
    block, base, started = one.block, indexed[0], time.monotonic()
    if not _may_be_answered(one) or (arguments and not read.is_spelled(block.start, block.end)):
        return None
    columns = (*base.columns, *base.partition_columns)
    if not all(_serves(Demand(conjunct.text), columns, one.scan.alias) for conjunct in block.where):
        return None
    text, table = read.source(block.start, block.end), ".".join(map(quote, one.scan.name))
    answer = answer_block(spark, text, table, single_row=block.exists, found=indexed)
    if answer is None or _why_not(spark, read, one, base, metastore.settings(spark)):
        return None
    log.info("%s is answered by the index alone (%s)", text, answer.plan.reason)
    start, end = read.tokens[block.start].start, read.tokens[block.end - 1].end
    return Choice(answer.plan, start, end, answer.head, answer.tail, time.monotonic() - started, answer.frame)


def _may_be_answered(one: ScanDemands) -> bool:
    """Whether its block reads nothing else, and asks for less than the rows."""
    asks_less = one.block.counts or one.block.exists
    return (
        asks_less and [join.source for item in one.block.items for join in item] == [one.scan] and not one.block.inside
    )


def _why_not(spark: SparkSession, read: Words, one: ScanDemands, base: Table, conf: Mapping[str, str]) -> str:
    """Why a scan is left alone though it might be narrowed; empty if it is not."""
    if '"' in read.text and conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false").lower() == "true":
        return "names may stand in double quotes"
    if not one.scan.aliased and _is_named_in_full(read, one.scan.alias):
        return "its columns are named behind its database"
    if spark.catalog.isCached(base.sql_name):
        return "the session has it in its cache"
    return ""


def _is_named_in_full(read: Words, name: str) -> bool:
    places = (at for at in range(read.end) if read.name(at) == name)
    return any(read.key(at - 1) == "." and read.key(at + 1) == "." for at in places)


def _mentioned(read: Words, columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns that the text names anywhere; one at least, for a scan must have one."""
    names = {read.name(at) for at in range(read.end)}
    found = tuple(column.name for column in columns if column.name.lower() in names)
    return found or (columns[0].name,)


def _predicate(demands: Sequence[Demand], columns: Sequence[Column], alias: str) -> str | None:
    """The demands that are understood over these columns, put together; None if there are none."""
    texts = dict.fromkeys(demand.text for demand in demands if _serves(demand, columns, alias))
    return " AND ".join(f"({text})" for text in texts) or None


def _serves(demand: Demand, columns: Sequence[Column], alias: str) -> bool:
    try:
        tree = parse(demand.text, columns, quote(alias))
    except InvalidPredicate:
        return False
    leaves = list(leaves_of(tree))
    if any(isinstance(leaf, Unknown) for leaf in leaves):
        return False
    return not demand.strict or all(map(_rejects_nulls, leaves))


def _rejects_nulls(leaf: Predicate) -> bool:
    """Whether a leaf is never TRUE of NULL; so is then all that AND and OR make of such leaves."""
    match leaf:
        case Compare() | In() | Prefix() | IsNull(negated=True):
            return True
        case Constant(value):
            return value is not True
        case _:
            return False


def _placeholder(number: int) -> str:
    return f"hive_bitmap_scan_{number}"
