"""Test the code that depends on the version of PySpark; `make compat` tests the versions that are not installed."""

from __future__ import annotations

import pyarrow as pa
import pyspark
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from hive_bitmap.spark import versions


def test_the_version_is_that_of_pyspark() -> None:
    assert pyspark.__version__.startswith("{}.{}.".format(*versions.pyspark_version()))


def test_timestamps_with_a_zone_are_in_utc() -> None:
    schema = StructType().add("a", TimestampType()).add("b", TimestampNTZType())
    assert versions.arrow_schema(schema).types == [pa.timestamp("us", "UTC"), pa.timestamp("us")]
