"""Persistent views: the query of a view put in place of its name, so that its tables can be narrowed.

Tables are named in full there, for the view's own catalog and database and past common table expressions of the query
around it. Whether that is what Spark makes of the view (its settings, functions and types are of the day on which it
was created) Spark itself is asked: the plan of the view and that of the text must be the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query.rewrite.demands import scans
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.tree import Opaque, Query, Scan, blocks
from hive_bitmap.query.rewrite.words import Words, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
CATALOG = "spark_catalog"
DEEPEST = 8  # views over views
BEHIND = ") AS hive_bitmap_view"  # a view's query
_LEFT_TO_SPARK = ("WITH", "TABLE", "VALUES", "MAP", "REDUCE", "STREAM", "LATERAL")


@dataclass(frozen=True)
class View:
    """A persistent view whose query is understood: its words, and its columns, each with that of the query."""

    name: str  # in full
    words: Words
    database: str
    columns: tuple[tuple[str, str], ...]
    scans: tuple[Scan, ...]

    def full_name(self, scan: Scan) -> str:
        """What the name of a table in its query means, in full."""
        before = (CATALOG, self.database)[: 3 - len(scan.name)]
        return ".".join(map(quote, (*before, *scan.name)))

    @property
    def query(self) -> str:
        """Its query with the names of tables in full."""
        return expanded(self.words, self.named, nothing).text

    @property
    def named(self) -> list[tuple[Scan, str]]:
        """The tables of its query, and their names in full."""
        return [(scan, self.full_name(scan)) for scan in self.scans]

    def select(self, types: Sequence[str] = ()) -> str:
        """What stands before its query for its columns, cast to types if any are given."""
        inner = [quote(name) for name, _ in self.columns]
        if types:
            inner = [f"CAST({name} AS {kind})" for name, kind in zip(inner, types, strict=True)]
        items = (f"{name} AS {quote(outer)}" for name, (_, outer) in zip(inner, self.columns, strict=True))
        return f"SELECT {', '.join(items)} FROM ("


@dataclass(frozen=True)
class Place:
    """Where the query of a view stands in an expanded text; what name stood there, and among what words."""

    start: int
    end: int
    name: str
    view: View
    scan: Scan
    words: Words


def view_of(table: Table) -> View | None:
    """The view that a table of the catalog is; None if it is none, or one that has to be left to Spark."""
    said = table.view
    if table.kind != "VIEW" or said is None or said.namespace[:-1] != (CATALOG,):
        return None
    names = [name.lower() for name in said.columns]
    if len(set(names)) < len(names) or len(names) != len(table.columns):
        return None
    try:
        words = read(said.text)
        query = statement(words)
    except HiveBitmapError as e:
        log.info("view %s is left to Spark: %s", table.full_name, e)
        return None
    columns = zip(said.columns, (column.name for column in table.columns), strict=True)
    found = tuple(sorted((one.scan for one in scans(query)), key=lambda scan: scan.start))
    name = ".".join(map(quote, (CATALOG, table.database, table.name)))
    known = _is_known_whole(words, query) and all(len(scan.name) <= 3 for scan in found)
    return View(name, words, said.namespace[-1], tuple(columns), found) if known else None


@dataclass(frozen=True)
class Expanded:
    """A text with the queries of views in place of their names, and where these stand."""

    text: str
    places: tuple[Place, ...]


def nothing(name: str) -> None:
    """No name is a view to be put in place."""


def expanded(words: Words, named: Sequence[tuple[Scan, str]], view: Callable[[str], View | None]) -> Expanded:
    """A query with these names for its tables, or the query of the view of that name, if `view` gives one."""
    builder = _Builder(view)
    builder.add(words, named, 0)
    return Expanded("".join(builder.pieces), tuple(builder.places))


class _Builder:
    """Puts the expanded text together."""

    def __init__(self, view: Callable[[str], View | None]) -> None:
        self._view = view
        self._length = 0
        self.pieces: list[str] = []
        self.places: list[Place] = []

    def add(self, words: Words, named: Sequence[tuple[Scan, str]], depth: int) -> None:
        """A query, without what stands around its words."""
        copied = words.tokens[0].start
        for scan, name in named:
            self._put(words.text[copied : scan.start])
            view = self._view(name) if depth < DEEPEST else None
            if view is None:
                self._put(name)
            else:
                self._expand(view, name, scan, words, depth)
            copied = scan.end
        self._put(words.text[copied : words.tokens[-1].end])

    def _expand(self, view: View, name: str, scan: Scan, words: Words, depth: int) -> None:
        started = self._length
        self._put(f"({view.select()}")
        self.add(view.words, view.named, depth + 1)
        self._put(f"{BEHIND})" + ("" if scan.aliased else f" AS {quote(scan.alias)}"))
        self.places.append(Place(started, self._length, name, view, scan, words))

    def _put(self, text: str) -> None:
        self.pieces.append(text)
        self._length += len(text)


def is_same(spark: SparkSession, place: Place) -> bool:
    """Whether Spark makes the same plan of the view's name as of what stands in its place, views inside aside.

    Where columns have other names than in the query, or are fewer, Spark's plan has casts. They are nothing, and so
    left out in place of the name, where the types are the same already.
    """
    from pyspark.errors import PySparkException

    view = place.view
    query = view.query + BEHIND
    try:
        wanted = spark.table(place.name)
        found = spark.sql(view.select() + query)
        if wanted.schema != found.schema:
            return False
        types = [field.dataType.simpleString() for field in wanted.schema.fields]
        return wanted.sameSemantics(found) or wanted.sameSemantics(spark.sql(view.select(types) + query))
    except PySparkException as e:
        log.info("view %s is left to Spark: %s", view.name, str(e).partition("\n")[0])
        return False


def _is_known_whole(words: Words, query: Query) -> bool:
    """Whether every table that the query reads is among its scans, and Spark can compare its plan with another.

    Two plans with common table expressions are never the same to Spark.
    """
    found = list(blocks(query))
    froms = sum(words.key(at) == "FROM" for at in range(words.end))
    strange = any(words.key(at) in _LEFT_TO_SPARK for at in range(words.end))
    opaque = any(isinstance(join.source, Opaque) for block in found for item in block.items for join in item)
    return not (strange or opaque) and froms == sum(bool(block.items) for block in found)
