"""Many clients of one server for a while: every answer is right, no query fails, and memory does not grow.

`--long N` lets them ask for N minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests.campaigns import many_clients
from tests.servers import process, thriftserver
from tests.servers.fixtures import started
from tests.servers.hiveserver import run

pytestmark = [pytest.mark.random, pytest.mark.servers]
CLIENTS, SECONDS = 6, 30
GROWTH = 300 << 20  # bytes by which a helper may be larger in the second half of its time than in the first
CONF = {"spark.jars": str(JAR), "spark.sql.extensions": EXTENSION, "spark.hive_bitmap.python": sys.executable}


def test_many_clients(tmp_path: Path, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]) -> None:
    seconds, seed = 60 * pytestconfig.getoption("--long") or SECONDS, pytestconfig.getoption("--seed")
    port = process.free_port()
    conf = {**CONF, "spark.ui.enabled": "true", "spark.ui.port": str(port)}
    with started(thriftserver.serving(tmp_path, conf=conf)) as server:
        connection = server.connect()
        for statement in (*many_clients.MAKE, *many_clients.INDEXES.values()):
            run(connection, statement)
        for clients in many_clients.asked_at_once(server, CLIENTS, seconds, seed):
            life = many_clients.live(server, tmp_path, seconds, seed)
            asked = [client.result() for client in clients]
        counted = many_clients.counters(port)
        connection.close()
    assert not [wrong for one in asked for wrong in one.wrong]
    kinds = sum((one.kinds for one in asked), Counter[str]())
    assert min(kinds[kind] for kind in ("count", "group", "extremes", "rows", "few rows", "scan")) > 0
    assert (life.killed, bool(life.rebuilt)) == (2, True)
    assert counted["scans.answered"] + counted["scans.narrowed"] > 0
    half = len(life.memory) // 2
    assert max(life.memory[half:]) <= max(life.memory[:half], default=0) + GROWTH
    left = {name.rpartition(".")[2]: count for name, count in counted.items() if "leftAlone" in name}
    tell_of_campaign(
        f"{CLIENTS} clients for {seconds} s: {kinds.total()} queries {dict(kinds)}, {life.rebuilt} rebuilds, "
        f"{life.made_anew} indexes made anew, {life.killed} kills; left to Spark: {left}; "
        f"the helper had {max(life.memory) >> 20} MB"
    )
