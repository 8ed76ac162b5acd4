"""What a traveller or an airline would ask, and how an answer is compared with Spark's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.explaining.blockmap import files_kept
from hive_bitmap.explaining.plan import Plan

REPEATS = 3


@dataclass(frozen=True)
class Question:
    """`counts` asks for the number of rows only; `strategy` is the one to show, None the planner's own choice.

    On tables this small the planner would scan in most cases: starting a reader takes longer than reading 7 MB.
    """

    text: str
    table: str
    predicate: str
    strategy: str | None = None
    counts: bool = False


@dataclass(frozen=True)
class Outcome:
    """One question, answered with the indexes and without; `by_cost` is the strategy that the planner would choose.

    Times are seconds, the median of some warm runs.
    """

    question: Question
    plan: Plan
    by_cost: str
    blocks_to_read: int
    bytes_to_read: int
    rows: int
    with_index: float
    without: float
    equal: bool


INDEXED = ["carrier", "origin", "dest", "tailnum", "dep_time"]
QUESTIONS = [
    Question(
        "United from Newark to Anchorage", "flights", "carrier = 'UA' AND origin = 'EWR' AND dest = 'ANC'", "rows"
    ),
    Question("Who takes me skiing in Colorado?", "flights", "dest = 'EGE' OR dest = 'HDN' OR dest = 'MTJ'", "rows"),
    Question("Where was N14228, all year?", "flights", "tailnum = 'N14228'", "rows"),
    Question("Departures between midnight and three", "flights_by_month", "dep_time BETWEEN 1 AND 300", "blocks"),
    Question(
        "JetBlue to Boston, cancelled in February",
        "flights_by_month",
        "month = 2 AND carrier = 'B6' AND dest = 'BOS' AND dep_time IS NULL",
        "blocks",
    ),
    Question("How many flights were cancelled?", "flights", "dep_time IS NULL", counts=True),
    Question("All flights that did leave", "flights", "dep_time IS NOT NULL"),
]


def ask(spark: SparkSession, question: Question) -> Outcome:
    """Answer it both ways, warm; the rows are compared as multisets, their types too."""
    table, predicate, strategy = question.table, question.predicate, question.strategy
    by_cost = hive_bitmap.plan(spark, table, predicate, count=question.counts).strategy
    plan = hive_bitmap.plan(spark, table, predicate, count=question.counts, strategy=strategy)

    def by_spark() -> Any:
        spark.conf.set("hive_bitmap.enabled", "false")
        try:
            base = spark.table(table).where(predicate)
            return base.count() if question.counts else base.toArrow()
        finally:
            spark.conf.set("hive_bitmap.enabled", "true")

    def indexed() -> Any:
        if question.counts:
            return hive_bitmap.count(spark, table, predicate, strategy=strategy)
        return hive_bitmap.scan(spark, table, predicate, strategy=strategy).toArrow()

    found, wanted = indexed(), by_spark()
    if question.counts:
        rows, equal = found, found == wanted
    else:
        rows, equal = len(found), _sorted(found).equals(_sorted(wanted))
    times = [(_seconds(indexed), _seconds(by_spark)) for _ in range(REPEATS)]
    with_index, without = (median(each) for each in zip(*times, strict=True))
    return Outcome(question, plan, by_cost, *_to_read(plan), rows, with_index, without, equal)


def _to_read(plan: Plan) -> tuple[int, int]:
    """Blocks and bytes of the table that the plan's strategy opens, as the plan counts them."""
    match plan.strategy:
        case "full scan":
            return plan.blocks_total or 0, plan.bytes_total or 0
        case "files":
            kept = files_kept(plan)
            return int(plan.files["blocks"].to_numpy()[kept].sum()), int(plan.files["size"].to_numpy()[kept].sum())
        case "index only" if plan.rows_selected is not None:
            return 0, 0
        case _:
            return plan.blocks_selected or 0, plan.bytes_selected or 0


def _seconds(answer: Callable[[], Any]) -> float:
    start = time.perf_counter()
    answer()
    return time.perf_counter() - start


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
