"""Filter what Java and PySpark print to stderr.

`StderrFilter` drops lines that the JVM prints at every start. With `--quiet`, it also drops Spark's warnings, in the
format of Spark's default log. The JVM writes these lines to the stderr that it inherits, not through log4j. So a pipe
takes the place of stderr, and a thread copies the lines that are not dropped.

`quiet_pyspark` silences PySpark's warnings, and its log of errors, which are raised anyway.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2
SPARKS_WARNING = re.compile(
    rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN |Setting default log level to |To adjust logging level use "
    rb"|Using Spark's default log4j"
)
NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"NOTE: Picked up JDK_JAVA_OPTIONS:",
    b"Picked up JAVA_TOOL_OPTIONS:",
)


class StderrFilter:
    """A filter for the stderr of child processes.

    It drops lines that begin with one of NOISE. A `quiet` filter also drops Spark's warnings. If the attribute `closed`
    is set to True, the filter drops everything.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.closed = False
        self._quiet = quiet

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Filter the stderr of processes that the `with` block starts.

        Their stderr stays filtered after the block, as long as the processes run.
        """
        read, write = os.pipe()
        before = os.dup(STDERR)
        os.dup2(write, STDERR)
        os.close(write)
        threading.Thread(target=self._copy, args=(read, os.dup(before)), daemon=True).start()
        try:
            yield
        finally:
            os.dup2(before, STDERR)
            os.close(before)

    def _copy(self, read: int, write: int) -> None:
        """Copy lines from the file descriptor `read` to `write`, without the lines to drop.

        Each line is copied as soon as it is complete. The copying ends when the last writer has closed the pipe.
        """
        with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:
            for line in source:
                dropped = line.startswith(NOISE) or (self._quiet and SPARKS_WARNING.match(line))
                if not self.closed and not dropped:
                    sink.write(line)


@contextmanager
def quiet_pyspark() -> Iterator[None]:
    """Silence PySpark's log of errors, and its FutureWarnings about pandas.

    The logged errors are also raised, so they are still reported.
    """
    from pyspark.logger import PySparkLogger

    from hive_bitmap.spark.handled_errors import LOGGERS

    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
        for logger in loggers:
            logger.addFilter(_drop)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(_drop)


def _drop(record: logging.LogRecord) -> bool:
    return False
