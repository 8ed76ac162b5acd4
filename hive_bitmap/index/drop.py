"""Dropping indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_bitmap.errors import NotFound
from hive_bitmap.index import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drop(spark: SparkSession, table: str, name: str, *, if_exists: bool = False) -> bool:
    """Drop an index and delete its generations, and nothing else; whether there was one.

    Raises NotFound for an unknown table, and for an unknown index unless `if_exists`.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    try:
        index = catalog.named(base, indexes, name)
    except NotFound:
        if if_exists:
            return False
        raise
    catalog.drop(spark, base, index)
    return True
