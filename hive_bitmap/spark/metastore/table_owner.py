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

    With no owner, and on Spark Connect, they belong to the user of the session, as all others do.
    """
    if not owner or not jvm_reader.available(spark):
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
