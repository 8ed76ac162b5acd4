"""A session whose queries use indexes, in a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import hive_bitmap


@pytest.fixture
def following(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, enabled and in an empty database; what is queued of it has ended afterwards."""
    spark.sql("CREATE DATABASE following")
    spark.sql("USE following")
    hive_bitmap.enable(spark)
    spark.conf.set("hive_bitmap.planning_seconds", "60")
    yield spark
    spark.conf.unset("hive_bitmap.planning_seconds")
    hive_bitmap.enable(spark)
    hive_bitmap.refreshed(spark)
    spark.sql("USE default")
    spark.sql("DROP DATABASE following CASCADE")
