"""Every entry of an index damaged in every way: answers stay Spark's, upkeep works, nothing else is touched.

`--long N` takes N seeds of a hundred damages each; `--seed S` begins with that seed. A failure prints seed and damage.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.asking import answer as answer_of
from tests.asking import by_spark, difference, indexed
from tests.campaigns.damaged import Damaged, require_unharmed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
SHORT, LONG = 4, 100  # damages of a seed
PREDICATES = ("k = 3", "k IS NULL OR k > 5", "k <> 2 AND p = 'a'", "s LIKE 'x1%'")
QUERIES = (
    "SELECT count(*) FROM t WHERE k = 3",
    "SELECT s, sum(id), avg(id), max(id) FROM t GROUP BY s",
    "SELECT k, p, count(*), sum(k) FROM t GROUP BY k, p",
    "SELECT id, p FROM t WHERE k = 4 AND id % 3 = 0",
    "SELECT count(DISTINCT k) FROM t WHERE p = 'b'",
)
STRATEGIES = (None, "index only", "rows", "blocks", "files")


class AskedOfSpark(Damaged):
    """A damaged index of a table that Spark has written, and which it queries."""

    def make_table(self) -> None:
        format = self.rng.choice(["PARQUET", "PARQUET", "ORC"])
        columns, by = "k int, s string, id bigint", "PARTITIONED BY (p string)" if self.partitioned else ""
        self.spark.sql(
            f"CREATE EXTERNAL TABLE t ({columns}{'' if by else ', p string'}) {by} STORED AS {format}"
            f" LOCATION '{self.folder / 'base'}'"
        )
        for number, p in enumerate("aab"):
            self.spark.sql(
                f"INSERT INTO t SELECT IF(id % 11 = 0, NULL, CAST(id % 7 AS int)), concat('x', id % 23), id, '{p}'"
                f" FROM range({number * 100}, {number * 100 + 100}, 1, 1)"
            )
        self.counts = {one: self.spark.table("t").where(one).count() for one in PREDICATES}
        self.wanted = {query: by_spark(self.spark, query) for query in QUERIES}

    def require_right(self) -> None:
        """Counts by Python in two ways, and a query by Spark with the rule on in one, are plain Spark's."""
        predicate = self.rng.choice(PREDICATES)
        for strategy in self.rng.sample(STRATEGIES[:2], 1):
            self.forget()
            with contextlib.suppress(Unsupported):  # the index alone cannot answer, for files that a damaged part is of
                found = hive_bitmap.count(self.spark, "t", predicate, strategy=strategy)
                assert found == self.counts[predicate], f"count {predicate} by {strategy}: {found}"
        if self.rng.random() < 0.3:
            query, strategy = self.rng.choice(QUERIES), self.rng.choice(STRATEGIES)
            self.forget()
            with indexed(self.spark, strategy or "", strict="false"):
                found = answer_of(self.spark.sql(query))
            assert not difference(found, self.wanted[query]), f"{query} by {strategy}"


def test_no_damage_of_an_index_matters(
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    seed: int,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    number = LONG if pytestconfig.getoption("--long") else SHORT
    upkeep = require_unharmed(AskedOfSpark(spark, tmp_path, random.Random(f"damages {seed}")), seed, number)
    tell_of_campaign(f"damages, seed {seed}: {number} damages, upkeep {dict(upkeep)}")
