"""Whatever happens to a Delta or Iceberg table, an answer is plain Spark's: histories, and versions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from tests import asking
from tests.lake.histories import Delta, History, Iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lake, pytest.mark.random]
STEPS = 9


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, more = (int(metafunc.config.getoption(name)) for name in ("--seed", "--long"))
    metafunc.parametrize("seed", range(first, first + 1 + more))


def test_answers_after_a_random_history_of_delta_are_plain_sparks(
    spark: SparkSession, database: str, seed: int, tell_of_campaign: Callable[[str], None]
) -> None:
    history = History(spark, random.Random(seed), Delta())
    done = _lived(history)
    tell_of_campaign(f"a history of Delta (seed {seed}): {len(history.told)} statements, {dict(done)}")


def test_answers_after_a_random_history_of_iceberg_are_plain_sparks(
    iceberg: SparkSession, database: str, seed: int, tell_of_campaign: Callable[[str], None]
) -> None:
    draw = random.Random(seed)
    catalog = draw.choice(["lake", "lake", "spark_catalog"])
    if catalog == "lake":
        iceberg.sql(f"CREATE DATABASE lake.{database}")
    history = History(iceberg, draw, Iceberg(f"{catalog}.{database}.h"))
    done = _lived(history)
    tell_of_campaign(f"a history of Iceberg (seed {seed}): {len(history.told)} statements, {dict(done)}")


def _lived(history: History) -> Counter[str]:
    """Begin a history, take some steps and ask after each; what was done."""
    history.begin()
    done: Counter[str] = Counter()
    for _ in range(STEPS):
        history.step()
        for query, ways in history.questions():
            with asking.under(history.spark, history.draw.choice(history.format.settings)):
                done.update(_asked(history, query, ways))
    assert done["narrowed"] or done["answered"], "no index did anything"
    return done


def _asked(history: History, query: str, ways: Sequence[str]) -> list[str]:
    """Ask in these ways; what was done by the first of them.

    Iceberg itself fails for some conditions on versions of before a column was dropped or renamed.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    spark = history.spark
    try:
        wanted = asking.by_spark(spark, query)
    except Py4JJavaError as e:
        assert "ValidationException: Cannot find field" in str(e), query
        return ["failed by Iceberg"]
    for way in ways:
        wrong = asking.difference(asking.by_index(spark, query, way), wanted)
        assert not wrong, f"{wrong}\n{way or 'by cost'}: {query}\nafter " + ";\n".join(history.told)
    return ["queries", *(action for _, action in asking.used(spark, query, ways[0]))]
