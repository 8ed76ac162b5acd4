"""Estimate the memory of the values that planning caches.

The figures are bytes for the budget of all caches. They were measured, then rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.reading.planned_files import OpenedFiles, PlannedFiles

if TYPE_CHECKING:
    from hive_bitmap.core.listings.scan_listing import ScanListing
    from hive_bitmap.spark.catalyst.driver_reads import Fetch
    from hive_bitmap.spark.catalyst.index_answers import Answer

FILE_BYTES = 300  # of a FileStatus and its places, besides its path
PARTITION_BYTES = 400
COLUMN_BYTES = 400
TEXT_BYTES = 60  # of a str, besides its characters
CONDITION_SHARE = 8  # bytes of a predicate for each character of its text
ANSWER_BYTES = 4096
PREPARED_SHARE = 4  # bytes of a Prepared for each byte of its plan


def of_texts(texts: Mapping[str, str]) -> int:
    """Return the bytes of a mapping of texts."""
    return sum(len(name) + len(value) + 3 * TEXT_BYTES for name, value in texts.items())


def of_settings(settings: Mapping[str, str]) -> int:
    """Return the bytes of a session's settings."""
    return of_texts(settings)


def of_table(table: Table) -> int:
    """Return the bytes of a table."""
    columns = COLUMN_BYTES * (len(table.columns) + len(table.partition_columns))
    return columns + len(table.declared) + of_texts(table.properties) + of_texts(table.options)


def of_listing(listing: ScanListing) -> int:
    """Return the bytes of a listing."""
    files = sum(len(file.path) for file in listing.files) + FILE_BYTES * len(listing.files)
    values = sum(len(text or "") + TEXT_BYTES for values, _ in listing.partitions for text in values)
    return files + values + of_texts(listing.deletes) + PARTITION_BYTES * len(listing.partitions)


def of_answer(answer: Answer) -> int:
    """Return the bytes of an answer.

    Its listing and its table are cache entries of their own.
    """
    prepared = 0 if answer.prepared is None else PREPARED_SHARE * of_plan(answer.prepared.plan)
    return ANSWER_BYTES + CONDITION_SHARE * len(answer.request.predicate or "") + prepared


def of_fetch(fetch: Fetch) -> int:
    """Return the bytes of a fetch."""
    return PREPARED_SHARE * of_plan(fetch.plan)


def of_planned_files(planned: PlannedFiles | OpenedFiles) -> int:
    """Return the bytes of the files that a plan has listed or opens."""
    if isinstance(planned, OpenedFiles):
        return sum(FILE_BYTES + len(file.path) for file in planned.files)
    files = [file for source in planned.read for file in source.files]
    texts = sum(len(file.path) for file in files) + sum(len(partition.location) for partition in planned.partitions)
    properties = sum(of_texts(dict(partition.properties)) for partition in planned.partitions)
    return texts + properties + FILE_BYTES * len(files) + PARTITION_BYTES * len(planned.partitions)


def of_plan(plan: Plan) -> int:
    """Return the bytes of a plan without its candidates."""
    return ANSWER_BYTES + int(plan.files.nbytes) + int(plan.blocks.nbytes) + len(plan.predicate or "")
