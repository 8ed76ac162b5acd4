"""Index statements as values: one set for Hive's words and openLooKeng's.

Names of indexes are in lower case, as both keep them. A statement that names no table means the one index of that name
in the current database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from hive_bitmap.metastore.table_info import quote

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Spec: TypeAlias = tuple[tuple[str, str | None], ...]  # of a partition: columns and values, None for NULL

OWN_CATALOGS = ("spark_catalog", "hive")  # Spark's name of the session's catalog, and the usual one in openLooKeng


class Dialect(Enum):
    """Whose words a statement is in, where the two have different rules."""

    HIVE = "Hive"
    OPENLOOKENG = "openLooKeng"


@dataclass(frozen=True)
class TableName:
    """A table as a statement names it; the parts that it leaves out are the session's current ones."""

    name: str
    database: str = ""
    catalog: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.database, self.name) if part)

    @property
    def sql_name(self) -> str:
        """The name as Spark reads it in the session's own catalog."""
        return ".".join(quote(part) for part in (self.database, self.name) if part)

    @property
    def foreign(self) -> bool:
        """Whether the table is in a catalog other than the session's own."""
        return bool(self.catalog) and self.catalog.lower() not in OWN_CATALOGS


@dataclass(frozen=True)
class Where:
    """A condition on partition columns, in Spark's words, and the columns that it names."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class CreateIndex:
    """CREATE INDEX; `properties` are those of the index, `table_properties` further ones of its index table."""

    name: str
    table: TableName
    columns: tuple[str, ...]
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
    """Hive's ALTER INDEX .. REBUILD, of the whole index where `partition` is empty, and UPDATE INDEX."""

    name: str
    table: TableName | None = None
    partition: Spec = ()
    if_exists: bool = False


@dataclass(frozen=True)
class SetProperties:
    """ALTER INDEX .. SET IDXPROPERTIES."""

    name: str
    table: TableName | None
    properties: Pairs
    if_exists: bool = False


@dataclass(frozen=True)
class RenameIndex:
    """ALTER INDEX .. RENAME TO."""

    name: str
    new_name: str
    table: TableName | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class DropIndex:
    """DROP INDEX, of the whole index or of the partitions of which `where` is TRUE."""

    name: str
    table: TableName | None = None
    if_exists: bool = False
    where: Where | None = None


@dataclass(frozen=True)
class ShowIndexes:
    """SHOW INDEX, of a table in Hive's columns; of the current database, or one index there, in openLooKeng's."""

    table: TableName | None = None
    name: str | None = None


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE: the indexes of the table go with it."""

    table: TableName
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class DropDatabase:
    """DROP DATABASE .. CASCADE: the indexes of all its tables go with it."""

    name: str
    catalog: str = ""
    if_exists: bool = False


Statement: TypeAlias = (
    CreateIndex | RebuildIndex | SetProperties | RenameIndex | DropIndex | ShowIndexes | DropTable | DropDatabase
)
