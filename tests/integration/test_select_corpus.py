"""Queries over a star schema, with and without the indexes: rows, their order where it is total, and columns.

The queries are in tests/sql/select/*.sql; `/* total */` marks those whose ORDER BY leaves no two rows equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap.query.planner import STRATEGIES
from hive_bitmap.query.rewrite.rewriting import rewrite
from hive_bitmap.sql.script import split
from tests.integration import star, star_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORPUS = sorted(
    (f"{path.stem}:{part.line}", part.text)
    for path in (Path(__file__).parents[1] / "sql" / "select").glob("*.sql")
    for part in split(path.read_text())
)
USUAL = ("rows", "files")  # of ORC files, `rows` are `blocks`
DEFAULT = ""
SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}  # quicker for little data


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the usual run a query goes one way, every second one by the strategy of its own; the long one tries all."""
    if "strategy" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--long")
        ways: list[tuple[str, str, str]] = []
        for number, (name, text) in enumerate(CORPUS):
            usual = (DEFAULT, USUAL[0], DEFAULT, USUAL[1])[number % 4]
            chosen = (DEFAULT, *STRATEGIES) if everything else (usual,)
            ways += [(name, text, strategy) for strategy in chosen]
        metafunc.parametrize(
            ("text", "strategy"), [way[1:] for way in ways], ids=[f"{w[0]}-{w[2] or 'default'}" for w in ways]
        )


@pytest.fixture(scope="module")
def schema(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose current database holds the star schema."""
    name, before = f"star_{uuid4().hex[:8]}", spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    star.make(spark, tmp_path_factory.mktemp("star"))
    star_views.make(spark)
    for setting, value in SETTINGS.items():
        spark.conf.set(setting, value)
    yield spark
    spark.conf.unset("hive_bitmap.strategy")
    for setting in ("spark.sql.adaptive.enabled",):
        spark.conf.unset(setting)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")
    spark.sql(f"DROP DATABASE {star_views.ELSEWHERE} CASCADE")


@cache
def expected(spark: SparkSession, text: str) -> tuple[Any, list[str]]:
    return answer(spark.sql(text))


def answer(frame: DataFrame) -> tuple[Any, list[str]]:
    """Names, types and nullability of the columns, and rows."""
    columns = [(field.name, field.dataType, field.nullable, field.metadata) for field in frame.schema.fields]
    return columns, [repr(row) for row in frame.collect()]


def test_the_corpus_is_what_it_claims_to_be() -> None:
    assert len(CORPUS) >= 300
    assert len({text for _, text in CORPUS}) == len(CORPUS)


def test_rows_are_sparks(schema: SparkSession, text: str, strategy: str) -> None:
    schema.conf.set("hive_bitmap.strategy", strategy)
    if strategy == DEFAULT and not rewrite(schema, text).frames:
        return  # then the text goes to Spark as it is
    wanted_columns, wanted = expected(schema, text)
    found_columns, found = answer(hive_bitmap.sql(schema, text))
    assert found_columns == wanted_columns
    assert Counter(found) == Counter(wanted)
    if "/* total */" in text:
        assert found == wanted


def test_most_of_the_corpus_goes_through_an_index(schema: SparkSession) -> None:
    """Else the comparison above would compare nothing."""
    schema.conf.set("hive_bitmap.strategy", "rows")
    some = CORPUS[::5]
    used = [name for name, text in some if rewrite(schema, text).frames]
    assert len(used) > 0.8 * len(some)


def test_scans_of_tables_so_small_are_not_narrowed_by_default(schema: SparkSession) -> None:
    """Reading them whole is quicker, but for what the index alone answers."""
    schema.conf.unset("hive_bitmap.strategy")
    replaced = [choice for _, text in CORPUS[::10] for choice in rewrite(schema, text).replaced]
    assert {choice.plan.strategy for choice in replaced} <= {"index only"}
