"""`python -m bench.partitions 0 60 365 f365`: what partitions cost an index, beside files without partitions.

The same rows are in N daily partitions (`365`), or in as many files without partitions (`f365`). `--external` gives the
tables folders of their own, which a rename does not move; `--store MS` puts them on an S3 server with so many
milliseconds before each request, and counts the requests of a step, Spark's among them. `--days N` appends N more
days, and refreshes the indexes after each. What Spark alone takes for a first query, for RENAME and for DROP is
measured with a second table of the same rows, which has no index.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import stores, tables
from hive_bitmap.spark.session import session
from tests.servers import jars
from tests.stores.servers.proxy import Proxy

COLUMNS = (
    "CAST(pmod(hash(id, 1), 7) AS int) a, CAST(pmod(hash(id, 2), 50) AS int) b, concat('k', pmod(hash(id, 3), 300)) c, "
    "CAST(pmod(hash(id, 4), 1000) AS int) d, pmod(hash(id, 5), 2) = 0 e, uuid() v"
)
QUESTIONS = {
    "count": "SELECT count(*) FROM {} WHERE b = 7 AND c = 'k11'",
    "group": "SELECT a, count(*) FROM {} GROUP BY a",
    "rows": "SELECT * FROM {} WHERE d = 3 AND c = 'k11' AND b = 7",
}
TURNS = 5


@dataclass(frozen=True)
class Place:
    """Where the tables are: below `url`, or in the warehouse if it is empty.

    `proxy` counts the requests of a store, and lets each wait for `delay` seconds while a step is timed: tables are
    made without that.
    """

    url: str = ""
    proxy: Proxy | None = None
    delay: float = 0.0

    def requests(self) -> int:
        return 0 if self.proxy is None else len(self.proxy.seen)


@click.command()
@click.argument("layouts", nargs=-1)
@click.option("--rows", default=2_000_000, show_default=True, type=click.IntRange(1000), help="Rows of each table.")
@click.option("--external", is_flag=True, help="External tables, whose files stay when they are renamed.")
@click.option("--store", "delay", type=int, help="On an S3 server, with so many ms before each request.")
@click.option("--days", default=0, type=click.IntRange(0), help="Append so many days, with a refresh after each.")
def main(layouts: Sequence[str], rows: int, external: bool, delay: int | None, days: int) -> None:
    """Measure each layout: N for N partitions, fN for N files. Exit status 1 where an answer differs from Spark's."""
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    try:
        with tempfile.TemporaryDirectory() as folder, _started(Path(folder), external, delay) as (spark, place):
            wrong = False
            for layout in layouts or ("0", "60", "365", "f365"):
                wrong |= _measure(spark, place, layout, rows, days, out)
    except jars.Unavailable as e:
        raise click.ClickException(str(e)) from e
    sys.exit(1 if wrong else 0)


@contextmanager
def _started(folder: Path, external: bool, delay: int | None) -> Iterator[tuple[SparkSession, Place]]:
    if delay is not None:
        with stores.started(folder) as (spark, proxy):
            spark.sql(f"CREATE DATABASE bench LOCATION 's3a://{stores.BUCKET}/bench'")
            spark.catalog.setCurrentDatabase("bench")
            yield spark, Place(f"s3a://{stores.BUCKET}/tables", proxy, delay / 1000)
        return
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    conf |= {"spark.hive_bitmap.learn_prices": "false"}
    spark = session(folder / "warehouse", app_name="bench", master=f"local[{os.cpu_count()}]", conf=conf)
    yield spark, Place(f"file:{folder}/tables" if external else "")
    spark.stop()


def _measure(spark: SparkSession, place: Place, layout: str, rows: int, days: int, out: Console) -> bool:
    name, table = f"t{layout}", Table("step", "s", "requests", "Spark alone: s", "requests ", "how", title=layout)

    def step(label: str, *dos: Callable[[], Any]) -> None:
        timed = [_timed(place, do) for do in dos]
        table.add_row(label, *(text for one in timed for text in (f"{one[0]:.2f}", _shown(place, one[1]))))

    plain = f"{name}_plain"  # has no index
    for made in (name, plain):
        _create(spark, place, made, layout, rows)
    step("build of an index", lambda: hive_bitmap.build(spark, name, ["a"]))
    step("build of four more", lambda: hive_bitmap.build(spark, name, [["b"], ["c"], ["d"], ["e"]]))
    _append(spark, name, 1)
    step("refresh: a new day, five indexes", lambda: hive_bitmap.refresh(spark, name))
    step("refresh: nothing new", lambda: hive_bitmap.refresh(spark, name))
    if days:
        refreshes = _refreshes(spark, place, name, days)
        largest = max(refreshes)
        for label, one in (
            (f"refresh: each of {days} more days, median", sorted(refreshes)[days // 2]),
            (f"refresh: the largest of them, day {1 + refreshes.index(largest)}", largest),
        ):
            table.add_row(label, f"{one[0]:.2f}", _shown(place, one[1]))
    wrong = False
    spark.sql(QUESTIONS["count"].format(plain)).collect()  # the first listing of a JVM takes longer, whoever asks
    spark.catalog.refreshTable(plain)
    for label, text in QUESTIONS.items():
        wrong |= _ask(spark, place, table, label, text.format(name), text.format(plain))
    listed = [_timed(place, partial(_listed, spark, f"SELECT a FROM {plain}")) for _ in range(TURNS)]
    seconds, requests, _ = sorted(listed, key=lambda one: one[0])[TURNS // 2]
    table.add_row("rows: only planned and listed, warm", "", "", f"{seconds:.3f}", _shown(place, requests))
    both = (name, plain)
    step("RENAME TO", *(partial(spark.sql, f"ALTER TABLE {one} RENAME TO {one}_renamed") for one in both))
    step("DROP TABLE", *(partial(spark.sql, f"DROP TABLE {one}_renamed") for one in both))
    tables.show(out, table)
    return wrong


def _create(spark: SparkSession, place: Place, name: str, layout: str, rows: int) -> None:
    files = int(layout.removeprefix("f"))
    kind, where = ("EXTERNAL", f"LOCATION '{place.url}/{name}'") if place.url else ("", "")
    columns = "a INT, b INT, c STRING, d INT, e BOOLEAN, v STRING"
    if layout.startswith("f") or not files:
        spark.sql(f"CREATE {kind} TABLE {name} ({columns}, day INT) STORED AS PARQUET {where}")
        hint, day = f"REPARTITION({files or 10})", "0"
    else:
        spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
        spark.conf.set("hive.exec.max.dynamic.partitions", "100000")
        spark.sql(f"CREATE {kind} TABLE {name} ({columns}) PARTITIONED BY (day INT) STORED AS PARQUET {where}")
        hint, day = "REPARTITION(2, day)", f"CAST(id DIV {max(rows // files, 1)} AS int)"
    spark.sql(f"INSERT INTO {name} SELECT /*+ {hint} */ {COLUMNS}, {day} day FROM range({rows})")


def _append(spark: SparkSession, name: str, day: int) -> None:
    """Append a partition of a thousand rows, or as many rows of a day where the table has no partitions."""
    spark.sql(f"INSERT INTO {name} SELECT {COLUMNS}, -{day} day FROM range(1000)")


def _refreshes(spark: SparkSession, place: Place, name: str, days: int) -> list[tuple[float, int]]:
    """Return the seconds and the requests of the refresh after each of more days."""
    timed = []
    for day in range(2, days + 2):
        _append(spark, name, day)
        timed.append(_timed(place, lambda: hive_bitmap.refresh(spark, name))[:2])
    return timed


def _listed(spark: SparkSession, text: str) -> None:
    """Plan a query down to its tasks, for which Spark lists the files of all partitions, and do not run it."""
    spark.sql(text)._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def _ask(spark: SparkSession, place: Place, table: Table, label: str, text: str, plain: str) -> bool:
    """Add a line for the first answer and one for the median of later ones, in turns with Spark alone.

    `plain` is the same query of the table that has no index: Spark's first one is measured with it.
    """

    def answer(on: bool, text: str = text) -> tuple[float, int, Any]:
        spark.conf.set("hive_bitmap.enabled", str(on).lower())
        return _timed(place, lambda: sorted(map(repr, spark.sql(text).collect())))

    first, sparks_first = answer(True), answer(False, plain)
    turns = [(answer(True), answer(False)) for _ in range(TURNS)]
    spark.conf.set("hive_bitmap.enabled", "true")
    how = hive_bitmap.explain(text).relations[0]
    firsts = [text for one in (first, sparks_first) for text in (f"{one[0]:.3f}", _shown(place, one[1]))]
    table.add_row(f"{label}: first", *firsts)
    ours, sparks = ([turn[at] for turn in turns] for at in (0, 1))
    figures = []
    for some in (ours, sparks):
        figures += [f"{statistics.median(one[0] for one in some):.3f}", _shown(place, some[-1][1])]
    table.add_row(f"{label}: warm", *figures, f"{how.action} {how.strategy} {how.reason or ''}")
    return any(one[2] != first[2] for turn in turns for one in turn)


def _timed(place: Place, do: Callable[[], Any]) -> tuple[float, int, Any]:
    if place.proxy is not None:
        place.proxy.delay = place.delay
    before, began = place.requests(), time.perf_counter()
    result = do()
    seconds, requests = time.perf_counter() - began, place.requests() - before
    if place.proxy is not None:
        place.proxy.delay = 0.0
    return seconds, requests, result


def _shown(place: Place, requests: int) -> str:
    return "" if place.proxy is None else str(requests)


if __name__ == "__main__":
    main()
