"""With the jar of another protocol in the JVM, all queries are plain Spark's, and the reason names the jar to use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.spark import jvm_bridge
from hive_bitmap.spark.catalyst.enabling import answers
from hive_bitmap.spark.jvm_bridge import JAR, PROTOCOL, protocol_mismatch
from tests.asking import answer, by_spark, difference, frame, indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = [
    "SELECT id FROM t WHERE k = 3",
    "SELECT k, count(*) FROM t GROUP BY k",
    "SELECT a.id FROM t a JOIN t b USING (k) WHERE b.k = 2",
]


@pytest.mark.parametrize(
    ("question", "has"), [({}, "no protocol number"), ({"protocol": PROTOCOL + 1}, f"protocol {PROTOCOL + 1}")]
)
def test_another_protocol_is_a_mismatch(question: dict[str, int], has: str) -> None:
    said = protocol_mismatch(question) or ""
    assert f"has {has} and" in said and str(JAR) in said and "\n" not in said


def test_the_same_protocol_is_none() -> None:
    assert protocol_mismatch({"protocol": PROTOCOL}) is None


@pytest.mark.contract
@pytest.mark.parametrize("strict", ["true", "false"])
def test_all_scans_are_left_alone_and_it_is_logged_once(
    spark: SparkSession,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    strict: str,
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, CAST(id % 7 AS int) AS k FROM range(0, 400, 1, 4)")
    hive_bitmap.build(spark, "t", ["k"])
    wanted = [by_spark(spark, query) for query in QUERIES]
    with indexed(spark, "blocks", strict=strict), caplog.at_level(logging.WARNING):
        monkeypatch.setattr(answers(spark).serving, "_warned", set())
        monkeypatch.setattr(jvm_bridge, "PROTOCOL", PROTOCOL + 1)
        for query, expected in zip(QUERIES, wanted, strict=True):
            assert not difference(answer(frame(spark, query)), expected)
            for one in hive_bitmap.explain(query, spark).relations:
                assert (one.table, one.action, one.reason) == (f"{database}.t", "left alone", "unsupported")
                assert "`hive-bitmap jar`" in one.detail
    assert [record.message for record in caplog.records if "protocol" in record.message] == [
        f"indexes are not used: {one.detail}"
    ]
