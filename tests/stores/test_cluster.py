"""A cluster of processes with folders of their own, tables on S3 and HDFS, and a metastore server: nothing comes from
the driver's disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest

import hive_bitmap
from tests.servers import metastore2, standalone
from tests.servers.fixtures import started
from tests.stores.conftest import BUCKET, S3
from tests.stores.servers import s3 as s3_server

pytestmark = [pytest.mark.stores, pytest.mark.xdist_group("cluster")]  # it begins, for it takes longest
JOB, SCRIPT = (Path(__file__).with_name(name) for name in ("job.py", "submitted.py"))
CHECKOUT, PACKAGE = Path(__file__).parents[2], Path(hive_bitmap.__file__).parent
SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
PURE = ("cachetools", "packaging")  # of what tasks need, what is no compiled library
CONF = {"spark.driver.memory": "700m", "spark.executor.memory": "512m", "spark.executor.cores": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    with started(standalone.serving(folder / "servers")) as address:
        yield address


@pytest.fixture(scope="module")
def metastore(s3: S3, hdfs: str, folder: Path) -> Iterator[str]:
    """The address of a metastore server, which makes the folders of databases in both stores."""
    home = folder / "metastore"
    home.mkdir()
    with started(metastore2.serving(home, clients=s3_server.client_jars(), settings=s3.settings)) as server:
        yield f"thrift://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def lacking(folder: Path) -> Path:
    """A Python that has what is installed but for what is installed as a link to a checkout: this package."""
    return python_of(folder / "python", f'"$PYTHONPATH:{sysconfig.get_path("purelib")}"')


def python_of(path: Path, paths: str) -> Path:
    """A Python that finds packages on these paths (as the shell reads them) and nowhere else."""
    path.write_text(f'#!/bin/sh\nPYTHONPATH={paths} exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def said(s3: S3, hdfs: str, master: str, metastore: str, folder: Path, lacking: Path) -> dict[str, Any]:
    """What a program told whose executors have the package installed."""
    jars = s3_server.client_jars()
    conf = {
        **CONF,
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.executor.extraClassPath": f"{jars}/*",
        **{f"spark.hadoop.{name}": value for name, value in s3.settings.items()},
    }
    homes = {"on_s3": f"s3a://{BUCKET}/cluster", "on_hdfs": f"{hdfs}/cluster"}
    given = {"folder": str(folder), "master": master, "conf": conf, "homes": homes, "lacking": str(lacking)}
    given["executors"] = standalone.WORKERS
    return told([sys.executable, str(JOB), json.dumps(given)])


def told(command: list[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The lines of JSON that a program prints."""
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def submitted(folder: Path, metastore: str, conf: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What the script told that `spark-submit` ran."""
    home = configured(folder / f"conf-{arguments[0].strip('-')}", metastore, conf)
    # the settings of the tests' own Spark go before these
    bare = {"PYSPARK_PYTHON": "", "PYSPARK_DRIVER_PYTHON": "", "SPARK_CONF_DIR": str(home), "PYTHONPATH": str(CHECKOUT)}
    return told([SUBMIT, *arguments], bare)


def configured(home: Path, metastore: str, conf: Mapping[str, str]) -> Path:
    """A folder with a configuration of Spark (SPARK_CONF_DIR) that names the metastore server."""
    home.mkdir()
    settings = {
        **CONF,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.pyspark.driver.python": sys.executable,
        "spark.hive_bitmap.strategy": "index only",  # else so small a table is not looked into
        "spark.hive_bitmap.planning_seconds": "60",  # a busy machine plans all the same
        **conf,
    }
    (home / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return home


def sent(path: Path) -> Path:
    """The package as a zip."""
    with zipfile.ZipFile(path, "w") as packed:
        for file in sorted(PACKAGE.rglob("*")):
            packed.write(file, file.relative_to(PACKAGE.parent))
    return path


def environment(folder: Path) -> Path:
    """An archive with a Python that has the package and what of its needs is pure; the compiled rest is installed."""
    libraries = sysconfig.get_path("purelib")
    # a relative path would be another one in a process that a worker starts elsewhere
    here = '"$(cd "$(dirname "$0")/.." && pwd)/lib:$PYTHONPATH:' + libraries + '"'
    python = python_of(folder / "archived-python", here)
    path = folder / "environment.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        packed.add(python, "bin/python")
        for source in (PACKAGE, *(Path(libraries) / name for name in PURE)):
            packed.add(source, f"lib/{source.name}")
    return path


def test_two_executors_took_part(said: dict[str, Any]) -> None:
    assert said["executors"] == standalone.WORKERS


@pytest.mark.parametrize("home", ["on_s3", "on_hdfs"])
def test_builds_counts_and_rows_are_right(said: dict[str, Any], home: str) -> None:
    found = {name.partition(": ")[2]: value for name, value in said.items() if name.startswith(home)}
    assert found == {"build": 20_000, "count": 40, "rows": 40}


def test_an_executor_that_is_killed_costs_time_and_no_row(said: dict[str, Any]) -> None:
    assert said["killed in a build"] == 40_000  # of a table on S3
    assert said["after that"] == 80
    assert said["killed in a fetch"] == 12_000  # of one on HDFS


def test_an_executor_without_the_package_is_told_in_a_sentence(said: dict[str, Any]) -> None:
    text = said["lacking"]
    assert "has no hive_bitmap" in text and "spark.archives" in text and "\n" not in text


def test_a_script_that_is_submitted_brings_the_package_along_and_gets_executors_as_it_needs_them(
    said: dict[str, Any], folder: Path, master: str, metastore: str, lacking: Path
) -> None:
    """`--py-files`, which is `spark.submit.pyFiles`, and dynamic allocation that begins with no executor at all."""
    assert said["on_hdfs: build"]
    conf = {
        "spark.master": master,
        "spark.pyspark.python": str(lacking),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.maxExecutors": "2",
    }
    package = str(sent(folder / "sent.zip"))
    found = submitted(folder, metastore, conf, "--py-files", package, str(SCRIPT), "on_hdfs.t", "dynamic")
    assert "/sent.zip/hive_bitmap/" in found.pop("found in")
    assert found == {"at first": 0, "idle": 0, "rows": 40, "build": 20_000, "count": 40, "plan": "answered"}


def test_the_package_may_come_as_an_archive(said: dict[str, Any], folder: Path, master: str, metastore: str) -> None:
    """`--archives`, which is `spark.archives`: executors run the Python that is in it."""
    assert said["on_hdfs: build"]
    conf = {"spark.master": master, "spark.pyspark.python": "./environment/bin/python"}
    archive = f"{environment(folder)}#environment"
    found = submitted(folder, metastore, conf, "--archives", archive, str(SCRIPT), "on_hdfs.t", "static")
    assert found.pop("found in").endswith("/environment/lib/hive_bitmap/spark/packages.py")
    assert found == {"rows": 40, "build": 20_000, "count": 40, "plan": "answered"}


@pytest.mark.parametrize("named_by", ["--master", "SPARK_CONF_DIR"])
def test_the_program_runs_on_the_cluster(
    said: dict[str, Any], folder: Path, master: str, metastore: str, named_by: str
) -> None:
    assert said["on_hdfs: build"]
    by_option = named_by == "--master"
    home = configured(folder / f"conf{named_by}", metastore, {} if by_option else {"spark.master": master})
    options = ["--master", master] if by_option else []
    program = [sys.executable, "-m", "hive_bitmap", *options, "--conf", "spark.app.name=told by the program", "-v"]
    env = {**os.environ, "SPARK_CONF_DIR": str(home)}
    for command, expected in (
        (["query", "on_hdfs.t", "k = 7", "--count"], ["40"]),
        (["rebuild", "on_hdfs.t", "--full"], ["20,000"]),
        (["sql", "-e", "SET spark.master; SET spark.app.name"], [master, "told by the program"]),
    ):
        done = subprocess.run([*program, *command], capture_output=True, text=True, timeout=300, check=False, env=env)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        assert all(one in done.stdout for one in expected), done.stdout
