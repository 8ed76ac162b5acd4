"""What a reader of the metastore gives, whichever way it asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hive_bitmap.metastore.table_info import Partition, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reader(Protocol):
    """Tables and partitions of the session's catalog: `jvm_reader`, a module, and `sql_reader.SqlReader` are two."""

    def available(self, spark: SparkSession) -> bool:
        """Whether it can ask this session."""

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], qualified: bool) -> list[Table]:
        """Those of the tables that exist; a name that is not `qualified` may be that of a temporary view."""

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        """The names of the tables of a database that match; `*` stands for anything."""

    def partitions(self, spark: SparkSession, table: Table) -> list[Partition]:
        """All partitions of a partitioned table, in the metastore's order."""

    def forget_files(self, spark: SparkSession, table: Table) -> None:
        """Have the session look anew at the files and columns of a table when it reads it the next time."""

    def is_cached(self, spark: SparkSession, sql_name: str) -> bool:
        """Whether the session keeps the rows of a table in its cache."""

    def time_zone(self, spark: SparkSession) -> str:
        """The zone of the engine's JVM; empty where it cannot be asked, so that no ORC timestamp is placed in it."""

    def default_parallelism(self, spark: SparkSession) -> int:
        """How many tasks the cluster runs at once, as far as the session tells."""
