"""Read the record of observed queries.

The optimizer rule keeps the record in the JVM. Servers append it to a file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.index.aggregate_columns import FUNCTIONS
from hive_bitmap.core.index.markers import is_time
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_CHARACTERS = 1 << 20  # most characters of a line; the rule writes shorter lines
MOST_COUNTED = 1 << 62
MOST_SAMPLES = 8
FIGURES = ("queries", "bytes", "unsized", "served")


class Kind(str, Enum):
    """The kinds of tests of a column.

    The value of a kind is its word in the record.
    """

    EQUALITY = "equality"
    IN = "in"
    NULL = "null"
    RANGE = "range"
    OTHER = "other"


@dataclass(frozen=True)
class ColumnTest:
    """A test that compares a column with about `values` values.

    `values` is 0 if the values are not counted.
    """

    column: str
    kind: Kind
    values: int


@dataclass(frozen=True)
class ExpressionTest:
    """A test of a column through an expression that could be a key.

    The queries use the `column` in no other way. `sql` is the expression. `kind` and `values` describe the test as in
    ColumnTest; the kind is OTHER if the queries only count by the expression.
    """

    column: str
    sql: str
    kind: Kind
    values: int


@dataclass(frozen=True)
class Sums:
    """The aggregates that a query needs, grouped by the columns `keys`.

    Names are in lower case. `measures` has the name of each aggregated column, with the functions that are needed.
    """

    keys: tuple[str, ...]
    measures: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Shape:
    """The kind of a query: its tests and aggregation, without values.

    Names are in lower case. `key_sets` are sets of columns: the counts of rows by the columns of each set answer the
    aggregation. `key_sets` is None without an aggregation, or if counts do not answer it. An index of one of the
    `expressions` serves in place of an index of the column in the expression. `sums` is None if sums do not answer the
    aggregation.
    """

    database: str
    table: str
    tests: tuple[ColumnTest, ...]
    key_sets: tuple[tuple[str, ...], ...] | None
    expressions: tuple[ExpressionTest, ...] = ()
    sums: Sums | None = None

    @property
    def full_table(self) -> str:
        return f"{self.database}.{self.table}"

    def columns_of(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the table's columns that an index with these keys serves.

        A key that is one of `expressions` serves the column of the expression.

        >>> hour = ExpressionTest("ts", "date_trunc('HOUR', ts)", Kind.OTHER, 0)
        >>> sorted(Shape("d", "t", (), (("ts",),), (hour,)).columns_of(["date_trunc('HOUR', ts)", "k"]))
        ['k', 'ts']
        """
        columns = {expression.sql: expression.column for expression in self.expressions}
        return frozenset(columns.get(key, key) for key in keys)


@dataclass(kw_only=True)
class Tally:
    """The number of queries of one shape, and what Spark read for these queries.

    `queries` is the number of queries that no index served. `bytes` is the size of the files that these queries read,
    without pruned partitions; `unsized` counts the queries for which this size is unknown. `served` is the number of
    queries that an index served. `columns` has, by column name, the number of queries that needed the column; "*"
    stands for all columns. `samples` has some values that columns were compared with.
    """

    queries: int = 0
    bytes: int = 0
    unsized: int = 0
    served: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    samples: dict[str, set[str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the figures of another tally.

        At most MOST_SAMPLES values of each column are kept in `samples`.
        """
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.columns += other.columns
        for column, values in other.samples.items():
            samples = self.samples.setdefault(column, set())
            samples |= set(sorted(values - samples)[: MOST_SAMPLES - len(samples)])


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The record of the queries since a time.

    `since` is in seconds since 1970; None if there is no record. `uses` counts the queries that used an index, by
    (table, index). The size of the record is limited: `forgotten` is the number of shapes and indexes that were
    dropped from it. `broken` is the number of lines that could not be parsed.
    """

    shapes: Mapping[Shape, Tally]
    uses: Counter[tuple[str, str]]
    since: float | None
    forgotten: int = 0
    broken: int = 0

    @property
    def queries(self) -> int:
        return sum(tally.queries + tally.served for tally in self.shapes.values())


def of_session(spark: SparkSession) -> Observed:
    """Return the observed queries of all sessions of this application.

    Raises Unsupported on a Spark Connect client.
    """
    if not jvm_reader.available(spark):
        raise Unsupported(
            "a Spark Connect client plans nothing: ask for advice on the file that its server writes "
            "(spark.hive_bitmap.advice_file)"
        )
    return read(jvm_reader.text_of(bridge(spark).queries(spark._jsparkSession)).splitlines())


def of_file(path: str | os.PathLike[str]) -> Observed:
    """Return the record in a file and in its predecessor (`.1`).

    Raises NotFound if neither file exists.
    """
    paths = [f"{os.fspath(path)}.1", os.fspath(path)]
    existing = [part for part in paths if os.path.isfile(part)]
    if not existing:
        raise NotFound(
            f"there is no file {os.fspath(path)}: a server writes it if spark.hive_bitmap.advice_file names it"
        )
    return read(line for part in existing for line in _lines(part))


def _lines(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        while line := file.readline(MOST_CHARACTERS):
            yield line


def read(lines: Iterable[str]) -> Observed:
    """Parse a record from lines of JSON, as QueryRecord.java writes them.

    Other lines are counted in `broken`.
    """
    shapes: dict[Shape, Tally] = {}
    uses: Counter[tuple[str, str]] = Counter()
    sinces: list[float] = []
    forgotten: dict[str, int] = {}
    broken = 0
    for line in lines:
        try:
            fields = json.loads(line)
            if "application" in fields:
                sinces.append(_time(fields["since"]))
                forgotten[str(fields["application"])] = _count(fields["forgotten"])
            elif "index" in fields:
                uses[f"{fields['database']}.{fields['table']}", str(fields["index"])] += _count(fields["uses"])
            else:
                shape, tally = _shape(fields), _tally(fields)
                shapes.setdefault(shape, Tally()).add(tally)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            broken += 1
    return Observed(
        shapes=shapes,
        uses=uses,
        since=min(sinces, default=None),
        forgotten=sum(forgotten.values()),
        broken=broken,
    )


def _shape(fields: Mapping[str, Any]) -> Shape:
    tests = tuple(
        ColumnTest(str(column).lower(), Kind(kind), _count(values)) for column, kind, values in fields["tests"]
    )
    sets = fields.get("key_sets")
    key_sets = None if sets is None else tuple(tuple(str(key).lower() for key in keys) for keys in sets)
    expressions = tuple(
        ExpressionTest(str(column).lower(), str(sql), Kind(kind), _count(values))
        for column, sql, kind, values in fields.get("expressions", ())
    )
    sums = _sums(fields["sums"]) if "sums" in fields else None
    return Shape(str(fields["database"]).lower(), str(fields["table"]).lower(), tests, key_sets, expressions, sums)


def _sums(fields: Mapping[str, Any]) -> Sums:
    measures = tuple(
        (str(measure["column"]).lower(), tuple(str(function) for function in measure["functions"]))
        for measure in fields["measures"]
    )
    if not all(function in FUNCTIONS for _, functions in measures for function in functions):
        raise ValueError("that is no aggregate")
    return Sums(tuple(str(key).lower() for key in fields["keys"]), measures)


def _tally(fields: Mapping[str, Any]) -> Tally:
    return Tally(
        **{name: _count(fields[name]) for name in FIGURES},
        columns=Counter({str(name): _count(number) for name, number in fields["columns"].items()}),
        samples={str(name): {str(value) for value in values} for name, values in fields.get("samples", {}).items()},
    )


def _count(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > MOST_COUNTED:
        raise ValueError("not a count")
    return number


def _time(moment: object) -> float:
    if not is_time(moment):
        raise ValueError("not a time")
    return float(moment)
