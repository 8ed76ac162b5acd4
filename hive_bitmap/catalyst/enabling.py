"""Switching the optimizer rule on for a live session, and off: its classes, and the Python that answers it."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from hive_bitmap.catalyst import index_statements
from hive_bitmap.catalyst.planning import Planning
from hive_bitmap.errors import Unsupported
from hive_bitmap.index import catalog
from hive_bitmap.metastore import jvm_reader
from hive_bitmap.packages import file_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAR = file_of("hive_bitmap.catalyst", "hive-bitmap.jar")
EXTENSION = "hive_bitmap.catalyst.BitmapExtension"
SESSIONS_KEPT = 256  # a server has many, and what is kept here does not end there
_BRIDGE = "hive_bitmap.catalyst.Bridge"


class Answers:
    """What the JVM calls: `java.util.function.BiFunction` of a session and a question."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.planning = Planning()
        self._sessions: LRUCache[str, SparkSession] = LRUCache(SESSIONS_KEPT)
        self._lock = Lock()

    def apply(self, session: Any, asked: Any) -> Any:
        """Answer a `Question`, give the counts that a `Counting` asks for, or do what a `Statement` says."""
        spark = self._session(session)
        match asked.kind():
            case "plan":
                return self.planning.answer(spark, asked)
            case "count":
                return self.planning.counts(spark, asked)
            case wanted:
                return index_statements.answer(spark, wanted, asked.text())

    def _session(self, session: Any) -> SparkSession:
        """The session in Python; one for each of the JVM's, since what is remembered is kept by session."""
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
        implements = ["java.util.function.BiFunction"]  # noqa: RUF012 - py4j reads it so


def enable(spark: SparkSession) -> None:
    """From now on plain `spark.sql` and DataFrames of this session, and of new ones beside it, use the indexes.

    Nothing of a query has to change. `hive_bitmap.explain` tells what became of it; `hive_bitmap.enabled` and other
    settings are read where a plan is made. Raises Unsupported on a Spark Connect client, whose server does it.
    """
    if not jvm_reader.available(spark):
        raise Unsupported(
            "a Spark Connect client plans nothing: start the server with the jar that `hive-bitmap jar` names, "
            f"--conf spark.sql.extensions={EXTENSION}"
        )
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    ensure_callback_server_started(context._gateway)
    _bridge(spark).enable(spark._jsparkSession, _answers(context))
    catalog.when_forgotten(_forget_indexed)
    spark.conf.unset("hive_bitmap.enabled")


def _forget_indexed() -> None:
    """Have the JVM ask again which columns are indexed."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None and jvm_reader.available(spark):
        _bridge(spark).forgetIndexed()


def disable(spark: SparkSession) -> None:
    """Undo `enable`: plans are Spark's own again."""
    if jvm_reader.available(spark):
        _bridge(spark).disable()


def is_enabled(spark: SparkSession) -> bool:
    """Whether queries of a session may use indexes."""
    return jvm_reader.available(spark) and bool(_bridge(spark).isEnabled())


@lru_cache(maxsize=8)
def _answers(context: SparkContext) -> Answers:
    return Answers(context)


def answers(spark: SparkSession) -> Answers:
    """The Python that answers for a session."""
    return _answers(spark.sparkContext)


def bridge(spark: SparkSession) -> Any:
    """The JVM's half."""
    return _bridge(spark)


@lru_cache(maxsize=8)
def _bridge(spark: SparkSession) -> Any:
    """The JVM's half; added to driver and executors unless the session has the jar already."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    try:
        found = loader.loadClass(_BRIDGE)
    except Py4JJavaError:
        loader.addURL(jvm.java.io.File(str(JAR)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(JAR))
        found = loader.loadClass(_BRIDGE)
    gateway: Any = spark.sparkContext._gateway
    classes, objects = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    return found.getConstructor(classes).newInstance(objects)
