"""Hide the differences between the supported versions of PySpark, 4.0 to 4.3.

All other code is the same for all versions. `make compat` tests all supported versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def pyspark_version() -> tuple[int, int]:
    """Return the feature release of PySpark, (4, 0) for 4.0.5.

    Over Spark Connect, return the version of the client.
    """
    import pyspark

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def feature_version(spark: SparkSession) -> str:
    """Return the feature version of Spark, such as `4.3`."""
    return ".".join(spark.version.split(".")[:2])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema for rows that are passed to Spark.

    The time zone of `timestamp` columns is UTC.
    """
    from pyspark.sql.pandas import types

    convert: Any = types.to_arrow_schema
    # 4.0 and 4.1 always use UTC; from 4.2 on, timestamps have no time zone unless one is passed.
    return convert(schema) if pyspark_version() < (4, 2) else convert(schema, timezone="UTC")


def data_frame(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Convert an Arrow table to a DataFrame; without a schema, PySpark derives the types.

    Over Spark Connect the table is sent as a single batch: a server of version 4.0.0 silently drops all record batches
    but the first (SPARK-53342), and asking for its version would take another request.
    """
    return spark.createDataFrame(rows.combine_chunks() if _is_connect(spark) else rows, schema)


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
