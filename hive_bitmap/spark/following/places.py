"""Map folders to the tables that are followed, to recognize writes by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from urllib.parse import unquote

from cachetools import LRUCache

from hive_bitmap.core.table_info import NULL_PARTITION, Table, raw_hadoop_path

MOST_TABLES = 10_000


@dataclass(frozen=True)
class TableFolder:
    """A table, and the partition values of a folder.

    There are no values for the table's own folder.
    """

    database: str
    table: str
    values: Mapping[str, str | None]


class TableFolders:
    """The folders of tables; the newest are kept.

    Queries and writes come from many threads.
    """

    def __init__(self) -> None:
        self._tables: LRUCache[str, tuple[str, str]] = LRUCache(MOST_TABLES)  # by folder
        self._lock = Lock()  # a lookup also changes an LRUCache

    def add(self, base: Table) -> None:
        """Add the folder of a table, unless a log lists its files."""
        if base.lake is not None:
            return
        with self._lock:
            self._tables[base.location] = (base.database, base.name)

    def at(self, path: str) -> TableFolder | None:
        """Return the table of a folder or partition folder.

        Return None if no known table has it.
        """
        folder = raw_hadoop_path(path).rstrip("/")
        values: dict[str, str | None] = {}
        with self._lock:
            while folder not in self._tables and "=" in folder.rpartition("/")[2]:
                folder, _, part = folder.rpartition("/")
                name, _, value = part.partition("=")
                values[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
            table = self._tables.get(folder)
        return None if table is None else TableFolder(*table, values)
