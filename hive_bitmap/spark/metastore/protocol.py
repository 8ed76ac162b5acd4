"""The protocol of the metastores: what is read of databases, tables and partitions, and what is changed in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Partition, Table, Values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata where Spark stores CHAR(n) and VARCHAR(n)
DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata where Spark stores a column's value for files that lack it


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a Spark schema in JSON form.

    The types CHAR and VARCHAR are restored.
    """
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """One batch of changes to the places of a table or of its partitions, by partition values.

    A table without partitions has the values (): it is `moved`. First partitions are `added`. Then a session that can
    moves all the `moved` ones at once. One that cannot first moves those that are `vacated` to the places which these
    say.
    """

    added: Mapping[Values, str] = field(default_factory=dict)
    vacated: Mapping[Values, str] = field(default_factory=dict)
    moved: Mapping[Values, str] = field(default_factory=dict)


class Metastore(Protocol):
    """Reads and changes the session's catalog; `JvmMetastore` and `SqlMetastore` implement it.

    Each has the same results for the same calls (tests/spark/metastore/test_contract.py); they differ in which sessions
    they serve, and in how many calls of the metastore they need.
    """

    def available(self, spark: SparkSession) -> bool:
        """Return whether this implementation serves the session."""

    def database_names(self, spark: SparkSession) -> list[str]:
        """Return the databases of the session's own catalog."""

    def database_exists(self, spark: SparkSession, database: str) -> bool:
        """Return whether the session's own catalog has a database."""

    def database_folder(self, spark: SparkSession, database: str) -> str:
        """Return the folder of a database, as a URI."""

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        """Return those of the tables that exist; an unknown database has none.

        If there is a temporary view named `view`, it hides the first table, and only the view is returned. Tables of a
        kind that Spark does not support, such as the index tables of Hive 2, are left out.
        """

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        """Return the names of the tables of a database that match the pattern, in which `*` stands for any text."""

    def partitions(self, spark: SparkSession, table: Table) -> list[Partition]:
        """Return all partitions of a partitioned table, in the order of the metastore."""

    def create_table(self, spark: SparkSession, table: Table) -> bool:
        """Create an external table; return False if there is a table or view of that name.

        It has the table's columns, location and properties, of which `comment` is the comment of the table. It belongs
        to the table's `owner`, or to the session's user if that is "" or the session cannot choose.
        """

    def drop_table(self, spark: SparkSession, name: str, *, if_exists: bool, purge: bool) -> None:
        """Drop a table, given by its name in Spark's SQL; files of an external one stay."""

    def drop_database(self, spark: SparkSession, database: str, *, if_exists: bool) -> None:
        """Drop a database with its tables."""

    def rename_table(self, spark: SparkSession, table: Table, name: str) -> None:
        """Rename a table inside its database; the files of an external one are not moved."""

    def set_properties(
        self, spark: SparkSession, table: Table, properties: Mapping[str, str], unset: Collection[str]
    ) -> None:
        """Set these properties of a table, then unset those of `unset` that `table` has.

        Setting is one change of the metastore, whatever the number of properties.
        """

    def change(self, spark: SparkSession, table: Table, changes: Changes) -> bool:
        """Carry out a batch: add partitions, then move those that exist.

        Return whether it has added all of the `added` partitions: one that exists already is not added again.
        Partitions are moved in one change of the metastore as far as the session can, and keep no statistics.
        Afterwards the session lists the table's files again.
        """

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

    def current_user(self, spark: SparkSession) -> str:
        """Return the user of the session, to whom the tables belong that it creates."""

    def has_foreign_rules(self, spark: SparkSession) -> bool:
        """Return whether rules that others added to Spark, as authorizers do, may change the session's plans."""
