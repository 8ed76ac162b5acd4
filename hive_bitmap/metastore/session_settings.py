"""Read the settings of a session, and change one temporarily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hive_bitmap.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[None]:
    """Inside the block, Spark takes the values in a partition spec verbatim; else `01` of an int column becomes `1`."""
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
    """Return the session's settings that are not at their defaults."""
    if jvm_reader.available(spark):
        return jvm_reader.settings(spark)
    return jvm_reader.with_startup_settings(spark.conf.getAll)
