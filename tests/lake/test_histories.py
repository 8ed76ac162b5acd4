"""Whatever happens to a Delta table, an answer is plain Spark's: random histories, and questions at random versions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from tests import asking
from tests.lake import histories
from tests.lake.histories import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lake, pytest.mark.random]
STEPS = 9


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, more = (int(metafunc.config.getoption(name)) for name in ("--seed", "--long"))
    metafunc.parametrize("seed", range(first, first + 1 + more))


def test_answers_after_a_random_history_are_plain_sparks(
    spark: SparkSession, database: str, seed: int, tell_of_campaign: Callable[[str], None]
) -> None:
    history = History(spark, random.Random(seed))
    history.begin()
    done: Counter[str] = Counter()
    for _ in range(STEPS):
        history.step()
        for query, ways in history.questions():
            with asking.under(spark, history.draw.choice(histories.SETTINGS)):
                done.update(_asked(history, query, ways))
    assert done["narrowed"] or done["answered"], "no index did anything"
    tell_of_campaign(f"a history of Delta (seed {seed}): {len(history.told)} statements, {dict(done)}")


def _asked(history: History, query: str, ways: Sequence[str]) -> list[str]:
    """Ask in these ways; what was done by the first of them."""
    spark = history.spark
    wanted = asking.by_spark(spark, query)
    for way in ways:
        wrong = asking.difference(asking.by_index(spark, query, way), wanted)
        assert not wrong, f"{wrong}\n{way or 'by cost'}: {query}\nafter " + ";\n".join(history.told)
    return ["queries", *(action for _, action in asking.used(spark, query, ways[0]))]
