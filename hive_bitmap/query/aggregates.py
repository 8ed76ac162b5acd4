"""Answers from the index alone: COUNT(*) of a predicate. Files that the index does not know are read and added."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from hive_bitmap.query.candidates import Found, Lookup, restrict
from hive_bitmap.query.planner import INDEX_ONLY, needs_file
from hive_bitmap.query.prepare import Prepared, Reading, Request, analysed, prepare
from hive_bitmap.query.reading import ReadTask
from hive_bitmap.query.scan import direct_rows, narrowed, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def count(spark: SparkSession, table: str, predicate: str | None = None, *, strategy: str | None = None) -> int:
    """How many rows of the table satisfy the predicate; no Spark job runs where the index holds the answer.

    The fingerprints of the files are compared at this moment. Raises what `plan` raises.
    """
    request = Request(table, predicate, None, True, strategy)
    prepared = prepare(spark, request)
    log.info("count of %s where %s: %s (%s)", table, predicate, prepared.plan.strategy, prepared.plan.reason)
    return count_prepared(spark, request, prepared)


def count_prepared(spark: SparkSession, request: Request, prepared: Prepared) -> int:
    """The count of a prepared request."""
    reading = prepared.reading
    if reading is None or prepared.plan.strategy != INDEX_ONLY:
        if reading is not None and (reading.work.whole or reading.work.vanished):
            spark.catalog.refreshTable(request.table)
        return analysed(spark, request).count()
    known, tasks = 0, [task(reading, None, [file]) for file in reading.work.whole]
    for lookup, found in zip(reading.work.lookups, reading.work.found, strict=True):
        sure = found.exact & _confirmed(lookup)
        known += int(found.counts[sure[lookup.unit.file]].sum())
        tasks += _rest(reading, lookup, found, sure)
    rest = direct_rows(spark, request, reading, tasks)
    if rest is None:
        return known
    matching = narrowed(rest, request, reading, rest.columns)
    return known + matching.count() if matching is not None else analysed(spark, request).count()


def _confirmed(lookup: Lookup) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which files are still those of the index; where the store has tags, the listing of a moment ago has said so."""
    return np.array([bool(f.etag) or f.confirmed() for f in lookup.fingerprints], bool)


def _rest(
    reading: Reading, lookup: Lookup, found: Found, sure: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> list[ReadTask]:
    """Tasks for the files of which the index only knows rows that may match."""
    wanted = np.flatnonzero(~sure & (needs_file(found, lookup) | ~_confirmed(lookup)))
    return [task(reading, restrict(lookup, wanted.tolist()), ())] if len(wanted) else []
