"""Tables that another catalog describes as Spark describes its own are not taken for tables of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hive_bitmap.spark.catalyst.enabling import bridge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_indexable(spark: SparkSession, plan: Any) -> bool:
    """Whether the optimizer rule asks Python about a relation."""
    bridge(spark)  # adds the jar
    jvm: Any = spark._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    scan = loader.loadClass("hive_bitmap.catalyst.queries.Scan")
    [method] = [one for one in scan.getMethods() if one.getName() == "isIndexable"]
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]
    arguments[0] = plan
    return bool(method.invoke(None, arguments))


def copied(spark: SparkSession, value: Any, changed: Any, into: Any) -> Any:
    """A case class with `into` in the place of its field that is `changed`."""
    jvm: Any = spark._jvm
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, value.productArity())  # type: ignore[union-attr]
    for at in range(value.productArity()):
        field = value.productElement(at)
        arguments[at] = into if field is not None and field == changed else field
    return value.getClass().getConstructors()[0].newInstance(arguments)


@pytest.mark.parametrize("catalog", ["spark_catalog", "SPARK_CATALOG", "unity"])
def test_only_tables_of_the_sessions_own_catalog_are_indexed(spark: SparkSession, database: str, catalog: str) -> None:
    spark.sql("CREATE TABLE t (k INT) USING parquet")
    jvm: Any = spark._jvm
    relation = spark.table("t")._jdf.queryExecution().analyzed().collectLeaves().head()
    assert is_indexable(spark, relation)
    table = relation.catalogTable().get()
    some = jvm.scala.Option.apply
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier("t", some(database), some(catalog))
    theirs = some(copied(spark, table, table.identifier(), identifier))
    assert is_indexable(spark, copied(spark, relation, relation.catalogTable(), theirs)) == (catalog != "unity")
