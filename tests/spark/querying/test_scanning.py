"""`hive_bitmap.scan` is Spark's own DataFrame over the table, which Spark's checks see and its caches follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import hive_bitmap
from hive_bitmap.errors import InvalidPredicate, NotFound, Unsupported
from hive_bitmap.spark.catalyst import enabling
from tests.asking import frame, indexed, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(2)

STRATEGIES = (None, "rows", "blocks", "files", "full scan")
QUERY = "SELECT * FROM t WHERE k = 7"


@pytest.fixture(params=["parquet", "orc"])
def t(request: pytest.FixtureRequest, spark: SparkSession, database: str) -> SparkSession:
    """A session with the table `t`, of which `k` is indexed; 20 rows have k = 7."""
    spark.sql(f"CREATE TABLE t USING {request.param} AS SELECT CAST(id % 50 AS INT) k, id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    return spark


@pytest.mark.parametrize("strategy", contract(STRATEGIES, "blocks"))
def test_a_table_is_not_overwritten_by_its_own_rows(t: SparkSession, strategy: str | None) -> None:
    """Spark refuses that before it deletes a file."""
    found = hive_bitmap.scan(t, "t", "k = 7", strategy=strategy)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        found.write.insertInto("t", overwrite=True)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        found.write.mode("overwrite").saveAsTable("t")
    found.createOrReplaceTempView("own_rows")
    try:
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
            t.sql("INSERT OVERWRITE t SELECT * FROM own_rows")
    finally:
        t.catalog.dropTempView("own_rows")
    assert t.table("t").count() == 1000


@pytest.mark.parametrize("strategy", contract(STRATEGIES, "rows"))
def test_a_frame_sees_later_rows_of_the_session(t: SparkSession, strategy: str | None) -> None:
    found = hive_bitmap.scan(t, "t", "k = 7", strategy=strategy)
    assert found.count() == 20
    t.sql("INSERT INTO t VALUES (7, -1)")
    assert found.count() == 21
    found.cache()
    try:
        assert found.count() == 21
        t.sql("INSERT INTO t VALUES (7, -2)")
        assert found.count() == 22
    finally:
        found.unpersist()


@pytest.mark.parametrize("strategy", contract(STRATEGIES[1:], "rows"))
def test_the_chosen_strategy_is_that_of_one_frame(t: SparkSession, strategy: str) -> None:
    with under(t, {"hive_bitmap.strategy": "blocks"}):
        found = hive_bitmap.scan(t, "t", "k = 7", ["id"], strategy=strategy)
        [told] = hive_bitmap.explain(found.where("id > 3")).relations
        assert told.strategy == strategy or (strategy, told.action) == ("full scan", "left alone")
        [other] = hive_bitmap.explain(frame(t, QUERY)).relations
        assert other.strategy == "blocks"
        joined = frame(t, QUERY).join(hive_bitmap.scan(t, "t", "k = 7", strategy=strategy), "id")
        assert joined.count() == 20


@pytest.mark.contract
def test_only_the_frame_of_a_scan_uses_indexes_in_a_session_that_is_not_enabled(t: SparkSession) -> None:
    hive_bitmap.disable(t)
    with under(t, {"hive_bitmap.strategy": "blocks"}):
        found = hive_bitmap.scan(t, "t", "k = 7").groupBy().count()
        assert found.collect() == [(20,)] and narrowed(found)
        assert not narrowed(frame(t, QUERY)) and not enabling.is_enabled(t)
        joined = hive_bitmap.scan(t, "t", "k = 7").join(t.table("t").where("k = 7"), "id")
        assert joined.count() == 20 and narrowed(joined)
    hive_bitmap.enable(t)
    with indexed(t, "blocks"):
        assert narrowed(frame(t, QUERY))
    assert not narrowed(frame(t, QUERY))


def narrowed(found: DataFrame) -> bool:
    plan = found._jdf.queryExecution().executedPlan().toString()
    return "bitmap index" in plan or "IndexAnswer" in plan


def test_what_is_refused(t: SparkSession) -> None:
    with pytest.raises(NotFound, match="strategy"):
        hive_bitmap.scan(t, "t", "k = 7", strategy="fast")
    with pytest.raises(Unsupported, match="index only"):
        hive_bitmap.scan(t, "t", "k = 7", strategy="index only")
    with under(t, {"hive_bitmap.engine_reads_only": "true"}), pytest.raises(Unsupported, match="cannot answer"):
        hive_bitmap.scan(t, "t", "k = 7", strategy="rows")
    with pytest.raises(InvalidPredicate):
        hive_bitmap.scan(t, "t", "k = ")
    with pytest.raises(NotFound, match="nowhere"):
        hive_bitmap.scan(t, "nowhere", "k = 7")
    with pytest.raises(NotFound, match="no column 'other'"):
        hive_bitmap.scan(t, "t", "k = 7", ["other"])


def test_with_the_jar_of_another_version_it_is_sparks_own(
    t: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(spark: SparkSession) -> None:
        raise Unsupported("the JVM has the jar of another version of hive_bitmap")

    monkeypatch.setattr(enabling.jvm_bridge, "open_port", refused)
    monkeypatch.setattr(enabling, "_is_answered_here", lambda spark: False)
    assert hive_bitmap.scan(t, "t", "k = 7").count() == hive_bitmap.count(t, "t", "k = 7") == 20
    plan = hive_bitmap.plan(t, "t", "k = 7")
    assert plan.strategy == "full scan" and "the jar of another version" in plan.reason
    with pytest.raises(Unsupported, match="another version"):
        hive_bitmap.scan(t, "t", "k = 7", strategy="rows")
    assert "the scan of t does not use indexes: the JVM has the jar of another version" in caplog.text


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_columns_of_the_table_are_columns_of_its_scan(t: SparkSession, strategy: str | None) -> None:
    base, found = t.table("t"), hive_bitmap.scan(t, "t", "k = 7", strategy=strategy)
    assert found.drop(base.id).columns == ["k"]
    assert found.where(base.id == 57).count() == 1
    assert found.select(base.id).count() == 20
    numbers = t.range(100).toDF("x")
    assert found.join(numbers, base.id == numbers.x).count() == 2
    twice = found.alias("a").join(hive_bitmap.scan(t, "t", "k < 9", strategy=strategy).alias("b"), "id")
    assert twice.count() == 20


CALLS = {
    "count": lambda spark: hive_bitmap.count(spark, "t", "k = 7"),
    "plan": lambda spark: hive_bitmap.plan(spark, "t", "k = 7"),
    "scan": lambda spark: hive_bitmap.scan(spark, "t", "k = 7", strategy="rows"),
    "group_counts": lambda spark: hive_bitmap.group_counts(spark, "t", None, ["k"]),
    "rebuild": lambda spark: hive_bitmap.rebuild(spark, "t", full=True),
}


@pytest.mark.parametrize("call", CALLS)
def test_earlier_frames_follow_a_write_as_without_the_call(t: SparkSession, call: str) -> None:
    before, scanned = t.table("t"), hive_bitmap.scan(t, "t", "k = 7")
    assert before.where("k = 7").count() == 20
    CALLS[call](t)
    t.sql("INSERT INTO t SELECT 7, -1L")
    assert before.where("k = 7").count() == scanned.count() == t.table("t").where("k = 7").count() == 21


def test_an_earlier_frame_survives_an_overwrite_after_a_count(t: SparkSession) -> None:
    before = t.table("t")
    before.count()
    hive_bitmap.count(t, "t", "k = 7")
    t.sql("INSERT OVERWRITE t SELECT 7, -1L")
    assert before.select("id").collect() == [(-1,)]
