"""Which partitions an index covers: those of which its WHERE, SQL over the partition columns, is true.

Spark itself evaluates the text over the partitions' values, so that it means what it would mean in a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.errors import InvalidPredicate, Unsupported
from hive_bitmap.metastore.table_info import Table, quote, refusal
from hive_bitmap.predicates.spark_conditions import satisfying
from hive_bitmap.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBER = "__number"


def covered(spark: SparkSession, base: Table, where: str, values: Sequence[tuple[str | None, ...]]) -> list[bool]:
    """For each partition, by its values, whether the text is true of it; an empty text is true of all.

    Raises Unsupported where the table has no partitions, and InvalidPredicate for a text that Spark refuses or that
    asks for more than partition columns.
    """
    if not where:
        return [True] * len(values)
    if not base.partition_columns:
        raise Unsupported(f"table {base.full_name} has no partition columns, so WHERE cannot choose among partitions")
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    texts = {c.name: pa.array([v[i] for v in values], pa.string()) for i, c in enumerate(base.partition_columns)}
    frame = data_frame(spark, pa.table({**texts, _NUMBER: pa.array(range(len(values)), pa.int64())}))
    typed = [f.expr(f"try_cast({quote(c.name)} AS {c.type})").alias(c.name) for c in base.partition_columns]
    try:
        rows = satisfying(frame.select(*typed, _NUMBER), where).select(_NUMBER).collect()
    except PySparkException as e:
        names = ", ".join(column.name for column in base.partition_columns)
        raise InvalidPredicate(
            f"WHERE {where} cannot choose among the partitions of table {base.full_name}, by {names}: {refusal(e)}"
        ) from e
    chosen = {row[0] for row in rows}
    return [number in chosen for number in range(len(values))]
