"""Count the rows that satisfy a predicate from the index alone.

Rows are counted in total or by key. Files whose current version is not in the index are left to Spark. Fingerprints
are compared when the rows are counted, not only when the query is planned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.answering.answer_size import TooLarge, nbytes, remember_too_large
from hive_bitmap.core.answering.count_budget import index_bytes
from hive_bitmap.core.answering.extremes import are_enough, extremes
from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.answering.group_summaries import GroupSummary, group_summaries, is_summarized
from hive_bitmap.core.answering.key_merge import DISTINCT, is_merged, merged_answer
from hive_bitmap.core.answering.partial_sums import NotSummed, RunningSums, TooWide, add_up
from hive_bitmap.core.answering.tally import RunningCounts, merge_counts, require_small, tally
from hive_bitmap.core.columns import find
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index import checksums
from hive_bitmap.core.index.aggregate_columns import Aggregate
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults, is_tested_elsewhere, restrict
from hive_bitmap.core.selecting.index_rows import COUNT, GROUP
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, Flags, Longs, Place
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.spark.preparing.index_lookup import DRIVER_INDEX_BYTES
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.spark_only import fallback_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
log = logging.getLogger(__name__)
TASKS_TOGETHER = 8  # lookups whose keys are counted in tasks at a time; this bounds the memory of their results
PIECE_ROWS = 16 << 20  # base rows whose keys are counted at a time; this bounds the memory of their bitmaps


class _NotCounted(Enum):
    """The reason why the index does not count the keys of a lookup."""

    DAMAGED = "the index is damaged"
    TOO_MANY_KEYS = "two indexes have too many keys each"
    TOO_LARGE = "the keys take more than hive_bitmap.answer_bytes"
    TOO_WIDE = "a sum has more digits than can be added up"


class _Tally(NamedTuple):
    """The counted keys of a lookup, and the files that are not counted.

    `counts` is None if no file is counted. `uncounted` has the positions of the files that are not counted, among the
    files of the lookup.
    """

    counts: pa.Table | None
    uncounted: tuple[int, ...] = ()


_Tallied: TypeAlias = "_Tally | _NotCounted"


@dataclass(frozen=True)
class _Counted:
    """The counts from the index, and the files that the index cannot count.

    `counts` has one row for each key, with the column COUNT. `uncounted` are the lookups of the indexed files that
    cannot be counted. These files and the `whole_files` of the LookupResults have to be read, unless the counts are
    `enough` for the query.
    """

    counts: pa.Table
    uncounted: list[Lookup]
    enough: bool = False

    def unknown(self, results: LookupResults) -> frozenset[Place]:
        """Return the places of the files that have to be read."""
        whole = [(file.partition, file.status.path) for file in results.whole_files]
        uncounted = [
            pair for lookup in self.uncounted for pair in zip(lookup.partitions, lookup.unit.paths, strict=True)
        ]
        return frozenset(Place(results.partitions[at].number, path) for at, path in (*whole, *uncounted))


def known_counts(
    spark: SparkSession, prepared: Prepared, changed: frozenset[Place] = frozenset()
) -> tuple[tuple[pa.Table, ...], frozenset[Place]] | None:
    """Count each grouping set of a prepared request from the index.

    Files in `changed` have changed since the lookup, and are not counted. Return a table for each grouping set, and the
    files that the tables do not cover, which have to be read. A table has the grouping columns and `count` (int64),
    with a row for each combination of values that occurs. If the request has measures, their stored columns follow. If
    the request has `summaries`, the table for a column of many values may be a summary of the column
    (`key_merge.summary`). If the request has a `group_summary`, the table may be a summary of the groups, with the
    additional column DISTINCT (`group_summaries`). If the request has `top`, a table may have only some groups, among
    them the groups that `top` asks for.

    Return None if Spark has to count all files, for example because a store fails or the keys take too much memory.
    Keys that take too much memory are recorded (`answer_size.remember_too_large`), so the next request for them fails
    early.
    """
    if prepared.results is None or prepared.plan.strategy != Strategy.INDEX_ONLY:
        return None
    try:
        return _counts_by_set(spark, prepared, changed)
    except TooLarge as e:
        log.info("%s is counted by Spark: %s", prepared.request.table, e)
        key_sets = [prepared.resolved.base.data_keys(keys) for keys in prepared.request.grouping_sets]
        remember_too_large(prepared.results.lookups, key_sets, prepared.resolved.settings.answer_bytes)
        return None
    except NotSummed as e:
        log.info("%s is aggregated by Spark: %s", prepared.request.table, e)
        return None
    except Exception as e:  # may be py4j's, for a task in which a store failed
        from hive_bitmap.spark.tasks.distribution import store_error_of

        if (store_error := store_error_of(e)) is None:
            raise
        fallback_reason(store_error)
        return None


def _counts_by_set(
    spark: SparkSession, prepared: Prepared, changed: frozenset[Place]
) -> tuple[tuple[pa.Table, ...], frozenset[Place]] | None:
    results = prepared.looked_up
    counted: list[_Counted] = []
    available = prepared.resolved.settings.answer_bytes
    for keys in prepared.request.grouping_sets:
        set_counts = _counts_of_set(spark, prepared, keys, available, changed)
        if set_counts is None:
            return None
        counted.append(set_counts)
        available -= nbytes(set_counts.counts) if keys else 0
    unknown = [set_counts.unknown(results) | changed for set_counts in counted]
    if len(set(unknown)) > 1 or (len(counted) > 1 and unknown[0]):
        return None  # Spark would read these files once for each set, and they may change in between
    to_read = frozenset[Place]() if counted[0].enough else unknown[0]
    fingerprints = [
        fingerprint
        for lookup in results.lookups
        for partition, fingerprint in zip(lookup.partitions, lookup.fingerprints, strict=True)
        if Place(results.partitions[partition].number, fingerprint.path) not in unknown[0]
    ]
    # Files of a remote store were listed when counting began; checking them again takes a request for each file.
    if not all(fingerprint.confirmed() for fingerprint in fingerprints if stores.is_local(fingerprint.path)):
        return None  # a file changed while it was counted
    return tuple(set_counts.counts for set_counts in counted), to_read


def _counts_of_set(
    spark: SparkSession, prepared: Prepared, keys: Sequence[str], limit: int, changed: frozenset[Place]
) -> _Counted | None:
    """Count by one grouping set, `keys`, from the index, as far as possible.

    The result also has the files that the index cannot count. Files in `changed` are not counted. Return None if Spark
    has to count all files. Raises TooLarge if the keys take more than `limit` bytes, and NotSummed if an aggregate
    cannot be added up.
    """
    request, results, aggregates = prepared.request, prepared.looked_up, prepared.aggregates
    schema = _schema(prepared, keys, aggregates)
    if schema is None:
        return None
    lookups, indexed_rows = list[Lookup](), 0
    nothing, uncounted = schema.empty_table(), list[Lookup]()
    counts = RunningSums(nothing, limit, aggregates) if aggregates else RunningCounts(nothing, limit)
    data = prepared.resolved.base.data_keys(keys)
    for lookup, candidates in results.pairs():
        confirmed, needed = _confirmed(lookup) & ~_among(lookup, results, changed), needs_file(candidates, lookup)
        countable = candidates.exact & confirmed
        uncounted += _restricted(lookup, ~countable & (needed | ~confirmed))
        rows = np.bincount(lookup.unit.file, candidates.counts, len(lookup.unit.paths)).astype(np.int64) * countable
        if data or aggregates:
            lookups += _restricted(lookup, countable & needed)
            indexed_rows += int(rows.sum())
        elif rows.any():
            counts.add(_by_partition(lookup, rows, prepared.constants, schema))
    by_partition = len(data) < len(keys)
    if lookups and not by_partition and are_enough(lookups, data, request.extremes):
        try:
            extreme_keys = extremes(lookups, data[0], results.matching_keys, indexed_rows)
        except CorruptIndex as e:
            checksums.log_whole(log, "an index", e)
            return None
        counts.add(_complete(extreme_keys, prepared.constants, schema))
        return _Counted(counts.total(), uncounted)
    matching, top = results.matching_keys, request.top
    is_any = top is not None and top.is_any
    fresh = is_any or not (uncounted or results.whole_files or changed)
    fresh = fresh and not any(map(is_tested_elsewhere, lookups))
    if fresh and not by_partition and is_merged(lookups, data, request.mergeable, top):
        try:
            merged = _merged(spark, lookups, data[0], matching, top, aggregates)
            typed = merged.set_column(0, schema.field(0), merged[0].cast(schema.field(0).type))
            enough = top is not None and is_any and typed.num_rows >= top.rows
            return _Counted(require_small(typed, limit), uncounted, enough)
        except (CorruptIndex, CorruptBitmap) as e:
            checksums.log_whole(log, "an index", e)
            return None
    by_group = request.group_summary
    if by_group is not None and fresh and not by_partition and is_summarized(lookups, data, by_group):
        try:
            found = _summaries(spark, lookups, data, by_group, matching, limit).select([*data, COUNT, DISTINCT])
            extended = schema.append(pa.field(DISTINCT, pa.int64()))
            summaries = found.rename_columns(extended.names).cast(extended)
            return _Counted(require_small(summaries, limit), uncounted)
        except CorruptIndex as e:
            checksums.log_whole(log, "an index", e)
            return None
    of_lookup = partial(_tally, matching_keys=matching, keys=data, limit=limit, by_partition=by_partition)
    if aggregates:
        of_lookup = partial(
            _add_up,
            matching_keys=matching,
            keys=data,
            aggregates=aggregates,
            limit=limit,
            by_partition=by_partition,
        )
    tallied = _tally_all(spark, lookups, of_lookup, data or [ANY_KEY])
    for lookup, counted in zip(lookups, tallied, strict=True):
        match counted:
            case _NotCounted.TOO_MANY_KEYS:
                return None
            case _NotCounted.TOO_LARGE:
                raise TooLarge(_NotCounted.TOO_LARGE.value)
            case _NotCounted.TOO_WIDE:
                raise TooWide(_NotCounted.TOO_WIDE.value)
            case _NotCounted.DAMAGED:
                uncounted.append(lookup)
            case _Tally(table, files):
                if table is not None:
                    counts.add(_complete(table, prepared.constants, schema))
                if files:
                    uncounted.append(restrict(lookup, files))
    total = counts.total()
    has_rows = request.limit is not None and not keys and total.num_rows > 0
    return _Counted(total, uncounted, enough=has_rows)


def _merged(
    spark: SparkSession,
    lookups: Sequence[Lookup],
    key: str,
    matching_keys: MatchingKeys,
    top: Top | None,
    aggregates: Sequence[Aggregate],
) -> pa.Table:
    """Count the matching rows by a key, in this process or in a task.

    Take the arguments, return the result and raise the errors of `key_merge.merged_answer`.
    """
    compute = partial(merged_answer, key=key, matching_keys=matching_keys, top=top, aggregates=aggregates)
    return _computed(spark, lookups, [key], compute)


def _summaries(
    spark: SparkSession,
    lookups: Sequence[Lookup],
    keys: Sequence[str],
    needed: GroupSummary,
    matching_keys: MatchingKeys,
    limit: int,
) -> pa.Table:
    """Summarize a column by groups, in this process or in a task.

    Take the arguments, return the result and raise the errors of `group_summaries`. `keys` are the two columns of
    `needed`.
    """
    compute = partial(group_summaries, needed=needed, matching_keys=matching_keys, limit=limit)
    return _computed(spark, lookups, keys, compute)


def _computed(
    spark: SparkSession, lookups: Sequence[Lookup], keys: Sequence[str], compute: Callable[[Sequence[Lookup]], pa.Table]
) -> pa.Table:
    """Compute an answer from lookups, in this process or in a task.

    A task computes the answer if more than DRIVER_INDEX_BYTES of the indexes of `keys` have to be read. Raises the
    errors of `compute`.
    """
    if index_bytes(lookups, keys) <= DRIVER_INDEX_BYTES:
        return compute(lookups)
    from hive_bitmap.spark.tasks.distribution import in_tasks  # loads what tasks need

    [answer] = in_tasks(spark, [lookups], compute)
    return answer


def _schema(prepared: Prepared, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> pa.Schema | None:
    """Return the schema of the answer: the keys, COUNT and the aggregates.

    Return None if a key is named COUNT, or if a key is a partition column that only Spark can convert to its type.
    """
    base = prepared.resolved.base
    columns = [find((*base.keyed_columns, *base.partition_columns), key, f"table {base.full_name}") for key in keys]
    data = {column.name for column in base.keyed_columns}
    if COUNT in {key.lower() for key in keys}:
        return None
    if any(column.name not in data and column.name not in prepared.constants.column_names for column in columns):
        return None
    fields = [pa.field(column.name, arrow_type(KeyColumn(column.name, column.type))) for column in columns]
    return pa.schema([*fields, pa.field(COUNT, pa.int64()), *(aggregate.field for aggregate in aggregates)])


def _among(lookup: Lookup, results: LookupResults, places: frozenset[Place]) -> Flags:
    """Return, for each file of a lookup, whether it is at one of `places`."""
    if not places:
        return np.zeros(len(lookup.unit.paths), bool)
    files = zip(lookup.partitions, lookup.unit.paths, strict=True)
    return np.array([Place(results.partitions[at].number, path) in places for at, path in files], bool)


def _confirmed(lookup: Lookup) -> Flags:
    """Return, for each file of a lookup, whether it is unchanged.

    A file is unchanged if it is the version that was indexed. A file with a tag needs no request: the listing with its
    current tag has just been compared.
    """
    if pc.all(pc.not_equal(lookup.described["etag"], ""), min_count=0).as_py():
        return np.ones(len(lookup.unit.paths), bool)
    fingerprints = lookup.fingerprints
    threads = stores.parallel(fingerprints[0].path)
    return np.array(map_parallel(lambda file: bool(file.etag) or file.confirmed(), fingerprints, threads), bool)


def _restricted(lookup: Lookup, files: Flags) -> list[Lookup]:
    """Return the lookup restricted to the flagged files, as a list of one item.

    `files` has a flag for each file of the lookup. The list is empty if no file is flagged.
    """
    return [restrict(lookup, np.flatnonzero(files).tolist())] if files.any() else []


def _by_partition(lookup: Lookup, rows: Longs, constants: pa.Table, schema: pa.Schema) -> pa.Table:
    """Count the selected rows of a lookup in each partition, or in total.

    `rows` has the number of selected rows of each file. `constants` has the partition columns, with a row for each
    partition. `schema` is the schema of the answer. All its keys are partition columns; without keys, the result is the
    total. Several partitions may have the same values, so keys may be repeated.
    """
    if len(schema) == 1:
        return pa.table({COUNT: [int(rows.sum())]}, schema=schema)
    positions, of_file = np.unique(np.array(lookup.partitions), return_inverse=True)
    sums = np.bincount(of_file, rows, len(positions)).astype(np.int64)
    values = constants.take(pa.array(positions[sums > 0]))
    columns = [pa.array(sums[sums > 0]) if field.name == COUNT else values[field.name] for field in schema]
    return pa.table(columns, schema.names).cast(schema)


def _complete(keys: pa.Table, constants: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the counts of a lookup in the schema of the answer.

    `keys` has the counts by data columns, and may have the column GROUP with the position of each row's partition in
    `constants`; then the values of the partition columns are filled in. Several partitions may have the same
    values, so keys may be repeated.
    """
    lowered = keys.rename_columns([name.lower() for name in keys.column_names])
    values = constants.take(lowered[GROUP].combine_chunks()) if GROUP in lowered.column_names else lowered
    columns = [
        lowered[field.name.lower()] if field.name.lower() in lowered.column_names else values[field.name]
        for field in schema
    ]
    return pa.table(columns, schema.names).cast(schema)


def _tally_all(
    spark: SparkSession, lookups: Sequence[Lookup], count: Callable[[Lookup], _Tallied], keys: Sequence[str]
) -> Iterator[_Tallied]:
    """Count the keys of each lookup, in the driver or in tasks.

    `count` counts the keys of one lookup. The driver counts if little of the index of the columns `keys` has to be
    read. Otherwise only few tasks run at a time, because each task may return as many keys as the memory limit allows.
    """
    if not lookups or index_bytes(lookups, keys) <= DRIVER_INDEX_BYTES:
        yield from map(count, lookups)
        return
    from hive_bitmap.spark.tasks.distribution import in_tasks

    for first in range(0, len(lookups), TASKS_TOGETHER):
        yield from in_tasks(spark, lookups[first : first + TASKS_TOGETHER], count)


def _add_up(
    lookup: Lookup,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    limit: int,
    by_partition: bool,
) -> _Tallied:
    """Add up the aggregates of a lookup by key, or return why not.

    `matching_keys` has, for each leaf that Spark evaluates, the keys for which the leaf is TRUE. The result has a row
    for each combination of the columns `keys`, and takes at most `limit` bytes. With `by_partition` the aggregates of
    each partition are added up separately. If the index cannot do this, a `_NotCounted` is returned.
    """
    groups = lookup.partitions if by_partition else None
    try:
        return _Tally(*add_up(lookup, matching_keys, keys, aggregates, limit, groups))
    except CorruptIndex as e:
        checksums.log_whole(log, "an index", e)
        return _NotCounted.DAMAGED
    except TooLarge:
        return _NotCounted.TOO_LARGE
    except TooWide:
        return _NotCounted.TOO_WIDE


def _tally(
    lookup: Lookup, matching_keys: MatchingKeys, keys: Sequence[str], limit: int, by_partition: bool
) -> _Tallied:
    """Count the keys of a lookup, or return why the index cannot count them.

    `matching_keys` has, for each leaf that Spark evaluates, the keys for which the leaf is TRUE. The result has the
    counts by the columns `keys`, and takes at most `limit` bytes. With `by_partition` the keys of each partition are
    counted separately.
    """
    unit, partitions = lookup.unit, np.array(lookup.partitions, np.int64)
    rows = np.bincount(unit.file, unit.rows, len(unit.paths))
    piece = np.cumsum(rows) // PIECE_ROWS
    tables: list[pa.Table] = []
    try:
        for files in (np.flatnonzero(piece == number).tolist() for number in np.unique(piece)):
            groups = partitions[files].tolist() if by_partition else None
            table = tally(restrict(lookup, files).unit, lookup.predicate, matching_keys, keys, limit, groups)
            if table is None:
                return _NotCounted.TOO_MANY_KEYS
            tables = [require_small(merge_counts([*tables, table]), limit) if tables else table]
        return _Tally(tables[0])
    except (CorruptIndex, CorruptBitmap) as e:
        checksums.log_whole(log, "an index", e)
        return _NotCounted.DAMAGED
    except TooLarge:
        return _NotCounted.TOO_LARGE
