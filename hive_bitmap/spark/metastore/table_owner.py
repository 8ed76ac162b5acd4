"""Whose the tables are that a session creates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from hive_bitmap.spark.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def owned_by(spark: SparkSession, owner: str) -> Iterator[None]:
    """Let tables that this thread creates meanwhile belong to `owner`, as if that user of a Thrift Server created them.

    With no owner, on Spark Connect, and with PYSPARK_PIN_THREAD=false, where a thread of Python has none of its own in
    the JVM, they belong to the user of the session, as all others do.
    """
    if not owner or not jvm_reader.available(spark) or not _has_jvm_thread(spark):
        yield
        return
    current = cast(Any, spark)._jvm.org.apache.spark.sql.catalyst.CurrentUserContext.CURRENT_USER()
    before = current.get()
    current.set(owner)
    try:
        yield
    finally:
        if before is None:
            current.remove()
        else:
            current.set(before)


def _has_jvm_thread(spark: SparkSession) -> bool:
    from py4j.clientserver import ClientServer  # type: ignore[import-untyped]

    return isinstance(spark.sparkContext._gateway, ClientServer)
