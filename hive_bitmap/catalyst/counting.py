"""Answers from the index: whether it holds one, when a query is planned, and its counts, when the plan is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.catalyst.conditions import Condition
from hive_bitmap.catalyst.handing import truths
from hive_bitmap.catalyst.listing import ScanListing, as_now
from hive_bitmap.counts.aggregates import KnownCounts, known_counts
from hive_bitmap.counts.tally import COUNT, is_countable
from hive_bitmap.errors import StoreError
from hive_bitmap.index import catalog
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning.planner import needs_file
from hive_bitmap.planning.prepare import Prepared, prepare
from hive_bitmap.planning.request import Request, ResolvedTable
from hive_bitmap.planning.spark_fallback import left_to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Answer:
    """What an answer from the index needs when the plan is executed; `means` are columns that are averaged."""

    request: Request
    base: Table
    condition: Condition
    listing: ScanListing | None
    means: tuple[str, ...]
    cores: int

    def counts(self, spark: SparkSession, counting: Any, settings: Mapping[str, str]) -> KnownCounts | None:
        """The counts as the files are now; None where Spark has to count all."""
        try:
            found = self._known(spark, counting, settings)
        except StoreError as e:
            left_to_spark(e)
            return None
        if found is None or not _exact(found.tables, self.means):
            return None
        if found.unknown and self.listing is None:
            return None  # of such a table Spark cannot be told to read these files alone
        return found

    def _known(self, spark: SparkSession, counting: Any, settings: Mapping[str, str]) -> KnownCounts | None:
        listing = None if self.listing is None else as_now(self.listing)
        if self.listing is not None and listing is None:
            return None
        resolved = ResolvedTable(
            self.base,
            tuple(catalog.indexes_on(spark, self.base, catalog.INDEXES_REMEMBERED)),
            settings,
            self.condition.predicate,
            partial(truths, spark, counting, 0, self.condition),
            self.cores,
            None if listing is None else listing.with_bytes,
            native=listing is not None,
            planned=True,
        )
        return known_counts(spark, self.request, prepare(spark, self.request, resolved))


def is_countable_together(prepared: Prepared, parts: Sequence[Sequence[str]]) -> bool:
    """Whether the index alone tells of every row that it knows, and all parts can be counted, of the same rows."""
    if prepared.reading is None or (len(parts) > 1 and prepared.reading.results.whole):
        return False
    work = prepared.reading.results
    pairs = zip(work.lookups, work.found, strict=True)
    if not all((found.exact | ~needs_file(found, lookup)).all() for lookup, found in pairs):
        return False
    data = {column.name.lower() for column in prepared.reading.resolved.base.columns}
    sets = [[key.lower() for key in part if key.lower() in data] for part in parts]
    return all(is_countable(lookup.unit, keys) for lookup in work.lookups for keys in sets)


def _exact(tables: Sequence[pa.Table], means: Sequence[str]) -> bool:
    """Whether sums of these integer columns are exact as doubles, in which Spark adds up for a mean."""
    for table in tables:
        rows = int(pc.sum(table[COUNT]).as_py() or 0)
        for name in means:
            if name in table.column_names:
                bounds = pc.min_max(table[name]).as_py()
                largest = max((abs(bound) for bound in bounds.values() if bound is not None), default=0)
                if largest * rows >= 1 << 53:
                    return False
    return True
