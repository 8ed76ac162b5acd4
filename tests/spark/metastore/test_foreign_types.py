"""A table with a column of a type that only Hive has, which Spark cannot describe: those beside it are as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def beside(spark: SparkSession, database: str) -> Iterator[str]:
    """An indexed table in a database with a table of Hive's whose column is a union."""
    spark.sql("CREATE TABLE ok USING parquet AS SELECT id % 7 AS k FROM range(100)")
    hive_bitmap.build(spark, "ok", ["k"])
    client: Any = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()  # type: ignore[union-attr]
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    before = system.getProperty("spark.testing")
    system.setProperty("spark.testing", "true")  # Spark runs statements of Hive's for its own tests alone
    try:
        client.runSqlHive(f"CREATE TABLE {database}.unions (u uniontype<int,string>)")
        yield "ok"
        client.runSqlHive(f"DROP TABLE {database}.unions")
    finally:
        if before is None:
            system.clearProperty("spark.testing")
        else:
            system.setProperty("spark.testing", before)


def test_its_neighbours_are_indexed_as_before(spark: SparkSession, beside: str, tmp_path: Path) -> None:
    hive_bitmap.build(spark, beside, ["k"], name="elsewhere", location=str(tmp_path / "there"))
    assert [row[0] for row in hive_bitmap.sql(spark, "SHOW INDEX").collect()] == ["elsewhere", "k"]
    assert hive_bitmap.clean(spark, grace_seconds=0) == []
    assert [one.unindexed for one in hive_bitmap.show(spark, beside)] == [0, 0]
    with pytest.raises(NotFound):
        hive_bitmap.build(spark, "unions", ["u"])
