"""The forty questions of the bench over a tiny warehouse, each by a forced strategy: the answers are plain Spark's."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from bench import questions, shop
from bench.forty import Question
from bench.forty import questions as forty
from bench.measure import OURS, SPARK, Race
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
ASKED = Question("kind", "about", "SELECT 1")


def test_the_forty_questions_are_answered_as_by_spark(spark: SparkSession, database: str) -> None:
    asked = forty(shop.make(spark, ROWS))
    assert len({one.about for one in asked}) == len({one.sql for one in asked}) == 40
    shop.index(spark)
    with indexed(spark):
        rows = {
            one.about: questions.compare(spark, one, strategy)
            for one, strategy in zip(asked, cycle(("index only", "rows", "blocks")), strict=False)
        }
    empty = [about for about, count in rows.items() if not count]
    assert not empty
    assert sum(rows.values()) < ROWS


def test_an_answer_that_differs_ends_the_run(spark: SparkSession) -> None:
    with indexed(spark), pytest.raises(questions.DifferentAnswer, match="about"):
        questions.compare(spark, Question("kind", "about", "SELECT rand() AS n"))


def test_a_verdict_holds_in_both_runs() -> None:
    def runs(*ratios: float) -> list[Race]:
        return [Race({SPARK: [ratio], OURS: [1.0]}, {}) for ratio in ratios]

    ratios = {(1.2, 3.0): "gained", (1.1, 3.0): "level", (0.9, 0.5): "lost", (0.5, 1.3): "level", (1.0, 1.0): "level"}
    found = {pair: questions.Measured(ASKED, 1, [], runs(*pair)) for pair in ratios}
    assert {pair: one.verdict for pair, one in found.items()} == ratios
    assert Counter(ratios.values()).keys() == set(questions.VERDICTS)
