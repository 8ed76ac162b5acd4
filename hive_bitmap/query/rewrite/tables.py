"""The tables that the scans of a query read, and whether their place in the text can be taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.index import catalog, metastore
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.index.recent import Recent
from hive_bitmap.query.names import path_at
from hive_bitmap.query.rewrite.demands import ScanDemands
from hive_bitmap.query.rewrite.tree import Scan
from hive_bitmap.query.rewrite.understood import names
from hive_bitmap.query.rewrite.views import CATALOG, DEEPEST, View, view_of
from hive_bitmap.query.rewrite.words import Words
from hive_bitmap.query.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FIXED = ("BINDING", "COMPENSATION")  # views whose columns are those of their creation


@dataclass(frozen=True)
class _Known:
    """What a name was a moment ago: whether it exists, and the view that it is."""

    exists: bool
    view: View | None


class _Key(NamedTuple):
    """A table of the session's catalog (no names are one of another), which `in_full` no temporary view hides."""

    database: str
    table: str
    in_full: bool


_known: Recent[_Key, _Known] = Recent()


def sql_name(scan: Scan) -> str:
    """The name of a scan's table, quoted."""
    return ".".join(map(quote, scan.name))


class Seen:
    """What the catalog says of the names in a query, each asked once.

    Whether a name is a view may be what it was up to INDEXES_REMEMBERED seconds ago; nothing is put in its place
    before Spark has found it to be the same.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._found: dict[str, tuple[Table, list[Index]] | None] = {}
        self._keys: dict[str, _Key] = {}
        self._spurned: set[str] = set()  # names of views that are left alone
        self.views = True  # whether any view is looked into

    def found(self, name: str) -> tuple[Table, list[Index]] | None:
        """A table or view of the session's own catalog and its indexes; None if there is none."""
        if name not in self._found:
            try:
                found = catalog.table_and_indexes(self._spark, name, catalog.INDEXES_REMEMBERED)
            except HiveBitmapError:  # Spark says what it says of such a name
                found = None
            self._found[name] = found if found is not None and self._in_own_catalog(name) else None
        return self._found[name]

    def columns(self, scan: Scan) -> Sequence[Column] | None:
        """The columns of a scan's table, or view, as they are now; None if they are not known."""
        found = self.found(sql_name(scan))
        if found is None or (found[0].kind == "VIEW" and found[0].properties.get("view.schemaMode") not in _FIXED):
            return None
        return (*found[0].columns, *found[0].partition_columns) or None

    def indexed_columns(self, name: str) -> frozenset[str] | None:
        """The columns of a table's indexes, in lower case, if they were seen a moment ago."""
        key = self._key(name)
        in_full = f"{quote(key.database)}.{quote(key.table)}"
        return catalog.indexed_columns(self._spark, in_full, catalog.INDEXES_REMEMBERED) if key.table else frozenset()

    def view(self, name: str) -> View | None:
        """The view of that name, if its query is to take its place: it reads a table that has an index."""
        view = self._known(name).view if self.views and name not in self._spurned else None
        return view if view is not None and self._reads_indexed(view) else None

    def spurn(self, name: str) -> None:
        """Leave a view alone in this query."""
        self._spurned.add(name)

    def doubt(self, name: str) -> None:
        """Look anew at a view whose query is not the same to Spark; if it is what it was, it is none for a while."""
        before = self._known(name)
        _known.drop(self._spark, self._key(name))
        now = self._known(name)
        if (
            before.view is None
            or now.view is None
            or now.view.select() + now.view.query == (before.view.select() + before.view.query)
        ):
            _known.keep(self._spark, self._key(name), replace(now, view=None))

    def _known(self, name: str) -> _Known:
        """What is known of a name, asked now if that was not done for a while."""
        key = self._key(name)
        known = _known.get(self._spark, key, catalog.INDEXES_REMEMBERED)
        if known is None:
            found = self.found(name) if key.table else None
            known = _Known(found is not None, view_of(found[0]) if found else None)
            _known.keep(self._spark, key, known)
        return known

    def _reads_indexed(self, view: View, depth: int = 0) -> bool:
        for _, name in view.named:
            inner = self._known(name).view
            if inner is not None:
                if depth < DEEPEST and self._reads_indexed(inner, depth + 1):
                    return True
            elif self.may_serve(name):
                return True
        return False

    def may_serve(self, name: str) -> bool:
        """Whether a table has an index at all."""
        columns = self.indexed_columns(name)
        if columns is None and self._known(name).exists:
            found = self.found(name)
            return bool(found and found[1])
        return bool(columns)

    def _key(self, name: str) -> _Key:
        if name not in self._keys:
            parts, _ = path_at(tokenize(name), 0)
            is_ours = len(parts) in (1, 2) or (len(parts) == 3 and parts[0] == CATALOG)
            database, table = ([self._current_database] * (len(parts) == 1) + parts)[-2:] if is_ours else ("", "")
            self._keys[name] = _Key(database, table, len(parts) > 1)
        return self._keys[name]

    def _in_own_catalog(self, name: str) -> bool:
        return len(path_at(tokenize(name), 0)[0]) == 3 or self._spark.catalog.currentCatalog().lower() == CATALOG

    @cached_property
    def conf(self) -> Mapping[str, str]:
        """The session's settings."""
        return metastore.settings(self._spark)

    @cached_property
    def _current_database(self) -> str:
        return self._spark.catalog.currentDatabase().lower()


def indexed(seen: Seen, one: ScanDemands, thorough: bool) -> tuple[Table, list[Index]] | None:
    """The table of a scan and its indexes; None if none can serve, or it is not one of the session's own catalog.

    `thorough` if indexes matter that no condition names.
    """
    name = sql_name(one.scan)
    wanted = names(one.demands) | {merged for item in one.block.items for join in item for merged in join.merged}
    if len(one.scan.name) > 3 or not (wanted or thorough):
        return None
    columns = seen.indexed_columns(name)
    if columns is not None and not (columns and thorough) and columns.isdisjoint(wanted):
        return None
    found = seen.found(name)
    return found if found and found[1] and found[0].kind != "TEMPORARY" else None


def left_alone(read: Words, scan: Scan, conf: Mapping[str, str]) -> str:
    """Why nothing may take the place of a scan; empty if something may."""
    if '"' in read.text and conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false").lower() == "true":
        return "names may stand in double quotes"
    if not scan.aliased and _is_named_in_full(read, scan.alias):
        return "its columns are named behind its database"
    return ""


def _is_named_in_full(read: Words, name: str) -> bool:
    places = (at for at in range(read.end) if read.name(at) == name)
    return any(read.key(at - 1) == "." and read.key(at + 1) == "." for at in places)
