"""What a session says of stores: its Hadoop configuration where its JVM is at hand, else its settings alone."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from hive_bitmap.session_cache import TtlCache
from hive_bitmap.stores import options
from hive_bitmap.stores.options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMEMBERED = 10.0  # seconds: keys may be changed in a session that runs
OF_HADOOP = "spark.hadoop."
_remembered: TtlCache[str, Options] = TtlCache(most=1)


def use(spark: SparkSession) -> None:
    """Reach stores as this session does from now on. It is asked how when the first store is, not before."""
    session = weakref.ref(spark)

    def ask() -> Options:
        alive = session()
        return Options() if alive is None else options_of(alive)

    options.use(ask)


def options_of(spark: SparkSession) -> Options:
    """How this session reaches stores. Raises StoreError where its credential files cannot be read."""
    found = _remembered.get(spark, "", REMEMBERED)
    if found is None:
        found = Options.of(_asked(spark))
        _remembered.keep(spark, "", found)
    return found


def _asked(spark: SparkSession) -> dict[str, str]:
    from hive_bitmap.metastore import jvm_reader, session_settings

    said = session_settings.settings(spark)
    if jvm_reader.available(spark):
        return {**jvm_reader.hadoop(spark, options.PREFIXES), **said}
    return {**{name.removeprefix(OF_HADOOP): value for name, value in said.items()}, **said}
