"""Aggregations answered from the index alone: decided when a query is planned, counted when the plan is executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.catalyst.arrow_batches import satisfying_keys
from hive_bitmap.catalyst.conditions import Condition
from hive_bitmap.catalyst.listing import ScanListing, as_now
from hive_bitmap.counts.aggregates import KnownCounts, known_counts
from hive_bitmap.counts.tally import COUNT, is_countable
from hive_bitmap.errors import StoreError
from hive_bitmap.index import catalog
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning.planner import needs_file
from hive_bitmap.planning.prepare import Prepared, prepare
from hive_bitmap.planning.request import Request, ResolvedTable
from hive_bitmap.planning.spark_fallback import fallback_reason
from hive_bitmap.selecting.lookup_units import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Answer:
    """An aggregation that the index answers, with all that is needed to count its keys when the plan is executed.

    `listing` is None if Spark does not tell the files of the scan; `averaged` are the integer columns whose average
    the query computes.
    """

    request: Request
    base: Table
    condition: Condition
    listing: ScanListing | None
    averaged: tuple[str, ...]
    cores: int

    def counts(self, spark: SparkSession, counting: Any, settings: Mapping[str, str]) -> KnownCounts | None:
        """Return the counts for the files as they are now; None if Spark has to aggregate the whole table."""
        try:
            found = self._known(spark, counting, settings)
        except StoreError as e:
            fallback_reason(e)
            return None
        if found is None or not _are_sums_exact(found.tables, self.averaged):
            return None
        if found.unknown and self.listing is None:
            return None  # without a listing, Spark cannot be told to read only the files that the index does not know
        return found

    def numbers(self, places: Iterable[Place]) -> list[int]:
        """Return the numbers of files in the scan's listing, in ascending order."""
        return [] if self.listing is None else sorted(self.listing.numbers[place] for place in places)

    def _known(self, spark: SparkSession, counting: Any, settings: Mapping[str, str]) -> KnownCounts | None:
        listing = None if self.listing is None else as_now(self.listing)
        if self.listing is not None and listing is None:
            return None
        resolved = ResolvedTable(
            self.base,
            tuple(catalog.indexes_on(spark, self.base, catalog.INDEX_CACHE_SECONDS)),
            settings,
            self.condition.predicate,
            partial(satisfying_keys, spark, counting, 0, self.condition),
            self.cores,
            None if listing is None else listing.with_bytes,
            native=listing is not None,
            planned=True,
        )
        return known_counts(spark, self.request, prepare(spark, self.request, resolved))


def is_countable_together(prepared: Prepared, key_sets: Sequence[Sequence[str]]) -> bool:
    """Whether the index alone can count the keys of every key set, all of them over the same rows.

    The lookups must be exact in each file of which they select rows. With several key sets no file may be read whole.
    """
    if prepared.reading is None or (len(key_sets) > 1 and prepared.reading.results.whole_files):
        return False
    results = prepared.reading.results
    if not all((found.exact | ~needs_file(found, lookup)).all() for lookup, found in results.pairs()):
        return False
    stored = {column.name.lower() for column in prepared.reading.resolved.base.columns}  # unlike partition columns
    stored_keys = [[key.lower() for key in keys if key.lower() in stored] for keys in key_sets]
    return all(is_countable(lookup.unit, keys) for lookup in results.lookups for keys in stored_keys)


def _are_sums_exact(tables: Sequence[pa.Table], averaged: Sequence[str]) -> bool:
    """Whether a double holds each sum of these integer columns exactly: Spark adds up in doubles for an average."""
    for table in tables:
        rows = int(pc.sum(table[COUNT]).as_py() or 0)
        for name in averaged:
            if name in table.column_names:
                bounds = pc.min_max(table[name]).as_py()
                largest = max((abs(bound) for bound in bounds.values() if bound is not None), default=0)
                if largest * rows >= 1 << 53:
                    return False
    return True
