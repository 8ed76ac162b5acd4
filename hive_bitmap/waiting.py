"""Wait for the refreshes of indexes that follow their tables, as a program does before it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_bitmap.catalyst.enabling import answers, is_enabled
from hive_bitmap.catalyst.jvm_bridge import bridge
from hive_bitmap.errors import Unsupported
from hive_bitmap.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refreshed(spark: SparkSession, timeout: float = 60.0) -> bool:
    """Wait until the indexes that follow their tables have followed all writes of this application so far.

    `timeout` is in seconds. Return whether all refreshes have ended by then; one that failed is not waited for, `show`
    tells why it did. Raise Unsupported on a Spark Connect client, whose server does the refreshes.
    """
    if not jvm_reader.available(spark):
        raise Unsupported("a Spark Connect client does not know what its server refreshes: look at SHOW INDEX")
    if not is_enabled(spark):
        return True
    return bool(bridge(spark).areWritesTold(spark._jsparkSession, int(timeout) + 1)) and answers(
        spark
    ).serving.following.queue.wait(timeout)
