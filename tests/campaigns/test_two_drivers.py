"""Two drivers insert into one table at one metastore; its index follows both.

`--long N` lets them insert for N times as long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.two_drivers import TABLE
from tests.servers.metastore import Metastore

pytestmark = [pytest.mark.random, pytest.mark.servers]
HOME = Path(__file__).parents[2]
SECONDS = 12  # of inserting
INTERVAL = 2

LOOK = """
import json, sys, time
conf, table = json.loads(sys.argv[1]), sys.argv[2]
spark = hive_bitmap.session(None, master="local[1]", conf=conf)
if sys.argv[3] == "make":
    spark.sql(f"CREATE TABLE {table} (k int, name string) PARTITIONED BY (p int) STORED AS PARQUET")
    spark.sql(f"INSERT INTO {table} SELECT CAST(id % 7 AS int), 'first', CAST(id % 3 AS int) FROM range(300)")
    hive_bitmap.build(spark, table, ["k"], auto_refresh=True, refresh_interval=sys.argv[4])
[status] = hive_bitmap.show(spark, table)
[verified] = hive_bitmap.verify(spark, table)
rows = spark.sql(f"SELECT count(*) FROM {table} WHERE k = 3").collect()[0][0]
print(json.dumps([status.unindexed + status.stale + status.gone, len(verified.problems), rows]))
spark.stop()
"""


def program(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HOME)},
    )


def said(started: subprocess.Popen[str]) -> list[int]:
    out, errors = started.communicate()
    assert started.returncode == 0, errors[-3000:]
    return list(json.loads(out.splitlines()[-1]))


def test_two_drivers(
    metastore2: Metastore, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    seconds = SECONDS * (pytestconfig.getoption("--long") or 1)
    conf = json.dumps({**metastore2.conf, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    first = said(program("-c", LOOK, conf, TABLE, "make", f"{INTERVAL} seconds"))
    assert first[:2] == [0, 0]
    script = str(Path(__file__).with_name("two_drivers.py"))
    drivers = [program(script, conf, name, str(seconds)) for name in ("one", "two")]
    ended = []
    for driver in drivers:
        out, errors = driver.communicate()
        assert driver.returncode == 0, errors[-3000:]
        ended.append(json.loads(out.splitlines()[-1]))
    assert [one["wrong"] for one in ended] == [[], []] and all(one["waited"] for one in ended)
    inserted = sum(one["inserted"] for one in ended)
    assert said(program("-c", LOOK, conf, TABLE, "look")) == [0, 0, first[2] + inserted]
    tell_of_campaign(f"two drivers for {seconds} s, {inserted} inserts, all indexed, all counts right")
