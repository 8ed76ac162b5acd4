"""`python -m bench.clients`: many PyHive clients at once of a Spark Thrift Server, without the extension and with it.

Each client is a process of its own and asks again as soon as it has an answer, for some seconds at each level. The
answers of the two servers are compared. CPU seconds are those of the server, its helper and its Python workers; tasks
are counted in Spark's event log.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from zlib import crc32

import click
from rich.console import Console
from rich.table import Table

from bench import data, tables
from bench.memory import cpu_seconds, family
from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests.servers import process, thriftserver
from tests.servers.hiveserver import HiveServer

FOLDER = Path("bench-warehouse") / "clients"
WIDTH = 150
SPARK, OURS = "Spark alone", "with the extension"
START_SECONDS = 3.0  # that the clients of a level get to connect
MEGABYTE = 1 << 20
TASK_ENDED = b'{"Event":"SparkListenerTaskEnd"'
# Of a hundred queries, how many are of each kind; of the answers of `half` the last digit depends on the order of rows.
MIX = {"count": 30, "group": 20, "rare": 30, "tail": 10, "half": 10}
WITHOUT_SCANS = {"count": 40, "group": 25, "rare": 35}
QUERIES = {
    "count": "SELECT count(*) FROM bench WHERE age = {age} AND store = {store}",
    "group": "SELECT region, count(*) FROM bench WHERE store = {store} GROUP BY region",
    "rare": "SELECT * FROM bench WHERE store = {rare} AND age = {age}",
    "tail": "SELECT id, amount FROM bench WHERE store = {rare}",
    "half": "SELECT CAST(avg(amount) AS decimal(20, 4)) FROM bench WHERE gender = 'F' AND age > {age}",
}
RARE_STORES = range(2_000, 2_040)
Asked = tuple[str, str, float, int]  # kind, query, seconds, checksum of the sorted rows


@dataclass(frozen=True, kw_only=True)
class Level:
    """What so many clients at once have got."""

    server: str
    mix: str
    clients: int
    seconds: float
    cpu: float  # seconds
    tasks: int
    memory: int  # bytes, of the server and of its processes, at the end
    asked: list[Asked] = field(repr=False)

    def times(self, kind: str | None = None) -> list[float]:
        return sorted(seconds for one, _, seconds, _ in self.asked if kind in (None, one))


@click.command()
@click.option("--rows", default="4e6", show_default=True, help="Rows of the table.")
@click.option("--clients", default="1,4,16", show_default=True, help="Clients at once, by commas.")
@click.option("--seconds", default=20.0, show_default=True, help="Seconds of each level.")
def main(rows: str, clients: str, seconds: float) -> None:
    """Ask both servers the same mixes of queries, by more and more clients."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "events").mkdir(parents=True)
    with Console(stderr=True).status("making the data") as status:
        made = data.prepare(FOLDER.parent / "data", int(float(rows)), lambda done: status.update(f"the data: {done}"))
        levels: list[Level] = []
        for name in (OURS, SPARK):
            status.update(f"starting the server: {name}")
            with _served(FOLDER.absolute(), name) as server:
                if name == OURS:
                    _prepare(server, made.folder)
                for mix, shares in (("all", MIX), ("without scans", WITHOUT_SCANS)):
                    _level(server, name, mix, shares, 1, seconds / 2)  # warm
                    for count in map(int, clients.split(",")):
                        status.update(f"{name}, {mix}: {count} clients")
                        levels.append(_level(server, name, mix, shares, count, seconds))
    tables.show(console, _table(levels, rows))
    tables.show(console, _kinds(levels))
    if different := _differences(levels):
        console.print(f"{len(different)} answers differ, such as {different[0]}")
        sys.exit(1)


@contextlib.contextmanager
def _served(folder: Path, name: str) -> Iterator[HiveServer]:
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder}/events",
        "spark.driver.memory": "4g",
    }
    conf |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    conf |= {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "4g"}
    if name == OURS:
        conf |= {"spark.jars": str(JAR), "spark.sql.extensions": EXTENSION, "spark.hive_bitmap.python": sys.executable}
    with thriftserver.serving(folder, conf=conf, ask=_greet) as server:
        yield server


def _greet(server: HiveServer) -> None:
    """Raise an error until the server answers."""
    process.connect(server.port)  # without the log of a client that fails
    with contextlib.closing(server.connect()) as connection, contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("SHOW DATABASES")


def _prepare(server: HiveServer, folder: Path) -> None:
    """Make the table, and an index on each column that is tested."""
    with contextlib.closing(server.connect()) as connection, contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(
            f"CREATE EXTERNAL TABLE bench ({data.SPARK_COLUMNS}) STORED AS PARQUET LOCATION '{folder.absolute()}'"
        )
        for column in data.KEYS:
            cursor.execute(f"CREATE INDEX {column} ON TABLE bench ({column}) AS 'BITMAP'")


def _level(server: HiveServer, name: str, mix: str, shares: Mapping[str, int], clients: int, seconds: float) -> Level:
    begin = time.time() + START_SECONDS
    with ProcessPoolExecutor(clients, get_context("spawn")) as pool:
        work = [pool.submit(ask, server, dict(shares), seed, begin, seconds) for seed in range(clients)]
        time.sleep(max(0.0, begin - time.time()))
        cpu, tasks = cpu_seconds(_of_server()), _tasks()
        asked = [one for client in work for one in client.result()]
        return Level(
            server=name,
            mix=mix,
            clients=clients,
            seconds=time.time() - begin,
            cpu=cpu_seconds(_of_server()) - cpu,
            tasks=_tasks() - tasks,
            memory=_memory(),
            asked=asked,
        )


def ask(server: HiveServer, shares: Mapping[str, int], seed: int, begin: float, seconds: float) -> list[Asked]:
    """Ask queries of a mix, in an order that the seed draws, from `begin` for some seconds; this is a client."""
    rng = random.Random(seed)
    asked: list[Asked] = []
    with contextlib.closing(server.connect()) as connection, contextlib.closing(connection.cursor()) as cursor:
        time.sleep(max(0.0, begin - time.time()))
        while time.time() < begin + seconds:
            [kind] = rng.choices([*shares], [*shares.values()])
            query = _query(kind, rng)
            started = time.monotonic()
            cursor.execute(query)
            rows = cursor.fetchall()
            taken = time.monotonic() - started
            asked.append((kind, query, taken, crc32(repr(sorted(map(repr, rows))).encode())))
    return asked


def _query(kind: str, rng: random.Random) -> str:
    age, store, rare = rng.choice(data.AGES), rng.randrange(1, 400), rng.choice(RARE_STORES)
    return QUERIES[kind].format(age=age, store=store, rare=rare)


def _of_server() -> Iterator[int]:
    """The processes of the server: its JVM, and what that has started."""
    for number in family():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            command = Path(f"/proc/{number}/cmdline").read_bytes()
            if number != os.getpid() and b"multiprocessing" not in command:
                yield number


def _memory() -> int:
    pages = 0
    for number in _of_server():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pages += int(Path(f"/proc/{number}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tasks() -> int:
    """Tasks that have ended, of all servers so far."""
    return sum(path.read_bytes().count(TASK_ENDED) for path in (FOLDER / "events").iterdir())


def _table(levels: Sequence[Level], rows: str) -> Table:
    title = f"a Spark Thrift Server, {float(rows):,.0f} rows, {os.cpu_count()} cores"
    table = Table("clients", "mix", "server", title=title)
    for name in ("queries/s", "p50 s", "p95 s", "p99 s", "CPU s a query", "tasks a query", "memory MB"):
        table.add_column(name, justify="right")
    for level in sorted(levels, key=lambda level: (level.mix, level.clients, level.server != SPARK)):
        times, count = level.times(), max(len(level.asked), 1)
        cuts = quantiles(times, n=100) if len(times) > 1 else [*times] * 99
        table.add_row(
            str(level.clients),
            level.mix,
            level.server,
            f"{count / level.seconds:.2f}",
            *(f"{cuts[at - 1]:.2f}" for at in (50, 95, 99)),
            f"{level.cpu / count:.2f}",
            f"{level.tasks / count:.1f}",
            f"{level.memory / MEGABYTE:,.0f}",
        )
    return table


def _kinds(levels: Sequence[Level]) -> Table:
    table = Table("clients", "server", title="p50 in ms by kind of query, all kinds together")
    for kind in MIX:
        table.add_column(kind, justify="right")
    for level in sorted(levels, key=lambda level: (level.clients, level.server != SPARK)):
        if level.mix == "all":
            told = [f"{median(times) * 1000:,.0f}" if (times := level.times(kind)) else "" for kind in MIX]
            table.add_row(str(level.clients), level.server, *told)
    return table


def _differences(levels: Sequence[Level]) -> list[str]:
    """The queries that had more than one answer."""
    answers = defaultdict(set)
    for level in levels:
        for _, query, _, checksum in level.asked:
            answers[query].add(checksum)
    return sorted(query for query, known in answers.items() if len(known) > 1)


if __name__ == "__main__":
    main()
