"""Count from an index, when a plan is executed.

The lookups that planned a count also count the keys. Spark counts a file that has changed since the query was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.answering.tally import is_countable
from hive_bitmap.core.listings.scan_listing import ScanListing, as_now
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.lookup_units import Place
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.catalyst.decision import Counts
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.spark_only import fallback_reason
from hive_bitmap.spark.reading.aggregates import known_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def number_of_rows(spark: SparkSession, decision: Counts) -> int | None:
    """Return the number of rows that a count finds, before the plan is executed.

    Return None if counts by key are requested, or if Spark has to execute the aggregation. Also return None if Spark
    has listed files outside the local file system, because Spark's listing may lack the tags of these files. `counts`
    then requests the current status of the files, during the execution.
    """
    prepared = decision.prepared
    if prepared.results is None or prepared.request.grouping_sets != ((),) or decision.sums is not None:
        return None
    paths = (path for lookup in prepared.results.lookups for path in lookup.unit.paths)
    if decision.listing is not None and not all(map(stores.is_local, paths)):
        return None
    found = known_counts(spark, prepared)
    if found is None:
        return None
    (table, *_), unknown = found
    return None if unknown else sum(table[COUNT].to_pylist())


def counts(spark: SparkSession, decision: Counts) -> tuple[tuple[pa.Table, ...], list[int]] | None:
    """Return the counts of each key set, and the files that Spark has to count.

    The counts are correct for the current files. The files that Spark has to count are given as their positions in the
    scan's listing, in ascending order. Return None if Spark has to aggregate the whole table.
    """
    planned = None if decision.listing is None else decision.listing()
    if planned is None and decision.listing is not None:
        return None
    session_settings.use_stores(spark)
    if decision.files is not None and not decision.files.is_current(spark):
        return None
    try:
        changed = frozenset[Place]() if planned is None else _changed(planned, decision.prepared)
        found = None if changed is None else known_counts(spark, decision.prepared, changed)
    except StoreError as e:
        fallback_reason(e)
        return None
    if found is None:
        return None
    tables, unknown = found
    if unknown and planned is None:
        return None  # without a listing, Spark cannot be told to read only the files that are not indexed
    numbers = planned.numbers if planned is not None and unknown else {}
    return tables, sorted(numbers[place] for place in unknown)


def _changed(planned: ScanListing, prepared: Prepared) -> frozenset[Place] | None:
    """Return the places of the files that have changed since planning.

    `planned` is the listing of the scan. Each file is compared with its current status in the store. Return None if a
    file is gone.
    """
    current = as_now(planned)
    if current is None or prepared.results is None:
        return None
    if current is planned:  # files of a log, which never change
        return frozenset()
    states = zip(planned.files, current.files, strict=True)
    numbers = [number for number, (before, now) in enumerate(states) if _state(before) != _state(now)]
    places = list(planned.numbers) if numbers else []
    changed = {places[number] for number in numbers}
    status, results = {file.path: file for file in current.files}, prepared.results
    for lookup in results.lookups:
        same = lookup.matches([status[path] for path in lookup.unit.paths])
        for file in np.flatnonzero(~same).tolist():
            changed.add(Place(results.partitions[lookup.partitions[file]].number, lookup.unit.paths[file]))
    return frozenset(changed)


def _state(file: FileStatus) -> tuple[int, int]:
    return file.size, file.mtime_ms


def is_countable_together(prepared: Prepared, *, others_by_spark: bool = False) -> bool:
    """Return whether the index can count the keys of every key set of the request.

    All key sets must be counted over the same rows. So lookups must be exact in each file where they select rows,
    unless Spark aggregates the other files (`others_by_spark`). Values of partition columns must have a known type. If
    there are several key sets, no file may be read whole.
    """
    results, key_sets = prepared.results, prepared.request.grouping_sets
    if results is None or (len(key_sets) > 1 and results.whole_files):
        return False
    exact = all((candidates.exact | ~needs_file(candidates, lookup)).all() for lookup, candidates in results.pairs())
    if not exact and not others_by_spark:
        return False
    base, constant_columns = prepared.resolved.base, prepared.constants.column_names
    untyped = {column.name.lower() for column in base.partition_columns if column.name not in constant_columns}
    if any(key.lower() in untyped for keys in key_sets for key in keys):
        return False
    data_keys = [base.data_keys(keys) for keys in key_sets]
    return all(is_countable(lookup.unit, keys) for lookup in results.lookups for keys in data_keys)
