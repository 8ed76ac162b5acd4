"""`make bench-stores`: requests, bytes and seconds on S3, beside Spark alone, with a latency before each request.

The server is moto behind the proxy of the tests, both on loopback: what is compared are requests and what they cost,
not the speed of any store. Requests are those of Python and of Spark's client together.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import tables
from hive_bitmap.core import stores
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.session import session
from tests.servers import jars
from tests.stores.servers import proxy as proxy_server
from tests.stores.servers import s3 as s3_server
from tests.stores.servers.proxy import Proxy

BUCKET, FILES, GROUPS = "bench", 20, 3
RARE, CLUSTERED, HALF = "r = 77", "c = 3", "h = 1"  # some 20 rows, a file, half of the rows


@dataclass(frozen=True)
class Measured:
    """What one answer took."""

    seconds: float
    requests: int
    megabytes: float
    answer: Any


@click.command()
@click.option("--rows", default=400_000, show_default=True, type=click.IntRange(20_000), help="Rows of the table.")
@click.option("--delay", "delays", multiple=True, default=(0, 30, 100), show_default=True, help="ms before a request.")
@click.option("--repeats", default=2, show_default=True, type=click.IntRange(1), help="Turns after the first one.")
def main(rows: int, delays: tuple[int, ...], repeats: int) -> None:
    """Measure on a server of S3 that is started for it. Exit status 1 where an answer differs from Spark's."""
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 210)
    try:
        with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as (spark, proxy):
            _make(spark, rows)
            wrong = False
            for delay in delays:
                proxy.delay = delay / 1000
                turn = ("s", "requests", "MB")
                table = Table("question", "who", *turn, *(f"again: {word}" for word in turn), "of Spark", "how")
                table.title = f"{rows:,} rows in {FILES} files, {delay} ms a request"
                wrong |= _measure(spark, proxy, repeats, table)
                _measure_builds(spark, proxy, repeats, table, rows)
                tables.show(out, table)
    except jars.Unavailable as e:
        raise click.ClickException(str(e)) from e
    sys.exit(1 if wrong else 0)


@contextmanager
def started(folder: Path) -> Iterator[tuple[SparkSession, Proxy]]:
    lib = s3_server.client_jars()
    with s3_server.serving(folder / "s3") as port, proxy_server.serving(port) as proxy:
        s3_server.make_bucket(port, BUCKET)
        settings = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{proxy.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": "bench",
            "fs.s3a.secret.key": "bench",
            "fs.s3a.path.style.access": "true",
        }
        conf = {f"spark.hadoop.{name}": value for name, value in settings.items()}
        conf |= {"spark.driver.extraClassPath": f"{lib}/*", "spark.driver.memory": "1g"}
        spark = session(folder / "warehouse", app_name="bench", master=f"local[{os.cpu_count()}]", conf=conf)
        yield spark, proxy
        spark.stop()


def _make(spark: SparkSession, rows: int) -> None:
    """A rare key in many files, one that is together in one file, and one of half of the rows."""
    spark.sql(
        f"CREATE DATABASE bench LOCATION 's3a://{BUCKET}/bench'"  # where the index tables lie, too
    )
    spark.catalog.setCurrentDatabase("bench")
    spark.sql(
        "CREATE EXTERNAL TABLE t (r int, c int, h int, id bigint, text string) STORED AS PARQUET "
        f"LOCATION 's3a://{BUCKET}/t'"
    )
    session_settings.use_stores(spark)
    for number in range(FILES):
        _write(number, rows)
    for column in "rch":
        hive_bitmap.build(spark, "t", [column], name=column)
    for question in _questions():  # what runs for the first time in a process is not what is compared
        question.by_sql(spark)
        question.by_index(spark)


def _write(number: int, rows: int) -> None:
    """One of the files; it has the same rows whenever it is written."""
    rng, each = np.random.default_rng(number), rows // FILES
    ids = np.arange(number * each, (number + 1) * each)
    columns = {
        "r": rng.integers(0, rows // 20, each, np.int32),
        "c": np.full(each, number, np.int32),
        "h": (ids % 2).astype(np.int32),
        "id": ids,
        "text": pa.array([rng.bytes(48).hex() for _ in range(each)]),
    }
    with stores.open_output(f"s3a://{BUCKET}/t/{number:02}.parquet") as sink:
        pq.write_table(pa.table(columns), sink, row_group_size=-(-each // GROUPS))


def _measure(spark: SparkSession, proxy: Proxy, repeats: int, table: Table) -> bool:
    """Fill the table; whether any answer was wrong."""
    wrong = False
    for question in _questions():
        answers = []
        alone = 0.0
        for who, enabled, ask in (
            ("Spark", False, question.by_sql),
            ("Spark with the rule", True, question.by_sql),
            ("hive_bitmap", True, question.by_index),
        ):
            spark.conf.set("hive_bitmap.enabled", str(enabled).lower())
            _forget(spark)
            turns = [_turn(spark, proxy, ask) for _ in range(1 + repeats)]
            answers += [turn.answer for turn in turns]
            alone = alone or turns[0].seconds
            told = f"{turns[0].seconds / alone:.0%}" if enabled else ""
            how = _strategy(spark, question) if enabled else ""
            table.add_row(question.name, who, *_figures(turns), told, how)
        if any(answer != answers[0] for answer in answers):
            table.add_row(question.name, "WRONG", str(answers))
            wrong = True
    return wrong


def _measure_builds(spark: SparkSession, proxy: Proxy, repeats: int, table: Table, rows: int) -> None:
    """An index of all files, and of one that was written anew, beside the query that reads the same column."""

    def group(spark: SparkSession) -> int:
        spark.sql("SELECT r, count(*) FROM t GROUP BY r").write.format("noop").mode("overwrite").save()
        return rows

    def build(spark: SparkSession) -> int:
        return sum(report.base_rows for report in hive_bitmap.rebuild(spark, "t", ["r"], full=True))

    def refresh(spark: SparkSession) -> int:
        return sum(report.base_rows for report in hive_bitmap.rebuild(spark, "t", ["r"]))

    def writing(spark: SparkSession) -> None:
        _write(0, rows)

    alone = 0.0
    for name, who, ask, before in (
        ("build", "Spark: GROUP BY", group, _forget),
        ("build", "hive_bitmap", build, _forget),
        ("refresh", "hive_bitmap", refresh, writing),
    ):
        spark.conf.set("hive_bitmap.enabled", str(ask is not group).lower())
        turns = []
        for _ in range(1 + repeats):
            before(spark)
            turns.append(_turn(spark, proxy, ask))
        alone = alone or turns[0].seconds
        table.add_row(name, who, *_figures(turns), "" if ask is group else f"{turns[0].seconds / alone:.0%}", "")
    hive_bitmap.rebuild(spark, "t")


def _figures(turns: list[Measured]) -> list[str]:
    """Seconds, requests and megabytes of the first turn, and of the quickest of the others."""
    shown = (turns[0], min(turns[1:], key=lambda turn: turn.seconds))
    return [text for one in shown for text in (f"{one.seconds:.2f}", str(one.requests), f"{one.megabytes:.1f}")]


@dataclass(frozen=True)
class Question:
    """A query as SQL text, and as a call of ours."""

    name: str
    text: str
    by_index: Callable[[SparkSession], Any]

    def by_sql(self, spark: SparkSession) -> Any:
        return sorted(tuple(row) for row in spark.sql(self.text).collect())


def _questions() -> list[Question]:
    def fetch(name: str, predicate: str) -> Question:
        return Question(
            name,
            f"SELECT * FROM t WHERE {predicate}",
            lambda spark: sorted(tuple(row) for row in hive_bitmap.scan(spark, "t", predicate).collect()),
        )

    return [
        Question(
            "count",
            f"SELECT count(*) FROM t WHERE {RARE}",
            lambda spark: [(hive_bitmap.count(spark, "t", RARE),)],
        ),
        Question(
            "group",
            "SELECT c, count(*) FROM t GROUP BY c",
            lambda spark: sorted(
                (row["c"], row["count"]) for row in hive_bitmap.group_counts(spark, "t", None, ["c"]).to_pylist()
            ),
        ),
        fetch("fetch, rare", RARE),
        fetch("fetch, clustered", CLUSTERED),
        fetch("fetch, half", HALF),
    ]


def _strategy(spark: SparkSession, question: Question) -> str:
    """How plain Spark with the rule answers, and what it thinks that this and the others take."""
    [relation] = hive_bitmap.explain(question.text, spark).relations
    cost = relation.costs.get(relation.strategy)
    others = ", ".join(f"{name} {price:.2f}" for name, price in relation.costs.items() if name != relation.strategy)
    return (relation.strategy or relation.reason) + ("" if not cost else f" {cost:.2f} s") + f" ({others})"


def _turn(spark: SparkSession, proxy: Proxy, ask: Callable[[SparkSession], Any]) -> Measured:
    proxy.seen.clear()
    proxy.bytes_sent = 0
    started = time.monotonic()
    answer = ask(spark)
    return Measured(time.monotonic() - started, len(proxy.seen), proxy.bytes_sent / 1e6, answer)


def _forget(spark: SparkSession) -> None:
    """As in a process that has just begun: neither engine remembers anything of the table."""
    from hive_bitmap.core.index import lookup, manifest
    from hive_bitmap.core.stores import file_cache, speed

    spark.catalog.refreshTable("t")
    lookup.clear_caches()
    manifest.read.cache_clear()
    file_cache.forget()
    speed.forget()


if __name__ == "__main__":
    main()
