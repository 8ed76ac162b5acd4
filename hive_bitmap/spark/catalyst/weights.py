"""Estimate the memory of the values that planning caches.

The figures are bytes for the budget of all caches. They were measured, then rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping

from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.table_info import Table

FILE_BYTES = 300  # of a FileStatus and its places, besides its path
PARTITION_BYTES = 400
COLUMN_BYTES = 400
TEXT_BYTES = 60  # of a str, besides its characters


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
