"""Random plans over the tables of `plan_tables`: every answer is plain Spark's, in every way of asking.

A seed makes the tables, what happens to them, the queries and their settings. `--long N` takes N seeds from `--seed S`
on, and every query in more ways. What fails is shown with its seed, and made smaller while it still fails.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.planning import prices
from hive_bitmap.spark.catalyst.explanation import relations_of
from tests.asking import OFF, STRICT, Answer, answer, depends_on_order, difference, under
from tests.spark.catalyst import plan_tables
from tests.spark.catalyst.draws import Draw, shrunk
from tests.spark.catalyst.random_plans import Drawn, drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
log = logging.getLogger(__name__)
WAYS = ("", "index only", "rows", "blocks", "files")
QUERIES, WAYS_OF_EACH = 100, 4  # of a seed
FEW, FEWER_WAYS = 25, 2  # without --long
BETWEEN = 25  # queries between two changes of the tables
SHRUNK, TRIES = 5, 120  # failures that are made smaller, and queries for each
_SETTINGS = {"spark.sql.shuffle.partitions": "1", "spark.sql.parquet.filterPushdown": "true"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", range(first, first + max(1, metafunc.config.getoption("--long"))))


class Campaign:
    """The queries of a seed; `done` counts, `wrong` tells what differs."""

    def __init__(self, spark: SparkSession, seed: int, folder: Path) -> None:
        self._spark, self._seed, self._folder = spark, seed, folder
        self._rng = random.Random(f"plans {seed}")
        self._shared = 9  # the value of the partition in the shared folder
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, queries: int, ways: int) -> None:
        """Make the tables, and ask so many queries in so many ways."""
        self._spark.udf.register("plus", lambda value: None if value is None else value + 1, "int")
        self._spark.udf.register("loud", lambda value: None if value is None else value.upper(), "string")
        plan_tables.make(self._spark, self._rng, self._folder)
        for number in range(queries):
            if number % BETWEEN == BETWEEN - 1:
                self._change()
            draw = Draw(random.Random(f"plan {self._seed} {number}"))
            self._query(number, drawn(draw), draw.made, ways)

    def _change(self) -> None:
        """Another value for a partition of the same folder, more rows, a rebuild, or a partition written anew."""
        sql = self._spark.sql
        with under(self._spark, {"spark.sql.preserveCharVarcharTypeInfo": "true"}):
            for table in self._tables():  # what Spark has cached so fails without that setting, and so does this
                sql(f"REFRESH TABLE {table}")
        what = self._rng.choice(["moved", "more", "rebuilt", "rewritten"])
        if what == "moved":
            sql(f"ALTER TABLE p DROP PARTITION (pk = 'b', pn = {self._shared})")
            self._shared += 1
            place = (self._folder / "shared").as_uri()
            sql(f"ALTER TABLE p ADD PARTITION (pk = 'b', pn = {self._shared}) LOCATION '{place}'")
        elif what == "more":
            sql("INSERT INTO t SELECT * FROM t LIMIT 7")
        elif what == "rebuilt":
            hive_bitmap.rebuild(self._spark, self._rng.choice(plan_tables.INDEXED))
        else:
            rows = "SELECT * EXCEPT (z) FROM t LIMIT 20"
            sql(f"INSERT OVERWRITE o PARTITION (pd = DATE'1970-01-01') {rows}")
        self.done[f"tables {what}"] += 1

    def _query(self, number: int, query: Drawn, script: list[int], ways: int) -> None:
        self.done["queries drawn"] += 1
        wanted = self._plain(query)
        if wanted is None:
            self.done["refused by Spark"] += 1
            return
        self.done["queries compared"] += 1
        for way in [WAYS[0], *random.Random(query.text).sample(WAYS[1:], ways - 1)]:
            differs, acted = self._differs(query, wanted, way)
            self.done.update([f"answers {way or 'by cost'}", *(f"relations {action}" for action in acted)])
            if differs:
                self._tell(number, query, script, way, differs)
            if differs or not acted:
                self.done["queries of no indexed table"] += not acted
                return

    def _plain(self, query: Drawn) -> Answer | None:
        with under(self._spark, {**query.settings, **OFF}):
            try:
                return answer(self._spark.sql(query.text))
            except _refusals():
                return None

    def _differs(self, query: Drawn, wanted: Answer, way: str) -> tuple[str, list[str]]:
        """How an answer differs from plain Spark's, and what the indexes did."""
        acted: list[str] = []
        with under(self._spark, {**query.settings, **STRICT, "hive_bitmap.strategy": way}):
            found: Answer | None = None
            try:
                asked = self._spark.sql(query.text)
                acted = [one.action for one in relations_of(asked) if one.reason != "no_index"]
                found = answer(asked)
                differs = difference(found, wanted)
            except _refusals() as e:
                differs = f"{type(e).__name__} {str(e)[:500]}"
            if differs and depends_on_order(self._spark, query.text, self._tables(), wanted, found):
                self.done["depends on the order of rows"] += 1
                return "", acted
        return differs, acted

    def _tables(self) -> dict[str, str]:
        return {name: f"{self._spark.catalog.currentDatabase()}.{name}" for name in plan_tables.INDEXED}

    def _tell(self, number: int, query: Drawn, script: list[int], way: str, differs: str) -> None:
        name = f"seed {self._seed}, query {number}, {way or 'by cost'}"
        story = f"{name}: {differs}\n{query.text}\n{dict(query.settings)}"
        log.error(story)
        if len(self.wrong) < SHRUNK:
            kind = differs.split()[0]
            small = drawn(Draw(script=shrunk(script, lambda tried: self._fails(tried, way, kind), TRIES)))
            wanted = self._plain(small)
            differs = "no more" if wanted is None else self._differs(small, wanted, way)[0]
            story += f"\nsmaller: {small.text}\n{dict(small.settings)}\n{differs}\nplain: {wanted and wanted.rows[:5]}"
            log.error(story)
        self.wrong.append(story)

    def _fails(self, script: list[int], way: str, kind: str) -> bool:
        """Whether what is drawn from a script fails in the same manner."""
        query = drawn(Draw(script=script))
        wanted = self._plain(query)
        return wanted is not None and self._differs(query, wanted, way)[0].split()[:1] == [kind]


def _refusals() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JJavaError)


def test_answers_are_sparks(
    spark: SparkSession, database: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, pytestconfig: Any
) -> None:
    for price in ("NATIVE_LOOKUP", "DIRECT_START"):  # no table is too small for a lookup
        monkeypatch.setattr(prices, price, -1.0)
    long = pytestconfig.getoption("--long")
    queries, ways = (QUERIES, WAYS_OF_EACH) if long else (FEW, FEWER_WAYS)
    hive_bitmap.enable(spark)
    campaign = Campaign(spark, seed, tmp_path)
    with under(spark, _SETTINGS):
        campaign.run(queries, ways)
    log.warning("seed %d: %s", seed, dict(campaign.done))
    again = f'make test T="tests/spark/catalyst/test_random_plans.py --seed {seed}{" --long 1" if long else ""}"'
    assert not campaign.wrong, "\n\n".join([*campaign.wrong, f"again: {again}"])
    assert campaign.done["queries compared"] > queries / 4, campaign.done
