"""Pass rows to the JVM as Arrow record batches.

Each batch takes one py4j call, while `createDataFrame` makes dozens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import SparkLeaf
from hive_bitmap.spark.metastore.protocol import CHAR_TYPE_KEY
from hive_bitmap.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
BATCH_ROWS = 100_000
FEW_KEYS = 10_000
PLACE = "hive_bitmap_place"  # no column of an index has such a name


def batches(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of a table in batches that `ArrowRows.java` can read.

    There is at least one batch. A batch has at most BATCH_ROWS rows, and is yielded as a pair: Spark's schema as JSON,
    and an encapsulated message of Arrow's IPC format without the schema.
    """
    schema = _schema(rows)
    text = schema.json()
    for batch in _messages(rows, schema, BATCH_ROWS):
        yield text, batch


def satisfying_keys(
    spark: SparkSession,
    request: Any,
    scan: int,
    leaf: SparkLeaf,
    column: Column,
    keys: pa.Array,
) -> pa.Array | None:
    """Have Spark evaluate an expression, and return the keys for which it is TRUE.

    The expression is `leaf`, and `keys` are values of `column`, its only column. `request` is the JVM's
    `PythonRequest`; `scan` is the position in this request of the scan with the leaf. Return None if Spark cannot
    evaluate the expression, or the request does not have it.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    from hive_bitmap.spark.handled_errors import handled

    if leaf.number is None:
        return None
    if not len(keys):
        return keys
    try:
        rows = with_places(column, keys)
        schema = _schema(rows)
        if column.type.startswith(("char", "varchar")):
            schema[column.name].metadata = {CHAR_TYPE_KEY: column.type}
        [batch] = _messages(rows, schema)
        with handled():
            satisfied = request.satisfying(scan, leaf.number, schema.json(), batch)
            return at_places(keys, DataFrame(satisfied, spark))
    except (PySparkException, Py4JJavaError, pa.ArrowException) as e:
        if request.isLate():
            raise
        log.info("Spark cannot evaluate %s over the keys, so all rows may match: %s", leaf.text, str(e).splitlines()[0])
        return None


def with_places(column: Column, keys: pa.Array) -> pa.Table:
    """Return a table of keys and their positions.

    The keys are in a column with the name of `column`, the positions in PLACE (int32).
    """
    return pa.table({column.name: keys, PLACE: pa.array(range(len(keys)), pa.int32())})


def at_places(keys: pa.Array, frame: DataFrame) -> pa.Array:
    """Return the keys that are left after Spark has filtered them.

    `frame` was made from the result of `with_places` and then filtered. Its column PLACE has the positions in `keys` of
    the keys to return.
    """
    places = frame.select(PLACE)
    if len(keys) <= FEW_KEYS:  # Spark collects a small LocalRelation without a job
        return keys.take(pa.array([row[0] for row in places.collect()], pa.int32()))
    return keys.take(places.toArrow().column(0).combine_chunks())


def _messages(rows: pa.Table, schema: StructType, batch_rows: int | None = None) -> Iterator[bytes]:
    """Yield a table as serialized record batches in Spark's own types.

    There is at least one batch, and exactly one if `batch_rows` is None.
    """
    cast = rows.cast(arrow_schema(schema)).combine_chunks()
    for batch in cast.to_batches(batch_rows) or [pa.RecordBatch.from_pylist([], cast.schema)]:
        yield batch.serialize().to_pybytes()


def _schema(rows: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
