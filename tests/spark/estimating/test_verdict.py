"""The verdict on an estimated index, for tables of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.spark.estimating.verdict import verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"keys": 5, "rare_rows": 0.2, "rare_blocks": 1.0}, "only for counts and groups: even a rare key is in 100 %"),
        ({"keys": 5, "rare_rows": 0.001, "rare_blocks": 1.0}, "worth it: a rare key selects 0.1 %"),
        ({"keys": 5, "rare_rows": 0.2, "rare_blocks": 0.2}, "worth it: "),
        ({"keys": 900_000, "rare_rows": 1e-6, "rare_blocks": 0.01}, "worth it to look up single rows, not for counts"),
        ({"keys": 200_000, "rare_rows": 1e-6, "rare_blocks": 0.01}, "worth it to look up rare keys, not for counts"),
        ({"keys": 200_000, "rare_rows": 0.05, "rare_blocks": 1.0}, "not worth it: even a rare key is in 100 %"),
        ({"keys": 5, "rare_rows": 0.001, "rare_blocks": 1.0, "size": 0.94}, "not worth it: the index takes 94 % of"),
        ({"keys": 1, "rare_rows": None, "rare_blocks": None}, "not known"),
        ({"keys": 5, "rare_rows": 0.2, "rare_blocks": 1.0, "has_bitmaps": False}, "not worth it: even"),
    ],
)
def test_the_verdict(facts: dict[str, float], says: str) -> None:
    assert verdict(**{"rows": 1_000_000, "size": 0.05, **facts}).startswith(says)  # type: ignore[arg-type]


def test_the_rare_key_counts_and_not_the_mean(spark: SparkSession, database: str) -> None:
    status = "CASE WHEN id % 1000 = 7 THEN 'fraud' ELSE concat('s', id % 3) END"
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT {status} AS status, id, repeat(id, 5) AS text FROM range(20000)")
    by_status, by_id = hive_bitmap.estimate(spark, "t", ["status", "id"], sample=1.0)
    assert by_status.verdict.startswith("worth it: a rare key selects 0.1 %"), by_status
    assert by_status.rare_rows == pytest.approx(0.001, rel=0.05) and by_status.share_of_rows == pytest.approx(0.25)
    assert by_id.rows_per_key == pytest.approx(1.0) and "worth it" in by_id.verdict
    assert str(by_status).endswith(by_status.verdict) and "(status)" in str(by_status)
