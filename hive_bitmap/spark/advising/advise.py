"""Advice for the queries that were seen: a set of indexes to create, and the indexes that no query used."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.explaining.measures import seconds
from hive_bitmap.core.index.definition import Definition, define
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import HiveBitmapError, InvalidProperty, Unsupported
from hive_bitmap.spark.advising import observed
from hive_bitmap.spark.advising.gains import TableFigures
from hive_bitmap.spark.advising.index_set import PossibleIndex, Step, UnchosenIndex, Workload, choose
from hive_bitmap.spark.advising.observed import Observed, Shape, Tally
from hive_bitmap.spark.advising.proposals import Advice, LeftOut, Proposal, UnusedIndex, named
from hive_bitmap.spark.advising.useful_columns import Columns, useful_sets
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
MOST_ESTIMATED = 2  # indexes that are estimated for each one that the set may have
MOST_LEFT_OUT = 10  # reasons why indexes are not proposed
NOTHING_SEEN = (
    "no query has been seen: enable indexes (hive_bitmap.enable), run your queries in the same application and ask "
    "again there, or name the file that a server with spark.hive_bitmap.advice_file writes"
)


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
class _Considered:
    """An index that could serve queries, which read `bytes` without it."""

    definition: Definition
    columns: Columns
    bytes: int


def advise(
    spark: SparkSession,
    *,
    file: str | os.PathLike[str] | None = None,
    table: str | None = None,
    limit: int = 10,
    times: int = 30,
) -> Advice:
    """Propose a set of indexes for the queries so far, and name the indexes that none of them used.

    The queries are those of all sessions of this application, or those in a `file` that servers with the setting
    `spark.hive_bitmap.advice_file` append to. With `table`, only its queries and indexes count. The set has at most
    `limit` indexes, chosen one step after the other: always what saves most beside those before, as long as its builds
    take less than it saves if each query comes `times` as often as it was seen. Twice as many indexes are considered
    and estimated from a sample of the table's blocks. Raises NotFound for a file or table that does not exist, and
    Unsupported on a Spark Connect client without a file.
    """
    for name, number in {"indexes": limit, "times": times}.items():
        if number < 1:
            raise InvalidProperty(f"the number of {name} is at least 1, not {number}")
    wanted = None if table is None else metastore.describe(spark, table).full_name
    seen = _seen(spark, file)
    shapes = {s: tally for s, tally in seen.shapes.items() if wanted in (None, s.full_table)}
    notes = list(_notes_on(seen))
    if not shapes:
        nothing = NOTHING_SEEN if wanted is None else f"no query of {wanted} has been seen"
        return Advice(queries=0, since=seen.since, notes=(*notes, nothing))
    queried = _tables(spark, shapes, notes)
    proposals, left_out = _chosen(spark, queried, limit, times, notes)
    if more := sum(len(one.columns) for one in left_out[MOST_LEFT_OUT:]):
        notes.append(f"{more:,} more indexes were left out")
    return Advice(
        queries=sum(tally.queries + tally.served for tally in shapes.values()),
        since=seen.since,
        proposals=tuple(proposals),
        left_out=tuple(left_out[:MOST_LEFT_OUT]),
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


def _chosen(
    spark: SparkSession, tables: Sequence[_TableQueries], limit: int, times: int, notes: list[str]
) -> tuple[list[Proposal], list[LeftOut]]:
    """Return the proposed set, and what was left out of it."""
    impossible: list[tuple[str, tuple[str, ...], str]] = []
    considered = [(one, table) for table in tables for one in _considered(table, impossible)]
    considered.sort(
        key=lambda pair: (len(pair[0].columns), -pair[0].bytes, pair[0].definition.full_table, pair[0].definition.name)
    )
    most = limit * MOST_ESTIMATED
    estimated: defaultdict[str, list[_Considered]] = defaultdict(list)
    for one, table in considered[:most]:
        estimated[table.base.full_name].append(one)
    workloads: list[Workload] = []
    definitions: dict[tuple[str, Columns], Definition] = {}
    for table in tables:
        mine = estimated[table.base.full_name]
        if not mine:
            continue
        try:
            columns = [one.definition.column_names for one in mine]
            estimates = estimate(spark, table.base.spark_name, columns, values=_values(table.shapes))
        except HiveBitmapError as e:
            notes.append(f"table {table.base.full_name} was not estimated: {e}")
            continue
        workloads.append(_workload(spark, table, dict(zip((one.columns for one in mine), estimates, strict=True))))
        definitions |= {(table.base.full_name, one.columns): one.definition for one in mine}
    steps, others = choose(workloads, limit, times)
    reasons = [_reason(one, definitions, limit, times) for one in others] + impossible
    for one, table in considered[most:]:
        why = f"not estimated: of all indexes, the {most} of fewest columns are, and whose queries read most"
        reasons.append((table.base.full_name, one.definition.column_names, why))
    return [_proposal(step, definitions) for step in steps], list(_by_reason(reasons))


def _by_reason(reasons: Iterable[tuple[str, tuple[str, ...], str]]) -> Iterator[LeftOut]:
    """Put together what was left out of the same table for the same reason."""
    found: defaultdict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for table, columns, why in reasons:
        found[table, why].append(columns)
    for (table, why), indexes in found.items():
        yield LeftOut(table=table, columns=tuple(indexes), why=why)


def _considered(table: _TableQueries, impossible: list[tuple[str, tuple[str, ...], str]]) -> Iterator[_Considered]:
    """Yield the indexes that could serve queries of a table; those that cannot be created are added to `impossible`."""
    read: defaultdict[Columns, int] = defaultdict(int)
    for shape, tally in table.shapes.items():
        sets = useful_sets(shape, table.indexed) if tally.queries > 0 else set()
        for columns in frozenset[Columns]().union(*sets):
            read[columns] += tally.bytes + tally.unsized * UNKNOWN_BYTES
    taken = {index.definition.name for index in table.indexes}
    for columns, unserved in sorted(read.items(), key=lambda item: sorted(item[0])):
        try:
            definition = define(table.base, sorted(columns))
            if definition.name not in taken:
                yield _Considered(definition=definition, columns=columns, bytes=unserved)
                continue
            why = f"the table has another index of the name {definition.name}"
        except HiveBitmapError as e:  # of a type that cannot be a key, or of a table that has changed since
            why = f"it cannot be created: {e}"
        impossible.append((table.base.full_name, tuple(sorted(columns)), why))


def _workload(spark: SparkSession, table: _TableQueries, estimates: Mapping[Columns, Estimate]) -> Workload:
    """Return the queries of a table with the indexes that were estimated, and the sets that these can make."""
    base = table.base
    possible = {
        columns: PossibleIndex(
            figures=TableFigures(
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
            ),
            build_seconds=told.seconds,
        )
        for columns, told in estimates.items()
    }
    sets = {
        one for shape, tally in table.shapes.items() if tally.queries > 0 for one in useful_sets(shape, table.indexed)
    }
    return Workload(
        table=base.full_name,
        shapes=table.shapes,
        indexed=table.indexed,
        possible=possible,
        sets={one for one in sets if one <= possible.keys()},
    )


def _proposal(step: Step, definitions: Mapping[tuple[str, Columns], Definition]) -> Proposal:
    table = step.workload.table
    created = [definitions[table, columns] for columns in step.sorted_indexes]
    return Proposal(
        table=table,
        columns=tuple(definition.column_names for definition in created),
        queries=step.queries,
        bytes_saved=step.gain.bytes,
        seconds_saved=step.gain.seconds,
        index_bytes=step.index_bytes,
        build_seconds=step.build_seconds,
        statements=tuple(map(_statement, created)),
    )


def _reason(
    one: UnchosenIndex, definitions: Mapping[tuple[str, Columns], Definition], limit: int, times: int
) -> tuple[str, tuple[str, ...], str]:
    """Return the table and the columns of an index that was not chosen, and why not."""
    step, table = one.step, one.step.workload.table
    others = [definitions[table, columns].column_names for columns in step.sorted_indexes if columns != one.columns]
    saves = f"it would save {seconds(step.gain.seconds)} more" + (f", together with {named(others)}" if others else "")
    if step.worth_it:
        why = f"{saves}, but the set is limited to {limit}"
    elif step.gain.seconds * times > step.build_seconds:
        why = f"{saves}, little beside the proposed indexes"
    elif step.gain.seconds > 0:
        why = f"{saves}, and takes {seconds(step.build_seconds)} to build, more than {times} times that"
    elif one.alone.seconds > 0:
        why = "the proposed indexes save its queries as much"
    else:
        why = "Spark alone is as quick: its queries select too many blocks, read too little or have too many keys"
    return table, definitions[table, one.columns].column_names, why


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
