"""Rows that go to the JVM: a call a record batch, where PySpark's `createDataFrame` takes dozens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.catalyst.conditions import Condition
from hive_bitmap.columns import Column
from hive_bitmap.metastore.table_info import CHAR_TYPE_KEY
from hive_bitmap.planning.spark_leaves import at_places, with_places
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
    text = schema.json()
    for batch in _messages(rows, schema, BATCH_ROWS):
        yield text, batch


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
        rows = with_places(column, keys)
        schema = _schema(rows)
        if column.type.startswith(("char", "varchar")):
            schema[column.name].metadata = {CHAR_TYPE_KEY: column.type}
        [batch] = _messages(rows, schema)
        satisfied = question.satisfying(scan, found.expressions[leaf], schema.json(), batch)
        return at_places(keys, DataFrame(satisfied, spark))
    except (PySparkException, Py4JJavaError, pa.ArrowException) as e:
        log.info("left to the rows, Spark cannot ask %s over the keys: %s", leaf.text, str(e).splitlines()[0])
        return None


def _messages(rows: pa.Table, schema: StructType, batch_rows: int | None = None) -> Iterator[bytes]:
    """The record batches of a table with Spark's own types, one at least; one where `batch_rows` is None."""
    found = rows.cast(arrow_schema(schema)).combine_chunks()
    for batch in found.to_batches(batch_rows) or [pa.RecordBatch.from_pylist([], found.schema)]:
        yield batch.serialize().to_pybytes()


def _schema(rows: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
