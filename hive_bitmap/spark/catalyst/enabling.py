"""Switch the optimizer rule on and off for a running session.

Switching the rule on loads its classes, and registers the Python object that answers the rule. Functions here also wait
for the background refreshes of indexes that follow their tables.
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
from hive_bitmap.spark import jvm_bridge
from hive_bitmap.spark.catalyst.serving import Serving
from hive_bitmap.spark.jvm_bridge import EXTENSION, bridge
from hive_bitmap.spark.metastore import jvm_reader, metastore
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WRITE_REPORT_SECONDS = 10  # at the end of a program, the longest wait for the JVM to report its last writes
LONGEST_WAIT = 60.0  # seconds, the longest wait for refreshes after that
log = logging.getLogger(__name__)
MAX_SESSIONS = 256  # a server has many sessions, and sends no notice when a session ends


class Answers:
    """The `java.util.function.BiFunction` that the JVM calls.

    Its arguments are a session and a request to Python.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.serving = Serving()
        self.was_enabled = False  # whether `enable` was called in any session
        self._sessions: LRUCache[str, SparkSession] = LRUCache(MAX_SESSIONS)
        self._lock = Lock()

    def apply(self, session: Any, request: Any) -> Any:
        """Answer a request of the JVM.

        The request is a `Question`, an `Execution`, a `Written` or a `Statement`.
        """
        spark = self._session(session)
        match request.kind():
            case "plan":
                return self.serving.answer(spark, request)
            case "execute":
                return self.serving.execute(spark, request)
            case "written":
                return self.serving.refresher.written(spark, request.text())
            case statement_kind:
                from hive_bitmap.spark.catalyst import index_statements  # loads all that statements execute

                return index_statements.answer(spark, statement_kind, request.text())

    def _session(self, session: Any) -> SparkSession:
        """Return the Python object of a JVM session.

        A JVM session always has the same Python object, because caches are kept by session.
        """
        from pyspark.sql import SparkSession

        name = str(session.sessionUUID())
        with self._lock:
            spark = self._sessions.get(name)
        if spark is None:
            new_session = SparkSession(self._context, session)
            with self._lock:
                spark = self._sessions.setdefault(name, new_session)
        return spark

    class Java:
        implements = ["java.util.function.BiFunction"]  # noqa: RUF012 - py4j requires a list


def enable(spark: SparkSession) -> None:
    """Let plain `spark.sql` and DataFrames use indexes from now on.

    Indexes are used in this session and in new sessions beside it. Queries need no change. `hive_bitmap.explain` shows
    what the indexes do for a query; `hive_bitmap.enabled` and all other settings of hive_bitmap are read for each plan.
    A session without a Hive metastore cannot have indexes; a warning in the log says so once. Raises Unsupported on a
    Spark Connect client: start the server with the extension instead.
    """
    if not jvm_reader.available(spark):
        raise Unsupported(
            "a Spark Connect client plans nothing: start the server with the jar that `hive-bitmap jar` names, "
            f"--conf spark.sql.extensions={EXTENSION}"
        )
    jvm_bridge.open_port(spark)
    answering = answers(spark)
    bridge(spark).enable(spark._jsparkSession, answering)
    catalog.on_change(_forget_indexed_columns)
    spark.conf.unset("hive_bitmap.enabled")
    if not answering.was_enabled:
        if problem := metastore.hive_problem(spark):
            log.warning("no query of this session uses an index: %s", problem)
        _wait_at_exit(spark.sparkContext)
        answering.was_enabled = True


def enable_chosen(spark: SparkSession) -> None:
    """Let hive_bitmap's query functions, such as `scan` and `count`, use indexes.

    In a session that is not enabled, all other queries still use no index. If the session was configured with the
    extension, all its queries use indexes already, and a helper process answers the optimizer rule. Then this process
    answers the rule from now on, as it does after `enable`, because `explain` looks up plans in this process.
    """
    if not _is_answered_here(spark):
        jvm_bridge.open_port(spark)
        bridge(spark).enableChosen(spark._jsparkSession, answers(spark))
        catalog.on_change(_forget_indexed_columns)


def _is_answered_here(spark: SparkSession) -> bool:
    """Whether this process answers the optimizer rule.

    Otherwise the helper of a configured extension answers, or no process does.
    """
    return bool(bridge(spark).isAnsweredByDriver())


def _forget_indexed_columns() -> None:
    """Clear the JVM's cache of indexed columns.

    This function is called when this process has made, altered or dropped an index.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None and jvm_reader.available(spark):
        bridge(spark).forgetIndexed()


def disable(spark: SparkSession) -> None:
    """Undo `enable`: Spark plans by itself again."""
    if jvm_reader.available(spark):
        bridge(spark).disable()


def is_enabled(spark: SparkSession) -> bool:
    """Return whether a Python process answers this JVM's optimizer rule."""
    return jvm_reader.available(spark) and bool(bridge(spark).isEnabled())


def refreshed(spark: SparkSession, timeout: float = 60.0) -> bool:
    """Wait until indexes have followed all writes so far.

    Only indexes that follow their tables are refreshed, and only writes of this application count. Wait at most
    `timeout` seconds, and return whether all refreshes have ended. A failed refresh counts as ended; `show` says why it
    failed. Raise Unsupported on a Spark Connect client, because the server does the refreshes.
    """
    if not jvm_reader.available(spark):
        raise Unsupported("a Spark Connect client cannot see the refreshes of its server: look at SHOW INDEX")
    if not is_enabled(spark):
        return True
    are_reported = bridge(spark).areWritesTold(spark._jsparkSession, math.ceil(timeout))
    return bool(are_reported) and answers(spark).serving.refresher.wait(timeout)


def wait_at_end(spark: SparkSession) -> None:
    """Wait for refreshes before a program stops its session.

    Wait at most WRITE_REPORT_SECONDS until the JVM has reported its writes. Then wait until all refreshes have ended,
    but not longer than the longest refresh interval of the waiting indexes, and at most LONGEST_WAIT.
    """
    if jvm_reader.available(spark) and is_enabled(spark):
        bridge(spark).areWritesTold(spark._jsparkSession, WRITE_REPORT_SECONDS)
        refresher = answers(spark).serving.refresher
        refresher.wait(min(refresher.queue.longest_interval(), LONGEST_WAIT))


def _wait_at_exit(context: SparkContext) -> None:
    """Make the end of this process wait for refreshes, unless the context is stopped.

    A refresh needs thread pools, which accept no work once the functions of `atexit` run. So the function is
    registered with `threading`, which runs its functions earlier, in reverse order. This hook has no public name.
    """
    at_end = getattr(threading, "_register_atexit", atexit.register)
    at_end(partial(_wait_if_running, context))


def _wait_if_running(context: SparkContext) -> None:
    from pyspark.sql import SparkSession

    try:
        if context._jsc is not None and not context._jsc.sc().isStopped():
            wait_at_end(SparkSession(context))
    except KeyboardInterrupt:
        log.info("interrupted: queued refreshes are left to the next query that finds their files")
    except Exception as e:  # noqa: BLE001 - the JVM may be ending, too
        log.debug("did not wait for refreshes: %s", e)


@lru_cache(maxsize=8)
def _answers(context: SparkContext) -> Answers:
    return Answers(context)


def answers(spark: SparkSession) -> Answers:
    """Return this process's object that answers a session's JVM."""
    return _answers(spark.sparkContext)
