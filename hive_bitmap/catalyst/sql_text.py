"""SQL text: index statements in Hive's words and openLooKeng's, EXPLAIN with the indexes, and all that is Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_bitmap.packages import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
    """What one SQL statement answers: an index statement, a DROP that takes indexes along, or any other of Spark's.

    A query is Spark's own, with indexes in its plan (see `enable`); on Spark Connect it is for the server to plan so.
    EXPLAIN [ANALYZE] tells what became of it. DDL answers with a frame without columns. `args` are the parameters of a
    statement of Spark's. Raises InvalidStatement with line and column where an index statement is not well formed,
    other HiveBitmapErrors where it cannot be done, and what Spark raises. As in::

        sql(spark, "CREATE INDEX i ON TABLE sales (city) AS 'BITMAP'")
    """
    require()
    from hive_bitmap.catalyst.enabling import enable, is_enabled
    from hive_bitmap.catalyst.explanation import explained
    from hive_bitmap.errors import InvalidPredicate, InvalidStatement, Unsupported
    from hive_bitmap.metastore import jvm_reader
    from hive_bitmap.predicates.spark_conditions import require_characters
    from hive_bitmap.sql.commands import is_elsewhere, run
    from hive_bitmap.sql.parse import parse

    try:
        require_characters(text)
    except InvalidPredicate as e:
        raise InvalidStatement(str(e)) from e
    classic = jvm_reader.available(spark)
    if classic and not is_enabled(spark):
        enable(spark)
    statement = parse(text)
    if statement is None:
        told = explained(spark, text, args) if classic else None
        return spark.sql(text, args=args) if told is None else told
    if is_elsewhere(spark, statement):
        return spark.sql(text, args=args)
    if args:
        raise Unsupported("an index statement takes no parameters: write the values into the text")
    return run(spark, statement)
