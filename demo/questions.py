"""The demo's queries, and the comparison of their results and times with those of Spark alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy

REPEATS = 6


@dataclass(frozen=True)
class Question:
    """A question in words, and its query: columns or counts of the rows of a table that satisfy a predicate."""

    text: str
    table: str
    predicate: str
    select: str = "*"
    group_by: str = ""

    @property
    def sql(self) -> str:
        groups = f" GROUP BY {self.group_by}" if self.group_by else ""
        return f"SELECT {self.select} FROM {self.table} WHERE {self.predicate}{groups}"


@dataclass(frozen=True)
class Outcome:
    """The result of one question, with and without the indexes.

    `rows` is the number of rows of the result, `equal` says whether both results are the same. `with_index` and
    `without` are seconds, the median of some warm runs.
    """

    question: Question
    plan: Plan
    blocks_read: int
    rows: int
    with_index: float
    without: float
    equal: bool


INDEXED = ["carrier", "origin", "dest", "tailnum", "dep_time"]
QUESTIONS = [
    Question("United from Newark to Anchorage", "flights", "carrier = 'UA' AND origin = 'EWR' AND dest = 'ANC'"),
    Question("Where was N14228, all these years?", "flights", "tailnum = 'N14228'"),
    Question("Envoy's cancelled flights to Chicago", "flights", "carrier = 'MQ' AND dest = 'ORD' AND dep_time IS NULL"),
    Question("Departures between midnight and three", "flights_by_month", "dep_time BETWEEN 1 AND 300"),
    Question(
        "JetBlue to Boston, cancelled in February",
        "flights_by_month",
        "month = 2 AND carrier = 'B6' AND dest = 'BOS' AND dep_time IS NULL",
    ),
    Question("How many flights were cancelled?", "flights", "dep_time IS NULL", "count(*)"),
    Question("How many of each airline to Chicago?", "flights", "dest = 'ORD'", "carrier, count(*)", "carrier"),
    Question("The longest delay of all that left", "flights", "dep_time IS NOT NULL", "max(arr_delay)"),
]


def ask(spark: SparkSession, question: Question) -> Outcome:
    """Run the query as plain SQL with and without the indexes, warm, and compare rows (as multisets) and types."""

    def indexed() -> pa.Table:
        return spark.sql(question.sql).toArrow()

    def by_spark() -> pa.Table:
        spark.conf.set("hive_bitmap.enabled", "false")
        try:
            return indexed()
        finally:
            spark.conf.set("hive_bitmap.enabled", "true")

    found, wanted = indexed(), by_spark()
    times: dict[Callable[[], pa.Table], list[float]] = {indexed: [], by_spark: []}
    for number in range(REPEATS):  # in turns, and each is as often the second one
        for way in (indexed, by_spark) if number % 2 else (by_spark, indexed):
            times[way].append(_seconds(way))
    with_index, without = (median(each) for each in times.values())
    plan = _plan(spark, question)
    equal = _sorted(found).equals(_sorted(wanted))
    return Outcome(question, plan, _blocks_read(plan), len(found), with_index, without, equal)


def _plan(spark: SparkSession, question: Question) -> Plan:
    """Return the plan of the query: a full scan with the figures of the table if it was too small for a lookup."""
    (relation,) = hive_bitmap.explain(question.sql, spark).relations
    plan = relation.plan
    if plan is None:
        plan = replace(hive_bitmap.plan(spark, question.table, question.predicate), strategy=Strategy.FULL_SCAN)
    return replace(plan, predicate=question.predicate)  # as the question has it, not as Spark's plan has it


def _blocks_read(plan: Plan) -> int:
    """Return the number of blocks of the table that the plan's strategy reads."""
    match plan.strategy:
        case "full scan":
            return plan.blocks_total or 0
        case "files":
            return int(plan.files["blocks"].to_numpy()[plan.kept_files].sum())
        case "index only" if plan.rows_selected is not None:
            return 0
        case _:
            return plan.blocks_selected or 0


def _seconds(answer: Callable[[], pa.Table]) -> float:
    start = time.perf_counter()
    answer()
    return time.perf_counter() - start


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
