"""Ask Spark's JVM about a scan, while Python decides on the scan."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.listings.scan_listing import ScanListing, deleted_rows, parse
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.predicates.nodes import SparkLeaf
from hive_bitmap.core.selecting.lookup_units import DeletedRows
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.spark.catalyst.arrow_batches import satisfying_keys
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.metastore.jvm_reader import text_of
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS_BETWEEN_LOOKS = 0.1  # between two checks whether the query still waits for its plan
LONGEST_WAIT = 60.0  # seconds to wait for the lock; its holder may wait for a hanging store or metastore
_listings: Cache[str, ScanListing] = Cache("listings", lambda listing: listing.nbytes)
_going_on = Lock()  # held by the only late plan that is continued


@dataclass(kw_only=True, eq=False)
class Question:
    """A question of the JVM about one scan.

    This object also asks the JVM about the scan. `jvm` is the Java object of the class `Question`. `_has_turn` says
    whether the plan of the scan is late, and is the one late plan that continues (see `take_turn`). `_looked_at` is
    when the JVM was last asked whether the plan is late, as a time of `time.monotonic`.
    """

    spark: SparkSession
    jvm: Any
    scan: Scan
    _looked_at: float = field(default_factory=time.monotonic, init=False, repr=False)
    _has_turn: bool = field(default=False, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def summarize(self) -> None:
        """Set `scan.listed`: a summary of the files that Spark reads.

        If Spark has not listed the files yet, it lists them now. `scan.listed` stays None if Spark does not list the
        files.
        """
        if self.scan.listed is None:
            text = self.jvm.listingSummary(self.scan.number)
            self.scan = replace(self.scan, listed=None if text is None else ListingSummary.of(text))

    @cached_property
    def listing(self) -> ScanListing | None:
        """The files of the scan; None if Spark does not list them.

        The listing is cached under the digest of its summary (`summarize`).
        """
        summary = self.scan.listed
        return None if summary is None else _listings.of(summary.digest, self._listed)

    def cached_listing(self) -> ScanListing | None:
        """Return the cached listing of the files, or None; mark the listing as used."""
        return None if self.scan.listed is None else _listings.get(self.scan.listed.digest)

    def _listed(self) -> ScanListing:
        return parse(text_of(self.jvm.listing(self.scan.number)))

    def small_side(self, filter: int) -> Sequence[Any] | None:
        """Run the small side of a runtime filter.

        `filter` is the position of the filter in `scan.runtime_filters`. Return the condition of the filter as a value
        parsed from JSON; None if the small side has too many rows.
        """
        tree = self.jvm.readFirst(self.scan.number, filter)
        return None if tree is None else json.loads(tree)

    def satisfying(self, leaf: SparkLeaf, column: Column, keys: pa.Array) -> pa.Array | None:
        """Return the keys for which Spark evaluates a leaf to TRUE.

        `keys` are values of `column`, the only column of the leaf. Return None if Spark cannot evaluate the leaf.
        """
        return satisfying_keys(self.spark, self.jvm, self.scan.number, leaf, column, keys)

    def deleted(self, versions: Mapping[str, str]) -> Mapping[str, DeletedRows]:
        """Return, by path, the deleted rows of files in the listing.

        `versions` has the version of each file's deletes; see `scan_listing.deleted_rows`.
        """
        if self.listing is None:
            return {}
        return deleted_rows(lambda files: text_of(self.jvm.deleted(self.scan.number, files)), self.listing, versions)

    def take_turn(self) -> None:
        """Wait until this plan may be continued.

        A plan is late if its query no longer waits for it; other plans continue without waiting. Of the late plans,
        only one is continued at a time: several would slow down the plans that queries still wait for. A late plan that
        has waited for LONGEST_WAIT seconds is continued, too.
        """
        with self._lock:
            now = time.monotonic()
            if self._has_turn or now - self._looked_at < SECONDS_BETWEEN_LOOKS:
                return
            self._looked_at = now
            if self.jvm.isLate():
                self._has_turn = _going_on.acquire(timeout=LONGEST_WAIT)

    def end(self) -> None:
        """Give up the turn of this plan, if it has one (see `take_turn`).

        This is called when the scan has been decided on. The next late plan can then continue.
        """
        with self._lock:
            if self._has_turn:
                self._has_turn = False
                _going_on.release()

    def prepare(self, request: Request, resolved: ResolvedTable, earlier: Snapshot | None) -> Prepared:
        """Look up the indexes for a request, and make a plan.

        `earlier` is an earlier snapshot of the table, or None. `earlier` is used again if it covers the needed indexes.
        """
        return prepare(self.spark, request, resolved, earlier)

    def rows(self, prepared: Prepared, pieces: Sequence[Piece] | None) -> DataFrame | None:
        """Return a DataFrame that reads the selected rows of a plan.

        With `pieces`, our tasks read the rows of these pieces. If `pieces` is None, Spark reads the splits of a SerDe
        table that may have selected rows (`superset.split_rows`); if all splits may have selected rows, the result is
        None.
        """
        from hive_bitmap.spark.reading.superset import piece_rows, split_rows  # loads the readers of base files

        if pieces is None:
            return split_rows(self.spark, prepared)
        return piece_rows(self.spark, prepared, pieces)
