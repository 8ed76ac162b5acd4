"""Several users of one server for a while: what one creates is that user's own, and every answer is plain Spark's.

`--long N` lets them live for N minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests.campaigns.many_users import User, World
from tests.servers import thriftserver
from tests.servers.fixtures import started

pytestmark = [pytest.mark.random, pytest.mark.servers]
USERS, SECONDS = ("ann", "bob", "cy"), 40
CONF = {"spark.jars": str(JAR), "spark.sql.extensions": EXTENSION, "spark.hive_bitmap.python": sys.executable}


def test_many_users(tmp_path: Path, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]) -> None:
    seconds, seed = 60 * pytestconfig.getoption("--long") or SECONDS, pytestconfig.getoption("--seed")
    world = World()
    with started(thriftserver.serving(tmp_path, conf=CONF)) as server:
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(len(USERS)) as pool:
            for life in [pool.submit(User(server, world, name, seed).live, end) for name in USERS]:
                life.result()
    assert world.wrong == []
    assert world.did_each_kind(), world.done
    tell_of_campaign(f"{len(USERS)} users for {seconds} s (seed {seed}): {dict(world.done)}")
