"""The store settings of a session.

The store settings are the session's own settings, and its Hadoop configuration if py4j can reach the JVM.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from hive_bitmap.core.stores import options
from hive_bitmap.core.stores.options import OF_HADOOP, Options
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, session_settings
from hive_bitmap.spark.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE_SECONDS = 10.0  # seconds to cache settings; keys may change while a session runs
_options: TtlCache[str, Options] = TtlCache(most=1)


def use(spark: SparkSession) -> None:
    """Use the store settings of this session from now on.

    The settings are read when a store first needs them.
    """
    session = weakref.ref(spark)

    def source() -> Options:
        alive = session()
        return Options() if alive is None else options_of(alive)

    options.use(source)


def options_of(spark: SparkSession) -> Options:
    """Return the store settings of this session.

    Raise StoreError if its credential files cannot be read.
    """
    cached = _options.get(spark, "", CACHE_SECONDS)
    if cached is None:
        cached = Options.of(_read(spark))
        _options.put(spark, "", cached)
    return cached


def _read(spark: SparkSession) -> dict[str, str]:
    settings = session_settings.settings(spark)
    if jvm_reader.available(spark):
        return {**jvm_settings.of_stores(spark, options.PREFIXES), **settings}
    return {**{name.removeprefix(OF_HADOOP): value for name, value in settings.items()}, **settings}
