"""A runner of tasks in this process, for sessions that have no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from hive_bitmap.spark.tasks.distribution import Body

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class InProcess:
    """Runs the tasks of sessions of a class one after the other; what they run is pickled, as on its way to Spark."""

    def __init__(self, of: type) -> None:
        self._of = of

    def available(self, spark: SparkSession) -> bool:
        return isinstance(spark, self._of)

    def run(
        self, spark: SparkSession, tasks: Sequence[pa.RecordBatch], body: Body, *, count_requests: bool
    ) -> list[bytes]:
        work: Any = cloudpickle.dumps(body)
        results = (batch for task in tasks for batch in cloudpickle.loads(work)(iter([task])))
        return [result.as_py() for batch in results for result in batch["result"]]
