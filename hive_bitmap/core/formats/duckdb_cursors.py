"""Run queries in DuckDB, in one database for this process.

The database is closed before the process ends. Otherwise, Python could abort at the end of the process, or print what
DuckDB has not freed, because another thread is still inside DuckDB.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator, Sequence
from threading import Condition

import duckdb
import pyarrow as pa

LONGEST_WAIT = 10.0  # most seconds to wait for running queries at the end of the process


class _Gate:
    """A counter of the threads inside DuckDB.

    Once the gate is closed, no thread can enter.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Count this thread as inside DuckDB during the `with` block.

        Raises duckdb.Error once the gate is closed.
        """
        with self._changed:
            if self._closed:
                raise duckdb.Error("this process is ending")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Close the gate, and wait until all threads have left.

        The wait takes at most LONGEST_WAIT seconds.
        """
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0, LONGEST_WAIT)


_gate = _Gate()


def table(query: str, paths: Sequence[str], wanted: pa.Table | None = None) -> pa.Table:
    """Return the result of a query in DuckDB's SQL.

    `paths` are the values of the query's parameters. `wanted` is a table that the query may read under the name
    `wanted`; None if the query reads only files. Raises duckdb.Error if the query fails or the process is ending.
    """
    with _gate.entered():
        return _table(query, paths, wanted)


def _table(query: str, paths: Sequence[str], wanted: pa.Table | None) -> pa.Table:
    """Execute a query with its own cursor; see `table` for the arguments.

    The cursor is destroyed before this function returns or raises. The destructor of a cursor releases Python's lock
    for a moment, which must not happen while the process ends.
    """
    connection = _database().cursor()
    try:
        if wanted is not None:
            connection.register("wanted", wanted)
        return connection.sql(query, params=list(paths)).to_arrow_table()
    finally:
        connection.close()
        del connection


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the DuckDB database of this process.

    The database is opened only once, because opening it takes 12 ms. The database caches no files.
    """
    options: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "enable_external_file_cache": False}
    database = duckdb.connect(":memory:", config=options)
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


@atexit.register
def _close() -> None:
    _gate.close()
    _database.cache_clear()
