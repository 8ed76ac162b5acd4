"""A session whose queries use indexes, in a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import hive_bitmap


@pytest.fixture
def following(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, enabled and in an empty database; what is queued of it has ended afterwards."""
    name = f"following_{uuid4().hex[:8]}"  # no two tests share the state of a table's refreshes
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    hive_bitmap.enable(spark)
    spark.conf.set("hive_bitmap.planning_seconds", "60")
    yield spark
    spark.conf.unset("hive_bitmap.planning_seconds")
    hive_bitmap.enable(spark)
    hive_bitmap.refreshed(spark)
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {name} CASCADE")
