"""Aggregations answered from the index alone: decided when a query is planned, counted when the plan is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.answering.tally import COUNT, is_countable
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.catalyst.arrow_batches import satisfying_keys
from hive_bitmap.spark.catalyst.conditions import Condition
from hive_bitmap.spark.catalyst.listing import ScanListing, as_now, deleted_rows
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.spark_fallback import fallback_reason
from hive_bitmap.spark.reading.aggregates import KnownCounts, known_counts
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An aggregation that the index answers, with all that is needed to count its keys when the plan is executed.

    `listing` is None if Spark does not tell the files of the scan. It refers to what the cache of listings keeps: many
    answers share one, and if it was evicted, Spark aggregates the table. `prepared` is kept for a function that asks,
    and counts at once.
    """

    request: Request
    base: Table
    condition: Condition
    listing: ReferenceType[ScanListing] | None
    cores: int
    prepared: Prepared | None = None

    def number_of_rows(self, spark: SparkSession) -> int | None:
        """Count the rows by what was prepared, if no key is asked for; None if Spark has to execute the aggregation.

        It has to for files of a store, whose tags Spark's listing does not tell: `counts` lists them again.
        """
        if self.prepared is None or self.prepared.reading is None or self.request.grouping_sets != ((),):
            return None
        paths = (path for lookup in self.prepared.reading.results.lookups for path in lookup.unit.paths)
        if self.listing is not None and not all(map(stores.is_local, paths)):
            return None
        found = known_counts(spark, self.request, self.prepared)
        return None if found is None or found.unknown else sum(found.tables[0][COUNT].to_pylist())

    def counts(
        self, spark: SparkSession, counting: Any, settings: Mapping[str, str]
    ) -> tuple[tuple[pa.Table, ...], list[int]] | None:
        """Return the counts of each key set for the files as they are now, and what files Spark has to count itself.

        These are numbers in the scan's listing, in ascending order. None if Spark has to aggregate the whole table.
        """
        planned = None if self.listing is None else self.listing()
        if planned is None and self.listing is not None:
            return None
        try:
            found = self._known(spark, counting, settings, planned)
        except StoreError as e:
            fallback_reason(e)
            return None
        if found is None or (found.unknown and planned is None):
            return None  # without a listing, Spark cannot be told to read only the files that the index does not know
        numbers = {} if planned is None else planned.numbers
        return found.tables, sorted(numbers[place] for place in found.unknown)

    def _known(
        self, spark: SparkSession, counting: Any, settings: Mapping[str, str], planned: ScanListing | None
    ) -> KnownCounts | None:
        listing = None if planned is None else as_now(planned)
        if planned is not None and listing is None:
            return None
        resolved = ResolvedTable(
            base=self.base if listing is None else listing.table(self.base),
            indexes=tuple(catalog.indexes_on(spark, self.base, catalog.INDEX_CACHE_SECONDS)),
            settings=settings,
            predicate=self.condition.predicate,
            evaluate=partial(satisfying_keys, spark, counting, 0, self.condition),
            cores=self.cores,
            partitions=None if listing is None else listing.countable,
            native=listing is not None,
        )
        if listing is not None and listing.deletes:
            resolved = replace(resolved, deleted=partial(deleted_rows, partial(counting.deleted, 0), listing))
        return known_counts(spark, self.request, prepare(spark, self.request, resolved))


def is_countable_together(prepared: Prepared, key_sets: Sequence[Sequence[str]]) -> bool:
    """Whether the index alone can count the keys of every key set, all of them over the same rows.

    The lookups must be exact in each file of which they select rows, and the values of partition columns known. With
    several key sets no file may be read whole.
    """
    if prepared.reading is None or (len(key_sets) > 1 and prepared.reading.results.whole_files):
        return False
    results = prepared.reading.results
    if not all((found.exact | ~needs_file(found, lookup)).all() for lookup, found in results.pairs()):
        return False
    base, known = prepared.reading.resolved.base, prepared.reading.constants.column_names
    untyped = {column.name.lower() for column in base.partition_columns if column.name not in known}
    if any(key.lower() in untyped for keys in key_sets for key in keys):
        return False
    stored = {column.name.lower() for column in base.columns}  # unlike partition columns
    stored_keys = [[key.lower() for key in keys if key.lower() in stored] for keys in key_sets]
    return all(is_countable(lookup.unit, keys) for lookup in results.lookups for keys in stored_keys)
