"""Few rows that the process reads which planned a query: they are Spark's, whatever happens to the files meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap.spark.catalyst import driver_rows
from tests.asking import BY_TASKS, answer, by_index, by_spark, difference, frame, indexed, require_alike, under

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(2)

TYPES = {
    "b": "id % 2 = 0",
    "t": "CAST(id % 100 AS tinyint)",
    "s": "CAST(id % 100 AS smallint)",
    "i": "CAST(id AS int)",
    "f": "CAST(id AS float) / 3",
    "d": "id / 7",
    "n": "CAST(id * 1.01 AS decimal(20, 2))",
    "x": "CAST(concat('x', id % 9) AS binary)",
    "day": "date_add(DATE '2026-01-01', CAST(id AS int))",
    "at": "timestamp_seconds(1700000000 + id * 1000)",
    "local": "CAST(timestamp_seconds(1700000000 + id * 1000) AS timestamp_ntz)",
    "note": "IF(id % 5 = 0, NULL, concat('note ', id))",
}
QUERY = "SELECT * FROM t WHERE k = 3"


@pytest.fixture(params=["parquet", "orc"])
def table(spark: SparkSession, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table of two partitions and all plain types, and its folder."""
    columns = ", ".join(f"{sql} AS {name}" for name, sql in TYPES.items())
    rows = spark.sql(f"SELECT CAST(id % 7 AS int) AS k, {columns}, id % 2 AS p FROM range(0, 400, 1, 2)")
    rows.write.format(request.param).option("path", str(tmp_path / "t")).partitionBy("p").saveAsTable("t")
    hive_bitmap.build(spark, "t", ["k"])
    return tmp_path / "t"


def plan_of(found: DataFrame) -> str:
    return str(found._jdf.queryExecution().executedPlan())


def is_read_here(spark: SparkSession, query: str, **more: str) -> bool:
    with indexed(spark, "rows", **more):
        return "DriverScan" in plan_of(frame(spark, query))


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(QUERY, marks=pytest.mark.contract),
        "SELECT note, p, at FROM t WHERE k IN (1, 5) AND i % 3 = 0 ORDER BY i LIMIT 7",
        "SELECT p, count(*), max(note) FROM t WHERE k = 2 GROUP BY p",
        "SELECT a.i, b.note FROM t a JOIN t b ON a.i = b.i WHERE a.k = 1 AND b.k = 1",
        "SELECT count(*) FROM (SELECT i FROM t WHERE k = 4 UNION ALL SELECT i FROM t WHERE k = 4)",
        "SELECT k, day, local FROM t WHERE k = 3 AND p = 1",
    ],
)
def test_the_rows_are_those_of_spark(spark: SparkSession, table: Path, query: str) -> None:
    assert is_read_here(spark, query)
    require_alike(spark, query, "rows", BY_TASKS)


def test_no_job_of_ours_runs(spark: SparkSession, table: Path) -> None:
    """The rows come in one partition, and no Python worker is asked."""
    with indexed(spark, "rows"):
        found = frame(spark, QUERY)
        assert "MapInArrow" not in plan_of(found) and found.rdd.getNumPartitions() == 1


def test_the_setting_switches_it_off(spark: SparkSession, table: Path) -> None:
    assert not is_read_here(spark, QUERY, driver_read_bytes="0")
    assert not is_read_here(spark, QUERY, engine_reads_only="true")


@pytest.mark.parametrize("type", ["array<char(3)>", "map<array<int>, int>", "char(3)", "varchar(9)"])
def test_columns_of_other_types_are_read_by_others(spark: SparkSession, database: str, type: str) -> None:
    spark.sql(f"CREATE TABLE t (k int, v {type}) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT CAST(id % 7 AS int), NULL FROM range(0, 40, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    assert not is_read_here(spark, QUERY) and is_read_here(spark, "SELECT k FROM t WHERE k = 3")
    require_alike(spark, QUERY, "rows")


def test_what_is_replaced_after_planning_is_read_as_it_is_then(spark: SparkSession, table: Path) -> None:
    """A file with other rows in the place of one that the plan knew."""
    with indexed(spark, "rows"):
        planned = frame(spark, QUERY)
        assert "DriverScan" in plan_of(planned)
        [first, other] = sorted(path for path in table.rglob("*") if path.suffix in (".parquet", ".orc"))[:2]
        shutil.copy(other, first)
        (first.parent / f".{first.name}.crc").unlink()  # Hadoop's checksum of the file that was there
        found = answer(planned)
    spark.catalog.refreshTable("t")
    assert not difference(found, by_spark(spark, QUERY))


@pytest.mark.parametrize("trouble", ["too many", "error", "forgotten"])
def test_spark_reads_what_is_not_read_here(
    spark: SparkSession, table: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = by_spark(spark, QUERY)

    def fails(*_: object) -> None:
        raise RuntimeError("as a library may")

    with indexed(spark, "rows", strict="false"):
        planned = frame(spark, QUERY)
        assert "DriverScan" in plan_of(planned)
        if trouble == "too many":
            monkeypatch.setattr(driver_rows, "_batches", lambda task, most: _real_batches(task, 10))
        elif trouble == "error":
            monkeypatch.setattr(driver_rows, "rows", fails)
        else:
            monkeypatch.setattr(driver_rows, "rows", lambda *_: None)
        assert not difference(answer(planned), wanted)


_real_batches = driver_rows._batches


def test_a_guard_stays_before_what_it_guards(spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conditions with which Spark reads instead are those before the first that it cannot test there."""
    monkeypatch.setattr(driver_rows, "rows", lambda *_: None)
    guarded = "SELECT i FROM t WHERE k = 3 AND (i > 3 OR (SELECT max(i) FROM t) < 0) AND 10 / (i - 3) > 0"
    assert not difference(by_index(spark, guarded, "rows"), by_spark(spark, guarded))


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "SELECT i, note FROM t WHERE k = 3 ORDER BY i LIMIT 100",
        "SELECT note, name FROM t JOIN VALUES (1, 'one'), (2, 'two') AS d (j, name) ON i % 10 = j WHERE k = 3",
    ],
)
def test_another_execution_of_a_plan_reads_anew(spark: SparkSession, table: Path, query: str) -> None:
    """As Spark's own scan does, also where Spark keeps the RDD of the first execution."""
    with indexed(spark, "rows"):
        found = frame(spark, query)
        before = answer(found)
        assert "DriverScan" in plan_of(found)
        for checksum in table.rglob(".*.crc"):
            checksum.unlink()
        files = sorted(table.rglob("part-*"))
        content = files[0].read_bytes()
        for file in files:
            file.unlink()
            file.write_bytes(content)
        assert answer(found) != before
        again = answer(found)
    spark.sql("REFRESH TABLE t")
    assert not difference(again, by_spark(spark, query))


def test_another_execution_without_the_files_fails_as_sparks_does(spark: SparkSession, table: Path) -> None:
    with indexed(spark, "rows"):
        found = frame(spark, QUERY)
        answer(found)
        shutil.rmtree(table)
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            answer(found)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_another_execution_needs_no_files_of_which_spark_keeps_what_it_wrote(
    spark: SparkSession, table: Path, adaptive: str
) -> None:
    with indexed(spark, "rows"), under(spark, {"spark.sql.adaptive.enabled": adaptive}):
        found = frame(spark, "SELECT i % 3, max(note) FROM t WHERE k = 3 GROUP BY 1")
        before = answer(found)
        assert "DriverScan" in plan_of(found)
        shutil.rmtree(table)
        assert answer(found) == before


def test_large_values_are_read_in_small_portions(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five texts of 100,000 characters that thousands of rows share take few bytes in the file, and many in memory."""
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT CAST(id % 7 AS int) AS k, repeat(concat('v', id % 5), 50000) AS html "
        "FROM range(0, 14000, 1, 2)"
    )
    hive_bitmap.build(spark, "t", ["k"])
    seen: list[int] = []
    read_task = driver_rows.read_task

    def measured(*task: object) -> Iterator[pa.RecordBatch]:
        for batch in read_task(*task):  # type: ignore[arg-type]
            seen.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(driver_rows, "read_task", measured)
    query = "SELECT sum(length(html)), max(k) FROM t WHERE k = 3"
    assert is_read_here(spark, query)
    found = by_index(spark, query, "rows")
    assert seen
    assert max(seen) < 64 << 20
    assert sum(seen) < 128 << 20
    assert not is_read_here(spark, query)  # it was too much: that is remembered
    assert not difference(found, by_spark(spark, query))


def test_what_takes_long_is_sparks(spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_rows, "SECONDS", 0.0)
    assert is_read_here(spark, QUERY)
    found = by_index(spark, QUERY, "rows")
    assert not is_read_here(spark, QUERY)
    assert not difference(found, by_spark(spark, QUERY))


def test_an_orc_stripe_that_is_large_in_memory_is_sparks(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(
        "CREATE TABLE t USING orc AS SELECT CAST(id % 700 AS int) AS k, repeat(concat('v', id % 5), 25000) AS html "
        "FROM range(0, 4000, 1, 2)"
    )
    hive_bitmap.build(spark, "t", ["k"])
    monkeypatch.setattr(driver_rows, "read_task", None)
    require_alike(spark, "SELECT length(html), k FROM t WHERE k = 3", "rows")


@pytest.mark.parametrize("strategy", ["rows", BY_TASKS, "blocks", "index only"])
def test_the_files_of_a_plan_and_its_json_are_told(spark: SparkSession, table: Path, strategy: str) -> None:
    query = "SELECT count(*) FROM t WHERE k = 3 AND p = 1" if strategy == "index only" else f"{QUERY} AND p = 1"
    with indexed(spark, strategy):
        found = frame(spark, query)
        files = found.inputFiles()
        execution = found._jdf.queryExecution()
        assert execution.optimizedPlan().toJSON()
        assert execution.executedPlan().toJSON()
    with indexed(spark, "full scan"):
        assert sorted(files) == sorted(frame(spark, query).inputFiles())
    assert len(files) == 2


def test_the_keys_of_a_join_lead_to_rows_of_many_small_files(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, int(id % 20000) AS k FROM range(0, 200000, 1, 40)")
    spark.sql("CREATE TABLE s USING parquet AS SELECT int(id) AS k, concat('c', id) AS name FROM range(0, 2000, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    join = "SELECT t.id, s.name FROM t JOIN s ON t.k = s.k WHERE s.name = 'c7'"
    with indexed(spark):
        assert "DriverScan" in plan_of(frame(spark, join))
    require_alike(spark, join, "")
