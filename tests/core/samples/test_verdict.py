"""The verdict on an estimated index, for tables of each kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.samples.verdict import Candidate, Queries, verdict
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TABLE = Candidate(
    rows=1_000_000, keys=5, index_bytes=10**6, base_bytes=10**8, rare_rows=0.2, rare_blocks=1.0, blocks=64, files=8
)
LONE: dict[str, Any] = {"rare_rows": 0.001, "blocks": 64, "files": 64, "queries": Queries(width=14)}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "only for counts and groups: even a rare key is in 100 %"),
        ({"rare_rows": 0.001}, "worth it: a rare key selects 0.1 %"),
        ({"rare_blocks": 0.2}, "worth it: "),
        ({"keys": 900_000, "rare_rows": 1e-6, "rare_blocks": 0.01}, "worth it to look up single rows, not for counts"),
        ({"keys": 200_000, "rare_rows": 1e-6, "rare_blocks": 0.01}, "worth it to look up rare keys, not for counts"),
        ({"keys": 200_000, "rare_rows": 0.05}, "not worth it: even a rare key is in 100 %"),
        ({"rare_rows": 0.001, "index_bytes": 94 * 10**6}, "not worth it: the index takes 94 % of"),
        ({"keys": 1, "rare_rows": None, "rare_blocks": None}, "unknown: no block"),
        ({"counts_rows": False}, "not worth it: even"),
        # partial aggregates
        ({"partials": 260_000.0}, "not worth it: the index has 26 % as many rows as the table, so its sums save"),
        ({"partials": 240_000.0}, "only for counts and groups"),
        # files of one block
        (LONE, "only for counts and groups; look-ups gain little: your files are one block each, and even a rare key"),
        ({**LONE, "keys": 200_000}, "not worth it: look-ups gain little, because your files are one block each"),
        ({**LONE, "rare_blocks": 0.2}, "worth it: "),
        ({**LONE, "blocks": 8, "files": 8}, "worth it: "),  # of so large files, rows are read
        ({**LONE, "base_bytes": 10**6, "index_bytes": 10**4}, "worth it: "),  # too small to tell
        # what the planner would count itself
        ({"rare_rows": 0.001, "index_bytes": 40 * 10**6}, "worth it to look up rare keys, not for counts"),
        ({"rare_rows": 0.001, "queries": Queries(answer_bytes=100)}, "worth it to look up rare keys, not for counts"),
        ({"rare_rows": 0.001, "keys": 50_000, "key_bytes": 400.0}, "worth it to look up rare keys, not for counts"),
    ],
)
def test_the_verdict(facts: dict[str, Any], says: str) -> None:
    assert verdict(replace(TABLE, **facts)).startswith(says)


def test_an_estimate_promises_no_count_that_the_planner_refuses(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 3000 AS k, id % 7 AS few FROM range(0, 300000, 1, 1)")
    hive_bitmap.build(spark, "t", ["k", "few"])
    for limit, promised in (("16m", [True, True]), ("256k", [False, True])):
        with indexed(spark, answer_bytes=limit):
            by_k, by_few = hive_bitmap.estimate(spark, "t", ["k", "few"], sample=1.0)
            says = [
                any(word in one.verdict for word in ("counts and groups come", "only for")) for one in (by_k, by_few)
            ]
            assert says == promised
            [told] = hive_bitmap.explain("SELECT k, count(*) FROM t GROUP BY k", spark).relations
            assert (told.action == "answered") == promised[0]


def test_the_rare_key_counts_and_not_the_mean(spark: SparkSession, database: str) -> None:
    status = "CASE WHEN id % 1000 = 7 THEN 'fraud' ELSE concat('s', id % 3) END"
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT {status} AS status, id, repeat(id, 5) AS text FROM range(20000)")
    by_status, by_id = hive_bitmap.estimate(spark, "t", ["status", "id"], sample=1.0)
    assert by_status.verdict.startswith("worth it: a rare key selects 0.1 %"), by_status
    assert by_status.rare_rows == pytest.approx(0.001, rel=0.05) and by_status.share_of_rows == pytest.approx(0.25)
    assert by_id.rows_per_key == pytest.approx(1.0) and "worth it" in by_id.verdict
    assert str(by_status).endswith(by_status.verdict) and "(status)" in str(by_status)
