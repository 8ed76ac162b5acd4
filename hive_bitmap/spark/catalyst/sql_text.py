"""Run one SQL statement.

The statement is an index statement of Hive's or openLooKeng's dialect, an EXPLAIN, or any other statement of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_bitmap.spark.packages import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
    """Run one SQL statement and return its result.

    The statement is an index statement, or any statement of Spark. Spark runs queries, with indexes in their plans (see
    `enable`). On Spark Connect the server decides whether plans use indexes. EXPLAIN [ANALYZE] also shows what the
    indexes do for a query. DROP TABLE and DROP DATABASE drop the indexes too. DDL returns a DataFrame without columns.
    `args` are parameters of a Spark statement. Raises InvalidStatement, with line and column, for a malformed index
    statement. Raises other HiveBitmapErrors if an index statement cannot be executed, and the errors of Spark.

    For example::

        sql(spark, "CREATE INDEX i ON TABLE sales (city) AS 'BITMAP'")
    """
    require()
    from functools import partial

    from hive_bitmap.core.grammar.parse import parse
    from hive_bitmap.core.predicates.tokens import require_characters
    from hive_bitmap.errors import InvalidPredicate, InvalidStatement, Unsupported
    from hive_bitmap.spark.catalyst.enabling import enable, is_enabled
    from hive_bitmap.spark.catalyst.explanation import explained
    from hive_bitmap.spark.metastore import jvm_reader
    from hive_bitmap.spark.sql.commands import is_elsewhere, is_indexable, run

    try:
        require_characters(text)
    except InvalidPredicate as e:
        raise InvalidStatement(str(e)) from e
    is_classic = jvm_reader.available(spark)
    if is_classic and not is_enabled(spark):
        enable(spark)
    statement = parse(text, partial(is_indexable, spark))
    if statement is None:
        explanation = explained(spark, text, args) if is_classic else None
        return spark.sql(text, args=args) if explanation is None else explanation
    if is_elsewhere(spark, statement):
        return spark.sql(text, args=args)
    if args:
        raise Unsupported("an index statement takes no parameters: write the values into the text")
    return run(spark, statement)
