"""The measurements. Engines take turns, so that whatever else the machine does meets all of them alike.

The first turns of each are not timed: they warm, above all the JVM. The answer of the first is compared with that of
the others. Times are wall seconds and include planning; what is reported is the median.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import hive_bitmap
from bench.data import (
    AGGREGATES,
    HOUR,
    KEYS,
    SCHEMA,
    SUMS,
    TABLE,
    Data,
    Question,
    append_small_file,
    register,
    write_small_files,
)
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy

SPARK, OURS, DUCKDB = "Spark", "hive_bitmap", "DuckDB"
PLAIN = "plain SQL"  # where OURS is a function: the same by spark.sql with the optimizer rule
BUILT_SUMS = (("age", "age with two sums"), ("all five in one pass", "all five, age with two sums"))  # without and with
NATIVE, TASKS = "native blocks", "rows in tasks"  # strategies that are asked for, whatever they cost
OTHER_ENCODINGS = ("roaring", "ewah", "plain")
SMALL_FILES, SMALL_ROWS = 1000, 2000
MOST_PLAIN_BYTES = 10 << 30  # plain bitmaps are keys x rows bits before they are compressed: no more than this is tried
WARM_UPS = 3  # turns; the JVM compiles what it runs often


@dataclass(frozen=True)
class Contender:
    """One engine's way to an answer; `before` is run, not timed, ahead of each turn."""

    run: Callable[[], Any]
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Race:
    """Seconds of each engine's timed turns, and what its first turn answered, as `digest` made it comparable."""

    seconds: Mapping[str, Sequence[float]]
    answers: Mapping[str, Any]

    def median(self, engine: str) -> float:
        return median(self.seconds[engine])


@dataclass(frozen=True)
class Built:
    """One column's index against Spark's GROUP BY of that column; `size` in bytes, `index_rows` of the index table."""

    column: str
    keys: int
    race: Race
    size: int
    index_rows: int


@dataclass(frozen=True)
class BuiltTogether:
    """All five indexes in one pass; `size` is the bytes of each."""

    seconds: Sequence[float]
    size: Mapping[str, int]


@dataclass(frozen=True)
class BuiltSums:
    """Indexes with aggregates, against the same indexes without; `size` in bytes, by the names of BUILT_SUMS."""

    race: Race
    size: Mapping[str, int]


@dataclass(frozen=True)
class Refreshed:
    """Seconds of bringing an index of `files` files up to date: where nothing is new, and after one new file of `rows`
    rows; and of building an index of a table that holds such a file alone.
    """

    files: int
    rows: int
    nothing: Sequence[float]
    one_new: Sequence[float]
    alone: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question to all engines: base blocks and bytes that our strategy reads, of all, and index bytes decoded.

    `costs` are the planner's seconds for each strategy.
    """

    question: Question
    table: str
    count: bool
    race: Race
    rows: int
    equal: bool
    strategy: str
    reason: str
    blocks: tuple[int, int]
    bytes: tuple[int, int]
    index: int
    costs: Mapping[Strategy, float]

    def estimates(self) -> list[tuple[str, float, float]]:
        """The planner's seconds beside those that were measured, as (strategy, estimate, measured)."""
        ways = {Strategy.FULL_SCAN: SPARK, Strategy.BLOCKS: NATIVE, Strategy.ROWS: TASKS, Strategy(self.strategy): OURS}
        if self.count:
            ways = {Strategy.FULL_SCAN: SPARK, Strategy.INDEX_ONLY: PLAIN}
        return [
            (strategy, self.costs[strategy], self.race.median(engine))
            for strategy, engine in ways.items()
            if strategy in self.costs and engine in self.race.seconds
        ]


@dataclass(frozen=True)
class Grouped:
    """One aggregating query to all engines, and how many rows it answers."""

    sql: str
    race: Race
    rows: int
    equal: bool


@dataclass(frozen=True)
class Overhead:
    """Seconds until a query that no index helps is analysed, its rows not fetched: what looking costs."""

    about: str
    sql: str
    race: Race

    @property
    def seconds(self) -> float:
        return self.race.median(OURS) - self.race.median(SPARK)


@dataclass(frozen=True)
class Results:
    """Everything that was measured; `sizes` is bytes by column and encoding, without those that were not tried.

    `memory` is the peak of each kind of process, in bytes, by what had been done until then.
    """

    builds: Sequence[Built]
    together: BuiltTogether
    summed: BuiltSums
    refreshed: Refreshed
    sizes: Mapping[str, Mapping[str, int]]
    asked: Sequence[Asked]
    grouped: Sequence[Grouped]
    overheads: Sequence[Overhead]
    memory: Mapping[str, Mapping[str, int]]


def race(
    contenders: Mapping[str, Contender], repeats: int, digest: Callable[[Any], Any], warm_ups: int = WARM_UPS
) -> Race:
    """Let the contenders take turns, `warm_ups` that are not timed and `repeats` that are."""
    answers = {name: digest(_timed(contender)[1]) for name, contender in contenders.items()}
    for _ in range(warm_ups - 1):
        for contender in contenders.values():
            _timed(contender)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats):
        order = list(contenders.items())
        for name, contender in order if turn % 2 else reversed(order):  # none always pays for the one before it
            seconds[name].append(_timed(contender)[0])
    return Race(seconds, answers)


def build(spark: SparkSession, column: str, repeats: int) -> Built:
    """Build an index of one column against `SELECT k, count(*) GROUP BY k`, and leave none behind."""
    contenders = {
        SPARK: Contender(
            lambda: spark.sql(f"SELECT {column}, count(*) FROM {TABLE} GROUP BY {column}").collect(), without(spark)
        ),
        OURS: Contender(lambda: hive_bitmap.build(spark, TABLE, [column]), lambda: _drop(spark, [column])),
    }
    finished = race(contenders, repeats, lambda answer: answer)
    _drop(spark, [column])
    [report] = finished.answers[OURS]
    return Built(column, len(finished.answers[SPARK]), finished, report.index_bytes, report.index_rows)


def build_together(spark: SparkSession, repeats: int) -> BuiltTogether:
    """Build all indexes in one pass; they stay."""
    contender = Contender(lambda: hive_bitmap.build(spark, TABLE, list(KEYS)), lambda: _drop(spark, KEYS))
    finished = race({OURS: contender}, repeats, lambda answer: answer)
    size = {report.definition.column_names[0]: report.index_bytes for report in finished.answers[OURS]}
    return BuiltTogether(finished.seconds[OURS], size)


def build_sums(spark: SparkSession, repeats: int) -> BuiltSums:
    """Build indexes with aggregates and without; then build indexes for data.SUMMED and HOURLY, which stay."""

    def contender(columns: Collection[str], aggregates: str) -> Contender:
        def create() -> None:
            _drop(spark, KEYS, SUMS)
            for column in columns:
                summed = aggregates if column == "age" else ""
                hive_bitmap.build(spark, SUMS, [column], deferred=True, aggregates=summed)

        return Contender(lambda: hive_bitmap.rebuild(spark, SUMS), create)

    contenders = {
        name: contender(columns, aggregates)
        for names, columns in zip(BUILT_SUMS, (["age"], KEYS), strict=True)
        for name, aggregates in zip(names, ("", AGGREGATES), strict=True)
    }
    finished = race(contenders, repeats, lambda answer: answer)
    _drop(spark, KEYS, SUMS)
    hive_bitmap.build(spark, SUMS, ["age", "region"], aggregates=AGGREGATES)
    hive_bitmap.build(spark, SUMS, ["store"], aggregates="count(*), sum(id)")
    hive_bitmap.build(spark, SUMS, [HOUR])
    sizes = {name: sum(one.index_bytes for one in reports) for name, reports in finished.answers.items()}
    return BuiltSums(finished, sizes)


def refresh(spark: SparkSession, folder: Path, repeats: int) -> Refreshed:
    """Rebuild an index of a thousand small files after each of `repeats` appends."""
    many, alone, column = folder / "many", folder / "alone", "age"
    write_small_files(many, SMALL_FILES, SMALL_ROWS)
    write_small_files(alone, 1, SMALL_ROWS)
    register(spark, many, "many")
    register(spark, alone, "alone")
    hive_bitmap.build(spark, "many", [column])
    rebuild = Contender(lambda: hive_bitmap.rebuild(spark, "many"))
    contenders = {
        "nothing": rebuild,
        "one new": Contender(rebuild.run, lambda: append_small_file(many, SMALL_ROWS)),
        "alone": Contender(
            lambda: hive_bitmap.build(spark, "alone", [column]),
            lambda: hive_bitmap.drop(spark, "alone", column, if_exists=True),
        ),
    }
    found = race(contenders, repeats, lambda reports: sum(report.files_read for report in reports))
    if list(found.answers.values()) != [0, 1, 1]:
        raise AssertionError(f"files read: {found.answers}")
    return Refreshed(SMALL_FILES, SMALL_ROWS, *(found.seconds[name] for name in contenders))


def sizes(spark: SparkSession, column: str, rows: int) -> dict[str, int]:
    """Bytes of the column's index in the encodings besides gap; plain only where its raw bitmaps are not absurd."""
    found = {}
    for encoding in OTHER_ENCODINGS:
        if encoding == "plain" and KEYS[column] * rows // 8 > MOST_PLAIN_BYTES:
            continue
        [report] = hive_bitmap.build(spark, TABLE, [column], encoding=encoding)
        if not report.unindexed:
            found[encoding] = report.index_bytes
        _drop(spark, [column])
    return found


def build_all(spark: SparkSession, table: str) -> None:
    """The same indexes on a copy."""
    hive_bitmap.build(spark, table, list(KEYS))


def ask_count(
    spark: SparkSession, duck: duckdb.DuckDBPyConnection, question: Question, table: str, repeats: int
) -> Asked:
    """COUNT(*) of a predicate, by our function and by plain Spark. DuckDB is not asked about copies."""
    where = question.predicate
    contenders = {
        SPARK: Contender(lambda: _spark(spark, table, where).count(), without(spark)),
        OURS: Contender(lambda: hive_bitmap.count(spark, table, where), by_index(spark)),
        PLAIN: Contender(lambda: _spark(spark, table, where).count(), by_index(spark)),
    }
    if table == TABLE:
        sql = f"SELECT count(*) FROM {TABLE} WHERE {where}"
        contenders[DUCKDB] = Contender(lambda: _one(duck, sql))
    finished = race(contenders, repeats, lambda answer: answer)
    return _asked(question, table, finished, finished.answers[SPARK], _plan(spark, table, where, count=True))


def ask_fetch(
    spark: SparkSession, duck: duckdb.DuckDBPyConnection, question: Question, table: str, repeats: int
) -> Asked:
    """All columns of the rows of a predicate, as an Arrow table in this process; DuckDB as in `ask_count`.

    Ours is plain Spark with the optimizer rule: by cost, and by two strategies that are asked for. The rows of a
    drained question are read to the end inside Spark, without DuckDB.
    """
    where = question.predicate
    read: Callable[[DataFrame], Any] = _drained if question.drained else _brought
    contenders = {
        SPARK: Contender(lambda: read(_spark(spark, table, where)), without(spark)),
        OURS: Contender(lambda: read(_spark(spark, table, where)), by_index(spark)),
        NATIVE: Contender(lambda: read(_spark(spark, table, where)), by_index(spark, "blocks")),
        TASKS: Contender(lambda: read(_spark(spark, table, where)), by_index(spark, "rows")),
    }
    if table == TABLE and not question.drained:
        sql = f"SELECT * FROM {TABLE} WHERE {where}"
        contenders[DUCKDB] = Contender(lambda: duck.execute(sql).to_arrow_table())
    finished = race(contenders, repeats, _multiset_in_spark if question.drained else multiset)
    return _asked(question, table, finished, finished.answers[SPARK][0], _plan(spark, table, where))


def ask_grouped(spark: SparkSession, duck: duckdb.DuckDBPyConnection, sql: str, repeats: int) -> Grouped:
    """A query as it is typed, its rows collected."""
    contenders = {
        SPARK: Contender(lambda: spark.sql(sql).collect(), without(spark)),
        OURS: Contender(lambda: spark.sql(sql).collect(), by_index(spark)),
        DUCKDB: Contender(lambda: duck.execute(sql).fetchall()),
    }
    finished = race(contenders, repeats, _sorted)
    return Grouped(sql, finished, len(finished.answers[SPARK]), _alike(list(finished.answers.values())))


def _sorted(rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """The rows in order, with times in seconds: Spark's are local times without a zone."""
    return tuple(sorted(tuple(v.timestamp() if isinstance(v, datetime) else v for v in row) for row in rows))


def overhead(spark: SparkSession, about: str, sql: str, repeats: int) -> Overhead:
    """What the rule adds to a query that it cannot help; of so many short turns that noise evens out."""
    contenders = {
        SPARK: Contender(lambda: _planned(spark, sql), without(spark)),
        OURS: Contender(lambda: _planned(spark, sql), by_index(spark)),
    }
    return Overhead(about, sql, race(contenders, 4 * repeats, lambda schema: schema.json()))


def _planned(spark: SparkSession, sql: str) -> Any:
    """The schema of a query whose plan is made, down to what would be executed."""
    frame = spark.sql(sql)
    frame._jdf.queryExecution().executedPlan()
    return frame.schema


def without(spark: SparkSession) -> Callable[[], object]:
    """What has Spark answer by itself."""
    return lambda: spark.conf.set("hive_bitmap.enabled", "false")


def by_index(spark: SparkSession, strategy: str = "") -> Callable[[], object]:
    """What lets plans use indexes, by cost or by a strategy."""

    def settings() -> None:
        spark.conf.set("hive_bitmap.enabled", "true")
        spark.conf.set("hive_bitmap.strategy", strategy)

    return settings


def connect_duckdb(data: Data, cores: int) -> duckdb.DuckDBPyConnection:
    """DuckDB over the very files, on as many threads as Spark has tasks."""
    duck = duckdb.connect(config={"threads": cores})
    duck.execute("SET TimeZone = 'UTC'")
    for view in (TABLE, SUMS):
        duck.execute(f"CREATE VIEW {view} AS SELECT * FROM read_parquet('{data.folder}/*.parquet')")
    return duck


def multiset(rows: pa.Table) -> tuple[int, int]:
    """Rows, and the sum of their hashes: equal for equal rows in whatever order, and hardly for others."""
    found = rows.select(SCHEMA.names).cast(SCHEMA)  # noqa: F841 - DuckDB finds it by its name
    columns = ", ".join(SCHEMA.names)
    with duckdb.connect() as connection:
        count, total = connection.sql(f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM found").fetchall()[0]
    return count, int(total or 0)


def _brought(frame: DataFrame) -> pa.Table:
    """The rows, in this process."""
    return frame.toArrow()


def _drained(frame: DataFrame) -> DataFrame:
    """The rows, after they were read to the end and thrown away."""
    frame.write.format("noop").mode("overwrite").save()
    return frame


def _multiset_in_spark(frame: DataFrame) -> tuple[int, int]:
    """As `multiset`, of rows that stay in Spark."""
    total = f"CAST(sum(CAST(xxhash64({', '.join(SCHEMA.names)}) AS DECIMAL(38, 0))) AS STRING)"
    [row] = frame.selectExpr("count(*)", total).collect()
    return row[0], int(row[1] or 0)


def _plan(spark: SparkSession, table: str, where: str, *, count: bool = False) -> Plan:
    """The plan by cost, whichever contender's settings are left in the session."""
    by_index(spark)()
    return hive_bitmap.plan(spark, table, where, count=count)


def base_read(plan: Plan) -> tuple[int, int]:
    """Blocks and bytes of base files that the plan's strategy reads."""
    if plan.strategy == Strategy.FULL_SCAN:
        return plan.blocks_total or 0, plan.bytes_total or 0
    if plan.strategy == Strategy.INDEX_ONLY and plan.rows_selected is not None:
        return 0, 0
    if plan.strategy == Strategy.FILES:
        kept = plan.kept_files
        return int(plan.files["blocks"].to_numpy()[kept].sum()), int(plan.files["size"].to_numpy()[kept].sum())
    return plan.blocks_selected or 0, plan.bytes_selected or 0


def _asked(question: Question, table: str, finished: Race, rows: int, plan: Plan) -> Asked:
    blocks, read = base_read(plan)
    equal = len(set(finished.answers.values())) == 1
    count = isinstance(finished.answers[OURS], int)
    return Asked(
        question=question,
        table=table,
        count=count,
        race=finished,
        rows=rows,
        equal=equal,
        strategy=plan.strategy,
        reason=plan.reason,
        blocks=(blocks, plan.blocks_total or 0),
        bytes=(read, plan.bytes_total or 0),
        index=plan.index_bytes,
        costs=plan.costs,
    )


def _alike(answers: Sequence[Sequence[tuple[Any, ...]]]) -> bool:
    """Whether all engines gave the same rows; averages may differ in the last digits."""
    first = answers[0]
    return all(
        len(other) == len(first)
        and all(
            a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-12))
            for row, same in zip(first, other, strict=True)
            for a, b in zip(row, same, strict=True)
        )
        for other in answers
    )


def _timed(contender: Contender) -> tuple[float, Any]:
    contender.before()
    start = time.perf_counter()
    answer = contender.run()
    return time.perf_counter() - start, answer


def _drop(spark: SparkSession, columns: Iterable[str], table: str = TABLE) -> None:
    for column in columns:
        hive_bitmap.drop(spark, table, column, if_exists=True)


def _spark(spark: SparkSession, table: str, where: str) -> DataFrame:
    return spark.table(table).where(where)


def _one(duck: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(duck.execute(sql).fetchall()[0][0])
