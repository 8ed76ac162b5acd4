"""Read the settings of a session, and change some temporarily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hive_bitmap.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
KEEP_CONSTANTS = "spark.sql.legacy.keepPartitionSpecAsStringLiteral"


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[None]:
    """Inside the block, Spark takes the values in a partition spec verbatim; else `01` of an int column becomes `1`.

    It also evaluates constants such as X'69' there, even if the session would rather keep their text.
    """
    known = settings(spark)
    wanted = {SKIP_VALIDATION: "true"}
    if known.get(KEEP_CONSTANTS, "false").lower() == "true":
        wanted[KEEP_CONSTANTS] = "false"
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in wanted:
            if name in known:
                spark.conf.set(name, known[name])
            else:
                spark.conf.unset(name)


def settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the session's settings that are not at their defaults."""
    if jvm_reader.available(spark):
        return jvm_reader.settings(spark)
    return jvm_reader.with_startup_settings(spark.conf.getAll)
