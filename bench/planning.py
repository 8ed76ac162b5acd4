"""`python -m bench.planning`: what the optimizer rule adds to the planning of queries that it does not help.

Each query is planned by plain `spark.sql` with the rule in the session and without it, in turns: down to the physical
plan and, where no stage has to run for it, to the tasks, for Spark lists the files of a table then, unless it has
listed them before. Nothing is run. The first turns are not timed. What it costs to list files and to ask the metastore
for the first time is told by the cold rows: before each of their turns all that is remembered is forgotten.

A second table has queries that an index answers, run to the end. The least that such a query can take is what Spark
takes to plan it without the rule and to collect one literal row.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import data, tables
from bench.measure import OURS, SPARK, Contender, Race, race
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.registry import catalog

FOLDER = Path("bench-warehouse") / "planning"
WIDTH = 150
PARTITIONS, PARTITION_ROWS = 112, 5_000
DIMENSIONS = 11  # which make a dozen scans with the table that joins them
WARM_TURNS, WARM_TURNS_COLD = 12, 2
PRECISE = 4  # times the turns where a difference of a millisecond or two is looked for


@dataclass(frozen=True)
class Case:
    """A query, and how many milliseconds the rule may add to its planning; `off` if it is switched off by a setting."""

    about: str
    sql: str
    most: float
    off: bool = False
    cold: bool = False


STAR = "SELECT sum(f.amount) FROM bench_fact f " + " ".join(
    f"JOIN bench_dim{n} d{n} ON f.d{n} = d{n}.id AND d{n}.name <> 'none'" for n in range(DIMENSIONS)
)
PARTITIONED = "SELECT note FROM bench_parts WHERE gender = 'F'"
HALF = "SELECT note FROM bench WHERE gender = 'F'"
CASES = (
    Case("a table without an index", f"SELECT note FROM {data.PLAIN_TABLE} WHERE gender = 'F'", 1),
    Case("switched off", HALF, 0.5, off=True),
    Case("switched off, a dozen scans", STAR, 1, off=True),
    Case("too small", "SELECT name FROM bench_dim0 WHERE name = 'name 3'", 2),
    Case("no index for the condition", "SELECT note FROM bench WHERE amount > 100", 2),
    Case("half of the rows", HALF, 15),
    Case("half of the rows of two scans", f"SELECT a.note FROM ({HALF}) a JOIN ({HALF}) b ON a.note = b.note", 20),
    Case("a star of a dozen scans", STAR, 15 + 2 * DIMENSIONS),
    Case(f"{PARTITIONS} partitions, half of the rows", PARTITIONED, 15),
    Case(f"one of {PARTITIONS} partitions, half of the rows", f"{PARTITIONED} AND part = 7", 15),
    Case("half of the rows, cold", HALF, 100, cold=True),
    Case(f"{PARTITIONS} partitions, half of the rows, cold", PARTITIONED, 500, cold=True),
)
LITERAL_ROW = "SELECT 1L"
ANSWERED = {
    "count": "SELECT count(*) FROM bench WHERE gender = 'F' AND store = {}",
    "group": "SELECT gender, count(*) FROM bench WHERE store <> {} GROUP BY gender",
}
MOST_OF_ANSWERS = 10  # ms, which an answer may take on top of the least


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(1000), help="Rows of the table.")
@click.option("--turns", default=25, show_default=True, type=click.IntRange(2), help="Timed turns of each query.")
@click.option("--only", default="", help="Measure the queries whose description holds this text.")
def main(rows: int, turns: int, only: str) -> None:
    """Measure what planning costs with the optimizer rule and without it, for queries that no index helps."""
    with Console(stderr=True).status("making the data") as status:
        spark = prepared(rows, lambda done: status.update(f"making the data: {done}"))
        title = f"planning of plain spark.sql: milliseconds, medians of {turns} turns"
        table = Table(title=f"{title}, of {PRECISE * turns} where it may be 2 or less")
        for name in ("query", "without", "with", "more", "quartiles", "may be", ""):
            table.add_column(name, justify="left" if name in ("query", "") else "right")
        for case in CASES:
            if only in case.about:
                status.update(f"planning: {case.about}")
                table.add_row(*_row(case, _raced(spark, case, turns)))
        answers = Table(title=f"answers from the index: milliseconds, medians of {turns} turns")
        for name in (
            "query",
            "planned by Spark, and a literal row",
            "answered again",
            "more",
            "new literals",
            "more",
            "",
        ):
            answers.add_column(name, justify="left" if name in ("query", "") else "right")
        for name in (name for name in ANSWERED if only in name):
            status.update(f"answering: {name}")
            answers.add_row(*_answered(spark, name, turns))
        spark.stop()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for measured in (table, answers):
        if measured.row_count:
            tables.show(console, measured)


def prepared(rows: int, progress: Callable[[str], None]) -> SparkSession:
    """A session with the tables: a large one and its like without an index, a star, and one of many partitions."""
    shutil.rmtree(FOLDER / "warehouse", ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = data.prepare(FOLDER / "data", rows, progress)
    conf = {"spark.driver.memory": "2g", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    spark = hive_bitmap.session(FOLDER / "warehouse", app_name="hive_bitmap planning", master="local[2]", conf=conf)
    data.register(spark, made.folder)
    data.register(spark, made.folder, data.PLAIN_TABLE)
    progress("indexes")
    hive_bitmap.build(spark, data.TABLE, ["gender", "store"])
    keys = ", ".join(f"id % {20 + n} AS d{n}" for n in range(DIMENSIONS))
    spark.sql(f"CREATE TABLE bench_fact STORED AS PARQUET AS SELECT id, {keys}, id % 7 AS amount FROM range(200000)")
    hive_bitmap.build(spark, "bench_fact", [f"d{n}" for n in range(DIMENSIONS)])
    for n in range(DIMENSIONS):
        rows_of = f"SELECT id, concat('name ', id) AS name FROM range({20 + n})"
        spark.sql(f"CREATE TABLE bench_dim{n} STORED AS PARQUET AS {rows_of}")
        hive_bitmap.build(spark, f"bench_dim{n}", ["name"])
    progress("partitions")
    spark.sql(f"CREATE TABLE bench_parts ({data.SPARK_COLUMNS}) PARTITIONED BY (part int) STORED AS PARQUET")
    share = f"SELECT *, CAST(id % {PARTITIONS} AS INT) AS part FROM {data.TABLE} LIMIT {PARTITIONS * PARTITION_ROWS}"
    spark.sql(f"INSERT INTO bench_parts SELECT /*+ REPARTITION(2, part) */ * FROM ({share})")
    hive_bitmap.build(spark, "bench_parts", ["gender"])
    return spark


def plan(spark: SparkSession, sql: str) -> str:
    """The name of the first node of the physical plan, which is made anew."""
    executed = spark.sql(sql)._jdf.queryExecution().executedPlan()
    name = str(executed.nodeName())
    if name != "AdaptiveSparkPlan":
        executed.execute().getNumPartitions()
    return name


def _raced(spark: SparkSession, case: Case, turns: int) -> Race:
    turns *= PRECISE if case.most <= 2 else 1

    def before(on: bool) -> None:
        (hive_bitmap.enable if on else hive_bitmap.disable)(spark)
        spark.conf.set("hive_bitmap.enabled", str(not case.off).lower())
        if case.cold:
            forget(spark)
        elif on:  # a rule that was just enabled knows of no table yet
            plan(spark, case.sql)

    contenders = {
        SPARK: Contender(lambda: plan(spark, case.sql), lambda: before(False)),
        OURS: Contender(lambda: plan(spark, case.sql), lambda: before(True)),
    }
    race(contenders, WARM_TURNS_COLD if case.cold else WARM_TURNS, str)
    return race(contenders, turns, str)


def forget(spark: SparkSession) -> None:
    """Forget what the session and we remember of tables."""
    catalog.clear_caches()
    for table in spark.catalog.listTables():
        spark.catalog.refreshTable(table.name)


def _row(case: Case, found: Race) -> Sequence[str]:
    off, on = found.median(SPARK), found.median(OURS)
    more = 1000 * median(b - a for a, b in zip(found.seconds[SPARK], found.seconds[OURS], strict=True))
    low, _, high = quantiles([b - a for a, b in zip(found.seconds[SPARK], found.seconds[OURS], strict=True)], n=4)
    spread = f"{1000 * low:+.1f} .. {1000 * high:+.1f}"
    verdict = "" if more <= case.most else "▼"
    return case.about, f"{1000 * off:.1f}", f"{1000 * on:.1f}", f"{more:+.1f}", spread, f"{case.most:g}", verdict


def _answered(spark: SparkSession, name: str, turns: int) -> Sequence[str]:
    """Return the line of a query that an index answers, asked again and with literals that nobody has asked."""
    text, literals = ANSWERED[name], iter(range(1, 5_000))
    conf = partial(spark.conf.set, "hive_bitmap.enabled")

    def least() -> None:
        plan(spark, text.format(0))
        spark.sql(LITERAL_ROW).collect()

    def answer(literal: int) -> None:
        spark.sql(text.format(literal)).collect()

    hive_bitmap.enable(spark)
    contenders = {
        SPARK: Contender(least, lambda: conf("false")),
        OURS: Contender(lambda: answer(0), lambda: conf("true")),
        "new literals": Contender(lambda: answer(next(literals)), lambda: conf("true")),
    }
    race(contenders, WARM_TURNS, str)
    found = race(contenders, turns, str)
    conf("true")
    action = hive_bitmap.explain(text.format(0)).relations[0].action
    figures, verdict = [f"{1000 * found.median(SPARK):.1f}"], "" if action == "answered" else f"▼ {action}"
    for engine in (OURS, "new literals"):
        more = 1000 * (found.median(engine) - found.median(SPARK))
        figures += [f"{1000 * found.median(engine):.1f}", f"{more:+.1f}"]
        verdict = verdict or ("" if more <= MOST_OF_ANSWERS else "▼")
    return name, *figures, verdict


if __name__ == "__main__":
    try:
        main()
    except HiveBitmapError as e:
        sys.exit(f"hive_bitmap: {e}")
