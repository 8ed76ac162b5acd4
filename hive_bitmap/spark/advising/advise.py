"""Advise on indexes: which to create, and which no query used."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.columns import KeyExpression, KeyText
from hive_bitmap.core.explaining.measures import seconds
from hive_bitmap.core.index.definition import Definition, define
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.samples.extrapolate import Spread
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import HiveBitmapError, InvalidProperty, Unsupported
from hive_bitmap.spark.advising import observed
from hive_bitmap.spark.advising.asked_sums import notes_on_sums
from hive_bitmap.spark.advising.gains import TableFigures
from hive_bitmap.spark.advising.index_set import PossibleIndex, Step, UnchosenIndex, Workload, choose
from hive_bitmap.spark.advising.observed import Observed, Shape, Tally
from hive_bitmap.spark.advising.proposals import Advice, LeftOut, Proposal, UnusedIndex, named
from hive_bitmap.spark.advising.useful_columns import Columns, useful_sets
from hive_bitmap.spark.building import key_expressions
from hive_bitmap.spark.estimating.estimate import Estimate, estimate
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.maintaining.show import show
from hive_bitmap.spark.metastore import jvm_reader, metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN_BYTES = 1 << 40  # assumed for a query whose bytes Spark knows only after listing files: rather many
MOST_ESTIMATED = 2  # indexes to estimate for each index that the set may have
MOST_NAME = 60  # characters of the name of an expression
MOST_LEFT_OUT = 10  # reasons for indexes that are not proposed
NOTHING_SEEN = (
    "no query has been seen: enable indexes (hive_bitmap.enable), run your queries and ask again in the same "
    "application, or name the file that a server writes with spark.hive_bitmap.advice_file"
)


@dataclass(frozen=True, kw_only=True)
class _TableQueries:
    """An existing table, its indexes, and the shapes of its queries."""

    base: Table
    indexes: Sequence[Index]
    shapes: Mapping[Shape, Tally]

    @property
    def indexed(self) -> list[Columns]:
        return [_keys(index.definition) for index in self.indexes]


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """An index that could serve queries.

    `columns` are its keys: names of columns in lower case, and expressions. `bytes` is the size of the files that these
    queries have read.
    """

    definition: Definition
    columns: Columns
    bytes: int


def _keys(definition: Definition) -> Columns:
    return frozenset(
        (*(c.name.lower() for c in definition.plain_columns), *(e.canonical for e in definition.expressions))
    )


def advise(
    spark: SparkSession,
    *,
    file: str | os.PathLike[str] | None = None,
    table: str | None = None,
    limit: int = 10,
    times: int = 30,
) -> Advice:
    """Propose a set of indexes for the queries so far, and list unused indexes.

    The queries of all sessions of this application count, or with `file`, the queries in this file. Servers append
    their queries to the file that their setting `spark.hive_bitmap.advice_file` names. With `table`, only queries and
    indexes of this table are considered.

    The set has at most `limit` indexes and is chosen in steps. A step adds one index, or several indexes that serve
    queries only together. Each step saves as much as possible in addition to the indexes chosen before. A step must
    save more time than the builds of its indexes take, if each query is repeated `times` times as often as it was seen.
    Up to twice `limit` indexes are considered, each estimated from a sample of the table's blocks. Raises
    InvalidProperty if `limit` or `times` is less than 1, NotFound for a missing file or table, and Unsupported on a
    Spark Connect client without a file.
    """
    for name, number in {"indexes": limit, "times": times}.items():
        if number < 1:
            raise InvalidProperty(f"the number of {name} must be at least 1, not {number}")
    full_name = None if table is None else metastore.describe(spark, table).full_name
    record = _observed(spark, file)
    shapes = {shape: tally for shape, tally in record.shapes.items() if full_name in (None, shape.full_table)}
    notes = list(_notes_on(record))
    if not shapes:
        nothing = NOTHING_SEEN if full_name is None else f"no query of {full_name} has been seen"
        return Advice(queries=0, since=record.since, notes=(*notes, nothing))
    queried = _tables(spark, shapes, notes)
    proposals, left_out = _choose(spark, queried, limit, times, notes)
    for queries in queried:
        indexes = [index.definition for index in queries.indexes]
        notes.extend(notes_on_sums(spark, queries.base, indexes, queries.shapes))
    if more := sum(len(entry.columns) for entry in left_out[MOST_LEFT_OUT:]):
        notes.append(f"{more:,} more indexes were left out")
    return Advice(
        queries=sum(tally.queries + tally.served for tally in shapes.values()),
        since=record.since,
        proposals=tuple(proposals),
        left_out=tuple(left_out[:MOST_LEFT_OUT]),
        unused=tuple(_unused(spark, record, full_name)),
        notes=tuple(notes),
    )


def _observed(spark: SparkSession, file: str | os.PathLike[str] | None) -> Observed:
    if file is None:
        return observed.of_session(spark)
    if jvm_reader.available(spark):
        bridge(spark).flushQueries(spark._jsparkSession)  # the file may be written by this very application
    return observed.of_file(file)


def _notes_on(record: Observed) -> Iterator[str]:
    if record.broken:
        yield f"{record.broken:,} lines of the file could not be parsed and were skipped"
    if record.forgotten:
        yield f"the record was full: {record.forgotten:,} query shapes or index uses were dropped from it"


def _tables(spark: SparkSession, shapes: Mapping[Shape, Tally], notes: list[str]) -> list[_TableQueries]:
    """Return the existing tables of these shapes that can have indexes, with their queries.

    Add a note to `notes` on each table that is left out.
    """
    by_table: defaultdict[tuple[str, str], dict[Shape, Tally]] = defaultdict(dict)
    for shape, tally in shapes.items():
        by_table[shape.database, shape.table][shape] = tally
    queried = []
    for (database, name), of_table in by_table.items():
        described = metastore.describe_many(spark, database, [name])
        if not described:
            notes.append(f"table {database}.{name} no longer exists; its queries were skipped")
            continue
        try:
            format_of(described[0])
        except Unsupported as e:
            notes.append(f"queries were skipped: {e}")
            continue
        indexes = catalog.indexes_on(spark, described[0])
        queried.append(_TableQueries(base=described[0], indexes=indexes, shapes=of_table))
    return queried


def _choose(
    spark: SparkSession, tables: Sequence[_TableQueries], limit: int, times: int, notes: list[str]
) -> tuple[list[Proposal], list[LeftOut]]:
    """Return the proposals, and the indexes that are left out.

    The proposals have at most `limit` indexes together. Each query is expected to run `times` times as often as it was
    seen. Notes on tables that cannot be estimated are added to `notes`.
    """
    impossible: list[tuple[str, tuple[str, ...], str]] = []
    candidates = [(candidate, table) for table in tables for candidate in _candidates(spark, table, impossible)]
    candidates.sort(
        key=lambda pair: (len(pair[0].columns), -pair[0].bytes, pair[0].definition.full_table, pair[0].definition.name)
    )
    most = limit * MOST_ESTIMATED
    estimated: defaultdict[str, list[_Candidate]] = defaultdict(list)
    for candidate, table in candidates[:most]:
        estimated[table.base.full_name].append(candidate)
    workloads: list[Workload] = []
    definitions: dict[tuple[str, Columns], Definition] = {}
    for table in tables:
        of_table = estimated[table.base.full_name]
        if not of_table:
            continue
        try:
            keys = [_keys_to_create(candidate.definition) for candidate in of_table]
            estimates = estimate(spark, table.base.spark_name, keys, values=_values(table.shapes))
        except HiveBitmapError as e:
            notes.append(f"table {table.base.full_name} was not estimated: {e}")
            continue
        workloads.append(
            _workload(spark, table, dict(zip((candidate.columns for candidate in of_table), estimates, strict=True)))
        )
        definitions |= {(table.base.full_name, candidate.columns): candidate.definition for candidate in of_table}
    steps, unchosen = choose(workloads, limit, times)
    reasons = [_reason(index, definitions, limit, times) for index in unchosen] + impossible
    for candidate, table in candidates[most:]:
        why = f"not estimated: only {most} indexes are, those with the fewest columns and the largest reads first"
        reasons.append((table.base.full_name, candidate.definition.key_texts, why))
    return [_proposal(step, definitions) for step in steps], list(_by_reason(reasons))


def _by_reason(reasons: Iterable[tuple[str, tuple[str, ...], str]]) -> Iterator[LeftOut]:
    """Group the left-out indexes by table and reason.

    `reasons` has a tuple (table, columns, reason) for each left-out index.
    """
    groups: defaultdict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for table, columns, why in reasons:
        groups[table, why].append(columns)
    for (table, why), indexes in groups.items():
        yield LeftOut(table=table, columns=tuple(indexes), why=why)


def _keys_to_create(definition: Definition) -> list[str | KeyExpression]:
    return [*(column.name for column in definition.plain_columns), *definition.expressions]


def _candidates(
    spark: SparkSession, table: _TableQueries, impossible: list[tuple[str, tuple[str, ...], str]]
) -> Iterator[_Candidate]:
    """Yield the indexes that could serve the queries of a table.

    For each index that cannot be created, a tuple (table, columns, reason) is added to `impossible`.
    """
    read: defaultdict[Columns, int] = defaultdict(int)
    for shape, tally in table.shapes.items():
        sets = useful_sets(shape, table.indexed) if tally.queries > 0 else set()
        for columns in frozenset[Columns]().union(*sets):
            read[columns] += tally.bytes + tally.unsized * UNKNOWN_BYTES
    taken = {index.definition.name for index in table.indexes}
    for columns, unserved in sorted(read.items(), key=lambda item: sorted(item[0])):
        try:
            definition = define(table.base, _resolved(spark, table.base, sorted(columns)))
            if definition.name not in taken:
                yield _Candidate(definition=definition, columns=columns, bytes=unserved)
                continue
            why = f"the table has another index named {definition.name}"
        except HiveBitmapError as e:  # the type cannot be a key, or the table has changed since
            why = f"it cannot be created: {e}"
        impossible.append((table.base.full_name, tuple(sorted(columns)), why))


def _resolved(spark: SparkSession, base: Table, keys: Sequence[str]) -> list[str | KeyExpression]:
    """Return the keys of an index as `define` takes them.

    Each expression gets a name. Raise Unsupported for an expression that cannot be a key.
    """
    columns = {column.name.lower() for column in (*base.columns, *base.partition_columns)}
    named = (key if key in columns else KeyText(key, _name(key, columns)) for key in keys)
    return key_expressions.resolved(spark, base, list(named))


def _name(sql: str, taken: Collection[str]) -> str:
    """Return a name for an expression that is not one of the `taken` names.

    >>> _name("date_trunc('HOUR', ts)", ["ts"])
    'date_trunc_hour_ts'
    """
    words = re.findall(r"[a-z0-9]+", sql.lower())
    name = re.sub(r"^(?=[0-9])|^hive_bitmap", "key_", "_".join(words))[:MOST_NAME]
    return f"{name}_key" if name in taken else name


def _workload(spark: SparkSession, table: _TableQueries, estimates: Mapping[Columns, Estimate]) -> Workload:
    """Return a table's queries, its estimated indexes, and useful sets of these indexes.

    A set is useful if its indexes together could serve queries. `estimates` has the estimate of each index, by its
    columns.
    """
    base = table.base
    possible = {
        columns: PossibleIndex(
            figures=TableFigures(
                format=format_of(base),
                cores=parallelism(spark),
                columns=(*base.columns, *base.partition_columns),
                bytes=estimated.base_bytes,
                files=estimated.files,
                blocks=estimated.blocks_total,
                rows=estimated.rows,
                index_bytes=estimated.index_bytes,
                key=Spread(estimated.share_of_blocks, estimated.share_of_rows),
                value=_spread_of_values(estimated),
                store=stores.estimated_speed_of(base.location),
            ),
            build_seconds=estimated.seconds,
        )
        for columns, estimated in estimates.items()
    }
    sets = {
        indexes
        for shape, tally in table.shapes.items()
        if tally.queries > 0
        for indexes in useful_sets(shape, table.indexed)
    }
    return Workload(
        table=base.full_name,
        shapes=table.shapes,
        indexed=table.indexed,
        possible=possible,
        sets={indexes for indexes in sets if indexes <= possible.keys()},
    )


def _proposal(step: Step, definitions: Mapping[tuple[str, Columns], Definition]) -> Proposal:
    table = step.workload.table
    created = [definitions[table, columns] for columns in step.sorted_indexes]
    return Proposal(
        table=table,
        columns=tuple(definition.key_texts for definition in created),
        queries=step.queries,
        bytes_saved=step.gain.bytes,
        seconds_saved=step.gain.seconds,
        index_bytes=step.index_bytes,
        build_seconds=step.build_seconds,
        statements=tuple(map(_statement, created)),
    )


def _reason(
    index: UnchosenIndex, definitions: Mapping[tuple[str, Columns], Definition], limit: int, times: int
) -> tuple[str, tuple[str, ...], str]:
    """Return why an index was not chosen, as (table, columns, reason).

    `definitions` has the definition of each estimated index, by table and columns. `limit` and `times` are the
    arguments of `advise`.
    """
    step, table = index.step, index.step.workload.table
    companions = [definitions[table, columns].key_texts for columns in step.sorted_indexes if columns != index.columns]
    saves = f"it would save {seconds(step.gain.seconds)} more" + (
        f", together with {named(companions)}" if companions else ""
    )
    if step.worth_it:
        why = f"{saves}, but the set is limited to {limit}"
    elif step.gain.seconds * times > step.build_seconds:
        why = f"{saves}, which is little compared with the proposed indexes"
    elif step.gain.seconds > 0:
        why = f"{saves}, but takes {seconds(step.build_seconds)} to build, more than {times} times that"
    elif index.alone.seconds > 0:
        why = "the proposed indexes already save its queries as much"
    else:
        why = "Spark alone is as quick: its queries select too many blocks, read too little or have too many keys"
    return table, definitions[table, index.columns].key_texts, why


def _spread_of_values(estimated: Estimate) -> Spread | None:
    if estimated.blocks_of_values is None or estimated.rows_of_values is None:
        return None
    return Spread(estimated.blocks_of_values, estimated.rows_of_values)


def _values(shapes: Mapping[Shape, Tally]) -> dict[str, set[str]]:
    """Return, by column name, some values that queries compare the column with.

    The tallies of `shapes` have recorded these values.
    """
    values: defaultdict[str, set[str]] = defaultdict(set)
    for tally in shapes.values():
        for column, samples in tally.samples.items():
            values[column] |= samples
    return {column: set(sorted(seen_values)[: observed.MOST_SAMPLES]) for column, seen_values in values.items()}


def _statement(definition: Definition) -> str:
    table = f"{quote(definition.database)}.{quote(definition.table)}"
    keys = (*(quote(column.name) for column in definition.plain_columns), *map(str, definition.expressions))
    return f"CREATE INDEX {quote(definition.name)} ON TABLE {table} ({', '.join(keys)}) AS 'BITMAP'"


def _unused(spark: SparkSession, record: Observed, table: str | None) -> Iterator[UnusedIndex]:
    """Yield the indexes that no query used.

    `record` has the observed queries. With `table`, only indexes of this table are checked; None stands for all tables.
    """
    databases = metastore.database_names(spark) if table is None else [table.partition(".")[0]]
    indexes = [index for database in databases for index in catalog.indexes_of_database(spark, database)]
    unused = {
        (index.definition.full_table, index.definition.name)
        for index in indexes
        if table in (None, index.definition.full_table)
        and not index.definition.catalog  # queries of tables in other catalogs are not recorded
    } - set(record.uses)
    for full_table in sorted({of_table for of_table, _ in unused}):
        database, _, name = full_table.partition(".")
        for status in show(spark, f"{quote(database)}.{quote(name)}"):
            definition = status.definition
            if (full_table, definition.name) in unused:
                yield UnusedIndex(
                    table=full_table,
                    index=definition.name,
                    columns=definition.key_texts,
                    index_bytes=status.index_bytes,
                    built=status.built,
                )
