"""Answer aggregations from the index alone.

The decision is made when a query is planned; keys are counted when the plan is executed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.answering.tally import COUNT, is_countable
from hive_bitmap.core.listings.scan_listing import ScanListing, as_now, deleted_rows
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.catalyst.arrow_batches import satisfying_keys
from hive_bitmap.spark.catalyst.conditions import Condition
from hive_bitmap.spark.metastore.jvm_reader import text_of
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.spark_only import fallback_reason
from hive_bitmap.spark.reading.aggregates import KnownCounts, known_counts
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An aggregation that the index answers.

    It has all that is needed to count the keys when the plan is executed. `listing` is None if Spark does not list the
    files of the scan. It refers to an entry of the cache of listings: many answers share one, and if it was evicted,
    Spark aggregates the table. `prepared` holds the lookups that planned the query, at `planned_at` by
    `time.monotonic`; they are counted if nothing has changed since, and repeated otherwise.
    """

    request: Request
    base: Table
    condition: Condition
    listing: ReferenceType[ScanListing] | None
    cores: int
    prepared: Prepared | None = None
    planned_at: float = field(default_factory=time.monotonic)

    def number_of_rows(self, spark: SparkSession) -> int | None:
        """Count the rows from the lookups that planned the query.

        Return None if keys are requested, or if Spark has to execute the aggregation. Spark has to for files of an
        object store, since Spark's listing lacks their tags: `counts` lists them again.
        """
        if self.prepared is None or self.prepared.reading is None or self.request.grouping_sets != ((),):
            return None
        paths = (path for lookup in self.prepared.reading.results.lookups for path in lookup.unit.paths)
        if self.listing is not None and not all(map(stores.is_local, paths)):
            return None
        counts = known_counts(spark, self.request, self.prepared)
        return None if counts is None or counts.unknown else sum(counts.tables[0][COUNT].to_pylist())

    def counts(
        self, spark: SparkSession, counting: Any, settings: Mapping[str, str]
    ) -> tuple[tuple[pa.Table, ...], list[int]] | None:
        """Return the counts of each key set, and the uncounted files.

        The counts are those of the current files. Spark has to count the uncounted files itself; they are numbers in
        the scan's listing, in ascending order. None if Spark has to aggregate the whole table.
        """
        planned = None if self.listing is None else self.listing()
        if planned is None and self.listing is not None:
            return None
        try:
            result = self._known(spark, counting, settings, planned)
        except StoreError as e:
            fallback_reason(e)
            return None
        if result is None or (result.unknown and planned is None):
            return None  # without a listing, Spark cannot be told to read only the files that are not indexed
        numbers = {} if planned is None else planned.numbers
        return result.tables, sorted(numbers[place] for place in result.unknown)

    def _known(
        self, spark: SparkSession, counting: Any, settings: Mapping[str, str], planned: ScanListing | None
    ) -> KnownCounts | None:
        listing = None if planned is None else as_now(planned)
        if planned is not None and listing is None:
            return None
        indexes = tuple(catalog.indexes_on(spark, self.base, catalog.INDEX_CACHE_SECONDS))
        prepared = self._current(indexes, settings, planned, listing)
        if prepared is not None:
            return known_counts(spark, self.request, prepared)
        resolved = ResolvedTable(
            base=self.base if listing is None else listing.table(self.base),
            indexes=indexes,
            settings=settings,
            predicate=self.condition.predicate,
            evaluate=partial(satisfying_keys, spark, counting, 0, self.condition),
            cores=self.cores,
            partitions=None if listing is None else listing.countable,
            native=listing is not None,
        )
        if listing is not None and listing.deletes:
            resolved = replace(
                resolved, deleted=partial(deleted_rows, lambda files: text_of(counting.deleted(0, files)), listing)
            )
        return known_counts(spark, self.request, prepare(spark, self.request, resolved))

    def _current(
        self,
        indexes: tuple[Index, ...],
        settings: Mapping[str, str],
        planned: ScanListing | None,
        listing: ScanListing | None,
    ) -> Prepared | None:
        """Return the prepared lookups if they are still valid, else None.

        They are valid for as long as the metastore is cached, under the same indexes and settings, and if the current
        `listing` shows the `planned` files and the indexed ones unchanged.
        """
        if self.prepared is None or self.prepared.reading is None or planned is None or listing is None:
            return None
        resolved, results = self.prepared.reading.resolved, self.prepared.reading.results
        if time.monotonic() - self.planned_at > catalog.INDEX_CACHE_SECONDS:
            return None
        if (resolved.indexes, resolved.settings) != (indexes, settings):
            return None
        if [(file.size, file.mtime_ms) for file in planned.files] != [(f.size, f.mtime_ms) for f in listing.files]:
            return None
        files = {file.path: file for file in listing.files}
        current = ((lookup, [files[path] for path in lookup.unit.paths]) for lookup in results.lookups)
        return self.prepared if all(lookup.matches(listed).all() for lookup, listed in current) else None


def is_countable_together(prepared: Prepared, key_sets: Sequence[Sequence[str]]) -> bool:
    """Whether the index alone can count the keys of every key set.

    All key sets must be counted over the same rows. The lookups must be exact in each file where they select rows, and
    the values of partition columns known. With several key sets no file may be read whole.
    """
    if prepared.reading is None or (len(key_sets) > 1 and prepared.reading.results.whole_files):
        return False
    results = prepared.reading.results
    if not all((candidates.exact | ~needs_file(candidates, lookup)).all() for lookup, candidates in results.pairs()):
        return False
    base, constant_columns = prepared.reading.resolved.base, prepared.reading.constants.column_names
    untyped = {column.name.lower() for column in base.partition_columns if column.name not in constant_columns}
    if any(key.lower() in untyped for keys in key_sets for key in keys):
        return False
    stored = {column.name.lower() for column in base.columns}  # unlike partition columns
    stored_keys = [[key.lower() for key in keys if key.lower() in stored] for keys in key_sets]
    return all(is_countable(lookup.unit, keys) for lookup in results.lookups for keys in stored_keys)
