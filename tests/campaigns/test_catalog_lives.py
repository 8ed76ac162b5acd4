"""Random lives of a catalog: after each step, answers in each session are what plain Spark gives in that session.

`--long N` takes N longer lives, `--seed S` begins with that seed; a failure prints the seed and all statements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.errors import HiveBitmapError
from tests.asking import Answer, answer, by_spark, difference, under
from tests.campaigns.catalog import VALUES
from tests.campaigns.catalog_life import CatalogLife

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
SHORT, LONG = 12, 40  # steps of a life
ANY_TABLE = (
    "SELECT count(*) FROM {t}",
    "SELECT count(*) FROM {t} WHERE k = {k}",
    "SELECT k, count(*) FROM {t} GROUP BY k",
    "SELECT count(DISTINCT k), count(k), min(k), max(k) FROM {t}",
    "SELECT DISTINCT k FROM {t} WHERE s IN ('x1', 'x2')",
    "SELECT * FROM {t} WHERE k = {k}",
    "SELECT id FROM {t} WHERE k = {k} AND s = 'x1'",
    "SELECT sum(id), count(*) FROM {t} WHERE k = {k} OR k IS NULL",
    "SELECT a.id, b.s FROM {t} a JOIN {other} b ON a.k = b.k WHERE b.id < 20 AND b.s = 'x1'",
    "SELECT count(*) FROM {t} WHERE k IN (SELECT k FROM {other} WHERE id < 3)",
    "SELECT {last}, count(*) FROM {t} GROUP BY {last}",
    "SELECT count(*) FROM {t} WHERE {last} IS NULL AND k = {k}",
)
PARTITIONED = (
    "SELECT DISTINCT p FROM {t}",
    "SELECT p, count(*) FROM {t} GROUP BY p",
    "SELECT p, k, count(*) FROM {t} GROUP BY p, k",
    "SELECT count(*) FROM {t} WHERE p = {p} AND k = {k}",
    "SELECT max(p), count(DISTINCT p) FROM {t} WHERE k = {k}",
    "SELECT p, id FROM {t} WHERE k = {k}",
)
WAYS = ("", "", "index only", "rows", "blocks", "files")


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own: what it knows of tables ends with the test."""
    session = spark.newSession()
    for name, value in {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}.items():
        session.conf.set(name, value)
    hive_bitmap.enable(session)
    yield session
    hive_bitmap.disable(session)


def asked(session: SparkSession, query: str, strategy: str | None) -> Answer | str:
    """The answer by plain Spark (None) or by the index in this way; the error as text if there is none."""
    try:
        if strategy is None:
            return by_spark(session, query)
        with under(session, {"hive_bitmap.strategy": strategy, "hive_bitmap.planning_seconds": "60"}):
            return answer(session.sql(query))
    except (PySparkException, HiveBitmapError, Py4JJavaError) as e:
        return f"{type(e).__name__}: {str(e)[:600]}"


def queries_of(life: CatalogLife, session: SparkSession, name: tuple[str, str], count: int) -> list[str]:
    rng, made = life.rng, life.tables[name]
    key = f"'{rng.randint(0, 7)}'" if made.key == "string" else str(rng.randint(0, 7))
    others = [".".join(other) for other, one in life.tables.items() if one.key == made.key]
    values = [f"'{value}'" if type == "string" else value for _, type in made.partitions[:1] for value in VALUES[type]]
    texts = rng.sample([*ANY_TABLE, *PARTITIONED] if made.partitions else ANY_TABLE, count)
    fill = {"t": ".".join(name), "k": key, "p": rng.choice(values or ["''"]), "last": made.columns[-1]}
    return [text.format(other=rng.choice(others), **fill) for text in texts]


def check(life: CatalogLife, counts: dict[str, int]) -> None:
    """A few queries of one table in one session: plain Spark's answer, if it has one, is the answer in every way."""
    rng, session = life.rng, life.session()
    name = life.focus if life.focus in life.tables and rng.random() < 0.85 else rng.choice(sorted(life.tables))
    for query in queries_of(life, session, name, 3):
        ways = [None, *rng.sample(WAYS, 2)]
        rng.shuffle(ways)
        found = {way: asked(session, query, way) for way in ways}
        wanted = found.pop(None)
        said = f"session {life.sessions.index(session)}, in the order {ways}: {query}"
        if isinstance(wanted, str):
            counts["refused by Spark"] += 1
            continue
        for way, one in found.items():
            counts["answers"] += 1
            wrong = one if isinstance(one, str) else difference(one, wanted)
            assert not wrong, "\n".join([*life.story, f"{way or 'default'}: {said}\n{wrong}"])


def test_a_life_of_a_catalog(
    quick: SparkSession, tmp_path: Path, seed: int, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    life = CatalogLife(quick, f"l{uuid4().hex[:8]}", tmp_path, random.Random(f"catalog {seed}"))
    counts = {"answers": 0, "refused by Spark": 0}
    for _ in range(3):
        life.create(quick)
    life.create_index(quick)
    steps = LONG if pytestconfig.getoption("--long") else SHORT
    for _ in range(steps):
        life.step()
        if life.tables:
            check(life, counts)
    refused = f"{life.refused.total()} steps refused"
    tell_of_campaign(f"a life of a catalog, seed {seed}: {steps} steps, {refused}, {counts}")
    assert counts["answers"] > 0
