"""Advice for the queries that were seen: indexes that would have saved most, and indexes that no query used."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.explaining.measures import moment, seconds, size
from hive_bitmap.core.index.definition import Definition, define
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import HiveBitmapError, InvalidProperty, Unsupported
from hive_bitmap.spark.advising import observed
from hive_bitmap.spark.advising.gains import Gain, TableFigures, gain, gain_by_answers
from hive_bitmap.spark.advising.observed import Observed, Shape, Tally
from hive_bitmap.spark.advising.useful_columns import Columns, answers, candidates_of, narrowing, needed
from hive_bitmap.spark.catalyst.jvm_bridge import bridge
from hive_bitmap.spark.estimating.estimate import Estimate, estimate
from hive_bitmap.spark.estimating.extrapolate import Spread
from hive_bitmap.spark.maintaining.show import show
from hive_bitmap.spark.metastore import jvm_reader, metastore
from hive_bitmap.spark.metastore.file_listing import format_of
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN_BYTES = 1 << 40  # of a query whose bytes Spark does not know without listing files: rather many
MOST_ESTIMATED = 2  # candidates that are estimated for each one that is named
NOTHING_SEEN = (
    "no query has been seen: enable indexes (hive_bitmap.enable), run your queries in the same application and ask "
    "again there, or name the file that a server with spark.hive_bitmap.advice_file writes"
)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An index that does not exist, and what it would have saved the queries that were seen.

    Of `queries`, each would have gained; of all of them together, `bytes_saved` of base files would not have been read,
    and `seconds_saved` is the difference at the planner's prices. `index_bytes` and `build_seconds` are estimates of
    the index; `statement` creates it.
    """

    table: str
    columns: tuple[str, ...]
    queries: int
    bytes_saved: int
    seconds_saved: float
    index_bytes: int
    build_seconds: float
    statement: str


@dataclass(frozen=True, kw_only=True)
class UnusedIndex:
    """An index that none of the queries used, its size, and when its last build began, in seconds since 1970."""

    table: str
    index: str
    columns: tuple[str, ...]
    index_bytes: int
    built: float | None


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice for `queries` scans that were seen `since` a time, in seconds since 1970.

    `candidates` are sorted by what they would have saved, the best first; each is judged by itself, so two of them may
    have saved the same query. `notes` are sentences on what could not be judged.
    """

    queries: int
    since: float | None
    candidates: tuple[Candidate, ...] = ()
    unused: tuple[UnusedIndex, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass(frozen=True, kw_only=True)
class _TableQueries:
    """A table that exists, its indexes, and the shapes of its queries."""

    base: Table
    indexes: Sequence[Index]
    shapes: Mapping[Shape, Tally]

    @property
    def indexed(self) -> list[Columns]:
        return [frozenset(name.lower() for name in index.definition.column_names) for index in self.indexes]


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """An index that could serve queries, which would read `bytes` without it."""

    definition: Definition
    columns: Columns
    bytes: int


def advise(
    spark: SparkSession, *, file: str | os.PathLike[str] | None = None, table: str | None = None, limit: int = 10
) -> Advice:
    """Name the indexes that the queries so far would have gained most from, and those that none has used.

    The queries are those of all sessions of this application, or those in a `file` that servers with the setting
    `spark.hive_bitmap.advice_file` append to. With `table`, only its queries and indexes count. At most `limit`
    candidates are named, of twice as many that are estimated from a sample of the table's blocks: those whose queries
    read most. Raises NotFound for a file or table that does not exist, and Unsupported on a Spark Connect client
    without a file.
    """
    if limit < 1:
        raise InvalidProperty(f"the number of candidates is at least 1, not {limit}")
    wanted = None if table is None else metastore.describe(spark, table).full_name
    seen = _seen(spark, file)
    shapes = {s: tally for s, tally in seen.shapes.items() if wanted in (None, s.full_table)}
    notes = list(_notes_on(seen))
    if not shapes:
        nothing = NOTHING_SEEN if wanted is None else f"no query of {wanted} has been seen"
        return Advice(queries=0, since=seen.since, notes=(*notes, nothing))
    queried = _tables(spark, shapes, notes)
    candidates = _candidates(spark, queried, limit, notes)
    return Advice(
        queries=sum(tally.queries + tally.served for tally in shapes.values()),
        since=seen.since,
        candidates=tuple(candidates[:limit]),
        unused=tuple(_unused(spark, seen, wanted)),
        notes=tuple(notes),
    )


def _seen(spark: SparkSession, file: str | os.PathLike[str] | None) -> Observed:
    if file is None:
        return observed.of_session(spark)
    if jvm_reader.available(spark):
        bridge(spark).flushQueries(spark._jsparkSession)  # it may be the file of this very application
    return observed.of_file(file)


def _notes_on(seen: Observed) -> Iterator[str]:
    if seen.broken:
        yield f"{seen.broken:,} lines of the file are not understood and were skipped"
    if seen.forgotten:
        yield f"the record was full: {seen.forgotten:,} kinds of queries, or uses of indexes, are no longer in it"


def _tables(spark: SparkSession, shapes: Mapping[Shape, Tally], notes: list[str]) -> list[_TableQueries]:
    """Return the tables that exist and can have indexes; a sentence on each other one is added to the notes."""
    by_table: defaultdict[tuple[str, str], dict[Shape, Tally]] = defaultdict(dict)
    for shape, tally in shapes.items():
        by_table[shape.database, shape.table][shape] = tally
    found = []
    for (database, name), of_table in by_table.items():
        described = metastore.describe_many(spark, database, [name])
        if not described:
            notes.append(f"table {database}.{name} is gone, and its queries were skipped")
            continue
        try:
            format_of(described[0])
        except Unsupported as e:
            notes.append(f"queries were skipped: {e}")
            continue
        indexes = catalog.indexes_on(spark, described[0])
        found.append(_TableQueries(base=described[0], indexes=indexes, shapes=of_table))
    return found


def _candidates(spark: SparkSession, tables: Sequence[_TableQueries], limit: int, notes: list[str]) -> list[Candidate]:
    """Return the candidates that would have saved something, the best first."""
    wanted = [(one, table) for table in tables for one in _wanted(table)]
    wanted.sort(key=lambda pair: -pair[0].bytes)
    chosen: defaultdict[str, list[_Wanted]] = defaultdict(list)
    for one, table in wanted[: limit * MOST_ESTIMATED]:
        chosen[table.base.full_name].append(one)
    found = []
    for table in tables:
        mine = chosen[table.base.full_name]
        if not mine:
            continue
        try:
            columns = [one.definition.column_names for one in mine]
            estimates = estimate(spark, table.base.spark_name, columns, values=_values(table.shapes))
        except HiveBitmapError as e:
            notes.append(f"table {table.base.full_name} was not estimated: {e}")
            continue
        found += [_candidate(spark, table, one, told) for one, told in zip(mine, estimates, strict=True)]
    gained = [one for one in found if one.queries]
    return sorted(gained, key=lambda one: (-one.seconds_saved, -one.bytes_saved, one.table, one.columns))


def _wanted(table: _TableQueries) -> Iterator[_Wanted]:
    """Yield the indexes that could serve queries of a table, of columns that can be keys."""
    read: defaultdict[Columns, int] = defaultdict(int)
    indexed = table.indexed
    for shape, tally in table.shapes.items():
        for columns in candidates_of(shape, indexed) if tally.queries > 0 else ():
            read[columns] += tally.bytes + tally.unsized * UNKNOWN_BYTES
    taken = {index.definition.name for index in table.indexes}
    for columns, unserved in read.items():
        try:
            definition = define(table.base, sorted(columns))
        except HiveBitmapError:
            continue  # of a type that cannot be a key, or of a table that has changed since
        if definition.name not in taken:
            yield _Wanted(definition=definition, columns=columns, bytes=unserved)


def _candidate(spark: SparkSession, table: _TableQueries, wanted: _Wanted, told: Estimate) -> Candidate:
    base = table.base
    figures = TableFigures(
        format=format_of(base),
        cores=parallelism(spark),
        columns=(*base.columns, *base.partition_columns),
        bytes=told.base_bytes,
        files=told.files,
        blocks=told.blocks_total,
        rows=told.rows,
        index_bytes=told.index_bytes,
        key=Spread(told.share_of_blocks, told.share_of_rows),
        value=_spread_of_values(told),
        store=stores.estimated_speed_of(base.location),
    )
    queries, total = 0, Gain()
    for shape, tally in table.shapes.items():
        saved = _gain(shape, tally, figures, wanted.columns, table.indexed)
        total = Gain(total.bytes + saved.bytes, total.seconds + saved.seconds)
        queries += tally.queries if saved.seconds else 0
    return Candidate(
        table=base.full_name,
        columns=wanted.definition.column_names,
        queries=queries,
        bytes_saved=total.bytes,
        seconds_saved=total.seconds,
        index_bytes=told.index_bytes,
        build_seconds=told.seconds,
        statement=_statement(wanted.definition),
    )


def _gain(shape: Shape, tally: Tally, figures: TableFigures, columns: Columns, indexed: Sequence[Columns]) -> Gain:
    """Return what an index of these columns saves the queries of a shape: by answers, or else by narrowing scans."""
    test, saved = narrowing(shape, columns), Gain()
    if answers(shape, columns, indexed):
        saved = gain_by_answers(tally, figures, len(needed(shape)))
    return gain(tally, figures, test) if test is not None and not saved.seconds else saved


def _spread_of_values(told: Estimate) -> Spread | None:
    if told.blocks_of_values is None or told.rows_of_values is None:
        return None
    return Spread(told.blocks_of_values, told.rows_of_values)


def _values(shapes: Mapping[Shape, Tally]) -> dict[str, set[str]]:
    """Return some values that queries compare each column with, if the record has any."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for tally in shapes.values():
        for column, samples in tally.samples.items():
            values[column] |= samples
    return {column: set(sorted(found)[: observed.MOST_SAMPLES]) for column, found in values.items()}


def _statement(definition: Definition) -> str:
    table, columns = f"{quote(definition.database)}.{quote(definition.table)}", map(quote, definition.column_names)
    return f"CREATE INDEX {quote(definition.name)} ON TABLE {table} ({', '.join(columns)}) AS 'BITMAP'"


def _unused(spark: SparkSession, seen: Observed, table: str | None) -> Iterator[UnusedIndex]:
    """Yield the indexes of a table, None for all tables, that no query used."""
    databases = metastore.database_names(spark) if table is None else [table.partition(".")[0]]
    indexes = [index for database in databases for index in catalog.indexes_of_database(spark, database)]
    unused = {
        (index.definition.full_table, index.definition.name)
        for index in indexes
        if table in (None, index.definition.full_table) and not index.definition.catalog  # of those nothing is observed
    } - set(seen.uses)
    for full_table in sorted({of_table for of_table, _ in unused}):
        database, _, name = full_table.partition(".")
        for status in show(spark, f"{quote(database)}.{quote(name)}"):
            definition = status.definition
            if (full_table, definition.name) in unused:
                yield UnusedIndex(
                    table=full_table,
                    index=definition.name,
                    columns=definition.column_names,
                    index_bytes=status.index_bytes,
                    built=status.built,
                )


def _lines(advice: Advice) -> Iterator[str]:
    if advice.queries:
        yield f"{advice.queries:,} scans seen since {time_of(advice.since)}"
    for one in advice.candidates:
        yield (
            f"{one.table} ({', '.join(one.columns)}): would have saved {one.queries:,} queries {size(one.bytes_saved)} "
            f"and {seconds(one.seconds_saved)}; takes {size(one.index_bytes)}, built in {seconds(one.build_seconds)}"
        )
        yield f"  {one.statement};"
    if advice.queries and not advice.candidates:
        yield "no further index would have saved time"
    for index in advice.unused:
        yield (
            f"{index.table}: no query used index {index.index} ({', '.join(index.columns)}), of "
            f"{size(index.index_bytes)}, last built {time_of(index.built)}"
        )
    yield from advice.notes


def time_of(at: float | None) -> str:
    """Return a time, in seconds since 1970, as text in UTC; a dash if there is none."""
    return "-" if at is None else moment(at)
