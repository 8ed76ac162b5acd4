"""Queries over a star schema through plain `spark.sql`: rows, their order where it is total, and columns.

The queries are in corpus/*.sql; `/* total */` marks those whose ORDER BY leaves no two rows equal. What an
index is known to help is told beside them: `/* rows: sales stores */` names the tables of the scans that are narrowed
where the strategy is forced, `/* index: sales */` those of the scans that the index alone answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from hive_bitmap.catalyst.explanation import ANSWERED, NARROWED, relations_of
from hive_bitmap.explaining.plan import STRATEGIES
from hive_bitmap.sql.script import split
from tests.asking import Answer, answer, by_spark, difference, indexed, under
from tests.catalyst import star, star_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.catalyst.explanation import Relation

pytestmark = pytest.mark.random
FILES = sorted((Path(__file__).parent / "corpus").glob("*.sql"))
USUAL = ("rows", "files", "", "blocks", "index only")  # of ORC files, `rows` are `blocks`
NARROWING = ("rows", "files", "blocks")
SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}  # quicker for little data
MARK = re.compile(r"/\* (total|rows|index)(?:: ([a-z_ ]+))? \*/")


@dataclass(frozen=True)
class Fixture:
    """A query of the corpus, and the tables that each mark beside it names."""

    name: str
    text: str
    marks: Mapping[str, Counter[str]]


def _fixtures(path: Path) -> Iterator[Fixture]:
    """The queries of a file. Marks stand between a statement and its semicolon, where `split` takes them for space."""
    text, end = path.read_text(), 0
    for part in split(text):
        end = text.index(part.text, end) + len(part.text)
        marks = MARK.findall(text, end, text.index(";", end))
        yield Fixture(f"{path.stem}:{part.line}", part.text, {word: Counter(names.split()) for word, names in marks})


CORPUS = [fixture for path in FILES for fixture in _fixtures(path)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the usual run a query goes one way, every fifth one by cost; the long one tries all."""
    if "strategy" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--long")
        ways = [
            (one, strategy)
            for number, one in enumerate(CORPUS)
            for strategy in (("", *STRATEGIES) if everything else (USUAL[number % len(USUAL)],))
        ]
        ids = [f"{one.name}-{strategy or 'default'}" for one, strategy in ways]
        metafunc.parametrize(("fixture", "strategy"), ways, ids=ids)


@pytest.fixture(scope="module")
def schema(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose current database holds the star schema."""
    name, before = f"star_{uuid4().hex[:8]}", spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    star.make(spark, tmp_path_factory.mktemp("star"))
    star_views.make(spark)
    with under(spark, SETTINGS):
        yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")
    spark.sql(f"DROP DATABASE {star_views.ELSEWHERE} CASCADE")


@cache
def expected(spark: SparkSession, text: str) -> Answer:
    return by_spark(spark, text)


def lost(wanted: Counter[str], relations: Iterable[Relation], *actions: str) -> Counter[str]:
    """The scans of those wanted, by table, with which none of these things was done."""
    return wanted - Counter(one.table.rpartition(".")[2] for one in relations if one.action in actions)


def test_the_corpus_is_what_it_claims_to_be() -> None:
    assert len(CORPUS) >= 300
    assert len({one.text for one in CORPUS}) == len(CORPUS)
    for mark, least in (("total", 20), ("rows", 0.8 * len(CORPUS)), ("index", 0.1 * len(CORPUS))):
        assert sum(mark in one.marks for one in CORPUS) > least, mark


def test_rows_are_sparks(schema: SparkSession, fixture: Fixture, strategy: str) -> None:
    """And the marked scans are narrowed: what is answered from the index alone is more than that."""
    with indexed(schema, strategy):
        frame = schema.sql(fixture.text)
        found, relations = answer(frame), relations_of(frame)
    assert not difference(found, expected(schema, fixture.text), ordered="total" in fixture.marks)
    if marked := fixture.marks.get("rows"):
        if strategy not in NARROWING:
            with indexed(schema, "rows"):
                relations = relations_of(schema.sql(fixture.text))
        assert not lost(marked, relations, NARROWED, ANSWERED)


def test_the_marked_scans_are_answered_by_the_index(schema: SparkSession) -> None:
    for fixture in CORPUS:
        if marked := fixture.marks.get("index"):
            with indexed(schema, "index only"):
                relations = relations_of(schema.sql(fixture.text))
            assert not lost(marked, relations, ANSWERED), fixture.text


def test_scans_of_tables_so_small_are_not_narrowed_by_default(schema: SparkSession) -> None:
    """Reading them whole is quicker, but for what the index alone answers."""
    with indexed(schema):
        found = [one for fixture in CORPUS[::10] for one in relations_of(schema.sql(fixture.text))]
    assert {one.action for one in found} <= {"left alone", "answered"}
    assert {one.reason for one in found if one.action == "left alone"} >= {"too_small"}
