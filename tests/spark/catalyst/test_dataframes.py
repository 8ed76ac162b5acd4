"""Each query of the DataFrame API gives the same rows, and the same scans through an index, as its twin in SQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.asking import FORCED, Answer, by_index, by_spark, difference, indexed, told

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.turn(3)

Twin = Callable[["SparkSession"], "DataFrame"]


def _columns(spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import col

    return spark.table("fact").filter(col("k").isin(3, 4) & ~col("s").startswith("s1")).select("id", "note")


def _chained(spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import col, lit

    frame = spark.table("fact").withColumn("z", col("k") + lit(1)).filter("z = 9").drop("note")
    return frame.withColumnRenamed("z", "y").filter(col("j") < 5).select("id", "y")


def _between(spark: SparkSession) -> DataFrame:
    frame = spark.table("fact")
    return frame.filter(frame.g.between(3, 5) & frame.s.isNotNull()).select(frame.id, frame["s"])


def _joined(spark: SparkSession) -> DataFrame:
    return spark.table("fact").join(spark.table("dim").where("name = 'n3'"), "k").where("g < 9").select("id", "name")


def _to_itself(spark: SparkSession) -> DataFrame:
    frame = spark.table("fact")
    one, other = frame.where("k = 1").alias("a"), frame.where("k = 2").alias("b")
    return one.join(other, "g").selectExpr("a.id AS x", "b.id AS y")


def _with_the_same(spark: SparkSession) -> DataFrame:
    frame = spark.table("fact").where("k = 1")
    return frame.union(frame).select("id")


def _grouped(spark: SparkSession) -> DataFrame:
    return spark.table("fact").where("s = 's1'").groupBy("k").count()


def _aggregated(spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import count_distinct, max, min

    rows = spark.table("fact").where("j = 3")
    return rows.agg(min("k").alias("l"), max("k").alias("h"), count_distinct("k").alias("n"))


def _distinct(spark: SparkSession) -> DataFrame:
    return spark.table("part").where("day > 3").select("k", "day").distinct()


def _without_duplicates(spark: SparkSession) -> DataFrame:
    return spark.table("fact").select("j", "k").where("k = 3").dropDuplicates()


def _windowed(spark: SparkSession) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql.functions import row_number

    numbered = row_number().over(Window.partitionBy("k").orderBy("id"))
    return spark.table("fact").withColumn("n", numbered).where("k = 3 AND n < 4").select("id", "n")


def _filled(spark: SparkSession) -> DataFrame:
    return spark.table("fact").fillna({"k": -1}).where("k = -1").select("id", "k")


def _sorted(spark: SparkSession) -> DataFrame:
    return spark.table("fact").where("k = 3").orderBy("id", ascending=False).limit(4).select("id")


def _semi(spark: SparkSession) -> DataFrame:
    return spark.table("fact").join(spark.table("plain").where("name = 'n3'"), "k", "left_semi").select("id")


def _of_a_partition(spark: SparkSession) -> DataFrame:
    return spark.read.table("part").where("day = 2").where("k = 3").select("id", "day")


def _counted(spark: SparkSession) -> DataFrame:
    return spark.table("fact").where("k = 3").groupBy().count()


TWINS: dict[str, tuple[Twin, str]] = {
    "columns": (_columns, "SELECT id, note FROM fact WHERE k IN (3, 4) AND NOT startswith(s, 's1')"),
    "chained": (_chained, "SELECT id, k + 1 AS y FROM fact WHERE k + 1 = 9 AND j < 5"),
    "between": (_between, "SELECT id, s FROM fact WHERE g BETWEEN 3 AND 5 AND s IS NOT NULL"),
    "joined": (_joined, "SELECT id, name FROM fact JOIN dim USING (k) WHERE name = 'n3' AND g < 9"),
    "joined to itself": (
        _to_itself,
        "SELECT a.id AS x, b.id AS y FROM fact a JOIN fact b ON a.g = b.g WHERE a.k = 1 AND b.k = 2",
    ),
    "united with the same": (
        _with_the_same,
        "SELECT id FROM fact WHERE k = 1 UNION ALL SELECT id FROM fact WHERE k = 1",
    ),
    "grouped": (_grouped, "SELECT k, count(1) AS count FROM fact WHERE s = 's1' GROUP BY k"),
    "aggregated": (_aggregated, "SELECT min(k) AS l, max(k) AS h, count(DISTINCT k) AS n FROM fact WHERE j = 3"),
    "distinct": (_distinct, "SELECT DISTINCT k, day FROM part WHERE day > 3"),
    "without duplicates": (_without_duplicates, "SELECT DISTINCT j, k FROM fact WHERE k = 3"),
    "windowed": (
        _windowed,
        "SELECT id, n FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM fact) "
        "WHERE k = 3 AND n < 4",
    ),
    "filled": (_filled, "SELECT id, coalesce(k, -1) AS k FROM fact WHERE coalesce(k, -1) = -1"),
    "sorted": (_sorted, "SELECT id FROM fact WHERE k = 3 ORDER BY id DESC LIMIT 4"),
    "semi-joined": (_semi, "SELECT id FROM fact WHERE k IN (SELECT k FROM plain WHERE name = 'n3')"),
    "of a partition": (_of_a_partition, "SELECT id, day FROM part WHERE day = 2 AND k = 3"),
    "counted": (_counted, "SELECT count(1) AS count FROM fact WHERE k = 3"),
}


@cache
def expected(spark: SparkSession, name: str) -> Answer:
    """Return plain Spark's result of a query, after comparing it with that of its twin in SQL."""
    twin, text = TWINS[name]
    wanted = by_spark(spark, text)
    assert not difference(by_spark(spark, twin), wanted, ordered=name == "sorted")
    return wanted


@pytest.mark.parametrize("strategy", ["", *FORCED])
@pytest.mark.parametrize("name", TWINS)
def test_a_frame_is_its_twin(tables: SparkSession, name: str, strategy: str) -> None:
    twin, text = TWINS[name]
    wanted = expected(tables, name)
    assert not difference(by_index(tables, twin, strategy), wanted, ordered=name == "sorted")
    assert told(tables, twin, strategy) == told(tables, text, strategy)


@pytest.mark.parametrize("strategy", ["", *FORCED])
def test_however_a_frame_is_asked(tables: SparkSession, strategy: str, tmp_path: Path) -> None:
    """Each action of a DataFrame, such as `count` and `collect`, makes a plan of its own."""
    wanted = by_spark(tables, "SELECT id, k, s FROM fact WHERE k = 3 AND j = 1 ORDER BY id")
    ids = [int(row.removeprefix("(").partition(",")[0]) for row in wanted.rows]
    with indexed(tables, strategy):
        frame = tables.table("fact").where("k = 3 AND j = 1").select("id", "k", "s")
        assert frame.count() == frame.count() == len(ids)
        assert sorted(row.id for row in frame.toLocalIterator()) == ids
        assert frame.orderBy("id").first().id == ids[0]
        assert [row.id for row in frame.orderBy("id").head(3)] == ids[:3]
        assert [row.id for row in frame.orderBy("id").take(3)] == ids[:3]
        assert sorted(frame.toArrow()["id"].to_pylist()) == ids
        assert not frame.isEmpty() and frame.where("id < 0").isEmpty()
        assert sorted(frame.rdd.map(lambda row: row.id).collect()) == ids
        frame.write.parquet(str(tmp_path / "out"))
        assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == ids
        kept = frame.mapInArrow(_even, frame.schema)
        assert sorted(row.id for row in kept.collect()) == [one for one in ids if one % 2 == 0]
        frame.createOrReplaceTempView("asked")
        assert tables.sql("SELECT count(*) AS n FROM asked WHERE s = 's1'").first().n == frame.where("s = 's1'").count()
        tables.catalog.dropTempView("asked")
        held = frame.localCheckpoint()
        assert held.count() == len(ids)


@pytest.mark.parametrize("in_subquery", [False, True])
def test_a_small_side_that_is_observed_tells_its_metrics(tables: SparkSession, in_subquery: bool) -> None:
    """It is executed with its query, and not before it."""
    from pyspark.sql.functions import count, lit

    def joined(*metrics: Column) -> DataFrame:
        small = tables.table("dim").where("name = 'n3'")
        observed = small.observe("seen", *metrics) if metrics else small
        if in_subquery:
            observed.createOrReplaceTempView("seen_keys")
            observed = tables.table("dim").where("k IN (SELECT k FROM seen_keys)")
        return tables.table("fact").join(observed, "k").select("id", "g")

    with indexed(tables, "rows"):
        found = joined(count(lit(1)).alias("n"))
        rows = len(found.collect())
        metrics = found._jdf.queryExecution().observedMetrics()
        assert metrics.contains("seen") and metrics.apply("seen").toString() == "[1]"
        assert rows == len(joined().collect())


def _even(batches: object) -> object:
    for batch in batches:  # type: ignore[attr-defined]
        yield pa.RecordBatch.from_pylist([row for row in batch.to_pylist() if row["id"] % 2 == 0], batch.schema)
