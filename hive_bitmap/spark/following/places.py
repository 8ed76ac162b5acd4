"""Where the tables lie that are followed, so that a write by path is known as one to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from urllib.parse import unquote

from cachetools import LRUCache

from hive_bitmap.core.table_info import NULL_PARTITION, Table, raw_hadoop_path

MOST_TABLES = 10_000


@dataclass(frozen=True)
class Place:
    """A table, and the partition values by which a folder is that of one of its partitions; none if it is its own."""

    database: str
    table: str
    values: Mapping[str, str | None]


class Places:
    """The folders of tables; the newest are kept. Queries and writes come from many threads."""

    def __init__(self) -> None:
        self._tables: LRUCache[str, tuple[str, str]] = LRUCache(MOST_TABLES)  # by folder
        self._lock = Lock()  # a look-up changes an LRUCache, too

    def add(self, base: Table) -> None:
        """Add the folder of a table, unless its files are those that a log lists."""
        if base.lake is not None:
            return
        with self._lock:
            self._tables[base.location] = (base.database, base.name)

    def at(self, path: str) -> Place | None:
        """Return the table whose folder, or folder of a partition, this is; None if it is that of no known one."""
        folder = raw_hadoop_path(path).rstrip("/")
        values: dict[str, str | None] = {}
        with self._lock:
            while folder not in self._tables and "=" in folder.rpartition("/")[2]:
                folder, _, part = folder.rpartition("/")
                name, _, value = part.partition("=")
                values[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
            found = self._tables.get(folder)
        return None if found is None else Place(*found, values)
