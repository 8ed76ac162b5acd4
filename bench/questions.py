"""`python -m bench.questions`: forty ordinary questions over a warehouse of daily partitions, with indexes and without.

First each question is asked with the optimizer rule off and on, and the answers must be equal. Then all of them are
measured, and all of them once more: two runs, in each of which the two sides take turns. A question has gained if it is
1.2 times as fast or more in both runs, and lost if it is 0.9 times as fast or less in both.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

import hive_bitmap
from bench import shop, tables
from bench.forty import Question, questions
from bench.measure import OURS, SPARK, Contender, Race, by_index, race, without
from bench.report import machine, marked, show_machine
from hive_bitmap.core.explaining.measures import seconds
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.catalyst.decision import ANSWERED, NARROWED
from hive_bitmap.spark.catalyst.explanation import Relation, explain

FOLDER = Path("bench-warehouse") / "questions"
WIDTH = 150  # of the table in a file
RUNS = 2
WARM_UPS = 2  # turns of each run; both sides have answered once before
GAINED, LOST = 1.2, 0.9  # times as fast as without indexes
VERDICTS = ("gained", "level", "lost")


class DifferentAnswer(Exception):
    """An answer with indexes that is not plain Spark's."""


@dataclass(frozen=True)
class Measured:
    """A question, the rows of its answer, what the indexes did for each scan, and both runs."""

    question: Question
    rows: int
    scans: Sequence[str]
    runs: Sequence[Race]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast the question is with indexes, in each run."""
        return [run.median(SPARK) / run.median(OURS) for run in self.runs]

    @property
    def verdict(self) -> str:
        """One of VERDICTS, which holds for all runs."""
        if min(self.ratios) >= GAINED:
            return "gained"
        return "lost" if max(self.ratios) <= LOST else "level"


@click.command()
@click.option("--rows", default="2e6", show_default=True, help="Rows of orders; a full warehouse has 5e6.")
@click.option(
    "--repeats", default=5, show_default=True, type=click.IntRange(1), help="Timed turns of each side and run."
)
@click.option("--cores", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(1), help="Cores to use.")
@click.option("--only", default="", help="Ask the questions whose kind or description holds this text.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write raw figures here.")
def main(rows: str, repeats: int, cores: int, only: str, json_file: Path | None) -> None:
    """Ask forty questions with indexes and without, in turns, and say which of them gain and which lose.

    The warehouse is made in ./bench-warehouse/questions. Exit status 1 where an answer differs from plain Spark's.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    with Console(stderr=True).status("starting Spark") as status:
        spark = _session(cores)
        made = shop.make(spark, int(float(rows)), lambda what: status.update(f"making {what}"))
        shop.index(spark, lambda what: status.update(f"building {what}"))
        chosen = [one for one in questions(made) if only in one.kind or only in one.about]
        load = os.getloadavg()[0]
        found = measure(spark, chosen, repeats, status)
        conditions = {**machine(spark, cores), **asdict(made), "repeats": repeats, "load": [load, os.getloadavg()[0]]}
        spark.stop()
    _show(Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH), conditions, found)
    if json_file is not None:
        raw = [
            {**asdict(one.question), "scans": one.scans, "seconds": [run.seconds for run in one.runs]} for one in found
        ]
        json_file.write_text(json.dumps({**conditions, "questions": raw}, indent=1) + "\n")


def _session(cores: int) -> SparkSession:
    conf = {"spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC"}
    return hive_bitmap.session(FOLDER, app_name="hive_bitmap questions", master=f"local[{cores}]", conf=conf)


def measure(spark: SparkSession, asked: Sequence[Question], repeats: int, status: Status) -> list[Measured]:
    """Compare the answers to all questions, then time each of them in both runs. Raises DifferentAnswer."""
    rows = {}
    for question in asked:
        status.update(f"comparing: {question.about}")
        rows[question] = compare(spark, question)
    runs: dict[Question, list[Race]] = {question: [] for question in asked}
    for number in range(RUNS):
        for question in asked:
            status.update(f"run {number + 1} of {RUNS}: {question.about}")
            runs[question].append(_race(spark, question, repeats))
    by_index(spark)()
    return [Measured(one, rows[one], scans(explain(one.sql, spark).relations), runs[one]) for one in asked]


def compare(spark: SparkSession, question: Question, strategy: str = "") -> int:
    """Ask a question without indexes and with them, and return the number of rows. Raises DifferentAnswer."""
    without(spark)()
    wanted = _answer(spark, question)
    by_index(spark, strategy)()
    _require_equal(question, _answer(spark, question), wanted)
    return len(wanted[1])


def _race(spark: SparkSession, question: Question, repeats: int) -> Race:
    contenders = {
        SPARK: Contender(lambda: spark.sql(question.sql).collect(), without(spark)),
        OURS: Contender(lambda: spark.sql(question.sql).collect(), by_index(spark)),
    }
    finished = race(contenders, repeats, lambda rows: _comparable(question, rows), WARM_UPS)
    _require_equal(question, finished.answers[OURS], finished.answers[SPARK])
    return finished


def _answer(spark: SparkSession, question: Question) -> tuple[str, list[str]]:
    frame: DataFrame = spark.sql(question.sql)
    return frame.schema.json(), _comparable(question, frame.collect())


def _comparable(question: Question, rows: Iterable[Any]) -> list[str]:
    """Return the rows as text, sorted unless the question orders them; the last digits of a double do not count."""
    texts = [repr([f"{value:.12g}" if isinstance(value, float) else value for value in row]) for row in rows]
    return texts if question.ordered else sorted(texts)


def _require_equal(question: Question, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise DifferentAnswer(f"the answer to {question.about!r} differs from plain Spark's: {question.sql}")


def scans(relations: Iterable[Relation]) -> list[str]:
    """Return what the indexes did for the scans of a query, each thing once."""
    told = []
    for one in relations:
        done = (
            one.strategy
            if one.action == NARROWED
            else "answered"
            if one.action == ANSWERED
            else f"Spark [{one.reason}]"
        )
        told.append(f"{one.table.rpartition('.')[2]}: {done}")
    return list(dict.fromkeys(told))


def _show(console: Console, conditions: dict[str, Any], found: Sequence[Measured]) -> None:
    before, after = conditions["load"]
    show_machine(console, conditions)
    console.print(
        f"{conditions['orders']:,} orders in {shop.DAYS} partitions, {conditions['visits']:,} visits, "
        f"{conditions['customers']:,} customers, {conditions['refunds']:,} refunds\n"
        f"medians of {conditions['repeats']} turns, warm; load average {before:.1f} before, {after:.1f} after\n"
    )
    tables.show(console, _table(found))
    counts = Counter(one.verdict for one in found)
    console.print(
        f"[bold]{counts['gained']} of {len(found)} gained[/] ({GAINED}x or more in both runs), "
        f"{counts['level']} level, [bold]{counts['lost']} lost[/] ({LOST}x or less in both runs)"
    )


def _table(found: Sequence[Measured]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("question", "rows", SPARK, OURS, *(f"run {n + 1}" for n in range(RUNS)), "verdict", "scans"):
        table.add_column(heading, justify="left" if heading in ("question", "verdict", "scans") else "right")
    for number, one in enumerate(found):
        last = number + 1 == len(found) or found[number + 1].question.kind != one.question.kind
        times = [seconds(median(run.median(side) for run in one.runs)) for side in (SPARK, OURS)]
        ratios = [marked(f"{ratio:.2f}x", ratio > LOST) for ratio in one.ratios]
        verdict = marked(one.verdict, one.verdict != "lost")
        told = Text("\n".join(one.scans) or "no scan of an indexed table")
        table.add_row(one.question.about, f"{one.rows:,}", *times, *ratios, verdict, told, end_section=last)
    return table


if __name__ == "__main__":
    try:
        main()
    except (HiveBitmapError, DifferentAnswer) as e:
        sys.exit(f"hive_bitmap: {e}")
