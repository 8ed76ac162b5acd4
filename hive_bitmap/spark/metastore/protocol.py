"""The protocol of the metastores: reading and changing databases, tables and partitions."""

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
    """Return the columns of a schema, which is given in Spark's JSON form.

    The type of a CHAR or VARCHAR column is taken from the metadata of the string column that stands for it.
    """
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """A batch of changes to the folders of a table or its partitions.

    Each field maps partition values to the partition's new folder. An unpartitioned table has the partition values (),
    and can only be in `moved`. Partitions in `added` are added first. Then all partitions in `moved` are moved, in a
    single call if the session supports that. A session that moves partitions one by one first moves the partitions in
    `vacated` to the folders that `vacated` gives, so that no reader sees rows twice.
    """

    added: Mapping[Values, str] = field(default_factory=dict)
    vacated: Mapping[Values, str] = field(default_factory=dict)
    moved: Mapping[Values, str] = field(default_factory=dict)


class Metastore(Protocol):
    """The operations that read and change the session's catalog.

    `JvmMetastore` and `SqlMetastore` implement this protocol. Both have the same results for the same calls
    (tests/spark/metastore/test_contract.py). The implementations differ in the sessions that they serve, and in the
    number of calls to the metastore.
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
        """Return the tables among `names` that exist in a database.

        `view` is the name of a temporary view that would hide the first of `names`; "" if no view can hide it. If this
        view exists, only the view is returned. Left out are tables of a kind that Spark does not support, such as the
        index tables of Hive 2. An unknown database has no tables.
        """

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        """Return the names of a database's tables that match a pattern.

        In the pattern, `*` stands for any text.
        """

    def partitions(self, spark: SparkSession, table: Table, values: Sequence[Values] | None = None) -> list[Partition]:
        """Return the partitions of a partitioned table, in the order of the metastore.

        With `values`, return only the existing partitions with these values. This is faster if the table has many other
        partitions.
        """

    def create_table(self, spark: SparkSession, table: Table) -> bool:
        """Create an external table; return False if the name is taken.

        A table or a view may have taken the name. The table gets the columns, location and properties of `table`. The
        comment of the new table is the value of the property `comment`. The new table belongs to the `owner` of
        `table`, or to the session's user if `owner` is "" or the session cannot choose an owner.
        """

    def drop_table(self, spark: SparkSession, name: str, *, if_exists: bool, purge: bool) -> None:
        """Drop a table, given by its name in Spark's SQL.

        The files of an external table stay. `if_exists` and `purge` stand for IF EXISTS and PURGE in Spark's DROP
        TABLE.
        """

    def drop_database(self, spark: SparkSession, database: str, *, if_exists: bool) -> None:
        """Drop a database with its tables."""

    def rename_table(self, spark: SparkSession, table: Table, name: str) -> None:
        """Rename a table inside its database.

        The files of an external table are not moved.
        """

    def set_properties(
        self, spark: SparkSession, table: Table, properties: Mapping[str, str], unset: Collection[str]
    ) -> None:
        """Set `properties` of a table, then unset the properties with the names `unset`.

        All `properties` are set in one change of the metastore. Names in `unset` that are not properties of `table`
        are ignored.
        """

    def change(self, spark: SparkSession, table: Table, changes: Changes) -> bool:
        """Apply a batch of changes.

        Return whether this call has added all of the `added` partitions; an existing partition is not changed.
        Partitions are moved in one change of the metastore if the session can do that. Moved partitions lose their
        statistics. Afterwards the session lists the table's files again.
        """

    def forget_files(self, spark: SparkSession, table: Table) -> None:
        """Drop the session's cached files and schema of a table.

        The next read lists the files and reads the schema again.
        """

    def refresh_files(self, spark: SparkSession, table: Table) -> None:
        """Make the session list a table's files again, also for existing DataFrames."""

    def is_cached(self, spark: SparkSession, spark_name: str) -> bool:
        """Return whether the rows of a table are cached in the session."""

    def time_zone(self, spark: SparkSession) -> str:
        """Return the default time zone of the JVM.

        Return "" if the time zone is unknown; then only Spark reads ORC timestamps.
        """

    def default_parallelism(self, spark: SparkSession) -> int:
        """Return how many tasks the cluster runs at once.

        Return a default if the number is unknown.
        """

    def current_user(self, spark: SparkSession) -> str:
        """Return the user of the session, who owns the tables that the session creates."""

    def has_foreign_rules(self, spark: SparkSession) -> bool:
        """Return whether rules of other programs may change the session's plans.

        Other programs, such as authorizers, have added these rules to Spark.
        """
