"""Fixtures: the tables of `warehouse`, created once for all tests, and the questions that Python is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hive_bitmap.spark.catalyst.enabling import Answers
from tests.asking import under
from tests.spark.catalyst import warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def warehouse_database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Create the tables of `warehouse`, which no test changes, and return the name of their database."""
    with warehouse.made(spark, tmp_path_factory.mktemp("catalyst")) as name:
        yield name


@pytest.fixture(scope="module")
def tables(spark: SparkSession, warehouse_database: str) -> Iterator[SparkSession]:
    """Return a session whose current database holds the tables of `warehouse`."""
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(warehouse_database)
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield spark
    spark.catalog.setCurrentDatabase(before)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each question of the optimizer rule is added, in a test that uses this fixture."""
    asked: list[Any] = []
    answer_it = Answers.apply

    def seen(self: Answers, session: Any, request: Any) -> Any:
        if request.kind() == "plan":
            asked.append(request)
        return answer_it(self, session, request)

    monkeypatch.setattr(Answers, "apply", seen)
    return asked
