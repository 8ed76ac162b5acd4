"""Queries over a star schema through plain `spark.sql`: rows, their order where it is total, and columns.

The queries and their marks are those of `star_queries`. Spark's own answers to them are in `kept_answers`: Spark is
asked where one is not as it was kept, and with --long for each query. In turns, each query is asked in one way, and
one query in ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.core.planning.strategy import STRATEGIES
from hive_bitmap.spark.catalyst.explanation import ANSWERED, NARROWED, relations_of, reports_of
from tests import asking, lanes
from tests.asking import Answer, answer, by_spark, difference, indexed
from tests.spark.catalyst import kept_answers, star_queries
from tests.spark.catalyst.star_queries import CORPUS, Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.catalyst.explanation import Relation

pytestmark = pytest.mark.random
KEPT = kept_answers.load()
USUAL = ("rows", "files", "", "blocks", "index only")  # of ORC files, `rows` are `blocks`
NARROWING = ("rows", "files", "blocks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With --long a query is asked in all ways; otherwise in one, which the sample draws, every fifth one by cost."""
    if "strategy" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--long") and not metafunc.config.getoption("--turns")
        ways = [
            (one, strategy)
            for number, one in enumerate(CORPUS)
            for strategy in (
                ("", *STRATEGIES) if everything else (USUAL[(number + lanes.sample() // 10) % len(USUAL)],)
            )
        ]
        ids = [f"{one.name}-{strategy or 'default'}" for one, strategy in ways]
        metafunc.parametrize(("query", "strategy"), ways, ids=ids)


@pytest.fixture(scope="module")
def schema(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose current database holds the star schema."""
    with star_queries.schema(spark, tmp_path_factory.mktemp("star")) as session:
        yield session


@cache
def expected(spark: SparkSession, text: str) -> Answer:
    return by_spark(spark, text)


def is_kept(query: Query, found: Answer) -> bool:
    """Whether an answer is the one that Spark once gave."""
    return KEPT.get(kept_answers.key(query.text)) == kept_answers.digest(found, ordered=query.ordered)


def lost(wanted: Counter[str], relations: Iterable[Relation], *actions: str) -> Counter[str]:
    """The scans of those wanted, by table, with which none of these things was done."""
    return wanted - Counter(one.table.rpartition(".")[2] for one in relations if one.action in actions)


def test_the_corpus_is_what_it_claims_to_be() -> None:
    assert len(CORPUS) >= 300
    assert len({one.text for one in CORPUS}) == len(CORPUS)
    for mark, least in (("total", 20), ("rows", 0.8 * len(CORPUS)), ("index", 0.1 * len(CORPUS))):
        assert sum(mark in one.marks for one in CORPUS) > least, mark


def test_an_answer_of_spark_is_kept_for_each_query() -> None:
    assert KEPT.keys() == {kept_answers.key(one.text) for one in CORPUS}, f"to write them again: {kept_answers.WRITE}"


@pytest.mark.turn(10)
def test_rows_are_sparks(schema: SparkSession, query: Query, strategy: str) -> None:
    """And the marked scans are narrowed or answered, in the plan that is executed."""
    with indexed(schema, strategy):
        frame = schema.sql(query.text)
        relations = [report.relation for report in reports_of(frame)]
        found = answer(frame)
    if asking.every_way or not is_kept(query, found):
        assert not difference(found, expected(schema, query.text), ordered=query.ordered)
    if strategy in NARROWING:
        assert not lost(query.marks.get("rows", Counter()), relations, NARROWED, ANSWERED)
    if strategy == "index only":
        assert not lost(query.marks.get("index", Counter()), relations, ANSWERED)


def test_scans_of_tables_so_small_are_not_narrowed_by_default(schema: SparkSession) -> None:
    """Reading them whole is quicker, but for what the index alone answers."""
    with indexed(schema):
        found = [one for query in CORPUS[:: len(CORPUS) // 10] for one in relations_of(schema.sql(query.text))]
    assert {one.action for one in found} <= {"left alone", "answered"}
    assert {one.reason for one in found if one.action == "left alone"} >= {"too_small"}
