"""What a reader of the metastore gives, whichever way it asks. Another way is a module more, chosen by `metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hive_bitmap.metastore.table_info import Partition, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reader(Protocol):
    """Tables and partitions of the session's catalog: `jvm_reader`, a module, and `sql_reader.SqlReader` are two."""

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], qualified: bool) -> list[Table]:
        """Those of the tables that exist; a name that is not `qualified` may be that of a temporary view."""

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        """The names of the tables of a database that match; `*` stands for anything."""

    def partitions(self, spark: SparkSession, table: Table) -> list[Partition]:
        """All partitions of a partitioned table, in the metastore's order."""
