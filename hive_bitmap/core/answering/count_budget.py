"""Estimate whether Spark counts in less time than the index.

The time of Spark is estimated from the rows and columns that it would read. The time of the index is first estimated
from the sizes of its shards and the statistics of the row groups. This first estimate suffices if the index is small,
or if most of its row groups are skipped. Otherwise the matching keys are looked up without their bitmaps, to learn how
many bytes of bitmaps would be decoded. Prices are in seconds, measured on one core of a small machine. The comparison
assumes that nothing of the index is in memory; the time that a plan shows takes cached data into account
(`share_in_memory`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hive_bitmap.core.answering.answer_size import distinct_keys
from hive_bitmap.core.answering.extremes import are_enough
from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.answering.group_summaries import GroupSummary, is_summarized
from hive_bitmap.core.answering.key_merge import is_merged
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.index.shard import ROW_GROUP_ROWS
from hive_bitmap.core.planning.prices import CLEARLY_CHEAPER
from hive_bitmap.core.predicates.nodes import Constant, Or, Predicate, Unknown, columns_of, leaves_of
from hive_bitmap.core.selecting.candidates import Lookup, is_tested_elsewhere
from hive_bitmap.core.selecting.key_matches import MatchingKeys, may_hold
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, IndexPart
from hive_bitmap.core.selecting.select import matching_share, selected_share
from hive_bitmap.errors import CorruptIndex


@dataclass(frozen=True)
class CountPrices:
    """Seconds that Spark and the index take for units of work."""

    spark_start: float = 0.06  # for Spark to start a job
    spark_value: float = 1.8e-8  # for Spark to read, compare and group a value
    key_byte: float = 3.0e-9  # to read a stored byte of keys
    bitmap_byte: float = 6.0e-9  # to decode a stored byte of bitmaps
    shard: float = 5.0e-4  # to read the statistics of a shard
    key: float = 3.5e-6  # to hand on a key with its count: measured with 80,000 keys
    spark_key: float = 1.0e-6  # for Spark to group by a key
    merged_row: float = 1.2e-7  # to read an index row and to merge its key
    merged_bitmap: float = 3.0e-7  # to read an index row, and to compare its bitmap with the selected rows
    spark_row: float = 3.0e-7  # for Spark to group a row by one of many keys, beyond reading it
    answer_start: float = 0.03  # to request an answer, and to convert it to rows
    in_memory: float = 0.1  # factor for the time of data that is already in memory
    deleted_rows: float = 1.0e-3  # to read which rows of a file are deleted, besides waiting for the store


COUNT_PRICES = CountPrices()


@dataclass(frozen=True)
class CountCost:
    """Seconds that a count takes through the index and by Spark.

    `seconds` is an upper limit for the index, from the start of counting. `by_spark` is Spark's time for the same rows.
    `why_slower` says why Spark should count. It is None if the index should count.
    """

    seconds: float
    by_spark: float
    why_slower: str | None = None


def count_cost(
    lookups: Sequence[Lookup],
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    cores: int,
    prices: CountPrices = COUNT_PRICES,
    waits: float = 0.0,
    extremes: Collection[str] = (),
    mergeable: Collection[str] = (),
    top: Top | None = None,
    measures: int = 0,
    group_summary: GroupSummary | None = None,
) -> CountCost:
    """Compare counting through the index with counting by Spark.

    `lookups` are the lookups to count, and `matching_keys` has the keys for which Spark has evaluated a leaf to TRUE.
    `keys` are the grouping columns, in lower case. `cores` is the number of tasks that run at once. `waits` is how many
    seconds Spark waits for the store of the files. `extremes` are the columns (in lower case) of which only the
    smallest and the largest key are needed. `mergeable` are the columns (in lower case) of which not all groups are
    needed: if `top` is None, a summary is enough, otherwise the groups that `top` describes. If `measures` is not 0,
    partial aggregates of that many columns are added up by key. `group_summary` has the two columns for which a summary
    of each group is enough; None if there are no such columns.
    """
    if are_enough(lookups, keys, extremes):
        opened = sum(len(lookup.unit.parts[keys[0]].shards) for lookup in lookups)
        what = f"the statistics of {opened:,} shards are read"
        return _compared(opened * prices.shard, _rows(lookups), 1, cores, prices, waits, what)
    merges = is_merged(lookups, keys, mergeable, top)
    if measures and not merges:
        return _summed(lookups, keys, measures, cores, prices, waits)
    work = []
    for lookup in lookups:
        nodes = _by_column(lookup.predicate)
        work.append((lookup, nodes, {column: _share_of_groups(lookup, column, nodes[column]) for column in nodes}))
    columns = {*keys, *(column for _, nodes, _ in work for column in nodes)}
    compared = partial(
        _compared,
        rows=_rows(lookups),
        columns=len(columns),
        cores=cores,
        prices=prices,
        waits=waits,
        what="these indexes are decoded",
    )
    if merges:
        return _merged(lookups, keys, matching_keys, cores, prices, waits, top, measures)
    if is_summarized(lookups, keys, group_summary):
        return _merged(lookups, keys, matching_keys, cores, prices, waits, None, 0)
    most = compared(sum(_seconds(lookup, keys, read, read, prices) for lookup, _, read in work))
    if most.why_slower is None:
        return most
    seconds = sum(_seconds(lookup, keys, read, dict.fromkeys(read, 0.0), prices) for lookup, _, read in work)
    for lookup, nodes, read in work:
        if compared(seconds).why_slower is None:
            decoded = {column: matching_share(lookup.unit, node, matching_keys) for column, node in nodes.items()}
            seconds += _seconds(lookup, keys, read, decoded, prices)
            seconds -= _seconds(lookup, keys, read, dict.fromkeys(read, 0.0), prices)
    return compared(seconds)


def _merged(
    lookups: Sequence[Lookup],
    keys: Sequence[str],
    matching_keys: MatchingKeys,
    cores: int,
    prices: CountPrices,
    waits: float,
    top: Top | None,
    measures: int,
) -> CountCost:
    """Compare merging the sorted keys with counting by Spark.

    One index has all `keys`. The arguments have the meaning of `count_cost`. Spark's price includes grouping by many
    keys. If it does not matter which groups are returned (`top.is_any`), reading ends early. The price is then that of
    one row group of a shard, and of the index rows among which `top.rows` groups are probably found.
    """
    seconds, grouped, read, columns = 0.0, 0.0, 0.0, set(keys)
    for lookup in lookups:
        by_column, entries = _by_column(lookup.predicate), lookup.unit.parts[keys[0]].entries
        columns |= set(by_column)
        selected = min((selected_share(lookup.unit, node, matching_keys) for node in by_column.values()), default=1.0)
        grouped += selected * int(lookup.unit.rows.sum())
        share = _share_of_groups(lookup, keys[0], by_column[keys[0]]) if set(by_column) == {keys[0]} else 1.0
        row = prices.merged_bitmap if by_column and not measures else prices.merged_row
        seconds += share * entries * row * (len(keys) + measures)
        read += share * entries
    rows = _rows(lookups)
    if top is not None and top.is_any and grouped and read:
        seconds *= min((ROW_GROUP_ROWS + top.rows * rows / grouped) / read, 1.0)
    by_spark = spark_seconds(rows, len(columns) + measures, cores, prices, waits) + grouped * prices.spark_row / cores
    by_spark += distinct_keys(lookups, keys) * prices.spark_key * grouped / max(rows, 1)
    slower = "Spark groups the rows in less time than the keys of these indexes are merged"
    return CountCost(seconds, by_spark, slower if seconds > CLEARLY_CHEAPER * by_spark else None)


def _summed(
    lookups: Sequence[Lookup], keys: Sequence[str], measures: int, cores: int, prices: CountPrices, waits: float
) -> CountCost:
    """Compare adding up partial aggregates with aggregating the rows by Spark.

    `measures` is the number of aggregated columns, and `keys` are the grouping columns. `cores` tasks run at once, and
    Spark waits `waits` seconds for the store of the files. One index has the keys and the aggregates. A row group of
    this index is skipped if the predicate tests a single column of the index, and the row group has no matching key. If
    the predicate tests columns of other indexes, these are looked up, too.
    """
    seconds, columns = 0.0, set(keys) - {ANY_KEY}
    for lookup in lookups:
        by_column = _by_column(lookup.predicate)
        columns |= set(by_column)
        read = {column: _share_of_groups(lookup, column, node) for column, node in by_column.items()}
        share = next(iter(read.values())) if len(read) == 1 else 1.0
        if is_tested_elsewhere(lookup):
            share = 1.0
            seconds += _seconds(lookup, (), read, dict.fromkeys(read, 0.0), prices)
        if (part := lookup.unit.parts.get(keys[0])) is not None:
            seconds += share * part.entries * prices.merged_row * (1 + measures) + len(part.shards) * prices.shard
    what = "the partial aggregates are added up"
    return _compared(seconds, _rows(lookups), len(columns) + measures, cores, prices, waits, what)


def _rows(lookups: Sequence[Lookup]) -> int:
    return sum(int(lookup.unit.rows.sum()) for lookup in lookups)


def _compared(
    seconds: float, rows: int, columns: int, cores: int, prices: CountPrices, waits: float, what: str
) -> CountCost:
    """Compare the seconds of the index with Spark's seconds.

    Spark would count `rows` rows by the values of `columns` columns. `cores` tasks would run at once, and Spark would
    wait `waits` seconds for the store of the files. `what` names the work of the index, as in "the indexes are
    decoded".
    """
    by_spark = spark_seconds(rows, columns, cores, prices, waits)
    named = "the column" if columns == 1 else f"{columns} columns"
    slower = f"Spark reads {named} in less time than {what}" if seconds > CLEARLY_CHEAPER * by_spark else None
    return CountCost(seconds, by_spark, slower)


def spark_seconds(rows: int, columns: int, cores: int, prices: CountPrices, waits: float = 0.0) -> float:
    """Estimate the seconds that Spark takes to count rows by columns.

    `rows` and `columns` are the numbers of rows and columns. `cores` tasks run at once, and Spark waits `waits` seconds
    for the store of the files. Each column is assumed to have few keys.
    """
    return prices.spark_start + waits + rows * columns * prices.spark_value / cores


def is_counted_by_index(
    index_bytes: float, rows: int, columns: int, cores: int, waits: float = 0.0, keys: float = 0.0
) -> bool:
    """Return whether a whole index counts clearly faster than Spark.

    The index has `index_bytes` bytes. Spark would count `rows` rows by the values of `columns` columns. `cores` tasks
    would run at once, and Spark would wait `waits` seconds for the store of the files. The times include handing on the
    result, which has `keys` rows.
    """
    by_spark = spark_seconds(rows, columns, cores, COUNT_PRICES, waits) + keys * COUNT_PRICES.spark_key
    return index_bytes * COUNT_PRICES.key_byte + keys * COUNT_PRICES.key <= CLEARLY_CHEAPER * by_spark


def index_bytes(lookups: Sequence[Lookup], keys: Sequence[str] = ()) -> int:
    """Return the size in bytes of the shards that a count needs.

    A count needs the shards of the grouping columns `keys` (in lower case), and the shards of the columns that the
    predicates test.
    """
    shards = set()
    for lookup in lookups:
        columns = {*keys, *(column.lower() for column in columns_of(lookup.predicate))} & set(lookup.unit.parts)
        shards |= {shard for column in columns for shard in lookup.unit.parts[column].shards}
    return sum(size for _, size in shards)


def share_in_memory(lookups: Sequence[Lookup], keys: Sequence[str] = ()) -> float:
    """Return the share of `index_bytes(lookups, keys)` that is in memory."""
    total = in_memory = 0.0
    for lookup in lookups:
        columns = {*keys, *(column.lower() for column in columns_of(lookup.predicate))} & set(lookup.unit.parts)
        for part in (lookup.unit.parts[column] for column in columns):
            for path, size in part.shards:
                total += size
                with suppress(CorruptIndex):  # its files are read whole
                    in_memory += size * shards.share_in_memory(path, size, part.key, part.kind)
    return in_memory / max(total, 1.0)


def bytes_to_look_up(lookups: Sequence[Lookup]) -> float:
    """Estimate the bytes of the index row groups that may hold matching keys.

    Row groups whose statistics rule out a match are left out.
    """
    return sum(
        _bytes(lookup.unit.parts[column]) * _share_of_groups(lookup, column, node)
        for lookup in lookups
        for column, node in _by_column(lookup.predicate).items()
        if column in lookup.unit.parts
    )


def _by_column(predicate: Predicate) -> dict[str, Predicate]:
    """Return for each tested column the OR of the leaves that test it.

    The result maps column names, in lower case, to these predicates. If the OR is not TRUE for a value of the column,
    no leaf of the column is TRUE for this value, so the value counts as not matching.
    """
    leaves: dict[str, list[Predicate]] = {}
    for leaf in leaves_of(predicate):
        if not isinstance(leaf, (Unknown, Constant)):
            leaves.setdefault(leaf.column.lower(), []).append(leaf)
    return {column: Or(tuple(nodes)) for column, nodes in leaves.items()}


def _share_of_groups(lookup: Lookup, column: str, node: Predicate) -> float:
    """Estimate the share of a column's index that may match a predicate.

    `node` is the predicate, over the single column `column`. The result is the share of the bytes that are in row
    groups whose statistics allow matching keys.
    """
    part = lookup.unit.parts.get(column)
    if part is None:
        return 0.0
    try:
        sizes = [
            size * shards.share(path, size, part.key, lambda stats: may_hold(node, stats)) for path, size in part.shards
        ]
    except CorruptIndex:
        return 0.0  # its files are read whole
    return sum(sizes) / max(_bytes(part), 1)


def _seconds(
    lookup: Lookup, keys: Sequence[str], read: Mapping[str, float], decoded: Mapping[str, float], prices: CountPrices
) -> float:
    """Estimate the seconds that counting by the index takes for a lookup.

    `keys` are the grouping columns, whose indexes are read whole. `read` maps each tested column to the share of its
    index that is read, and `decoded` to the share whose bitmaps are decoded.
    """
    parts = lookup.unit.parts
    tested = [column for column in read if column in parts]
    counted = {parts[key].index: parts[key] for key in keys if key in parts}
    filtering = {parts[column].index: column for column in tested if parts[column].index not in counted}
    seconds = sum(_bytes(part) for part in counted.values()) * prices.key_byte
    seconds += sum(_bytes(parts[column]) * read[column] for column in filtering.values()) * prices.key_byte
    seconds += sum(map(bool, lookup.deletes)) * prices.deleted_rows
    if len(counted) + len(filtering) > 1 or any(lookup.deletes):
        seconds += sum(_bytes(part) for part in counted.values()) * prices.bitmap_byte
        seconds += sum(_bytes(parts[column]) * decoded[column] for column in filtering.values()) * prices.bitmap_byte
    return seconds


def _bytes(part: IndexPart) -> int:
    return sum(size for _, size in part.shards)
