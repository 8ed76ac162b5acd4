"""Stores that fail: queries are Spark's own, in the same rows; builds end with one sentence and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.errors import BuildFailed, StoreError
from hive_bitmap.spark import session_cache
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing import spark_only
from tests.stores.conftest import S3, SECRET, forget
from tests.stores.servers import proxy
from tests.stores.servers.proxy import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stores


@pytest.fixture
def table(spark: SparkSession, home: str, s3: S3) -> Iterator[str]:
    """A table of two files on S3 with an index; nothing of it is remembered."""
    spark.sql(f"CREATE TABLE t (k int, id bigint) STORED AS PARQUET LOCATION '{home}/t'")
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS int), id FROM range(0, 1000, 1, 2)")
    hive_bitmap.build(spark, "t", ["k"], name="i")
    forget()
    spark_only._logged.clear()
    yield "t"
    s3.proxy.reset()


def ours(*fates: str, inside: str = "") -> object:
    """What happens to requests that do not come from Spark: these fates in turn, the last one for ever."""
    waiting = list(fates)

    def fate(request: Request) -> str:
        if not request.ours or inside not in request.target:
            return proxy.PASS
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return fate


@pytest.mark.parametrize("home", ["s3"], indirect=True)
@pytest.mark.parametrize("fate", [proxy.BUSY, proxy.FORBIDDEN, proxy.CUT, proxy.HALF])
def test_a_query_is_sparks_own_where_the_store_fails_us(
    spark: SparkSession, table: str, s3: S3, fate: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.proxy.fate = ours(fate)  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        plan = hive_bitmap.plan(spark, table, "k = 3")
        assert plan.strategy == "full scan" and "the store of s3a://" in plan.reason and SECRET not in plan.reason
        assert hive_bitmap.count(spark, table, "k = 3") == 200
        assert hive_bitmap.scan(spark, table, "k = 3").count() == 200
        assert sum(row["count"] for row in hive_bitmap.group_counts(spark, table, None, ["k"]).to_pylist()) == 1000
        [row] = hive_bitmap.sql(spark, f"SELECT count(*) AS n FROM {table} WHERE k = 3").collect()
        assert row.n == 200
    assert "damaged" not in caplog.text
    said = [record for record in caplog.records if "left to Spark alone" in record.message]
    assert said and len(said) == len({record.message for record in said})


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_a_store_that_fails_behind_the_plan_does_not_fail_the_query(spark: SparkSession, table: str, s3: S3) -> None:
    """The listing works, the index does not; then the index does, and what it holds cannot be read."""
    for inside in ("_manifest", "part-"):
        forget()
        s3.proxy.fate = ours(proxy.BUSY, inside=inside)  # type: ignore[assignment]
        assert hive_bitmap.count(spark, table, "k = 3") == 200
        assert "damaged" not in str(hive_bitmap.plan(spark, table, "k = 3"))


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_a_store_that_is_busy_for_a_moment_costs_a_moment(spark: SparkSession, table: str, s3: S3) -> None:
    s3.proxy.fate = ours(proxy.BUSY, proxy.CUT, proxy.PASS)  # type: ignore[assignment]
    assert hive_bitmap.plan(spark, table, "k = 3", count=True).strategy == "index only"


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_a_build_ends_with_a_sentence_and_leaves_what_was_published(spark: SparkSession, table: str, s3: S3) -> None:
    spark.sql("INSERT INTO t SELECT 7, id FROM range(10)")
    before = hive_bitmap.show(spark, table)
    wrote = [False]

    def no_writing(request: Request) -> str:
        wrote[0] |= request.ours and request.verb == "PUT"
        return proxy.FORBIDDEN if request.ours and request.verb == "PUT" else proxy.PASS

    s3.proxy.fate = no_writing
    with pytest.raises((BuildFailed, StoreError)) as raised:
        hive_bitmap.rebuild(spark, table)
    assert wrote[0] and "AccessDenied" in str(raised.value) and "\n" not in str(raised.value)
    s3.proxy.reset()
    assert [one.definition for one in hive_bitmap.show(spark, table)] == [one.definition for one in before]
    assert hive_bitmap.count(spark, table, "k = 7") == 10
    hive_bitmap.rebuild(spark, table)
    assert hive_bitmap.plan(spark, table, "k = 7", count=True).rows_selected == 10


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_a_drop_that_cannot_delete_says_what_is_left(spark: SparkSession, table: str, s3: S3) -> None:
    root = hive_bitmap.show(spark, table)[0].definition.root
    s3.proxy.fate = lambda request: proxy.FORBIDDEN if request.ours and "delete" in request.target else proxy.PASS
    with pytest.raises(StoreError, match="files of it are left in s3a://") as raised:
        hive_bitmap.drop(spark, table, "i")
    assert root in str(raised.value) and "AccessDenied" in str(raised.value)
    s3.proxy.reset()
    assert stores.exists(root) and hive_bitmap.show(spark, table) == []
    hive_bitmap.clean(spark, location=root)  # from now on nobody is taken to need it
    hive_bitmap.clean(spark, location=root, grace_seconds=0)
    assert not stores.exists(root)


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_settings_of_the_session_reach_the_store_and_a_strange_provider_is_named(
    spark: SparkSession, table: str
) -> None:
    name = "fs.s3a.aws.credentials.provider"
    spark.conf.set(f"hive_bitmap.stores.{name}", "com.example.Vault")
    session_cache.clear(session_settings._options)
    try:
        plan = hive_bitmap.plan(spark, table, "k = 3")
        assert "credential provider com.example.Vault of bucket warehouse is supported by Spark only" in plan.reason
        assert hive_bitmap.count(spark, table, "k = 3") == 200
        with pytest.raises(StoreError, match="provider com"):
            hive_bitmap.rebuild(spark, table, full=True)
    finally:
        spark.conf.unset(f"hive_bitmap.stores.{name}")
        session_cache.clear(session_settings._options)


def test_secrets_in_credential_files_are_read(spark: SparkSession, tmp_path: object) -> None:
    path = f"localjceks://file{tmp_path}/keys.jceks"
    jvm, conf = spark._jvm, spark._jvm.org.apache.hadoop.conf.Configuration()  # type: ignore[union-attr]
    conf.set("hadoop.security.credential.provider.path", path)
    shell = jvm.org.apache.hadoop.security.alias.CredentialShell()  # type: ignore[union-attr]
    shell.setConf(conf)
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 4)  # type: ignore[union-attr]
    for place, word in enumerate(["create", "fs.s3a.secret.key", "-value", "from-a-file"]):
        arguments[place] = word
    assert shell.run(arguments) == 0
    for name, found in (
        ("hadoop.security.credential.provider.path", "fs.s3a.secret.key"),
        ("fs.s3a.bucket.b.security.credential.provider.path", "fs.s3a.bucket.b.secret.key"),
    ):
        spark.conf.set(name, path)
        session_cache.clear(session_settings._options)
        try:
            assert session_settings.store_options(spark).get(found) == "from-a-file"
        finally:
            spark.conf.unset(name)
            session_cache.clear(session_settings._options)
