"""A cluster of processes with folders of their own, tables on S3 and HDFS: nothing comes from the driver's disk."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.stores.conftest import BUCKET, S3
from tests.stores.servers import cluster
from tests.stores.servers import s3 as s3_server

pytestmark = pytest.mark.stores
JOB = Path(__file__).with_name("job.py")


def lacking(folder: Path) -> Path:
    """A Python that has what is installed but for what is installed as a link to a checkout: this package."""
    path = folder / "python"
    libraries = sysconfig.get_paths()["purelib"]
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def said(s3: S3, hdfs: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program told, run on a cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    jars = s3_server.client_jars()
    with cluster.serving(folder) as master:
        conf = {
            "spark.driver.memory": "700m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.driver.extraClassPath": f"{jars}/*",
            "spark.executor.extraClassPath": f"{jars}/*",
            **{f"spark.hadoop.{name}": value for name, value in s3.settings.items()},
        }
        homes = {"on_s3": f"s3a://{BUCKET}/cluster", "on_hdfs": f"{hdfs}/cluster"}
        given = {"folder": str(folder), "master": master, "conf": conf, "homes": homes, "lacking": str(lacking(folder))}
        given["builds"] = "on_s3"
        done = subprocess.run(
            [sys.executable, str(JOB), json.dumps(given)], capture_output=True, text=True, timeout=500, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def test_two_executors_took_part(said: dict[str, Any]) -> None:
    assert said["executors"] == 3  # with the driver


@pytest.mark.parametrize("home", ["on_s3", "on_hdfs"])
def test_builds_counts_and_rows_are_right(said: dict[str, Any], home: str) -> None:
    found = {name.partition(": ")[2]: value for name, value in said.items() if name.startswith(home)}
    assert {name: found[name] for name in ("build", "count", "rows", "again")} == {
        "build": 20_000, "count": 40, "rows": 40, "again": 80
    }


def test_an_executor_that_is_killed_costs_time_and_no_row(said: dict[str, Any]) -> None:
    assert said["killed in a build"] == 40_000  # of a table on S3
    assert said["after that"] == 80
    assert said["killed in a fetch"] == 24_000  # of one on HDFS


@pytest.mark.parametrize("home", ["on_s3", "on_hdfs"])
def test_an_executor_without_the_package_is_told_in_a_sentence(said: dict[str, Any], home: str) -> None:
    text = said[f"{home}: lacking, build"]
    assert "has no hive_bitmap" in text and "spark.archives" in text and "\n" not in text


def test_the_package_may_be_sent_along(said: dict[str, Any]) -> None:
    assert said["sent: count"] == 80
