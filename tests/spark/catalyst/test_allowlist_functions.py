"""Every function of Spark over indexed columns: what the index answers and narrows is what Spark answers.

The calls are the examples in Spark's own documentation of a function, with a column in place of each literal in turn.
The literals are among the column's values. Most calls are not on the allowlist; the campaign is for those that are, and
for those that nobody thought of. A sample of them is asked, N more of it with `--long N`; `--seed S` takes another one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tests.asking import OFF, answer, by_spark, frame, indexed, under
from tests.spark.catalyst import allowlist_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
SAMPLE, AT_ONCE = 40, 4
WAYS = ("index only", "blocks")
# Which of the two a query ends with depends on the row that a task meets first, with plain Spark too.
EITHER = {"NULL_MAP_KEY", "DUPLICATED_MAP_KEY"}
_EXAMPLE = re.compile(r"> SELECT (.*?);\s*$", re.M)
_LITERAL = re.compile(
    r"""(?<![\w.'"])(?:(?P<date>DATE\s*'[^']*')|(?P<time>TIMESTAMP\s*'[^']*')|(?P<text>'(?:[^'\\]|\\.)*')"""
    r"|(?P<number>\d+\.\d+)(?![\w.])|(?P<int>\d+)(?![\w.])|(?P<bool>true|false)(?!\w))",
    re.I,
)
_COLUMNS = {
    "date": ("dt", "ts"),
    "time": ("ts", "n"),
    "text": ("s", "bin", "dt", "c"),
    "number": ("m", "d"),
    "int": ("i", "l", "m"),
    "bool": ("b",),
}


def examples(spark: SparkSession) -> dict[str, list[str]]:
    """The calls in the documentation of each function that Spark has."""
    found = {}
    functions = spark._jsparkSession.sessionState().functionRegistry().listFunction().iterator()
    while functions.hasNext():
        function = functions.next()
        if function.database().isDefined():  # of another test
            continue
        name = str(function.funcName())
        described = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()
        found[name] = _EXAMPLE.findall("\n".join(row[0] for row in described))
    return found


def calls_of(example: str) -> Iterator[str]:
    """The example with a column in place of one of its literals."""
    for literal in _LITERAL.finditer(example):
        for column in _COLUMNS[str(literal.lastgroup)]:
            yield example[: literal.start()] + column + example[literal.end() :]


def queries_of(call: str) -> tuple[str, str, str]:
    """Queries that group, filter and count by a call; the last one reads rows."""
    text = f"CAST(({call}) AS STRING)"
    return (
        f"SELECT {text} AS v, count(*) AS n FROM t GROUP BY 1",
        f"SELECT 'where', count(*) FROM t WHERE hash({text}) % 2 = 0",
        f"SELECT 'rows', sum(k) FROM t WHERE hash({text}) % 2 = 0",
    )


@pytest.fixture(scope="module")
def known(spark: SparkSession, shared_database: str) -> Iterator[list[str]]:
    """The calls that Spark can plan over the table."""
    documented = examples(spark)
    texts = {literal["text"] for some in documented.values() for one in some for literal in _LITERAL.finditer(one)}
    allowlist_table.make(spark, "t", sorted(text for text in texts if text and len(text) < 30))
    calls = sorted({call for some in documented.values() for one in some for call in calls_of(one)})
    with under(spark, {**OFF, "spark.sql.shuffle.partitions": "1"}):
        yield [call for call in calls if " FROM t" not in call]


def is_planned(spark: SparkSession, call: str) -> bool:
    try:
        spark.sql(queries_of(call)[1])
    except (PySparkException, Py4JJavaError):  # some examples make Spark fail where it should refuse
        return False
    return True


def outcome(spark: SparkSession, query: str, strategy: str | None) -> object:
    """The sorted rows of a query, of plain Spark if there is no strategy, or the condition of its error."""
    try:
        if strategy is None:
            return sorted(by_spark(spark, query).rows)
        with indexed(spark, strategy, strict="false"):
            return sorted(answer(frame(spark, query)).rows)
    except PySparkException as e:
        return e.getCondition()
    except Py4JJavaError as e:
        return str(e.java_exception.getClass())


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_functions_over_keys_are_those_over_rows(
    spark: SparkSession, known: list[str], pytestconfig: pytest.Config, ansi: str
) -> None:
    seed, long = pytestconfig.getoption("--seed"), pytestconfig.getoption("--long")
    with under(spark, {"spark.sql.ansi.enabled": ansi}):
        calls = random.Random(f"{seed} {ansi}").sample(known, min(len(known), SAMPLE * (1 + long)))
        wrong = []
        for first in range(0, len(calls), AT_ONCE):
            wrong += differing(spark, [call for call in calls[first : first + AT_ONCE] if is_planned(spark, call)])
    assert wrong == []


def differing(spark: SparkSession, calls: list[str]) -> list[str]:
    """The queries of some calls that the index answers otherwise: asked together, each by itself if that differs."""
    queries = [query for call in calls for query in queries_of(call)]
    together = " UNION ALL ".join(queries)
    wanted = outcome(spark, together, None)
    if not isinstance(wanted, str) and all(outcome(spark, together, way) == wanted for way in WAYS):
        return []
    return [
        f"{way}: {query}"
        for query in queries
        for wanted in [outcome(spark, query, None)]
        for way in WAYS
        if not alike(outcome(spark, query, way), wanted)
    ]


def alike(found: object, wanted: object) -> bool:
    return found == wanted or {str(found), str(wanted)} <= EITHER
