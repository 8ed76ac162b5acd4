"""What may be computed over keys: each entry of the allowlist is asked, and its neighbours are Spark's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.spark.catalyst.explanation import relations_of
from tests.asking import OFF, frame, indexed, require_alike, under
from tests.spark.catalyst import allowlist_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

_LINES = (Path(__file__).parent / "allowed_calls.sql").read_text().splitlines()
CALLS = [line for line in _LINES if not line.startswith("--")]
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "queries.md"
AT_ONCE = 15


@pytest.fixture(scope="module")
def table(spark: SparkSession, shared_database: str) -> Iterator[SparkSession]:
    allowlist_table.make(spark, "t")
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield spark


def column_of(call: str) -> str:
    """The column that a call reads."""
    words = re.findall(r"\w+(?![\w(])", re.sub("'[^']*'", "", call))
    [column] = set(words) & set(allowlist_table.COLUMNS)
    return column


def text_of(call: str) -> str:
    return f"CAST(({call}) AS STRING)"


def answered(calls: Sequence[str]) -> list[str]:
    """Queries that the index answers: groups by calls of one column, and a count of rows by a hash of their values."""
    names = ", ".join(f"coalesce({text_of(call)}, 'NULL') AS v{number}" for number, call in enumerate(calls))
    texts = ", ".join(f"v{number}" for number in range(len(calls)))
    return [
        f"SELECT concat_ws('|', {texts}, n) FROM (SELECT {names}, count(*) AS n FROM t GROUP BY ALL)",
        f"SELECT CAST(count(*) AS STRING) FROM t WHERE hash({', '.join(map(text_of, calls))}) % 2 = 0",
    ]


def narrowed(calls: Sequence[str]) -> str:
    """A query of the rows with such a hash, which needs a column that no index has."""
    return f"SELECT CAST(sum(k) AS STRING) FROM t WHERE hash({', '.join(map(text_of, calls))}) % 2 = 0"


def chunks(calls: Sequence[str]) -> list[Sequence[str]]:
    return [calls[first : first + AT_ONCE] for first in range(0, len(calls), AT_ONCE)]


def unanswered(spark: SparkSession, queries: Sequence[str]) -> list[str]:
    """Those of the queries that the index alone does not answer."""
    with indexed(spark, "index only"):
        relations = relations_of(frame(spark, " UNION ALL ".join(queries)))
    return [query for query, relation in zip(queries, relations, strict=True) if relation.action != "answered"]


@pytest.mark.parametrize("column", [name for name in allowlist_table.COLUMNS if name not in ("d", "f")])
def test_allowed_calls_are_answered_as_by_spark(table: SparkSession, column: str) -> None:
    calls = [call for call in CALLS if column_of(call) == column]
    queries = [query for some in chunks(calls) for query in answered(some)]
    if unanswered(table, queries):
        assert [query for call in calls for query in unanswered(table, answered([call]))] == []
    require_alike(table, " UNION ALL ".join(queries), "index only")
    require_alike(table, " UNION ALL ".join(narrowed(some) for some in chunks(calls)), "blocks")


def test_each_entry_is_in_a_call(table: SparkSession) -> None:
    with under(table, OFF):
        asked = {name for call in CALLS for name in allowlist_table.names_in(table.sql(answered([call])[0]))}
    assert (allowlist_table.listed("EXPRESSIONS") | allowlist_table.listed("CALLS")) - asked == set()


def test_the_guide_has_the_functions_of_the_calls() -> None:
    _, _, section = GUIDE.read_text().partition("### Functions over keys")
    table = re.findall(r"^\| ([a-z ]+) \| .* \| ([a-z0-9_ ]+) \|$", section.partition("\n## ")[0], re.M)
    told = {name for group, names in table if group != "group" for name in names.split()}
    assert [group for group, _ in table][1:] == [line[3:-1] for line in _LINES if line.endswith(":")]
    assert told == {name for call in CALLS for name in re.findall(r"(\w+)\(", call.lower())}
