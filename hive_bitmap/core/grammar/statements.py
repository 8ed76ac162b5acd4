"""Define index statements as values, the same for Hive's and openLooKeng's dialects.

Names of indexes are in lower case, as in Hive and in openLooKeng. A statement that names no table refers to the only
index with the given name in the current database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from hive_bitmap.core.columns import Key
from hive_bitmap.core.table_info import SESSION_CATALOG, quote

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Spec: TypeAlias = tuple[tuple[str, str | None], ...]  # a partition: columns and their values, None for NULL

OWN_CATALOGS = ("spark_catalog", "hive")  # names of the session's own catalog, in Spark and usually in openLooKeng


class Dialect(Enum):
    """The dialect of a statement, for rules that differ between Hive and openLooKeng."""

    HIVE = "Hive"
    OPENLOOKENG = "openLooKeng"


@dataclass(frozen=True)
class TableName:
    """The name of a table in a statement.

    An empty database means the session's current database, and an empty catalog the session's current catalog.
    """

    name: str
    database: str = ""
    catalog: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.database, self.name) if part)

    @property
    def sql_name(self) -> str:
        """The quoted name for Spark SQL, with Spark's name for the session's own catalog."""
        catalog = self.catalog if self.foreign or not self.catalog else SESSION_CATALOG
        return ".".join(quote(part) for part in (catalog, self.database, self.name) if part)

    @property
    def foreign(self) -> bool:
        """Whether the table is in a catalog other than the session's own."""
        return bool(self.catalog) and self.catalog.lower() not in OWN_CATALOGS

    def is_own(self) -> bool:
        """Return whether the name has no catalog or the session's own catalog."""
        return not self.foreign


@dataclass(frozen=True)
class Where:
    """A condition on partition columns, in Spark SQL, and the columns of the condition."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CreateIndex:
    """CREATE INDEX.

    `properties` are the properties of the index. `table_properties` are additional properties of the index table. If
    the statement lacks a clause, the field of the clause has its default. With `deferred`, the index is registered, but
    covers no files until its first rebuild.
    """

    name: str
    table: TableName
    columns: tuple[Key, ...]
    dialect: Dialect = Dialect.HIVE
    type: str = "BITMAP"
    if_not_exists: bool = False
    deferred: bool = False
    properties: Pairs = ()
    index_table: TableName | None = None
    location: str | None = None
    table_properties: Pairs = ()
    comment: str = ""
    where: Where | None = None


@dataclass(frozen=True)
class RebuildIndex:
    """Hive's ALTER INDEX .. REBUILD and openLooKeng's UPDATE INDEX.

    An empty `partition` means the whole index. `table` is None if the statement names no table.
    """

    name: str
    table: TableName | None = None
    partition: Spec = ()
    if_exists: bool = False


@dataclass(frozen=True)
class RefreshIndex:
    """REFRESH INDEX, which indexes new and changed files."""

    name: str
    table: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class SetProperties:
    """ALTER INDEX .. SET IDXPROPERTIES.

    `table` is None if the statement names no table.
    """

    name: str
    table: TableName | None
    properties: Pairs
    if_exists: bool = False


@dataclass(frozen=True)
class RenameIndex:
    """ALTER INDEX .. RENAME TO.

    `table` is None if the statement names no table.
    """

    name: str
    new_name: str
    table: TableName | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class DropIndex:
    """DROP INDEX.

    With `where`, only the partitions that satisfy this condition are dropped from the index. `table` is None if the
    statement names no table.
    """

    name: str
    table: TableName | None = None
    if_exists: bool = False
    where: Where | None = None


@dataclass(frozen=True)
class ShowIndexes:
    """SHOW INDEX.

    With `table`, the result has Hive's columns. Without `table`, the result has openLooKeng's columns: it shows the
    index `name` of the current database, or all indexes of the database if `name` is None.
    """

    table: TableName | None = None
    name: str | None = None


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE, which also drops the indexes of the table."""

    table: TableName
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class DropDatabase:
    """DROP DATABASE .. CASCADE, which also drops the indexes of all tables in the database."""

    name: str
    catalog: str = ""
    if_exists: bool = False


Statement: TypeAlias = (
    CreateIndex
    | RebuildIndex
    | RefreshIndex
    | SetProperties
    | RenameIndex
    | DropIndex
    | ShowIndexes
    | DropTable
    | DropDatabase
)
