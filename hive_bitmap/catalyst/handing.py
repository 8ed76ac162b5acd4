"""Rows that go to the JVM: a call a record batch, where PySpark's `createDataFrame` takes dozens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.catalyst.conditions import Condition
from hive_bitmap.columns import Column
from hive_bitmap.metastore.table_info import CHAR_TYPE_KEY
from hive_bitmap.planning.spark_leaves import FEW_KEYS, PLACE
from hive_bitmap.predicates.nodes import SparkLeaf
from hive_bitmap.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
BATCH_ROWS = 100_000


def batches(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    """A table in batches of at most BATCH_ROWS rows, one at least: Spark's schema as JSON, and an encapsulated message
    of Arrow's IPC format without the schema, as `ArrowRows.java` takes them.
    """
    schema = _schema(rows)
    text, found = schema.json(), rows.cast(arrow_schema(schema)).combine_chunks()
    for batch in found.to_batches(BATCH_ROWS) or [pa.RecordBatch.from_pylist([], found.schema)]:
        yield text, batch.serialize().to_pybytes()


def truths(
    spark: SparkSession,
    question: Any,
    scan: int,
    found: Condition,
    leaf: SparkLeaf,
    column: Column,
    keys: pa.Array,
) -> pa.Array | None:
    """The keys of which Spark says that an expression of the query is TRUE; None if it cannot say."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    if not len(keys):
        return keys
    try:
        rows = pa.table({column.name: keys, PLACE: pa.array(range(len(keys)), pa.int32())})
        schema = _schema(rows)
        if column.type.startswith(("char", "varchar")):
            schema[column.name].metadata = {CHAR_TYPE_KEY: column.type}
        [batch] = rows.cast(arrow_schema(schema)).combine_chunks().to_batches()
        given = (schema.json(), batch.serialize().to_pybytes())
        satisfied = DataFrame(question.satisfying(scan, found.expressions[leaf], *given), spark).select(PLACE)
        places = [row[0] for row in satisfied.collect()] if len(keys) <= FEW_KEYS else satisfied.toArrow().column(0)
    except (PySparkException, Py4JJavaError, pa.ArrowException) as e:
        log.info("left to the rows, Spark cannot ask %s over the keys: %s", leaf.text, str(e).splitlines()[0])
        return None
    return keys.take(pa.array(places, pa.int32()) if isinstance(places, list) else places.combine_chunks())


def _schema(rows: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
