"""Read the settings of a session and its stores; change some settings temporarily.

The store settings are the session's own settings, and its Hadoop configuration if py4j can reach the JVM.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hive_bitmap.core.stores import options
from hive_bitmap.core.stores.options import OF_HADOOP, Options
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings
from hive_bitmap.spark.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
KEEP_CONSTANTS = "spark.sql.legacy.keepPartitionSpecAsStringLiteral"
_SETTINGS = {SKIP_VALIDATION: "true", KEEP_CONSTANTS: "false"}
_lock = Lock()
CACHE_SECONDS = 10.0  # seconds to cache settings; keys may change while a session runs
_options: TtlCache[str, Options] = TtlCache(most=1)


@dataclass
class _Changed:
    """The former values of a session's changed settings.

    `blocks` counts the open `with` blocks that need the changes.
    """

    before: dict[str, str | None]
    blocks: int = 0


_verbatim_sessions: WeakKeyDictionary[SparkSession, _Changed] = WeakKeyDictionary()


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a session that takes values in a partition spec verbatim.

    Other sessions change the value `01` of an int to `1`. The yielded session also evaluates constants such as X'69',
    even if the original session keeps their text. The yielded session is a clone with the same catalog, so the original
    session keeps its settings, which other threads may need. A Spark Connect session cannot be cloned: its own settings
    are changed until the last of its `with` blocks ends.
    """
    if jvm_reader.available(spark):
        clone = jvm_reader.cloned(spark)
        for name, value in _SETTINGS.items():
            clone.conf.set(name, value)
        yield clone
        return
    _begin(spark)
    try:
        yield spark
    finally:
        _end(spark)


def _begin(spark: SparkSession) -> None:
    with _lock:
        if spark not in _verbatim_sessions:
            _verbatim_sessions[spark] = _Changed({name: spark.conf.get(name, None) for name in _SETTINGS})
            for name, value in _SETTINGS.items():
                spark.conf.set(name, value)
        _verbatim_sessions[spark].blocks += 1


def _end(spark: SparkSession) -> None:
    with _lock:
        _verbatim_sessions[spark].blocks -= 1
        if _verbatim_sessions[spark].blocks:
            return
        for name, value in _verbatim_sessions.pop(spark).before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the session's settings that are not at their defaults."""
    if jvm_reader.available(spark):
        return jvm_settings.session(spark)
    return jvm_settings.with_startup(spark.conf.getAll)


def use_stores(spark: SparkSession) -> None:
    """Use the store settings of this session from now on.

    The settings are read when a store first needs them.
    """
    session = weakref.ref(spark)

    def source() -> Options:
        alive = session()
        return Options() if alive is None else store_options(alive)

    options.use(source)


def store_options(spark: SparkSession) -> Options:
    """Return the store settings of this session.

    Raise StoreError if the credential files of the session cannot be read.
    """
    cached = _options.get(spark, "", CACHE_SECONDS)
    if cached is None:
        cached = Options.of(_read(spark))
        _options.put(spark, "", cached)
    return cached


def _read(spark: SparkSession) -> dict[str, str]:
    own = settings(spark)
    if jvm_reader.available(spark):
        return {**jvm_settings.of_stores(spark, options.PREFIXES), **own}
    return {**{name.removeprefix(OF_HADOOP): value for name, value in own.items()}, **own}
