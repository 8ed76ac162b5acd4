"""Errors for files of a generation that cannot be read.

The index is damaged, or it was dropped or rebuilt. Queries may use a generation for some seconds after it was replaced,
see `catalog.INDEX_CACHE_SECONDS`. In both cases they read the base files whole.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from hive_bitmap.core import stores
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.errors import CorruptBitmap, CorruptIndex, DroppedIndex

Unreadable: TypeAlias = CorruptIndex | CorruptBitmap


def error(folder: str, file: str, cause: Exception) -> CorruptIndex:
    """Return the error for a file that could not be read.

    `folder` is its generation, `cause` the error of the read.
    """
    if isinstance(cause, FileNotFoundError) and not stores.exists(f"{folder}/{FOLDER}"):
        return DroppedIndex(f"generation {folder} or its manifest no longer exists")
    return CorruptIndex(f"{file} of {folder} cannot be read: {cause}")


def log_whole(log: logging.Logger, index: str, error: Unreadable) -> None:
    """Log that base files are read whole because of an error."""
    if isinstance(error, DroppedIndex):
        log.info("%s was dropped or rebuilt during the query, so its files are read whole: %s", index, error)
    else:
        log.warning("%s is damaged, so its files are read whole until it is rebuilt in full: %s", index, error)
