"""What differs between the versions of PySpark that are supported, 4.0 to 4.3, each with the version it is for.

Everything else in the package is the same for all of them; `make compat` runs them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@lru_cache
def pyspark_version() -> tuple[int, int]:
    """The feature release of PySpark: (4, 0) for 4.0.5. Over Spark Connect that is the client's."""
    import pyspark

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema in which Arrow holds rows for Spark: timestamps with a zone are in UTC."""
    from pyspark.sql.pandas import types

    convert: Any = types.to_arrow_schema
    # 4.0 and 4.1 take no zone, and use UTC; from 4.2 on timestamps have no zone unless it is named.
    return convert(schema) if pyspark_version() < (4, 2) else convert(schema, timezone="UTC")


def data_frame(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """All rows of an Arrow table as a DataFrame, with PySpark's own types for Arrow's where no schema is given.

    A 4.0.0 server of Spark Connect takes the first record batch and drops the others in silence (SPARK-53342), and the
    client does not tell the version of the server before it asks; so over Connect there is one batch.
    """
    return spark.createDataFrame(rows.combine_chunks() if _is_connect(spark) else rows, schema)


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
