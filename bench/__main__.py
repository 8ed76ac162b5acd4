"""`make bench`, or `python -m bench`: make the data, measure, print, and say which targets are met."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.status import Status

import hive_bitmap
from bench import data, measure, memory, report
from bench.measure import Asked, Results
from bench.targets import targets
from hive_bitmap.errors import HiveBitmapError

FOLDER = Path("bench-warehouse")
WIDTH = 150  # of the tables in a file
HEAP = "4g"  # of the JVM, whatever the number of rows
Thing = TypeVar("Thing")


def _rows(context: click.Context, parameter: click.Parameter, value: str) -> int:
    try:
        rows = int(float(value))
    except (ValueError, OverflowError) as e:
        raise click.BadParameter(f"{value!r} is not a number of rows") from e
    if rows < 1000:
        raise click.BadParameter("the questions need at least 1000 rows")
    return rows


@click.command()
@click.option("--rows", default="10e6", show_default=True, callback=_rows, help="Rows of the table, e.g. 1e6.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Timed turns of each engine.")
@click.option("--cores", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(1), help="Cores to use.")
@click.option("--copy", "copies", multiple=True, type=click.Choice(list(data.COPIES)), help="Ask such a copy too.")
@click.option("--learn", is_flag=True, help="Let prices learn, as by default; otherwise everyone has the same ones.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write raw figures here.")
def main(rows: int, repeats: int, cores: int, copies: tuple[str, ...], learn: bool, json_file: Path | None) -> None:
    """Measure hive_bitmap beside Spark and DuckDB over the same files, in turns, and judge the targets.

    The data are made in ./bench-warehouse and kept for the next run with as many rows. Exit status 1 where an answer
    differs from Spark's or DuckDB's.
    """
    with Console(stderr=True).status("making the data") as status:
        table = data.prepare(_folder() / "data", rows, lambda done: status.update(f"making the data: {done}"))
        spark = _session(cores, learn)
        data.register(spark, table.folder)
        found = report.conditions(spark, table, cores, repeats)
        results = _measure(spark, table, cores, repeats, copies, status)
        spark.stop()
    reached = targets(results, rows)
    report.show(Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH), found, results, reached)
    if json_file is not None:
        report.write_json(json_file, found, results, reached)
    if not (all(one.equal for one in results.asked) and all(one.equal for one in results.grouped)):
        sys.exit("an answer differs from Spark's or DuckDB's: a bug, and the times mean nothing")


def _folder() -> Path:
    """A folder that git ignores, without what an earlier run left but its data."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    for left in ("warehouse", "small"):
        shutil.rmtree(FOLDER / left, ignore_errors=True)
    return FOLDER


def _session(cores: int, learn: bool) -> SparkSession:
    conf = {
        "spark.driver.memory": HEAP,
        "spark.driver.maxResultSize": "0",
        "spark.sql.session.timeZone": "UTC",
        "spark.hive_bitmap.learn_prices": str(learn).lower(),
    }
    return hive_bitmap.session(FOLDER / "warehouse", app_name="hive_bitmap bench", master=f"local[{cores}]", conf=conf)


def _measure(
    spark: SparkSession, table: data.Data, cores: int, repeats: int, copies: Sequence[str], status: Status
) -> Results:
    def each(what: str, things: Iterable[Thing], name: Callable[[Thing], str]) -> Iterator[Thing]:
        for thing in things:
            status.update(f"{what} {name(thing)}")
            yield thing

    builds = [measure.build(spark, column, repeats) for column in each("building", data.KEYS, str)]
    sizes = {column: measure.sizes(spark, column, table.rows) for column in each("other encodings of", data.KEYS, str)}
    status.update("building all in one pass")
    together = measure.build_together(spark, repeats)
    built = memory.peaks()
    status.update("refreshing an index of many files")
    refreshed = measure.refresh(spark, FOLDER / "small", repeats)
    with measure.connect_duckdb(table, cores) as duck:
        asked: list[Asked] = []
        tables = [data.TABLE]
        for kind in each("copying:", copies, str):
            tables.append(data.copy(spark, kind))
            measure.build_all(spark, tables[-1])
        for name in tables:
            asked += [
                measure.ask_count(spark, duck, question, name, repeats)
                for question in each(f"counting in {name}:", (q for q in data.QUESTIONS if q.count), lambda q: q.name)
            ]
        grouped = [measure.ask_grouped(spark, duck, sql, repeats) for sql in each("asking", data.GROUPINGS, str)]
        data.register(spark, table.folder, data.SUMS)
        summed = measure.build_sums(spark, repeats)
        both = (*data.SUMMED, *data.HOURLY)
        grouped += [measure.ask_grouped(spark, duck, sql, repeats) for sql in each("asking", both, str)]
        counted = memory.peaks(built)
        data.register(spark, table.folder, data.PLAIN_TABLE)
        overheads = [measure.overhead(spark, about, data.HELPLESS[about], repeats) for about in data.HELPLESS]
        for name in tables:
            asked += [
                measure.ask_fetch(spark, duck, question, name, repeats)
                for question in each(f"fetching from {name}:", (q for q in data.QUESTIONS if q.fetch), lambda q: q.name)
            ]
    peaks = {"indexes built": built, "and counts asked": counted, "and rows fetched": memory.peaks(counted)}
    return Results(builds, together, summed, refreshed, sizes, asked, grouped, overheads, peaks)


if __name__ == "__main__":
    try:
        main()
    except HiveBitmapError as e:
        sys.exit(f"hive_bitmap: {e}")
