"""The order of rows, and what depends on their places: plain Spark's, whatever reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.catalyst.explanation import relations_of
from tests.asking import BY_TASKS, FORCED, OFF, frame, indexed, require_alike, under, used
from tests.spark.catalyst.split_tables import SETTINGS, SplitTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(3)

SIZES = (2000, 9000, 4000, 600, 7000)
QUERIES = (
    "SELECT * FROM t WHERE k = 3",
    "SELECT id FROM t WHERE k IN (1, 7, 9) AND s <> '4'",
    "SELECT id, pad FROM t WHERE k = 3 LIMIT 20",
    "SELECT id FROM t WHERE k = 3 UNION ALL SELECT id + 1 FROM t WHERE s = '3' AND k < 5",
    "SELECT id, explode(array(1, 2)) FROM t WHERE k = 5",
)


@pytest.fixture(params=["parquet", "orc"])
def table(spark: SparkSession, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SplitTable]:
    made = SplitTable(spark, tmp_path / "t", request.param, partitioned=False)
    with under(spark, SETTINGS):
        made.create(*SIZES)
        yield made


def reasons(spark: SparkSession, query: Any, strategy: str) -> set[str]:
    with indexed(spark, strategy):
        return {one.reason for one in relations_of(frame(spark, query))}


def plan_of(spark: SparkSession, query: str, strategy: str) -> str:
    with indexed(spark, strategy):
        return str(frame(spark, query)._jdf.queryExecution().executedPlan())


def test_the_files_are_read_in_another_order_than_they_are_listed(spark: SparkSession, table: SplitTable) -> None:
    """Or the tests below would show nothing: some files are several splits, and blocks are smaller than these."""
    with under(spark, OFF):
        found = spark.sql("SELECT id, input_file_name() f FROM t").collect()
        assert spark.table("t").rdd.getNumPartitions() > len(SIZES)
    read = [row.f.rpartition("/")[2] for row in found]
    runs = [name for at, name in enumerate(read) if not at or read[at - 1] != name]
    assert len(runs) > len(SIZES)


@pytest.mark.parametrize("query", QUERIES)
def test_rows_come_in_sparks_order(spark: SparkSession, table: SplitTable, query: str) -> None:
    require_alike(spark, query, *FORCED, ordered=True)
    for strategy in ("rows", BY_TASKS, "blocks", "files"):
        assert used(spark, query, strategy), strategy


def test_partitions_are_joined_where_little_is_read(spark: SparkSession, table: SplitTable) -> None:
    """A task for each file, or fewer: the files are only compared."""
    with indexed(spark, "blocks"):
        assert spark.sql("SELECT id FROM t WHERE k = 99").rdd.getNumPartitions() <= len(SIZES)
    with under(spark, OFF):
        assert spark.sql("SELECT id FROM t WHERE k = 99").rdd.getNumPartitions() > len(SIZES)


@pytest.mark.parametrize("sizes", [(500,), (9000,), (3000, 12000, 700)])
def test_new_files_are_sparks_in_their_places(spark: SparkSession, table: SplitTable, sizes: tuple[int, ...]) -> None:
    table.grow(*sizes)
    plan = plan_of(spark, QUERIES[0], "rows")
    assert "FileScan" in plan and "MapInArrow" in plan
    for query in QUERIES:
        require_alike(spark, query, *FORCED, ordered=True)


def test_new_and_stale_files_of_partitions(spark: SparkSession, database: str, tmp_path: Path) -> None:
    made = SplitTable(spark, tmp_path / "t", "parquet", partitioned=True)
    with under(spark, SETTINGS):
        made.create(*SIZES)
        made.grow(3000, 500)
        for query in (
            *QUERIES,
            "SELECT p, id FROM t WHERE k = 3 AND p = 1",
            "SELECT id, p FROM t WHERE k = 1 OR p = 1",
        ):
            require_alike(spark, query, *FORCED, ordered=True)
        assert "MapInArrow" in plan_of(spark, QUERIES[0], "rows")


PLACED = {
    "repeatable": "SELECT id FROM (SELECT * FROM t WHERE k = 3) TABLESAMPLE (50 PERCENT) REPEATABLE (3)",
    "rand": "SELECT id, rand(7) FROM t WHERE k = 3",
    "rand in a filter": "SELECT id FROM t WHERE k = 3 AND rand(7) < 0.5",
    "rand above": "SELECT id FROM (SELECT id, rand(7) r FROM t WHERE k = 3) WHERE r < 0.5 AND id > 7",
    "randn": "SELECT id, randn(7) FROM t WHERE k = 3",
    "shuffle": "SELECT shuffle(array(id, 1, 2, 3), 5) FROM t WHERE k = 3",
    "ids": "SELECT id, monotonically_increasing_id() FROM t WHERE k = 3",
    "partitions": "SELECT id, spark_partition_id() FROM t WHERE k = 3",
    "above a join": "SELECT rand(7), id FROM t JOIN (SELECT 3 AS k) USING (k) WHERE t.k = 3",
    "above an aggregation": "SELECT id, rand(7) FROM (SELECT id, count(*) FROM t WHERE k = 3 GROUP BY id)",
    "in an aggregation": "SELECT count(*) FROM t WHERE k = 3 AND rand(7) < 0.5",
    "sorted within partitions": "SELECT id, s FROM t WHERE k = 3 SORT BY s, id",
    "a drawn order": "SELECT id FROM t WHERE k = 3 ORDER BY rand(7)",
    "sample": lambda spark: spark.table("t").where("k = 3").sample(fraction=0.5, seed=5).select("id"),
    "split": lambda spark: spark.table("t").where("k = 3").randomSplit([0.8, 0.2], seed=9)[1].select("id"),
    "strata": lambda spark: spark.table("t").where("k < 3").sampleBy("k", {1: 0.5, 2: 0.3}, seed=2).select("id"),
}


@pytest.mark.parametrize("name", PLACED)
def test_what_depends_on_places_is_sparks(spark: SparkSession, table: SplitTable, name: str) -> None:
    for strategy in FORCED:
        assert reasons(spark, PLACED[name], strategy) == {"positions"}, strategy
    require_alike(spark, PLACED[name], "rows", "blocks", ordered="aggregation" not in name)


def test_other_scans_of_the_query_are_narrowed(spark: SparkSession, table: SplitTable) -> None:
    query = "SELECT id FROM t WHERE k = 3 UNION ALL SELECT id FROM t WHERE k = 4 AND rand(7) < 0.5"
    assert reasons(spark, query, "blocks") == {"positions", ""}
    require_alike(spark, query, "blocks", "rows", ordered=True)


def test_subqueries_of_what_depends_on_places_are_sparks(spark: SparkSession, table: SplitTable) -> None:
    """Narrowed, the subquery would be small enough to be broadcast, and the rows would not be exchanged."""
    query = "SELECT id, rand(7) FROM t WHERE id % 2 = 0 AND k IN (SELECT k FROM t WHERE s = '3' AND k < 2)"
    with under(spark, {"spark.sql.autoBroadcastJoinThreshold": "300000", "spark.sql.adaptive.enabled": "false"}):
        assert "NarrowedScan" not in plan_of(spark, query, "blocks")
        require_alike(spark, query, "blocks", "rows")
        assert "NarrowedScan" in plan_of(spark, query.replace("rand(7)", "k"), "blocks")


@pytest.mark.filterwarnings("ignore:.*loads all data into the driver")
def test_labels_of_pandas_frames(spark: SparkSession, table: SplitTable) -> None:
    """Each action is planned by itself, with other columns; a label is the place of a row in the scan."""
    pytest.importorskip("pandas")

    def labels(columns: list[str]) -> list[tuple[int, int]]:
        found = spark.sql("SELECT * FROM t WHERE k = 3").pandas_api()[columns].to_pandas()
        return list(zip(found.index.tolist(), found["id"].tolist(), strict=True))

    with under(spark, OFF):
        wanted = labels(["id"])
    for strategy in ("", "rows", BY_TASKS, "blocks", "files"):
        with indexed(spark, strategy):
            assert labels(["id"]) == labels(["id", "s", "pad"]) == wanted, strategy


def test_numbers_of_rows(spark: SparkSession, table: SplitTable) -> None:
    def numbered(found: DataFrame) -> list[tuple[int, int]]:
        return [(row.id, number) for row, number in found.rdd.zipWithIndex().collect()]

    with under(spark, OFF):
        wanted = numbered(spark.sql(QUERIES[0]))
    for strategy in ("rows", BY_TASKS, "blocks", "files"):
        with indexed(spark, strategy):
            assert numbered(spark.sql(QUERIES[0])) == wanted, strategy


def test_where_the_order_is_not_known_rows_serve_what_sees_none(spark: SparkSession, database: str) -> None:
    """A scan of buckets, as below a join, reads bucket by bucket."""
    rows = "SELECT id, id % 7 AS k FROM range(2000)"
    spark.sql(f"CREATE TABLE b USING parquet CLUSTERED BY (id) INTO 3 BUCKETS AS {rows}")
    hive_bitmap.build(spark, "b", ["k"])
    summed, listed = "SELECT sum(id), max(id) FROM b WHERE k = 3", "SELECT id FROM b WHERE k = 3"
    assert "DriverScan" in plan_of(spark, summed, "rows")
    assert "DriverScan" not in plan_of(spark, listed, "rows")
    require_alike(spark, listed, "rows", BY_TASKS, "blocks", "files", ordered=True)
    require_alike(spark, summed, "rows", BY_TASKS)


def test_a_condition_that_the_metastore_refuses_is_sparks_error(spark: SparkSession, database: str) -> None:
    from pyspark.errors import AnalysisException

    spark.sql("CREATE TABLE q (id INT, k INT, p STRING) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO q VALUES (1, 3, 'a')")
    hive_bitmap.build(spark, "q", ["k"])
    query = r"SELECT * FROM q WHERE k = 3 AND p = '\\'"
    with under(spark, OFF), pytest.raises(AnalysisException) as plain:
        spark.sql(query).collect()
    for strategy in ("", "rows", "blocks"):
        with indexed(spark, strategy), pytest.raises(AnalysisException) as found:
            spark.sql(query).collect()
        assert found.value.getCondition() == plain.value.getCondition()


CACHED = {
    "filtered": "SELECT * FROM t WHERE k = 3",
    "projected": "SELECT id + 1 AS id, k FROM t WHERE k IN (3, 5) AND s <> '4'",
    "exchanged": "SELECT /*+ REPARTITION(5) */ * FROM t WHERE k IN (3, 5)",
    "united": "SELECT * FROM t WHERE k = 99 UNION ALL SELECT * FROM t WHERE k = 3",
    "joined": "SELECT t.* FROM t JOIN (SELECT 3 AS k, id % 2 = 1 AS odd FROM t WHERE k = 99) USING (k)",
    "grouped": "SELECT k AS id, count(*) n FROM t WHERE k < 30 GROUP BY k",
    "distinct": "SELECT DISTINCT k AS id FROM t",
    "counted": "SELECT count(*) AS id FROM t WHERE k = 3",
    "of a subquery": "SELECT * FROM t WHERE id % 2 = 0 AND k IN (SELECT k FROM t WHERE s = '3' AND k < 2)",
}


@pytest.mark.turn(4)
@pytest.mark.parametrize("name", CACHED)
def test_samples_of_what_is_cached(spark: SparkSession, table: SplitTable, name: str) -> None:
    """A seed draws by partitions, of the cached rows as well."""

    def drawn() -> tuple[int, list[list[Any]]]:
        kept = spark.sql(CACHED[name]).cache()
        try:
            samples = [kept.sample(fraction=0.5, seed=5), *kept.randomSplit([0.7, 0.3], seed=9)]
            ids = [[row.id for row in sample.collect()] for sample in samples]
            return kept.rdd.getNumPartitions(), [*ids, kept.rdd.sample(False, 0.5, 7).map(lambda row: row.id).collect()]
        finally:
            kept.unpersist(blocking=True)

    with under(spark, OFF):
        wanted = drawn()
    for strategy in ("", *FORCED):
        with indexed(spark, strategy):
            assert drawn() == wanted, strategy


def test_what_is_cached_is_narrowed(spark: SparkSession, table: SplitTable) -> None:
    with indexed(spark, "blocks"):
        kept = spark.sql("SELECT * FROM t WHERE k = 3").cache()
        plan = str(kept._jdf.queryExecution().executedPlan())
        kept.unpersist(blocking=True)
    assert plan.index("InMemoryRelation") < plan.index("NarrowedScan")


def test_what_is_cached_has_the_size_of_its_table(spark: SparkSession, table: SplitTable) -> None:
    """Until it is computed, Spark joins it by that size."""

    def size(strategy: str | None) -> str:
        with under(spark, OFF) if strategy is None else indexed(spark, strategy):
            kept = spark.sql("SELECT id, pad FROM t WHERE k = 3").cache()
            found = str(kept._jdf.queryExecution().withCachedData().stats().sizeInBytes())
            kept.unpersist(blocking=True)
            return found

    assert size(None) == size("blocks") == size("files")
