"""Prices follow the times that finished queries took, unless the session has frozen them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.planning import learnt_prices
from hive_bitmap.core.planning.learnt_prices import ENOUGH, LEAST, MOST, PRICES, Factors, Reader
from hive_bitmap.spark.catalyst import driver_rows
from tests.asking import answer, frame, indexed, require_alike_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)
KIND = ("file:/w", "parquet")
HALF = "SELECT id, note FROM t WHERE k >= {} AND id > seq"  # of many rows, none is passed on
FEW = "SELECT id, note FROM t WHERE id = {}"


@pytest.fixture
def table(spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A table large enough to be looked up, in an application that has learnt nothing; short queries teach, too."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, id AS seq, int(id % 7) AS k, sha2(string(id), 512) AS note "
              "FROM range(0, 250000, 1, 2)")  # fmt: skip
    hive_bitmap.build(spark, "t", ["k", "id"])
    monkeypatch.setattr(learnt_prices, "LEAST_SECONDS", 0.0)
    PRICES.forget()
    yield spark
    PRICES.forget()


def learnt() -> Factors:
    return PRICES.factors(*KIND)


def ask(spark: SparkSession, text: str, times: int = ENOUGH) -> None:
    """Ask so many queries, each with another number; the next question tells what the last one took."""
    for number in range(times):
        require_alike_now(spark, text.format(number + 1))
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    hive_bitmap.explain(text.format(6), spark)


def test_scans_and_reads_of_rows_teach(table: SparkSession) -> None:
    with indexed(table, learn_prices="true"):
        ask(table, HALF)
        assert learnt().spark.count == ENOUGH and learnt().own.count == 0
        assert LEAST <= learnt().spark.factor <= MOST and learnt().spark.measured > 0
        [said] = hive_bitmap.explain(HALF.format(5), table).relations
        assert said.learnt.startswith("Spark's scans take ")  # by its new price, the scan may be narrowed
        assert "  learnt     Spark's scans take" in str(said)
    for strategy in ("blocks", "files"):
        before = learnt().spark.count
        with indexed(table, strategy, learn_prices="true"):
            ask(table, HALF)
        assert learnt().spark.count == before + ENOUGH, strategy
    scans = learnt().spark.count
    for way in ({}, {"driver_read_bytes": "0"}):
        before = learnt().own.count
        with indexed(table, "rows", learn_prices="true", **way):
            ask(table, FEW)
        assert learnt().own.count == before + ENOUGH, way
    assert learnt().spark.count == scans


def test_a_scan_that_a_sample_has_priced_teaches(table: SparkSession, database: str) -> None:
    table.sql("CREATE TABLE p USING parquet PARTITIONED BY (day) AS SELECT id, int(id % 7) AS k, "
              "sha2(string(id), 512) AS note, id AS seq, int(id % 16) AS day FROM range(0, 250000, 1, 2)")  # fmt: skip
    hive_bitmap.build(table, "p", ["k"])
    query = "SELECT id, note FROM p WHERE k >= {} AND id > seq"
    with indexed(table, learn_prices="true"):
        [said] = hive_bitmap.explain(query.format(5), table).relations
        assert said.detail.startswith("in ") and said.costs["full scan"] > 0
        ask(table, query)
        assert learnt().spark.count == ENOUGH


@pytest.mark.parametrize(
    "text",
    [
        HALF + " LIMIT 5",  # it does not read everything
        "SELECT count(*) FROM (SELECT id FROM t WHERE k >= {0} UNION ALL SELECT id FROM t WHERE k < {0})",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id AND a.k >= {}",
        "SELECT note FROM t WHERE k >= {} AND seq < 10",  # statistics leave out most rows
        "SELECT id, note FROM t WHERE k >= {}",  # it also passes on many rows
        "SELECT id FROM t WHERE note RLIKE '(x|y)+{}$' AND k >= 1",  # its time is that of the expression
        "SELECT id, note FROM t WHERE k >= {} AND length(upper(note)) < 9",
    ],
)
def test_other_queries_teach_nothing(table: SparkSession, text: str) -> None:
    with indexed(table, learn_prices="true"):
        ask(table, text, 1)
    assert learnt() == Factors("file", "parquet")


def test_a_read_beside_another_job_teaches_nothing(table: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other job begins and ends while this process reads the rows, so that no two jobs run at the same time."""
    read = driver_rows.rows

    def beside_a_job(spark: SparkSession, fetch: Any) -> Any:
        assert spark.sparkContext.parallelize([1]).count() == 1
        return read(spark, fetch)

    monkeypatch.setattr(driver_rows, "rows", beside_a_job)
    with indexed(table, "rows", learn_prices="true"):
        ask(table, FEW)
    assert learnt() == Factors("file", "parquet")


def test_a_frozen_session_teaches_and_learns_nothing(table: SparkSession) -> None:
    with indexed(table, learn_prices="false"):
        ask(table, HALF)
        assert learnt() == Factors("file", "parquet")
        for _ in range(ENOUGH):
            PRICES.note(learnt(), Reader.SPARK, 1.0, 3.0)
        [said] = hive_bitmap.explain(HALF.format(5), table).relations
        assert not said.learnt
        frozen = said.costs["full scan"]
    with indexed(table, learn_prices="true"):
        [said] = hive_bitmap.explain(HALF.format(5), table).relations
        assert said.costs["full scan"] == pytest.approx(3 * frozen)


def test_verdicts_end_when_prices_change(table: SparkSession, questions: list[Any]) -> None:
    def asks(query: str) -> bool:
        before = len(questions)
        answer(frame(table, query))
        return len(questions) > before

    small = "SELECT k FROM s WHERE k = 3"
    table.sql("CREATE TABLE s USING parquet AS SELECT int(id % 7) AS k FROM range(100)")
    hive_bitmap.build(table, "s", ["k"])
    with indexed(table):
        assert [asks(query) for query in (small, HALF.format(1), small, HALF.format(1))] == [True, True, False, False]
        for _ in range(ENOUGH):
            PRICES.note(Factors("hdfs", "orc"), Reader.SPARK, 1.0, 3.0)
        assert asks(HALF.format(2))  # its reply tells of the other prices
        assert [asks(query) for query in (small, HALF.format(1), small, HALF.format(1))] == [True, True, False, False]
