"""The life of an index on real stores: whatever is done to the table, answers are Spark's own, and requests are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.index.generation_names import EMPTY_FOLDER
from hive_bitmap.core.stores import options, requests
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.metastore import session_settings
from tests.stores.conftest import SECRET, forget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.turn(2)]
PREDICATES = [
    "k = 3",
    "k = 99",
    "k <> 3 AND id % 7 = 0",
    "k IN (1, 2) OR p = 'b c'",
    "k IS NULL",
    "p = 'ü+%' AND k > 1",
]


def make(spark: SparkSession, format: str = "PARQUET") -> None:
    spark.sql(f"CREATE TABLE t (k int, id bigint) PARTITIONED BY (p string) STORED AS {format}")
    for number, value in enumerate(("a", "b c", "ü+%")):
        insert(spark, value, number * 1000)


def insert(spark: SparkSession, value: str, first: int, word: str = "INTO") -> None:
    rows = f"SELECT IF(id % 11 = 0, NULL, CAST(id % 5 AS int)), id FROM range({first}, {first + 1000}, 1, 2)"
    spark.sql(f"INSERT {word} t PARTITION (p = '{value}') {rows}")


def check(spark: SparkSession, step: int, strategy: str | None = None) -> None:
    """Two of the predicates, others at each step, and a group."""
    for predicate in (PREDICATES[step % 6], PREDICATES[(step + 3) % 6]):
        truth = sorted(map(str, spark.sql(f"SELECT k, id, p FROM t WHERE {predicate}").collect()))
        assert hive_bitmap.count(spark, "t", predicate) == len(truth), predicate
        found = hive_bitmap.scan(spark, "t", predicate, ["k", "id", "p"], strategy=strategy).collect()
        assert sorted(map(str, found)) == truth, predicate
    groups = {(row["k"], row["n"]) for row in spark.sql("SELECT k, count(*) n FROM t GROUP BY k").collect()}
    counted = hive_bitmap.group_counts(spark, "t", None, ["k"]).to_pylist()
    assert {(row["k"], row["count"]) for row in counted} == groups


@pytest.mark.parametrize(("home", "format"), [("s3", "PARQUET"), ("hdfs", "PARQUET"), ("s3", "ORC")], indirect=["home"])
def test_an_index_lives_and_dies_with_its_table(spark: SparkSession, home: str, format: str) -> None:
    make(spark, format)
    hive_bitmap.build(spark, "t", ["k"], name="i")
    check(spark, 0, "rows" if format == "PARQUET" else "blocks")
    insert(spark, "a", 5000)
    check(spark, 1)
    hive_bitmap.rebuild(spark, "t")
    insert(spark, "b c", 7000, "OVERWRITE TABLE")
    check(spark, 2)
    hive_bitmap.rebuild(spark, "t", compact=True)
    assert hive_bitmap.plan(spark, "t", "k = 3", count=True).strategy == "index only"
    check(spark, 3)
    spark.sql("ALTER TABLE t DROP PARTITION (p = 'ü+%')")
    hive_bitmap.rebuild(spark, "t")
    check(spark, 4)
    assert not [problem for report in hive_bitmap.verify(spark, "t") for problem in report.problems]
    index_table = next(name.tableName for name in spark.sql("SHOW TABLES").collect() if name.tableName != "t")
    root = hive_bitmap.show(spark, "t")[0].definition.root
    hive_bitmap.drop(spark, "t", "i")
    hive_bitmap.clean(spark, grace_seconds=0)
    session_settings.use_stores(spark)
    assert not stores.exists(root)
    with pytest.raises(NotFound):
        hive_bitmap.rebuild(spark, "t", ["i"])
    assert index_table not in [name.tableName for name in spark.sql("SHOW TABLES").collect()]


def test_text_is_staged_in_the_store_and_nothing_of_that_stays(spark: SparkSession, home: str) -> None:
    make(spark, "TEXTFILE")
    hive_bitmap.build(spark, "t", ["k"], name="i")
    check(spark, 0)
    [definition] = [one.definition for one in hive_bitmap.show(spark, "t")]
    empty, segment = stores.listing(definition.root).folders
    assert empty == EMPTY_FOLDER and segment.startswith("generation-")
    assert stores.listing(f"{definition.root}/{segment}").folders == ["_manifest"]


def test_the_room_sees_what_hadoop_wrote(spark: SparkSession, home: str) -> None:
    """Folders that Hadoop's client makes as objects of no bytes are folders here too, and no files."""
    make(spark)
    session_settings.use_stores(spark)
    listed = stores.listing(f"{home}/t")
    names = [file.path.rpartition("/")[2] for file in listed.files]
    assert (names, listed.folders) == (["_SUCCESS"], ["p=a", "p=b c", "p=ü+%25"])
    spark.sql("CREATE TABLE empty (k int) STORED AS PARQUET")
    hive_bitmap.build(spark, "empty", ["k"])
    assert hive_bitmap.count(spark, "empty", "k = 1") == 0


def test_a_count_is_one_listing_a_partition_where_the_store_has_tags(spark: SparkSession, home: str) -> None:
    make(spark)
    hive_bitmap.build(spark, "t", ["k"], name="i")
    forget()
    with requests.measured() as first:
        hive_bitmap.count(spark, "t", "k = 3")
    with requests.measured() as warm:
        hive_bitmap.count(spark, "t", "k = 2")
    if home.startswith("s3a:"):
        assert warm.requests.by_kind == {"list": 3}
        assert first.requests.total <= 3 * 7  # of each generation: three of its manifest, shard and cardinalities
    else:
        assert warm.requests.by_kind["list"] == 3


def test_a_refresh_of_nothing_lists_and_reads_little(spark: SparkSession, home: str) -> None:
    make(spark)
    hive_bitmap.build(spark, "t", ["k"], name="i")
    for value in ("a", "b c"):
        forget()
        with requests.measured() as measured:
            [report] = hive_bitmap.refresh(spark, "t")
        assert set(measured.requests.by_kind) <= {"list", "read", "status"} and measured.requests.total <= 3 * 6
        assert report.untouched == 3
        insert(spark, value, 9000, "OVERWRITE TABLE")
        [report] = hive_bitmap.refresh(spark, "t")
        assert report.untouched == 2 and 0 < report.files_read < report.base_files
        check(spark, len(value))


def test_secrets_are_nowhere_to_be_read(spark: SparkSession, home: str, caplog: pytest.LogCaptureFixture) -> None:
    make(spark)
    hive_bitmap.build(spark, "t", ["k"], name="i")
    plan = hive_bitmap.plan(spark, "t", "k = 3")
    said = [str(plan), repr(plan), repr(options.current()), repr(hive_bitmap.show(spark, "t")), caplog.text]
    properties = [str(row) for row in spark.sql("SHOW TBLPROPERTIES " + plan_table(spark)).collect()]
    assert not [text for text in [*said, *properties] if SECRET in text]
    assert SECRET in str(options.current().items) or home.startswith("hdfs:")


def plan_table(spark: SparkSession) -> str:
    return next(str(row.tableName) for row in spark.sql("SHOW TABLES").collect() if row.tableName != "t")
