"""Keeping stderr for messages: what Java and PySpark say at every start, and again of what is told anyway, is left out.

Java writes to the stderr that it inherits, so lines are sifted on their way from a pipe; log4j has no say in them.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2
PYSPARK_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # of errors that it raises as well
NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"NOTE: Picked up JDK_JAVA_OPTIONS:",
    b"Picked up JAVA_TOOL_OPTIONS:",
)


class Sieve:
    """A sifted stderr for processes: NOISE is left out, and everything once it is `closed`."""

    def __init__(self) -> None:
        self.closed = False

    @contextmanager
    def over_stderr(self) -> Iterator[None]:
        """What is started inside the block writes through the sieve for as long as it runs."""
        read, write = os.pipe()
        before = os.dup(STDERR)
        os.dup2(write, STDERR)
        os.close(write)
        threading.Thread(target=self._sift, args=(read, os.dup(before)), daemon=True).start()
        try:
            yield
        finally:
            os.dup2(before, STDERR)
            os.close(before)

    def _sift(self, read: int, write: int) -> None:
        """Copy lines, each as soon as it is whole, until the last writer is gone."""
        with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:
            for line in source:
                if not self.closed and not line.startswith(NOISE):
                    sink.write(line)


@contextmanager
def quiet_pyspark() -> Iterator[None]:
    """Without PySpark's warnings of pandas, which is used by PySpark alone, and without PYSPARK_LOGS."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in PYSPARK_LOGS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
        for logger in loggers:
            logger.addFilter(_nothing)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False
