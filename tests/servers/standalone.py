"""Spark standalone on the loopback: a master and two workers, processes with a work folder each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pyspark

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, process

WORKERS = 2
_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_HEAP = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address (`spark://..`) of a cluster of two workers, a core each, until the block ends.

    Raises jars.Unavailable where Java cannot be had.
    """
    try:
        java.require()
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    port = process.free_port()
    at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    home = _made(folder / "master")
    master = [_CLASS, "org.apache.spark.deploy.master.Master", *at]
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(process.serving(master, home, lambda: process.connect(port), _HEAP))
        for number in range(WORKERS):
            work = _made(folder / f"worker{number}")
            worker = [_CLASS, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(work), address]
            stack.enter_context(process.serving(worker, work, lambda work=work: _registered(work / "log"), _HEAP))
        yield address


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _registered(log: Path) -> None:
    if not re.search("Successfully registered with master", log.read_text()):
        raise ConnectionError("the worker has not registered yet")
