"""A query asked twice: of Spark with the optimizer rule off, and with the rule on, in strict mode.

Settings are read where a plan is made, so a frame is collected under the settings that it is asked with.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import hive_bitmap
from hive_bitmap.spark.catalyst.explanation import relations_of
from tests import lanes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A failure inside is an error and not Spark's own plan, and a machine at work is not "late".
STRICT = {"hive_bitmap.enabled": "true", "hive_bitmap.strict": "true", "hive_bitmap.planning_seconds": "60"}
OFF = {"hive_bitmap.enabled": "false"}
BY_TASKS = "rows by tasks"  # no strategy: `rows`, however few, by tasks in place of the process that planned
FORCED = ("rows", BY_TASKS, "blocks", "files", "index only")
every_way = False  # with --long
Query = str | Callable[["SparkSession"], "DataFrame"]


@dataclass(frozen=True)
class Answer:
    """Names, types, nullability and metadata of the columns, and the rows as text."""

    columns: list[Any]
    rows: list[str]


@contextlib.contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session with other settings, for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextlib.contextmanager
def unchecked(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session with settings that no check has seen: as where they were set before the extension was there."""
    said = spark._jsparkSession.sessionState().conf().settings()
    before = {name: said.get(name) for name in settings}
    for name, value in settings.items():
        said.put(name, value)
    try:
        yield spark
    finally:
        for name, old in before.items():
            said.remove(name) if old is None else said.put(name, old)


@contextlib.contextmanager
def indexed(spark: SparkSession, strategy: str = "", **more: str) -> Iterator[SparkSession]:
    """The session with the rule on, in strict mode; `more` are settings of ours without their prefix."""
    if strategy == BY_TASKS:
        strategy, more = "rows", {"driver_read_bytes": "0", **more}
    said = {f"hive_bitmap.{name}": value for name, value in {"strategy": strategy, **more}.items()}
    hive_bitmap.enable(spark)
    try:
        with under(spark, {**STRICT, **said}):
            yield spark
    finally:
        hive_bitmap.disable(spark)


def frame(spark: SparkSession, query: Query, args: Any = None) -> DataFrame:
    """The frame of a text, or of a function of the session."""
    return spark.sql(query, args=args) if isinstance(query, str) else query(spark)


def answer(found: DataFrame) -> Answer:
    """What a frame answers under the settings of now."""
    columns = [(field.name, field.dataType, field.nullable, field.metadata) for field in found.schema.fields]
    return Answer(columns, [repr(tuple(row)) for row in found.collect()])


def by_spark(spark: SparkSession, query: Query, args: Any = None) -> Answer:
    """The answer with the rule off, whoever switched it on."""
    with under(spark, OFF):
        return answer(frame(spark, query, args))


def by_index(spark: SparkSession, query: Query, strategy: str = "", args: Any = None, **more: str) -> Answer:
    """The answer with the rule on, in strict mode."""
    with indexed(spark, strategy, **more):
        return answer(frame(spark, query, args))


def told(spark: SparkSession, query: Query, strategy: str = "", args: Any = None, **more: str) -> list[tuple[str, str]]:
    """(table, action) of each relation of a query that has an index, sorted; tables without their database."""
    with indexed(spark, strategy, **more):
        relations = relations_of(frame(spark, query, args))
    return sorted((one.table.rpartition(".")[2], one.action) for one in relations if one.reason != "no_index")


def used(spark: SparkSession, query: Query, strategy: str = "", args: Any = None, **more: str) -> list[tuple[str, str]]:
    """Those of `told` for which an index did something."""
    return [one for one in told(spark, query, strategy, args, **more) if one[1] != "left alone"]


def difference(found: Answer, wanted: Answer, *, ordered: bool = False) -> str:
    """How an answer differs from the one that is wanted; empty if it does not."""
    if found.columns != wanted.columns:
        return f"columns {found.columns} instead of {wanted.columns}"
    missing, surplus = Counter(wanted.rows) - Counter(found.rows), Counter(found.rows) - Counter(wanted.rows)
    if missing or surplus:
        return f"missing {list(missing.items())[:5]}, surplus {list(surplus.items())[:5]} of {len(wanted.rows)} rows"
    return "in another order" if ordered and found.rows != wanted.rows else ""


def require_alike(
    spark: SparkSession, query: Query, *strategies: str, args: Any = None, ordered: bool = False, **more: str
) -> Answer:
    """Require that a query answers as Spark does in each of these ways (by cost if there is none); the answer."""
    wanted = by_spark(spark, query, args)
    for strategy in strategies or ("",):
        found = by_index(spark, query, strategy, args, **more)
        assert not difference(found, wanted, ordered=ordered), f"{strategy or 'default'}: {query}"
    return wanted


def require_alike_now(spark: SparkSession, query: Query) -> None:
    """Require it of a query under the settings of now, with the rule on: what is remembered of earlier ones stays."""
    assert not difference(answer(frame(spark, query)), by_spark(spark, query))


def require_alike_always(
    spark: SparkSession, query: Query, args: Any = None, *, ordered: bool = False, **more: str
) -> Answer:
    """Require it in two of these ways, in turn: by cost and by each forced strategy; of a function in all of them."""
    ways = ("", *FORCED)
    chosen = in_turn(ways, query, 2) if isinstance(query, str) else ways
    return require_alike(spark, query, *chosen, args=args, ordered=ordered, **more)


def depends_on_order(
    spark: SparkSession, query: Query, tables: Mapping[str, str], wanted: Answer, found: Answer | None
) -> bool:
    """Whether plain Spark too has other rows, or fails as we did (`found` is None), if the rows come in reverse.

    `tables` are those whose rows are turned round, by the name of a view that hides them for a while.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException

    for view, table in tables.items():
        with under(spark, OFF):
            turned = spark.sql(f"SELECT * FROM {table} ORDER BY monotonically_increasing_id() DESC")
            turned.localCheckpoint().createOrReplaceTempView(view)  # else a view that Spark would call nondeterministic
    try:
        rows = by_spark(spark, query).rows
        return found is not None and Counter(rows) != Counter(wanted.rows)
    except AnalysisException:
        return False  # a view is no table to this query
    except (PySparkException, Py4JJavaError):
        return found is None
    finally:
        for view in tables:
            spark.sql(f"DROP VIEW `{view}`")


def in_turn(ways: Sequence[str], text: str, count: int = 1) -> Sequence[str]:
    """Return `count` of the ways of asking, drawn by the text and the sample of the run; with --long all of them."""
    first = crc32(text.encode()) + lanes.sample()
    return ways if every_way else [ways[(first + step) % len(ways)] for step in range(count)]
