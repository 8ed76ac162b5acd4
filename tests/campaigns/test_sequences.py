"""What depends on the order of rows is what plain Spark gives, as a sequence: random pipelines over random tables.

`--long N` takes N seeds from `--seed S` on, with more pipelines of each; a failure prints the seed and what was done.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import under
from tests.campaigns.sequences import Sequences
from tests.spark.catalyst.split_tables import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
FEW, MANY = 8, 60  # pipelines of a seed
BETWEEN = 4  # pipelines between two changes of the table


@pytest.mark.filterwarnings("ignore:.*loads all data into the driver")
def test_sequences_are_sparks(
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    seed: int,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    pytest.importorskip("pandas")
    hive_bitmap.enable(spark)
    try:
        with under(spark, {**SETTINGS, "spark.sql.shuffle.partitions": "2"}):
            campaign = Sequences(spark, random.Random(f"sequences {seed}"), tmp_path / "t")
            for number in range(MANY if pytestconfig.getoption("--long") else FEW):
                if number % BETWEEN == BETWEEN - 1:
                    campaign.change()
                wrong = campaign.check()
                assert not wrong, f"seed {seed}, pipeline {number}: {wrong}"
    finally:
        hive_bitmap.disable(spark)
    tell_of_campaign(f"sequences, seed {seed}: {dict(sorted(campaign.done.items()))}")
