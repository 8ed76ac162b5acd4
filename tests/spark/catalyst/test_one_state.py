"""One state of a table: partitions are told by their values and not by their paths, and a table by all that it is.

A small side that was read to plan a query is the one that the query joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests.asking import OFF, answer, by_spark, frame, indexed, require_alike, under, used
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(2)

FACT = (
    "CREATE TABLE f USING parquet AS SELECT CAST(id % 50 AS INT) k, sha2(CAST(id AS STRING), 256) y FROM range(100000)"
)
WAYS = ("", "index only", "blocks")
COUNTS = (
    "SELECT count(*) FROM {t} WHERE k = 3",
    "SELECT p, count(*), max(k) FROM {t} GROUP BY p",
    "SELECT DISTINCT p FROM {t}",
    "SELECT p, id FROM {t} WHERE k = 3 AND p = 'b' OR k = 4 AND p = 'c'",
    "SELECT count(*) FROM {t} WHERE p = 'b' AND k = 3",
    "SELECT count(*) FROM {t} WHERE p = 'c' AND k = 3",
)


@pytest.fixture
def table(spark: SparkSession, database: str, tmp_path: Any) -> str:
    """An external table with an index and the partitions `a` and `b`."""
    where = f"LOCATION '{tmp_path}/t'"
    spark.sql(f"CREATE EXTERNAL TABLE t (k int, id bigint) PARTITIONED BY (p string) STORED AS PARQUET {where}")
    for value, rows in (("a", "range(0, 300)"), ("b", "range(300, 1000)")):
        spark.sql(f"INSERT INTO t PARTITION (p='{value}') SELECT /*+ REPARTITION(2) */ id % 5, id FROM {rows}")
    hive_bitmap.build(spark, "t", ["k"])
    return "t"


def folder(spark: SparkSession, table: str, value: str) -> str:
    described = spark.sql(f"DESCRIBE EXTENDED {table} PARTITION (p='{value}')")
    return str(described.where("col_name = 'Location'").first()[1])  # type: ignore[index]


def all_alike(spark: SparkSession, table: str) -> None:
    for query in COUNTS:
        require_alike(spark, query.format(t=table), *WAYS)


@pytest.mark.contract
def test_a_folder_that_is_added_under_another_value(spark: SparkSession, table: str) -> None:
    all_alike(spark, table)
    where = folder(spark, table, "b")
    spark.sql(f"ALTER TABLE {table} DROP PARTITION (p='b')")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p='c') LOCATION '{where}'")
    all_alike(spark, table)
    hive_bitmap.rebuild(spark, table)
    all_alike(spark, table)


def test_a_partition_that_is_renamed(spark: SparkSession, table: str) -> None:
    all_alike(spark, table)
    spark.sql(f"ALTER TABLE {table} PARTITION (p='b') RENAME TO PARTITION (p='c')")
    all_alike(spark, table)
    spark.sql(f"ALTER TABLE {table} PARTITION (p='a') RENAME TO PARTITION (p='b')")
    all_alike(spark, table)
    hive_bitmap.rebuild(spark, table)
    all_alike(spark, table)


def test_partitions_that_swap_their_folders(spark: SparkSession, table: str) -> None:
    all_alike(spark, table)
    first, second = folder(spark, table, "a"), folder(spark, table, "b")
    spark.sql(f"ALTER TABLE {table} PARTITION (p='a') SET LOCATION '{second}'")
    spark.sql(f"ALTER TABLE {table} PARTITION (p='b') SET LOCATION '{first}'")
    all_alike(spark, table)


def test_partitions_that_share_a_folder(spark: SparkSession, table: str) -> None:
    """The index knows the files as those of `b`; as those of `c` Spark counts them, and each once."""
    all_alike(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p='c') LOCATION '{folder(spark, table, 'b')}'")
    all_alike(spark, table)
    assert used(spark, COUNTS[1].format(t=table), "index only") == [("t", "answered")]
    hive_bitmap.rebuild(spark, table)
    all_alike(spark, table)


@pytest.mark.contract
def test_a_file_of_two_partitions_is_narrowed_for_each(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p='c') LOCATION '{folder(spark, table, 'b')}'")
    hive_bitmap.rebuild(spark, table)
    query = "SELECT p, id FROM {t} WHERE p = 'b' AND k = 3 OR p = 'c' AND k = 77"
    require_alike(spark, query.format(t=table), *WAYS)
    with indexed(spark, "files"):
        asked = frame(spark, query.format(t=table))
        assert "2 of 4 files" in asked._jdf.queryExecution().executedPlan().toString()


def test_partitions_whose_values_only_differ_as_text(spark: SparkSession, database: str, tmp_path: Any) -> None:
    """`1` and `01` are equal values of an int column: the index knows one of them, and their folders stay apart."""
    spark.sql(f"CREATE EXTERNAL TABLE n (k int) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{tmp_path}/n'")
    spark.sql("INSERT INTO n PARTITION (p=1) SELECT id % 5 FROM range(500)")
    hive_bitmap.build(spark, "n", ["k"])
    with under(spark, {"spark.sql.legacy.skipTypeValidationOnAlterPartition": "true"}):
        spark.sql(f"ALTER TABLE n ADD PARTITION (p='01') LOCATION '{tmp_path}/n/p=1'")
        spark.sql(f"ALTER TABLE n ADD PARTITION (p='001') LOCATION '{tmp_path}/other'")
        spark.sql("INSERT INTO n PARTITION (p='001') SELECT 3 FROM range(7)")
    for query in ("SELECT p, count(*) FROM n GROUP BY p", "SELECT p, k FROM n WHERE k = 3", "SELECT count(*) FROM n"):
        require_alike(spark, query, *WAYS)


def test_a_table_is_known_by_all_its_properties(spark: SparkSession, database: str, tmp_path: Any) -> None:
    """Texts of equal hashes, `Aa` and `BB`, are not equal: the table that moved is another one."""
    for name, rows in (("Aa", 100), ("BB", 300)):
        spark.range(rows).selectExpr("cast(id % 5 as int) k").coalesce(1).write.parquet(f"{tmp_path}/{name}")
    spark.sql(f"CREATE EXTERNAL TABLE m (k int) STORED AS PARQUET LOCATION '{tmp_path}/Aa'")
    hive_bitmap.build(spark, "m", ["k"])
    require_alike(spark, "SELECT k, count(*) FROM m GROUP BY k", *WAYS)
    spark.sql(f"ALTER TABLE m SET LOCATION '{tmp_path}/BB'")
    require_alike(spark, "SELECT k, count(*) FROM m GROUP BY k", *WAYS)


@pytest.mark.contract
def test_an_answer_joins_the_small_side_that_was_read(spark: SparkSession, database: str) -> None:
    """Between planning and execution the small side is overwritten: the result is of its old state, not of both."""
    spark.sql(FACT)
    spark.sql("CREATE TABLE d (k INT, flag INT, name STRING) STORED AS TEXTFILE")
    hive_bitmap.build(spark, "f", ["k"])
    text = (
        "SELECT d.k, d.name, g.n FROM (SELECT k, count(*) n FROM f GROUP BY k) g JOIN d ON g.k = d.k WHERE d.flag = 1"
    )
    for strategy in ("index only", "blocks"):
        spark.sql("INSERT OVERWRITE d VALUES (1, 1, 'old'), (2, 1, 'old')")
        spark.sql("ANALYZE TABLE d COMPUTE STATISTICS")
        old = by_spark(spark, text)
        with indexed(spark, strategy):
            planned = frame(spark, text)
            plan = planned._jdf.queryExecution().executedPlan().toString()
            spark.sql("INSERT OVERWRITE d VALUES (1, 1, 'new'), (7, 1, 'new')")
            found = answer(planned)
        assert "IndexAnswer" in plan
        assert sorted(found.rows) == sorted(old.rows)


def test_answers_for_two_small_sides_are_two(spark: SparkSession, database: str) -> None:
    """They aggregate alike, and neither is taken for the other where Spark reuses an exchange."""
    spark.sql(FACT)
    for name, keys in (("d1", "(1, 1), (2, 1)"), ("d2", "(7, 1)")):
        spark.sql(f"CREATE TABLE {name} (k INT, flag INT) USING parquet")
        spark.sql(f"INSERT INTO {name} VALUES {keys}")
    hive_bitmap.build(spark, "f", ["k"])

    def union(session: SparkSession) -> DataFrame:
        counts = session.table("f").groupBy("k").count()
        first, second = (counts.join(session.table(name).where("flag = 1"), "k") for name in ("d1", "d2"))
        return first.union(second)

    with under(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        assert len(require_alike(spark, union, "index only", "blocks").rows) == 3


def test_a_planned_query_that_is_not_answered_after_all_sees_what_spark_sees(spark: SparkSession, table: str) -> None:
    """Two scans of a table, one answered from its index and one not, are of one state."""
    text = f"SELECT count(*) FROM {table} WHERE k = 3 UNION ALL SELECT count(*) FROM {table} WHERE id > 10"
    with indexed(spark, "index only"):
        found = frame(spark, text)
        assert "IndexAnswer" in found._jdf.queryExecution().executedPlan().toString()
        with under(spark, OFF):
            plain = frame(spark, text)
            plain._jdf.queryExecution().executedPlan()
        spark.sql(f"INSERT INTO {table} PARTITION (p='c') SELECT 3, 12 FROM range(10)")
        with under(spark, OFF):
            assert answer(found).rows == answer(plain).rows == answer(frame(spark, text)).rows


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT k, count(*) FROM f GROUP BY k", marks=pytest.mark.contract),
        "SELECT count(*) FROM f WHERE k = 3",
    ],
)
def test_a_write_between_planning_and_the_first_execution_is_seen(
    spark: SparkSession, database: str, query: str
) -> None:
    """As in plain Spark, which keeps what the first execution has read, and reads no later write."""
    spark.sql("CREATE TABLE f USING parquet AS SELECT CAST(id % 5 AS INT) k FROM range(500)")
    hive_bitmap.build(spark, "f", ["k"])
    with indexed(spark, "index only"):
        before = sorted(spark.sql(query).collect())
        answered = spark.sql(query)
        assert "IndexAnswer" in answered._jdf.queryExecution().executedPlan().toString()
        with under(spark, {"hive_bitmap.enabled": "false"}):
            plain = spark.sql(query)
            plain._jdf.queryExecution().executedPlan()
        spark.sql("INSERT INTO f SELECT 3 FROM range(70)")
        wanted = sorted(plain.collect())
        assert sorted(answered.collect()) == wanted != before
        assert sorted(answered.collect()) == wanted


def test_spark_finds_no_group_after_all(spark: SparkSession, table: str) -> None:
    """An aggregation of the groups of a planned answer has its row, also where Spark plans no partition."""
    text = f"SELECT count(*) FROM (SELECT k, count(*) FROM {table} WHERE k = 3 AND id < 0 GROUP BY k)"
    hive_bitmap.build(spark, table, ["id"], name="by_id")
    with indexed(spark, "index only"):
        planned = frame(spark, text)
        assert "IndexAnswer" in planned._jdf.queryExecution().executedPlan().toString()
        with under(spark, {"hive_bitmap.enabled": "false"}):
            assert planned.collect() == [(0,)]


WRITES = {
    "made again": "DROP TABLE {t}; CREATE TABLE {t} USING parquet AS SELECT 3 AS k FROM range(7)",
    "renamed": "ALTER TABLE {t} RENAME TO gone; CREATE TABLE {t} USING parquet AS SELECT 3 AS k FROM range(7)",
    "dropped": "DROP TABLE {t}",
    "overwritten": "INSERT OVERWRITE {t} SELECT 3 FROM range(9)",
    "emptied": "TRUNCATE TABLE {t}",
    "appended to": "INSERT INTO {t} SELECT 3 FROM range(9)",
}


@pytest.mark.parametrize("asked", [("index only", True), ("index only", False), ("full scan", True)])
@pytest.mark.parametrize("write", contract(WRITES, "overwritten"))
def test_an_answer_that_was_given_is_given_again(
    spark: SparkSession, database: str, write: str, asked: tuple[str, bool]
) -> None:
    """As in plain Spark, whose adaptive plan keeps what its stages computed; also where the index has no answer."""
    strategy, has_answer = asked
    spark.sql("CREATE TABLE f USING parquet AS SELECT CAST(id % 5 AS INT) k FROM range(500)")
    hive_bitmap.build(spark, "f", ["k"])
    one = "SELECT count(*) n FROM f WHERE k = 3"
    mixed = f"SELECT count(*) FROM f WHERE k + rand() > 2 UNION ALL {one}"
    chained = f"SELECT /*+ REPARTITION(2) */ n + 1 FROM ({one})"
    with indexed(spark, strategy):
        frames = [spark.sql(query) for query in (one, mixed, chained)]
        if strategy == "index only":
            assert all("IndexAnswer" in plan._jdf.queryExecution().executedPlan().toString() for plan in frames)
        with under(spark, {} if has_answer else {"hive_bitmap.answer_bytes": "1"}):
            first = [plan.collect() for plan in frames]
            for statement in WRITES[write].format(t="f").split(";"):
                spark.sql(statement)
            assert [plan.collect() for plan in frames] == first
            assert [list(plan.toLocalIterator()) for plan in frames] == first


@pytest.mark.contract
def test_a_relation_that_stands_in_a_plan_twice_is_left_alone(spark: SparkSession, database: str) -> None:
    """Spark copies the outer query of a LATERAL subquery into it, as the same nodes, with columns of its own."""
    for name in ("p", "q"):
        rows = "CAST(id % 40 AS INT) i, CAST(id % 7 AS INT) j, CAST(id AS BIGINT) l, CAST(id % 3 AS INT) pn"
        spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT {rows} FROM range(400)")
        hive_bitmap.build(spark, name, ["i", "j"])
    outer = "SELECT DISTINCT a.i AS x, b.l AS y FROM p a JOIN q b ON a.i = b.j WHERE a.i = 3 AND a.j < 5"
    query = f"SELECT o.x, side.n FROM ({outer}) o, LATERAL (SELECT count(*) AS n FROM p c WHERE c.j = o.x) side"
    require_alike(spark, query, "", "index only", "rows", "blocks", "files")
