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
from typing import Any

import pytest

from tests.servers.metastore import Metastore

pytestmark = [pytest.mark.random, pytest.mark.servers]
HOME = Path(__file__).parents[2]
PROGRAM = str(Path(__file__).with_name("two_drivers.py"))
SECONDS = 20  # of inserting


def start(metastore: Metastore, folder: Path, act: str, value: object = "") -> subprocess.Popen[str]:
    conf = {
        **metastore.conf,
        "spark.sql.warehouse.dir": str(metastore.warehouse),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    return subprocess.Popen(
        [sys.executable, PROGRAM, json.dumps(conf), act, str(value)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOME), "PYSPARK_PYTHON": sys.executable},
    )


def said(started: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = started.communicate()
    told = [line for line in errors.splitlines() if not line.startswith("\tat")]
    assert started.returncode == 0, "\n".join(told)[-3000:]
    return dict(json.loads(out.splitlines()[-1]))


def test_two_drivers(
    metastore2: Metastore, tmp_path: Path, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    seconds = SECONDS * (pytestconfig.getoption("--long") or 1)
    made = said(start(metastore2, tmp_path, "make", "2 seconds"))
    drivers = [start(metastore2, tmp_path, "insert", f"{seconds},{first}") for first in (0, 3)]
    ended = [said(driver) for driver in drivers]
    assert [(one["wrong"], one["waited"]) for one in ended] == [([], True)] * 2
    inserted = sum(one["inserted"] for one in ended)
    assert said(start(metastore2, tmp_path, "look")) == {**made, "rows": made["rows"] + inserted}
    assert (made["behind"], made["problems"]) == (0, 0)
    behind = max(one["behind"] for one in ended)
    told = f"two drivers for {seconds} s, {inserted} inserts, all counts right"
    tell_of_campaign(f"{told}; all files indexed {behind:.1f} s after the last insert")
