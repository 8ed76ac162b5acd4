"""Plain `spark.sql` on tables of stores: the index is used, by whichever strategy, or Spark's own plan says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.stores import requests
from hive_bitmap.spark.catalyst.explanation import Explanation
from tests.stores.conftest import S3, SECRET, forget
from tests.stores.servers import proxy
from tests.stores.servers.proxy import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.turn(2)]
FETCH, COUNT = "SELECT * FROM t WHERE k = 3", "SELECT count(*) FROM t WHERE k = 3"


def make(spark: SparkSession, home: str) -> None:
    """Four files; each key lies in one of them."""
    spark.sql(f"CREATE TABLE t (k int, id bigint) STORED AS PARQUET LOCATION '{home}/t'")
    spark.sql("INSERT INTO t SELECT CAST(id DIV 1000 AS int), id FROM range(0, 4000, 1, 4)")
    hive_bitmap.build(spark, "t", ["k"], name="i")


@pytest.fixture
def table(spark: SparkSession, home: str) -> Iterator[None]:
    make(spark, home)
    yield from used(spark)


@pytest.fixture(scope="module")
def made(spark: SparkSession, shared_home: str) -> str:
    make(spark, shared_home)
    return shared_home.rpartition("/")[2]


@pytest.fixture
def same_table(spark: SparkSession, made: str) -> Iterator[None]:
    """That of all tests that change nothing."""
    spark.catalog.setCurrentDatabase(made)
    yield from used(spark)


def used(spark: SparkSession) -> Iterator[None]:
    """Indexes are used, and nothing is known of them."""
    forget()
    hive_bitmap.enable(spark)
    yield
    for name in ("strategy", "enabled", "driver_read_bytes"):
        spark.conf.unset(f"hive_bitmap.{name}")


def alone(spark: SparkSession, query: str) -> list[str]:
    spark.conf.set("hive_bitmap.enabled", "false")
    found = sorted(map(str, spark.sql(query).collect()))
    spark.conf.unset("hive_bitmap.enabled")
    return found


@pytest.mark.parametrize("strategy", ["blocks", "files", "rows"])
def test_rows_are_narrowed(spark: SparkSession, same_table: None, strategy: str) -> None:
    spark.conf.set("hive_bitmap.strategy", strategy)
    [relation] = hive_bitmap.explain(FETCH, spark).relations
    assert (relation.action, relation.strategy, relation.files_selected) == ("narrowed", strategy, 1)
    assert sorted(map(str, spark.sql(FETCH).collect())) == alone(spark, FETCH)


@pytest.mark.parametrize("strategy", ["blocks", "files", "rows"])
def test_files_that_were_replaced_behind_a_plan_are_read_as_they_are(
    spark: SparkSession, home: str, table: None, strategy: str
) -> None:
    """Neither a file that was needed nor one that was not may be taken for what it was, in the plan made before."""
    spark.conf.set("hive_bitmap.strategy", strategy)
    kept = spark.sql(FETCH)
    assert kept.count() == 1000
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{home}/t")  # type: ignore[union-attr]
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    names = sorted(f.getPath().getName() for f in system.listStatus(path) if "part-" in f.getPath().getName())
    spark.sql(f"CREATE TABLE other (k int, id bigint) STORED AS PARQUET LOCATION '{home}/other'")
    spark.sql("INSERT INTO other SELECT 3, id FROM range(0, 10, 1, 1)")
    folder = jvm.org.apache.hadoop.fs.Path(f"{home}/other")  # type: ignore[union-attr]
    [new] = [f.getPath() for f in system.listStatus(folder) if "part-" in f.getPath().getName()]
    target = jvm.org.apache.hadoop.fs.Path(f"{home}/t/{names[0]}")  # type: ignore[union-attr]
    system.delete(target, False)
    system.rename(new, target)
    spark.sql("REFRESH TABLE t")
    assert spark.sql(FETCH).count() == 1010
    assert hive_bitmap.count(spark, "t", "k = 3") == 1010
    spark.conf.unset("hive_bitmap.strategy")
    assert spark.sql(COUNT).collect()[0][0] == 1010


def test_an_aggregation_is_answered_with_a_listing_and_its_requests_are_told(
    spark: SparkSession, shared_home: str, same_table: None
) -> None:
    spark.conf.set("hive_bitmap.strategy", "index only")
    first = hive_bitmap.explain(COUNT, spark, analyze=True)
    assert [relation.action for relation in first.relations] == ["answered"]
    assert first.requests.by_kind["list"] == 1 and "asked stores" in str(first)
    warm = hive_bitmap.explain(COUNT, spark, analyze=True)
    if shared_home.startswith("s3a:"):
        assert warm.requests.by_kind == {"list": 1}
    with requests.measured() as measured:
        assert spark.sql(COUNT).collect()[0][0] == 1000
    assert measured.requests.by_kind["list"] == 1
    assert [str(row) for row in spark.sql(COUNT).collect()] == alone(spark, COUNT)


@pytest.mark.parametrize("shared_home", ["s3"], indirect=True)
def test_what_tasks_ask_is_told_with_the_rest(spark: SparkSession, same_table: None, s3: S3) -> None:
    spark.conf.set("hive_bitmap.strategy", "rows")
    spark.conf.set("hive_bitmap.driver_read_bytes", "0")
    s3.proxy.seen.clear()
    explained = hive_bitmap.explain(FETCH, spark, analyze=True)
    assert explained.rows == 1000
    assert explained.requests.total == len(s3.proxy.ours())
    by_tasks = explained.task_requests
    assert by_tasks.by_kind["read"] >= 1 and by_tasks.bytes_read > 1000
    assert f"; {by_tasks.total} of them by tasks" in str(explained) and "not counted" not in str(explained)


@pytest.mark.parametrize("shared_home", ["s3"], indirect=True)
def test_what_spark_asks_is_told_as_far_as_it_is_known(spark: SparkSession, same_table: None) -> None:
    spark.conf.set("hive_bitmap.strategy", "blocks")
    explained = hive_bitmap.explain(FETCH, spark, analyze=True)
    assert explained.rows == 1000 and not explained.task_requests.total
    assert "not counted: requests of Spark to read 1 of 4 blocks in 1 of 4 files" in str(explained)


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_files_of_which_nothing_is_needed_cost_one_listing(spark: SparkSession, table: None, s3: S3) -> None:
    """In tasks, too: what each of them asks about a file is how it is read, not whether.

    The rule is on from the start, so Spark has read no other file whose requests could be taken for this query's.
    """
    spark.conf.set("hive_bitmap.strategy", "blocks")
    spark.sql(FETCH).collect()
    frame = spark.sql(FETCH)
    [relation] = hive_bitmap.explain(frame).relations
    assert relation.action == "narrowed", relation
    s3.proxy.seen.clear()
    assert len(frame.collect()) == 1000
    asked = [f"{request.verb} {request.target}" for request in s3.proxy.seen]
    assert len({line.rpartition("/")[2] for line in asked if "/t/part-" in line}) == 1, asked


@pytest.mark.parametrize("shared_home", ["s3"], indirect=True)
@pytest.mark.parametrize("fate", [proxy.BUSY, proxy.FORBIDDEN, proxy.CUT])
def test_a_store_that_fails_us_leaves_sparks_own_plan(spark: SparkSession, same_table: None, s3: S3, fate: str) -> None:
    truth = {query: alone(spark, query) for query in (FETCH, COUNT)}
    spark.conf.set("hive_bitmap.strategy", "blocks")  # else so small a table is not looked into
    spark.sql("REFRESH TABLE t")
    forget()
    s3.proxy.fate = failing(fate)
    for query in (FETCH, COUNT):
        explained: Explanation = hive_bitmap.explain(query, spark)
        [relation] = explained.relations
        assert (relation.action, relation.reason) == ("left alone", "store"), relation
        assert "the store of s3a://" in relation.detail and SECRET not in str(explained)
        assert sorted(map(str, spark.sql(query).collect())) == truth[query]
        assert "NarrowedScan" not in explained.engine


def failing(fate: str) -> Callable[[Request], str]:
    return lambda request: fate if request.ours else proxy.PASS
