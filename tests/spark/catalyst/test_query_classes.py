"""Python is asked with the class loader of the query, which knows the jars of ADD JAR, however old the thread is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import hive_bitmap
from hive_bitmap.spark.catalyst import execution, question
from tests.asking import frame, indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_class_loader_is_that_of_the_query(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, id % 7 AS k FROM range(4000)")
    hive_bitmap.build(spark, "t", ["k"])
    jvm = cast("Any", spark)._jvm
    seen: list[Any] = []

    def noting(module: Any, name: str) -> None:
        done = getattr(module, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.append(jvm.java.lang.Thread.currentThread().getContextClassLoader())
            return done(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)

    noting(question, "prepare")  # while a query is planned
    noting(execution, "known_counts")  # while it is executed
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    after = jvm.java.net.URLClassLoader(spark.sparkContext._gateway.new_array(jvm.java.net.URL, 0), before)
    try:
        with indexed(spark, "index only"):
            for number, loader in enumerate((before, after, before)):
                thread.setContextClassLoader(loader)
                seen.clear()
                assert frame(spark, f"SELECT count(*) FROM t WHERE k = {number}").collect()
                assert len(seen) == 2 and all(loader.equals(one) for one in seen)
    finally:
        thread.setContextClassLoader(before)
