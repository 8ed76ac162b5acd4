"""Read the settings of a session, and change some of them temporarily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hive_bitmap.spark.metastore import jvm_reader, jvm_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
KEEP_CONSTANTS = "spark.sql.legacy.keepPartitionSpecAsStringLiteral"
_VERBATIM = {SKIP_VALIDATION: "true", KEEP_CONSTANTS: "false"}
_lock = Lock()


@dataclass
class _Changed:
    """The former values of a session's changed settings, and the number of open `with` blocks that need the changes."""

    before: dict[str, str | None]
    blocks: int = 0


_sessions: WeakKeyDictionary[SparkSession, _Changed] = WeakKeyDictionary()


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a session that takes values in a partition spec verbatim.

    Other sessions change the value `01` of an int to `1`. The yielded session also evaluates constants such as X'69',
    even if the original session keeps their text. The yielded session is a clone with the same catalog. So the original
    session keeps its settings, which other threads may need. A Spark Connect session cannot be cloned, so its own
    settings are changed until the last of its `with` blocks ends.
    """
    if jvm_reader.available(spark):
        clone = jvm_reader.cloned(spark)
        for name, value in _VERBATIM.items():
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
        if spark not in _sessions:
            _sessions[spark] = _Changed({name: spark.conf.get(name, None) for name in _VERBATIM})
            for name, value in _VERBATIM.items():
                spark.conf.set(name, value)
        _sessions[spark].blocks += 1


def _end(spark: SparkSession) -> None:
    with _lock:
        _sessions[spark].blocks -= 1
        if _sessions[spark].blocks:
            return
        for name, value in _sessions.pop(spark).before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the session's settings that are not at their defaults."""
    if jvm_reader.available(spark):
        return jvm_settings.session(spark)
    return jvm_settings.with_startup(spark.conf.getAll)
