"""The settings of a session, and statements that need one of them for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hive_bitmap.metastore.jvm_reader import with_server_wide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[None]:
    """For statements that name partitions by `partition_spec`: by itself Spark takes `01` of an int column for `1`."""
    before = settings(spark).get(SKIP_VALIDATION)
    spark.conf.set(SKIP_VALIDATION, "true")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(SKIP_VALIDATION)
        else:
            spark.conf.set(SKIP_VALIDATION, before)


def settings(spark: SparkSession) -> Mapping[str, str]:
    """The session's settings that are not left to their defaults."""
    from hive_bitmap.metastore import jvm_reader

    if jvm_reader.available(spark):
        return jvm_reader.settings(spark)
    return with_server_wide(spark.conf.getAll)
