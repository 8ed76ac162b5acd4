"""Keep errors that this package handles out of PySpark's log.

PySpark logs the errors of queries, with the JVM's stack trace, before it raises these errors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # of pyspark.errors.exceptions.base
_handled: ContextVar[bool] = ContextVar("handled", default=False)


@contextmanager
def handled() -> Iterator[None]:
    """Keep errors of this thread out of PySpark's log while the `with` block runs."""
    from pyspark.logger import PySparkLogger

    for name in LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_is_logged)  # repeated calls have no effect
    token = _handled.set(True)
    try:
        yield
    finally:
        _handled.reset(token)


def _is_logged(record: logging.LogRecord) -> bool:
    return not _handled.get()
