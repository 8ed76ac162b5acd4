"""Files that only queries see, refreshes that fail, and indexes that are dropped or built meanwhile."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.core.index import generation_names, markers, refresh_record, roots
from hive_bitmap.spark.following import table_refresh
from hive_bitmap.spark.following.refresh_queue import Outcome, RefreshKey
from tests.asking import under
from tests.spark.following.tables import SECONDS, make, require_followed

COUNT = "SELECT count(*) FROM t WHERE k = 3"


def folder_of(spark: SparkSession, table: str = "t") -> Path:
    [found] = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").collect()
    return Path(str(found.data_type).removeprefix("file:"))


def key_of(spark: SparkSession) -> RefreshKey:
    return RefreshKey(spark.catalog.currentDatabase(), "t", 1.0)


def copy_a_file(spark: SparkSession) -> Path:
    """Put a file into a partition as another program does, ten minutes ago."""
    folder = folder_of(spark) / "p=0" / "q=x y"
    source = next(folder.glob("*.parquet"))
    made = folder / "copied.parquet"
    shutil.copy(source, made)
    spark.sql("REFRESH TABLE t")
    return made


def unindexed(spark: SparkSession) -> int:
    [status] = hive_bitmap.show(spark, "t")
    return status.unindexed


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.contract
def test_a_query_that_finds_new_files_has_them_indexed(following: SparkSession) -> None:
    make(following)
    copy_a_file(following)
    assert unindexed(following) == 1 and hive_bitmap.refreshed(following, SECONDS) and unindexed(following) == 1
    time.sleep(1.1)  # the interval
    with under(following, {"hive_bitmap.strategy": "rows"}):
        said = hive_bitmap.explain(COUNT.replace("count(*)", "v"), following)
    [relation] = said.relations
    assert relation.unindexed.startswith("1 file (") and relation.unindexed.endswith("; a refresh is queued")
    assert relation.unindexed in str(said) and "not indexed yet" in said.engine
    require_followed(following)


def test_young_files_are_told_and_not_queued(following: SparkSession) -> None:
    make(following, refresh_interval="1 hour")
    copy_a_file(following)
    with under(following, {"hive_bitmap.strategy": "rows"}):
        [relation] = hive_bitmap.explain(COUNT.replace("count(*)", "v"), following).relations
    assert "not indexed yet" in relation.unindexed and "queued" not in relation.unindexed


def test_an_index_that_does_not_follow_is_left_as_it_is(following: SparkSession) -> None:
    make(following, auto_refresh=False)
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    with under(following, {"hive_bitmap.strategy": "rows"}):
        [relation] = hive_bitmap.explain(COUNT.replace("count(*)", "v"), following).relations
    assert hive_bitmap.refreshed(following, SECONDS) and unindexed(following) == 1 and relation.unindexed == ""
    hive_bitmap.set_properties(following, "t", "k", {"auto_refresh": "true", "refresh_interval": "1s"})
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    require_followed(following)


@pytest.mark.contract
def test_a_refresh_that_fails_is_told_and_tried_again(
    following: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(following, partitioned=False)
    [before] = hive_bitmap.show(following, "t")
    assert before.last_refresh is None
    root = Path(before.definition.root.removeprefix("file:"))
    monkeypatch.setattr("hive_bitmap.spark.following.refresh_queue.FIRST_PAUSE", 1.0)
    marker = (root / roots.MARKER).read_text()
    owner = {name: value for name, value in json.loads(marker).items() if name != "crc32"}
    markers.write(str(root), roots.MARKER, {**owner, "id": "0" * 32})  # the root is another index's now
    with caplog.at_level(logging.WARNING, "hive_bitmap"):
        following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
        assert following.table("t").count() == 301
        wait_until(lambda: "refreshing the indexes of" in caplog.text)
        failed = hive_bitmap.show(following, "t")[0].last_refresh
        assert failed is not None and "marker" in failed.error and failed.files == 0
        (root / roots.MARKER).write_text(marker)
        wait_until(lambda: unindexed(following) == 0)
        assert hive_bitmap.refreshed(following, SECONDS)
    assert caplog.text.count("refreshing the indexes of") == 1
    done = hive_bitmap.show(following, "t")[0].last_refresh
    assert done is not None and done.error == "" and done.files == 1
    assert done.author.host == os.uname().nodename and done.author.pid == os.getpid()
    require_followed(following)


def test_a_folder_that_cannot_be_written(following: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    make(following)
    monkeypatch.setattr("hive_bitmap.spark.following.refresh_queue.FIRST_PAUSE", 1.0)
    root = Path(hive_bitmap.show(following, "t")[0].definition.root.removeprefix("file:"))
    name = generation_names.new_name()
    (root / name).write_text("in the way")
    with monkeypatch.context() as patched:
        patched.setattr(generation_names, "new_name", lambda: name)
        following.sql("INSERT INTO t VALUES (3, 1, 7, 'a')")
        wait_until(lambda: error_of_last_refresh(following) != "")
        assert "the published index is untouched" in error_of_last_refresh(following) and unindexed(following) == 1
        assert following.sql(COUNT).collect() == [(44,)]
        (root / name).unlink()
    wait_until(lambda: unindexed(following) == 0)
    require_followed(following)


def error_of_last_refresh(spark: SparkSession) -> str:
    last = hive_bitmap.show(spark, "t")[0].last_refresh
    return "" if last is None else last.error


def test_a_key_column_that_is_gone(following: SparkSession) -> None:
    make(following, partitioned=False)
    hive_bitmap.disable(following)  # so that the index stays
    following.sql("DROP TABLE t")
    following.sql("CREATE TABLE t (other INT) USING parquet")
    hive_bitmap.enable(following)
    following.sql("INSERT INTO t VALUES (3)")
    wait_until(lambda: error_of_last_refresh(following) != "")
    assert "k" in error_of_last_refresh(following)
    assert following.sql("SELECT count(*) FROM t WHERE other = 3").collect() == [(1,)]
    following.sql("DROP INDEX k ON t")
    assert hive_bitmap.refreshed(following, SECONDS)


def test_indexes_with_different_intervals(following: SparkSession) -> None:
    make(following)
    hive_bitmap.build(following, "t", ["v"], auto_refresh=True, refresh_interval="1 hour")
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    assert hive_bitmap.refreshed(following, SECONDS)  # of both
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    wait_until(lambda: hive_bitmap.show(following, "t")[0].unindexed == 0)
    often, rarely = hive_bitmap.show(following, "t")
    assert often.unindexed == 0 and rarely.unindexed == 1  # the second one has to wait for an hour
    assert not hive_bitmap.refreshed(following, 0)
    hive_bitmap.drop(following, "t", "v")


def test_dropping_what_is_queued(following: SparkSession) -> None:
    make(following)
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    following.sql("DROP INDEX k ON t")
    assert hive_bitmap.refreshed(following, SECONDS) and hive_bitmap.show(following, "t") == []
    hive_bitmap.build(following, "t", ["k"], auto_refresh=True, refresh_interval="1s")
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    following.sql("DROP TABLE t")
    assert hive_bitmap.refreshed(following, SECONDS)
    assert table_refresh.refresh_followers(following, key_of(following), None) is Outcome.IN_VAIN
    assert not [one.name for one in following.catalog.listTables() if not one.isTemporary]


def test_rebuilds_beside_refreshes(following: SparkSession) -> None:
    make(following)
    for number in range(4):
        following.sql(f"INSERT INTO t VALUES (1, 1, {number}, 'a')")
        following.sql("ALTER INDEX k ON t REBUILD")
    require_followed(following)
    assert hive_bitmap.clean(following, "t", grace_seconds=0) is not None
    require_followed(following)


def test_dropping_an_index_removes_its_record(following: SparkSession) -> None:
    make(following)
    following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
    require_followed(following)
    root = Path(hive_bitmap.show(following, "t")[0].definition.root.removeprefix("file:"))
    assert (root / refresh_record.NAME).is_file()
    following.sql("DROP INDEX k ON t")
    assert not root.exists()


@pytest.mark.contract
def test_a_refresh_is_the_applications_work(following: SparkSession) -> None:
    """What the session that wrote has set of who reads, who is trusted, and which Python runs, is for itself."""
    make(following, partitioned=False)
    of_session = {
        "hive_bitmap.engine_reads_only": "true",
        "spark.hive_bitmap.trusted_owners": "somebody",
        "spark.sql.execution.pyspark.python": "/bin/false",
    }
    with under(following, of_session):
        following.sql("INSERT INTO t SELECT 1, 1, 7, 'a'")
        assert hive_bitmap.refreshed(following, SECONDS)
    assert unindexed(following) == 0


class Late:
    """A listener of Spark's that has each listener of a session hear of its statements late, once `may_go` is set."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]

    def __init__(self) -> None:
        self.may_go = Event()

    def onSuccess(self, function: str, execution: object, nanoseconds: int) -> None:  # noqa: N802 - as in Java
        self.may_go.wait(SECONDS)

    def onFailure(self, function: str, execution: object, error: object) -> None: ...  # noqa: N802


@pytest.fixture
def late(following: SparkSession) -> Iterator[Late]:
    listeners, late = following._jsparkSession.listenerManager(), Late()
    listeners.register(late)
    yield late
    late.may_go.set()
    listeners.unregister(late)


@pytest.mark.parametrize("before", ["true", "false"])
@pytest.mark.parametrize("name", ["hive_bitmap.enabled", "hive_bitmap.auto_refresh"])
def test_what_a_session_sets_after_a_write_does_not_count(
    following: SparkSession, late: Late, name: str, before: str
) -> None:
    late.may_go.set()
    make(following, partitioned=False)
    late.may_go.clear()
    following.sql("SHOW TABLES")
    with under(following, {name: before}):
        following.sql("INSERT INTO t SELECT 1, 1, 7, 'a'")
    with under(following, {name: {"true": "false", "false": "true"}[before]}):
        late.may_go.set()
        assert hive_bitmap.refreshed(following, SECONDS)
    assert unindexed(following) == (0 if before == "true" else 1)
