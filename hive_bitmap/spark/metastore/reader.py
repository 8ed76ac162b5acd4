"""The protocol of the readers of the metastore, and an error that all of them meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hive_bitmap.core.table_info import Partition, Table

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession


class Reader(Protocol):
    """Reads tables and partitions of the session's catalog; the module `jvm_reader` and `SqlReader` implement it."""

    def available(self, spark: SparkSession) -> bool:
        """Return whether the reader works with this session."""

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        """Return those of the tables that exist.

        If there is a temporary view named `view`, it hides the first table, and only the view is returned.
        """

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        """Return the names of the tables of a database that match the pattern, in which `*` stands for any text."""

    def partitions(self, spark: SparkSession, table: Table) -> list[Partition]:
        """Return all partitions of a partitioned table, in the order of the metastore."""

    def forget_files(self, spark: SparkSession, table: Table) -> None:
        """Make the session list the files and read the schema of a table again when it reads it the next time."""

    def refresh_files(self, spark: SparkSession, table: Table) -> None:
        """Make the session list the files of a table again; DataFrames that were made of it before follow, too."""

    def is_cached(self, spark: SparkSession, spark_name: str) -> bool:
        """Return whether the rows of a table are cached in the session."""

    def time_zone(self, spark: SparkSession) -> str:
        """Return the default time zone of the JVM; "" if it is not known, so that ORC timestamps are left to Spark."""

    def default_parallelism(self, spark: SparkSession) -> int:
        """Return how many tasks the cluster runs at once, or a default if that is not known."""


def is_unknown_kind(error: PySparkException) -> bool:
    """Return whether the error is that Spark does not support this kind of table, as the index tables of Hive 2.

    Nor does it support a table with a column of a type that only Hive has.
    """
    return any(condition in str(error) for condition in ("HIVE_TABLE_TYPE", "UNSUPPORTED_HIVE_TYPE"))
