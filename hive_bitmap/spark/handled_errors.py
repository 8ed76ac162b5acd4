"""PySpark logs errors of queries, with the JVM's stack, before it raises them: but not those that are handled here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # of pyspark.errors.exceptions.base
_handled: ContextVar[bool] = ContextVar("handled", default=False)


@contextmanager
def handled() -> Iterator[None]:
    """Keep errors of PySpark out of its log that are raised in this block, by this thread."""
    from pyspark.logger import PySparkLogger

    for name in LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_is_logged)  # once: a logger has a filter only once
    token = _handled.set(True)
    try:
        yield
    finally:
        _handled.reset(token)


def _is_logged(record: logging.LogRecord) -> bool:
    return not _handled.get()
