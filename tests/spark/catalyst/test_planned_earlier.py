"""A query that was planned before the table was written is answered as plain Spark answers it.

A plan of Spark's holds files in one of three ways: those of a table without partitions in a listing that a write of the
session renews, those of a partitioned table not before it is executed, unless a condition on partitions asks for them,
and those that a SerDe of Hive's reads not before it is executed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import OFF, STRICT, Answer, answer, by_spark, difference, indexed, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(4)

COLUMNS = "id BIGINT, k BIGINT, pad STRING"
TABLES = {
    "of text": f"CREATE TABLE t ({COLUMNS}, p BIGINT) STORED AS TEXTFILE",
    "of Spark": f"CREATE TABLE t ({COLUMNS}, p BIGINT) USING parquet",
    "of Spark, partitioned": f"CREATE TABLE t ({COLUMNS}, p BIGINT) USING parquet PARTITIONED BY (p)",
    "of Hive, partitioned": f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (p BIGINT) STORED AS PARQUET",
}
ROW = "SELECT id, IF(id < 2000, id, 5), CAST(id AS STRING), id % 3"
SOME = f"{ROW} FROM"
WRITES = {
    "appended to": f"INSERT INTO t {SOME} range(5000, 5010)",
    "overwritten": f"INSERT OVERWRITE t {SOME} range(5000, 5010)",
    "written twice": f"INSERT OVERWRITE t {SOME} range(5000, 5010); INSERT OVERWRITE t {SOME} range(5000, 5020)",
    "appended to twice at once": f"FROM range(5000, 5010) INSERT INTO t {ROW} INSERT INTO t {ROW}",
    "emptied": "TRUNCATE TABLE t",
    "emptied and appended to": f"TRUNCATE TABLE t; INSERT INTO t {SOME} range(5000, 5010)",
}
DROPS = {"without a partition": "ALTER TABLE t DROP PARTITION (p = 1)"}
CASES = [(kind, write) for kind in TABLES for write in {**WRITES, **(DROPS if "partitioned" in kind else {})}]
ROWS = "SELECT id, pad FROM t WHERE k = 5"
COUNT = "SELECT k, count(*) FROM t WHERE k < 9 GROUP BY k"
QUERIES = (
    ROWS,
    COUNT,
    f"SELECT 'index', count(pad) FROM ({ROWS}) UNION ALL SELECT 'none', count(pad) FROM t WHERE pad < 'a' AND id >= 0",
    f"{ROWS} AND p = 1",
    "SELECT p, count(*) FROM t WHERE p = 1 AND k = 5 OR p = 2 AND k < 7 GROUP BY p",
)
WAYS = {
    "left alone": {"strategy": "full scan"},
    "index only": {"strategy": "index only"},
    "rows": {"strategy": "rows"},
    "rows by tasks": {"strategy": "rows", "driver_read_bytes": "0"},
    "blocks": {"strategy": "blocks"},
    "files": {"strategy": "files"},
}


def planned(spark: SparkSession, query: str) -> DataFrame:
    found = spark.sql(query)
    found._jdf.queryExecution().executedPlan()
    return found


def planned_by_index(spark: SparkSession, kind: str, query: str, way: str) -> DataFrame:
    """A query, planned; asserts that the way was taken where it can be: of text, a SerDe reads blocks."""
    with under(spark, settings_of(way)):
        found = planned(spark, query)
    plan = str(found._jdf.queryExecution().executedPlan())
    if query == COUNT and way == "index only":
        assert "IndexAnswer" in plan
    elif query == ROWS and way != "index only":
        assert ("NarrowedScan" in plan) == (way == "blocks" if kind == "of text" else way != "left alone")
    return found


@pytest.mark.parametrize(
    ("kind", "write"), contract(CASES, ("of text", "overwritten"), ("of Spark, partitioned", "appended to"))
)
def test_what_the_session_wrote_is_seen_as_in_plain_spark(
    spark: SparkSession, database: str, pytestconfig: pytest.Config, kind: str, write: str
) -> None:
    make(spark, kind)
    ways = list(itertools.product(WAYS, QUERIES))
    if not pytestconfig.getoption("--long"):  # each way to ask each query of each kind, after one write or two
        ways = ways[CASES.index((kind, write)) % 3 :: 3]
    with indexed(spark):
        found = {(way, query): planned_by_index(spark, kind, query, way) for way, query in ways}
        with under(spark, OFF):
            plain = {query: planned(spark, query) for query in QUERIES}
        for statement in {**WRITES, **DROPS}[write].split("; "):
            spark.sql(statement)
        wrong = [
            f"{way}: {query}: {told}" for (way, query), one in found.items() if (told := compared(one, plain[query]))
        ]
    assert not wrong, "\n".join(wrong)


OTHER_VALUES = {
    "renamed": "ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 3)",
    "added again": "ALTER TABLE t DROP PARTITION (p = 2); ALTER TABLE t ADD PARTITION (p = 3) LOCATION '{place}/p=2'",
}


@pytest.mark.parametrize("change", OTHER_VALUES)
def test_a_partition_whose_files_get_another_value(
    spark: SparkSession, database: str, tmp_path: Path, change: str
) -> None:
    """The files, and their order, stay the same."""
    spark.sql(f"CREATE TABLE t ({COLUMNS}, p BIGINT) USING parquet PARTITIONED BY (p) LOCATION '{tmp_path}/t'")
    fill(spark)
    queries = ("SELECT id, p FROM t WHERE k = 5", "SELECT p, count(*) FROM t WHERE k < 9 GROUP BY p")
    with indexed(spark):
        found = {}
        for way in WAYS:
            with under(spark, settings_of(way)):
                found.update({(way, query): planned(spark, query) for query in queries})
        assert "IndexAnswer" in str(found["index only", queries[1]]._jdf.queryExecution().executedPlan())
        for statement in OTHER_VALUES[change].format(place=f"{tmp_path}/t").split("; "):
            spark.sql(statement)
        wanted = {query: by_spark(spark, query) for query in queries}
        wrong = [
            f"{way}: {query}: {told}"
            for (way, query), one in found.items()
            if (told := difference(answer(one), wanted[query]))
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_was_looked_up_before_an_earlier_write(spark: SparkSession, database: str, kind: str) -> None:
    """What Spark remembers of its files is no longer told of writes."""

    def seen(settings: Mapping[str, str]) -> list[Answer]:
        make(spark, kind)
        spark.table("t").createOrReplaceTempView("of_table")
        spark.sql(f"INSERT INTO t {SOME} range(3000, 3010)")
        with under(spark, settings):
            found = [planned(spark, query.replace(" t ", " of_table ")) for query in QUERIES[:3]]
        spark.sql(f"INSERT INTO t {SOME} range(5000, 5010)")
        answers = [answer(one) for one in found]
        spark.catalog.dropTempView("of_table")
        spark.sql("DROP TABLE t")
        return answers

    with indexed(spark):
        wanted = seen(OFF)
        wrong = [
            f"{way}: {told}"
            for way in WAYS
            for pair in zip(seen(settings_of(way)), wanted, strict=True)
            if (told := difference(*pair))
        ]
    assert not wrong, "\n".join(wrong)


def test_what_others_wrote_to_a_table_that_a_serde_reads(spark: SparkSession, database: str) -> None:
    make(spark, "of text")
    others = spark.newSession()
    others.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    with indexed(spark):
        found = planned_by_index(spark, "of text", ROWS, "blocks")
        with under(spark, OFF):
            plain = planned(spark, ROWS)
        others.sql(f"INSERT OVERWRITE t {SOME} range(5000, 5010)")
        assert len(plain.collect()) == 10
        assert not compared(found, plain)


def test_what_the_session_was_writing(spark: SparkSession, database: str) -> None:
    """A query that is planned while an INSERT of the same session is running, and executed when it has ended."""
    make(spark, "of text")
    sleeps = "coalesce(java_method('java.lang.Thread', 'sleep', 200L + id % 2), 'x') <> ''"
    with indexed(spark), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(spark.sql, f"INSERT INTO t {SOME} range(5000, 5010) WHERE {sleeps}")
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            assert not writing.done()
        found = planned_by_index(spark, "of text", ROWS, "blocks")
        writing.result()
        assert len(found.collect()) == 50


def test_what_is_cached_when_it_is_first_asked_for(spark: SparkSession, database: str) -> None:
    make(spark, "of text")
    with indexed(spark), under(spark, settings_of("blocks")):
        found = spark.sql(ROWS).cache()
        found._jdf.queryExecution().executedPlan()
        spark.sql(f"INSERT INTO t {SOME} range(5000, 5010)")
        assert len(found.collect()) == 50
        found.unpersist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("query", [ROWS, COUNT])
def test_files_that_are_added_by_their_path(spark: SparkSession, database: str, query: str, way: str) -> None:
    """That renews nothing that a session has cached; Spark lists the files when it first executes a query."""
    make(spark, "of Spark, partitioned")
    [place] = spark.sql("DESCRIBE FORMATTED t").where("col_name = 'Location'").collect()
    others = spark.newSession()
    others.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    others.conf.set("hive_bitmap.enabled", "false")
    with indexed(spark):
        spark.catalog.refreshTable("t")
        earlier = planned_by_index(spark, "of Spark, partitioned", query, way)
        spark.sql("SELECT id, 5L AS k, 'new' AS pad FROM range(5000, 5010)").write.mode("append").parquet(
            f"{place[1]}/p=1"
        )
        later = planned_by_index(spark, "of Spark, partitioned", query, way)
        wanted = answer(others.sql(query))
        assert not difference(answer(earlier), wanted) and not difference(answer(later), wanted)


def test_a_view_of_another_session(spark: SparkSession, database: str) -> None:
    """The listing that a global view keeps is its own session's, which hears nothing of a write."""
    make(spark, "of Spark, partitioned")
    name = f"seen_of_{database}"
    spark.table("t").createOrReplaceGlobalTempView(name)
    others = spark.newSession()
    others.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    query = ROWS.replace(" t ", f" global_temp.{name} ")
    with indexed(spark):
        for setting, value in STRICT.items():
            others.conf.set(setting, value)
        found = planned(others, query)
        others.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
        others.sql("INSERT INTO t SELECT id, 5, 'new', 77 FROM range(5000, 5010)")
        assert len(found.collect()) == 50
    spark.catalog.dropGlobalTempView(name)


def settings_of(way: str) -> Mapping[str, str]:
    return {**STRICT, **{f"hive_bitmap.{name}": value for name, value in WAYS[way].items()}}


def make(spark: SparkSession, kind: str) -> None:
    """Make the table `t`, with an index."""
    spark.sql(TABLES[kind])
    fill(spark)


def fill(spark: SparkSession) -> None:
    """Insert the rows of the table `t`, and make its index."""
    with under(spark, {"hive.exec.dynamic.partition.mode": "nonstrict"}):
        spark.sql("INSERT INTO t SELECT id, id DIV 40, CAST(id AS STRING), id % 3 FROM range(0, 2000, 1, 4)")
    hive_bitmap.build(spark, "t", ["k"])


def compared(found: DataFrame, plain: DataFrame) -> str:
    """How a frame's answer differs from that of another, or why it fails; nothing is wanted if that one fails."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        wanted = answer(plain)
    except (Py4JJavaError, PySparkException):
        return ""
    try:
        return difference(answer(found), wanted)
    except (Py4JJavaError, PySparkException) as e:
        return str(e)[:300]
