"""The queries of corpus/*.sql over the star schema, and a session to ask them in.

`/* total */` marks those whose ORDER BY leaves no two rows equal. What an index is known to help is told beside them:
`/* rows: sales stores */` names the tables of the scans that are narrowed where the strategy is forced,
`/* index: sales */` those of the scans that the index alone answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from hive_bitmap.core.grammar.script import split
from tests.asking import under
from tests.spark.catalyst import star, star_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "corpus"
SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}  # quicker for little data
_MARK = re.compile(r"/\* (total|rows|index)(?:: ([a-z_ ]+))? \*/")


@dataclass(frozen=True)
class Query:
    """A query of the corpus, and the tables that each mark beside it names."""

    name: str
    text: str
    marks: Mapping[str, Counter[str]]

    @property
    def ordered(self) -> bool:
        return "total" in self.marks


def _queries(path: Path) -> Iterator[Query]:
    """The queries of a file. Marks stand between a statement and its semicolon, where `split` takes them for space."""
    text, end = path.read_text(), 0
    for part in split(text):
        end = text.index(part.text, end) + len(part.text)
        marks = _MARK.findall(text, end, text.index(";", end))
        yield Query(f"{path.stem}:{part.line}", part.text, {word: Counter(names.split()) for word, names in marks})


CORPUS = [query for path in sorted(FOLDER.glob("*.sql")) for query in _queries(path)]


@contextmanager
def schema(spark: SparkSession, folder: Path) -> Iterator[SparkSession]:
    """Make the star schema, whose files come into this folder, in a database that is the current one for a while."""
    name, before = f"star_{uuid4().hex[:8]}", spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    star.make(spark, folder)
    star_views.make(spark)
    with under(spark, SETTINGS):
        yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")
    spark.sql(f"DROP DATABASE {star_views.ELSEWHERE} CASCADE")
