"""Switch the optimizer rule on and off for a running session: load its classes, register the Python that answers.

And wait for what that Python does in the background, the refreshes of indexes that follow their tables.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst import callback_port, index_statements
from hive_bitmap.spark.catalyst.extension_jar import EXTENSION
from hive_bitmap.spark.catalyst.jvm_bridge import bridge
from hive_bitmap.spark.catalyst.serving import Serving
from hive_bitmap.spark.metastore import jvm_reader, metastore
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TOLD_SECONDS = 10  # for which the end of a program waits for the JVM to tell of its last writes
LONGEST_WAIT = 60.0  # seconds for which it then waits for refreshes
log = logging.getLogger(__name__)
SESSIONS_KEPT = 256  # a server has many sessions, and does not tell when one ends


class Answers:
    """The `java.util.function.BiFunction` that the JVM calls with a session and what it asks of Python."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.serving = Serving()
        self._sessions: LRUCache[str, SparkSession] = LRUCache(SESSIONS_KEPT)
        self._lock = Lock()

    def apply(self, session: Any, asked: Any) -> Any:
        """Answer a `Question`, a `Counting`, a `Fetching`, a `Comparing`, a `Written` or a `Statement` of the JVM."""
        spark = self._session(session)
        match asked.kind():
            case "plan":
                return self.serving.answer(spark, asked)
            case "count":
                return self.serving.counts(spark, asked)
            case "fetch":
                return self.serving.fetched(spark, asked)
            case "compare":
                return self.serving.compared(spark, asked)
            case "written":
                return self.serving.refresher.written(spark, asked.text())
            case statement_kind:
                return index_statements.answer(spark, statement_kind, asked.text())

    def _session(self, session: Any) -> SparkSession:
        """Return the Python object of a JVM session, always the same one: caches are kept by session."""
        from pyspark.sql import SparkSession

        name = str(session.sessionUUID())
        with self._lock:
            known = self._sessions.get(name)
        if known is None:
            made = SparkSession(self._context, session)
            with self._lock:
                known = self._sessions.setdefault(name, made)
        return known

    class Java:
        implements = ["java.util.function.BiFunction"]  # noqa: RUF012 - py4j requires a list


def enable(spark: SparkSession) -> None:
    """Let plain `spark.sql` and DataFrames of this session, and of new sessions beside it, use indexes from now on.

    Queries need no change. `hive_bitmap.explain` shows what the indexes do for one; `hive_bitmap.enabled` and the other
    settings are read each time that a plan is made. Warn once, in the log, of a session without a Hive metastore, which
    cannot have indexes. Raises Unsupported on a Spark Connect client, whose server has to be started with the extension
    instead.
    """
    if not jvm_reader.available(spark):
        raise Unsupported(
            "a Spark Connect client plans nothing: start the server with the jar that `hive-bitmap jar` names, "
            f"--conf spark.sql.extensions={EXTENSION}"
        )
    callback_port.open_port(spark)
    bridge(spark).enable(spark._jsparkSession, _answers(spark.sparkContext))
    catalog.on_change(_forget_indexed_columns)
    spark.conf.unset("hive_bitmap.enabled")
    if problem := metastore.hive_problem(spark):
        _warn_without_hive(spark.sparkContext, problem)
    _wait_at_exit(spark.sparkContext)


def enable_chosen(spark: SparkSession) -> None:
    """Let the functions of Python use indexes; in a session that is not enabled, other queries stay Spark's own.

    In a session whose configuration has the extension this process answers from now on, as after `enable`, so that it
    has the plans that it is asked for.
    """
    if not _is_answered_here(spark):
        callback_port.open_port(spark)
        bridge(spark).enableChosen(spark._jsparkSession, _answers(spark.sparkContext))
        catalog.on_change(_forget_indexed_columns)


def _is_answered_here(spark: SparkSession) -> bool:
    """Whether this process answers the optimizer rule, and not the helper of a configured extension, or none."""
    return bool(bridge(spark).isAnsweredByDriver())


def _forget_indexed_columns() -> None:
    """Clear the JVM's cache of indexed columns: this process has made, altered or dropped an index."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None and jvm_reader.available(spark):
        bridge(spark).forgetIndexed()


def disable(spark: SparkSession) -> None:
    """Undo `enable`: plans are Spark's own again."""
    if jvm_reader.available(spark):
        bridge(spark).disable()


def is_enabled(spark: SparkSession) -> bool:
    """Whether a Python process answers the optimizer rule of this session's JVM."""
    return jvm_reader.available(spark) and bool(bridge(spark).isEnabled())


def refreshed(spark: SparkSession, timeout: float = 60.0) -> bool:
    """Wait until the indexes that follow their tables have followed all writes of this application so far.

    `timeout` is in seconds. Return whether all refreshes have ended by then; one that failed is not waited for, `show`
    tells why it did. Raise Unsupported on a Spark Connect client, whose server does the refreshes.
    """
    if not jvm_reader.available(spark):
        raise Unsupported("a Spark Connect client does not know what its server refreshes: look at SHOW INDEX")
    if not is_enabled(spark):
        return True
    told = bridge(spark).areWritesTold(spark._jsparkSession, math.ceil(timeout))
    return bool(told) and answers(spark).serving.refresher.wait(timeout)


def wait_at_end(spark: SparkSession) -> None:
    """Wait for refreshes before a program stops its session: their interval at most, and no more than LONGEST_WAIT."""
    if jvm_reader.available(spark) and is_enabled(spark):
        bridge(spark).areWritesTold(spark._jsparkSession, TOLD_SECONDS)
        refresher = answers(spark).serving.refresher
        refresher.wait(min(refresher.queue.longest_interval(), LONGEST_WAIT))


@lru_cache(maxsize=8)
def _warn_without_hive(context: SparkContext, problem: str) -> None:
    """Log once for an application that its sessions cannot have indexes."""
    log.warning("no query of this session uses an index: %s", problem)


@lru_cache(maxsize=8)
def _wait_at_exit(context: SparkContext) -> None:
    """Have the end of this process wait for refreshes, unless the context is stopped by then.

    Pools of threads, which a refresh needs, take no more work when functions of `atexit` run. What `threading` itself
    calls at the end comes before, the last registered first; it has no public name.
    """
    at_end = getattr(threading, "_register_atexit", atexit.register)
    at_end(partial(_wait_if_running, context))


def _wait_if_running(context: SparkContext) -> None:
    from pyspark.sql import SparkSession

    try:
        if context._jsc is not None and not context._jsc.sc().isStopped():
            wait_at_end(SparkSession(context))
    except KeyboardInterrupt:
        log.info("interrupted: refreshes that are queued are left to the next query that finds their files")
    except Exception as e:  # noqa: BLE001 - the JVM may be ending, too
        log.debug("refreshes are not waited for: %s", e)


@lru_cache(maxsize=8)
def _answers(context: SparkContext) -> Answers:
    return Answers(context)


def answers(spark: SparkSession) -> Answers:
    """Return the object of this process that answers the JVM of a session."""
    return _answers(spark.sparkContext)
