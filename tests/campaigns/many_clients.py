"""Clients of a Thrift Server that ask at the same time, while its helper is killed and its indexes come and go.

The table never changes, so each query has one answer, whatever happens to indexes and helper. That answer is computed
here: the rows are known by their formulas.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.servers.hiveserver import HiveServer, run

ROWS, KEYS, GROUPS = 3_000_000, 4000, 7
STARTED = 3.0  # seconds in which the clients connect
READY = re.compile(r"the Python process of hive_bitmap is ready: (\d+)")
MAKE = (
    "CREATE TABLE c (id bigint, k int, g string, v bigint) STORED AS PARQUET",
    f"INSERT INTO c SELECT id, CAST(id * 7 % {KEYS} AS int), concat('g', id DIV 100 % {GROUPS}), id % 1000 "
    f"FROM range(0, {ROWS}, 1, 6)",
)
INDEXES = {"k": "CREATE INDEX k ON TABLE c (k) AS 'BITMAP'", "g": "CREATE INDEX g ON TABLE c (g) AS 'BITMAP'"}
IDS = np.arange(ROWS)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a client has asked: how often each kind, and the queries that failed or were answered wrongly."""

    kinds: Counter[str]
    wrong: list[str]


@dataclass(kw_only=True)
class Life:
    """What happened to a server while it was asked; `memory` has the bytes of its helper at regular times."""

    killed: int = 0
    rebuilt: int = 0
    made_anew: int = 0
    memory: list[int] = field(default_factory=list)


def asked_at_once(server: HiveServer, clients: int, seconds: float, seed: int) -> Iterator[list[Future[Asked]]]:
    """Have so many clients ask for some seconds, each in a process of its own."""
    begin = time.time() + STARTED
    with ProcessPoolExecutor(clients, get_context("spawn")) as pool:
        yield [pool.submit(ask, server, seed + number, begin, seconds) for number in range(clients)]


def ask(server: HiveServer, seed: int, begin: float, seconds: float) -> Asked:
    """Ask queries of random kinds until so many seconds after `begin`; this is a client."""
    draw = random.Random(seed)
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    connection = server.connect()
    time.sleep(max(0.0, begin - time.time()))
    while time.time() < begin + seconds:
        if draw.random() < 0.1:  # tools open a connection for a few queries
            connection.close()
            connection = server.connect()
        kind, query, wanted = question(draw)
        try:
            found = sorted(run(connection, query))
        except Exception as e:  # noqa: BLE001 - whatever it is, a query that fails is what is looked for
            wrong.append(f"{query}: {type(e).__name__}: {str(e)[:500]}")
            connection.close()
            connection = server.connect()
            continue
        kinds[kind] += 1
        if found != sorted(wanted):
            wrong.append(f"{query}: {len(found)} rows such as {found[:3]}, not {len(wanted)} such as {wanted[:3]}")
    connection.close()
    return Asked(kinds=kinds, wrong=wrong)


def question(draw: random.Random) -> tuple[str, str, list[Any]]:
    """A kind of query, the query, and its rows."""
    key, other, group = draw.randrange(KEYS + 3), draw.randrange(KEYS), draw.randrange(GROUPS + 1)
    k, g, v = IDS * 7 % KEYS, IDS // 100 % GROUPS, IDS % 1000
    match draw.choice(["count", "group", "extremes", "rows", "few rows", "scan"]):
        case "count":
            found = int((((k == key) | (k == other)) & (g != group)).sum())
            return "count", f"SELECT count(*) FROM c WHERE k IN ({key}, {other}) AND g <> 'g{group}'", [(found,)]
        case "group":
            counts = np.bincount(g[k < key], minlength=GROUPS).tolist()
            wanted = [(f"g{number}", count) for number, count in enumerate(counts) if count]
            return "group", f"SELECT g, count(*) FROM c WHERE k < {key} GROUP BY g", wanted
        case "extremes":
            keys = set(k[g == group].tolist())
            extremes = (min(keys, default=None), max(keys, default=None), len(keys))
            return "extremes", f"SELECT min(k), max(k), count(DISTINCT k) FROM c WHERE g = 'g{group}'", [extremes]
        case "rows":
            ids = IDS[(k == key) & (v < 500)].tolist()
            rows = [(id, key, f"g{id // 100 % GROUPS}", id % 1000) for id in ids]
            return "rows", f"SELECT * FROM c WHERE k = {key} AND v < 500", rows
        case "few rows":
            ids = IDS[(k == key) & (g == group) & (v < 100)].tolist()
            text = f"SELECT id, v FROM c WHERE k = {key} AND g = 'g{group}' AND v < 100"
            return "few rows", text, [(id, id % 1000) for id in ids]
        case _:
            return "scan", f"SELECT sum(v) FROM c WHERE g <> 'g{group}'", [(int(v[g != group].sum()),)]


def live(server: HiveServer, folder: Path, seconds: float, seed: int) -> Life:
    """Rebuild, drop and make the indexes of a server that is asked, and kill its helper twice, in any time."""
    draw, life, begin = random.Random(seed), Life(), time.monotonic()
    with contextlib.closing(server.connect()) as connection:
        while (passed := time.monotonic() - begin) < seconds or life.killed < 2:
            name = draw.choice([*INDEXES])
            _until_done(connection, f"ALTER INDEX {name} ON c REBUILD")
            life.rebuilt += 1
            if draw.random() < 0.5:
                _until_done(connection, f"DROP INDEX IF EXISTS {name} ON c")
                _until_done(connection, INDEXES[name].replace("INDEX", "INDEX IF NOT EXISTS", 1))
                life.made_anew += 1
            helper = helpers(folder)[-1]
            life.memory.append(resident(helper))
            if life.killed < 2 and passed > (life.killed + 1) * seconds / 3:
                os.kill(helper, signal.SIGKILL)
                life.killed += 1
    return life


def _until_done(connection: Any, statement: str) -> None:
    """Run a statement of an index, again if the helper died while it was at it."""
    for attempt in range(10):
        try:
            run(connection, statement)
            return
        except Exception as e:
            if "ended while it executed this statement" not in str(e) or attempt == 9:
                raise
            time.sleep(1)


def helpers(folder: Path) -> list[int]:
    """The processes that became ready in a server, by its log."""
    return [int(number) for number in READY.findall((folder / "log").read_text(errors="replace"))]


def resident(process: int) -> int:
    """The bytes of memory that a process has; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def counters(port: int) -> dict[str, int]:
    """The counters of hive_bitmap in the metrics of a server's Spark, by their names."""
    with urllib.request.urlopen(f"http://localhost:{port}/metrics/json", timeout=30) as answer:
        found = json.loads(answer.read())["counters"]
    return {name.partition(".hive_bitmap.")[2]: one["count"] for name, one in found.items() if ".hive_bitmap." in name}
