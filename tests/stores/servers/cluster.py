"""A Spark standalone cluster: a master and two workers, processes with work folders of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyspark

from hive_bitmap import java
from tests.integration.servers import process

HOME = Path(pyspark.__file__).parent
# What bin/load-spark-env.sh sets for a worker that starts executors.
ENVIRONMENT = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}


@contextlib.contextmanager
def serving(folder: Path, workers: int = 2) -> Iterator[str]:
    """Serve out of `folder`, until the block ends; yields `spark://127.0.0.1:PORT`."""
    port = process.free_port()
    url = f"spark://127.0.0.1:{port}"
    start = [java.executable(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{HOME}/jars/*"]
    deploy, listening = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", str(process.free_port())]
    with contextlib.ExitStack() as stack:
        place = _made(folder / "master")
        command = [*start, f"{deploy}.master.Master", *listening, "--port", str(port)]
        stack.enter_context(process.serving(command, place, lambda: process.connect(port), ENVIRONMENT))
        for number in range(workers):
            place = _made(folder / f"worker{number}")
            command = [*start, f"{deploy}.worker.Worker", "--host", "127.0.0.1"]
            command += ["--webui-port", str(process.free_port())]
            command += ["--cores", "1", "--memory", "700m", "--work-dir", str(place / "work"), url]
            stack.enter_context(process.serving(command, place, lambda log=place / "log": _joined(log), ENVIRONMENT))
        yield url


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _joined(log: Path) -> None:
    if "Successfully registered with master" not in log.read_text(errors="replace"):
        raise ConnectionError("the worker has not joined yet")
