"""Look up a request's predicate in the indexes of a snapshot.

Spark tasks do the lookup if it reads much of the indexes; otherwise this process does. Before the lookup, Spark
evaluates each leaf that only Spark can evaluate, over the distinct keys. If Spark fails, all rows may match the leaf.
For example, `10/k` fails for a key 0 that another conjunct excludes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.count_budget import (
    COUNT_PRICES,
    CountCost,
    CountPrices,
    bytes_to_look_up,
    count_cost,
    index_bytes,
    share_in_memory,
)
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, lookup
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.planning.prices import waiting_seconds
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.nodes import Implied, Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.selecting.candidates import (
    Lookup,
    LookupResults,
    exact_where_covered,
    find_lookups,
    look_up,
    look_up_all,
)
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.spark.preparing.request import Engine, PlannedRequest
from hive_bitmap.spark.preparing.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
MAX_KEYS = 200_000  # evaluating more distinct keys than this takes longer than the index may save
MAX_KEY_BYTES = 16 << 20  # most bytes of keys to send to the JVM, which converts them to rows
DRIVER_INDEX_BYTES = 256 << 20  # more bytes of index than this are looked up in tasks
DELETES_TOGETHER = 8  # files whose deleted rows are read at a time, as in DeletedRows.java
DRIVER_STATISTICS_BYTES = 4 << 30  # beyond so many bytes of index, tasks read the statistics too


def evaluate_leaves(
    engine: Engine,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    table: TableFiles,
) -> dict[SparkLeaf, pa.Array]:
    """Have Spark evaluate the leaves of a predicate that only Spark can evaluate.

    Return, by leaf, the keys for which the leaf is TRUE. `chosen` maps each column, in lower case, to the index that
    serves it. A leaf is evaluated over the distinct keys of this index, in the shards that cover files of `table`. A
    leaf is left out if no index serves its column, if there are too many keys, if a shard is damaged, or if Spark
    cannot evaluate the leaf.
    """
    tests = (leaf.test if isinstance(leaf, Implied) else leaf for leaf in leaves_of(predicate))
    leaves = dict.fromkeys(test for test in tests if isinstance(test, SparkLeaf))
    matching_keys = {}
    for leaf in leaves:
        definition = chosen.get(leaf.column.lower())
        if definition is None:
            continue
        keys = _distinct(definition, leaf.column, table)
        column, _ = _key(definition, leaf.column)
        matching = None if keys is None else engine.satisfying(leaf, column, keys)
        if matching is not None:
            matching_keys[leaf] = matching
    return matching_keys


def _key(definition: Definition, name: str) -> tuple[Column, pa.Field]:
    """Return the key that predicates call `name`, and its Arrow field.

    The field is a column of the index table. The case of `name` does not matter.
    """
    keys = zip(definition.key_names, definition.columns, key_fields(definition), strict=True)
    return next((Column(key, column.type), field) for key, column, field in keys if key.lower() == name.lower())


def _distinct(definition: Definition, column: str, table: TableFiles) -> pa.Array | None:
    """Return the distinct keys in the shards that cover some files.

    `definition` is the index of the shards, `column` names the key, and `table` has the files. Return None if there are
    too many keys to evaluate, or if a shard is damaged.
    """
    _, field = _key(definition, column)
    keys, pending, rows = pa.array([], field.type), [], 0
    try:
        for group_keys in _keys_of_row_groups(definition.name, field, table):
            pending.append(group_keys)
            rows += len(group_keys)
            if rows > MAX_KEYS or sum(array.nbytes for array in pending) > MAX_KEY_BYTES:
                keys, pending, rows = pc.unique(pa.chunked_array([keys, *pending])), [], 0
                if _are_too_many(keys):
                    return None
    except CorruptIndex as e:
        checksums.log_whole(log, f"index {definition.name}", e)
        return None
    keys = pc.unique(pa.chunked_array([keys, *pending]))
    return None if _are_too_many(keys) else keys


def _keys_of_row_groups(index: str, field: pa.Field, table: TableFiles) -> Iterator[pa.Array]:
    if (files := table.records.get(index)) is not None:
        shards = files.covered.shards.take(pa.array(np.unique(files.shard[files.shard >= 0])))
        for path, size in zip(shards["shard"].to_pylist(), shards["size"].to_pylist(), strict=True):
            yield from lookup.distinct(path, size, field)


def _are_too_many(keys: pa.Array) -> bool:
    return len(keys) > MAX_KEYS or keys.nbytes > MAX_KEY_BYTES


def look_up_snapshot(
    spark: SparkSession, snapshot: Snapshot, case: PlannedRequest, key_sets: Sequence[Sequence[str]]
) -> tuple[LookupResults, float, float]:
    """Look up the residual predicates of a snapshot's partitions.

    `case` is the request for the snapshot's table. Each of the `key_sets` has the grouping columns of one count, in
    lower case; there are none if nothing is counted. Return a tuple of three: the results, the estimated seconds of a
    count by the index, and the estimated seconds of Spark's own count. Raises Unsupported if Spark counts faster,
    unless the session has set the strategy `index only`. Raises StoreError if a store fails.
    """
    resolved, chosen, request = snapshot.resolved, case.choice.by_column, case.request
    matching_keys = evaluate_leaves(resolved.engine, resolved.predicate, chosen, snapshot.files)
    candidates = find_lookups(snapshot.files, snapshot.predicates, chosen)
    cost = partial(
        count_cost,
        candidates.lookups,
        matching_keys,
        cores=resolved.cores,
        waits=waiting_seconds(len(snapshot.files.files), resolved.cores, snapshot.store),
        prices=_prices(snapshot),
        extremes=request.extremes,
        mergeable=case.mergeable,
        top=request.top,
        group_summary=request.group_summary,
        measures=len(request.measures),
    )
    is_forced = resolved.settings.strategy is Strategy.INDEX_ONLY
    seconds, by_spark = count_seconds(candidates.lookups, key_sets, cost, is_forced=is_forced)
    evaluate = partial(evaluated, spark, resolved.engine, matching_keys)
    results = replace(candidates, results=tuple(evaluate(candidates.lookups)), matching_keys=matching_keys)
    if resolved.base.lake is not None:  # only files of lake tables have deleted rows
        from hive_bitmap.core.selecting.live_counts import without_deleted

        results = without_deleted(results, resolved.engine.deleted, evaluate)
    results = exact_where_covered(results, list(dict.fromkeys(key for keys in key_sets for key in keys)))
    if resolved.base.lake is not None:  # unlisted files may still exist, excluded by the table's own statistics
        results = replace(results, deleted=0)
    return results, seconds, by_spark


def count_seconds(
    lookups: Sequence[Lookup],
    key_sets: Sequence[Sequence[str]],
    cost: Callable[[Sequence[str]], CountCost],
    *,
    is_forced: bool,
) -> tuple[float, float]:
    """Estimate the seconds of a count by the index, and of Spark's own count.

    `cost` estimates the cost of a key set. Data in memory is read in less time. Raises Unsupported if Spark would count
    one of the key sets in less time, unless the count by the index is forced.
    """
    seconds, by_spark = COUNT_PRICES.answer_start, COUNT_PRICES.spark_start
    for keys in key_sets if lookups else ():
        of_keys = cost(keys)
        if of_keys.why_slower is not None and not is_forced:
            raise Unsupported(of_keys.why_slower)
        in_memory = share_in_memory(lookups, keys)
        seconds += of_keys.seconds * (1 - in_memory + in_memory * COUNT_PRICES.in_memory)
        by_spark += of_keys.by_spark - COUNT_PRICES.spark_start
    return seconds, by_spark


def _prices(snapshot: Snapshot) -> CountPrices:
    """Return the prices of counting, including requests for deleted rows."""
    waiting = snapshot.store.request / DELETES_TOGETHER
    return replace(COUNT_PRICES, deleted_rows=COUNT_PRICES.deleted_rows + waiting)


def evaluated(
    spark: SparkSession, engine: Engine, matching_keys: MatchingKeys, lookups: Sequence[Lookup]
) -> list[LookupResult]:
    """Return the results of lookups, which are done in this process or in tasks.

    `matching_keys` has the keys for which the leaves that only Spark evaluates are TRUE. `engine` makes a late plan
    wait before each lookup (`Engine.take_turn`).
    """
    if is_small(lookups):
        return look_up_all(lookups, matching_keys, engine.take_turn)
    from hive_bitmap.spark.tasks.distribution import in_tasks  # loads what tasks need

    return in_tasks(spark, lookups, partial(look_up, matching_keys=matching_keys))


def is_small(lookups: Sequence[Lookup]) -> bool:
    """Return whether lookups are so small that this process does them, without tasks."""
    total = index_bytes(lookups)
    if total <= DRIVER_INDEX_BYTES:
        return True
    return total <= DRIVER_STATISTICS_BYTES and bytes_to_look_up(lookups) <= DRIVER_INDEX_BYTES
