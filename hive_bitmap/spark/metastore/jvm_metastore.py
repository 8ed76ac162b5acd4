"""Read and change the metastore through the catalog of a classic session.

One call reads or changes many tables or partitions; one JSON text transfers all their values. Tables are created,
dropped, renamed and given properties by the SQL of `SqlMetastore`, so that Spark's authorizers and listeners see these
changes like the changes of other programs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from hive_bitmap.core.table_info import NULL_PARTITION, Partition, Table, Values, hadoop_path
from hive_bitmap.errors import DatabaseNotFound, ServerError
from hive_bitmap.spark.metastore import jvm_reader, table_ddl
from hive_bitmap.spark.metastore.jvm_reader import Bridge, bridge, table_from
from hive_bitmap.spark.metastore.protocol import Changes
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore, is_there_already, is_unknown_kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JvmMetastore(SqlMetastore):
    """The `Metastore` of classic sessions."""

    def available(self, spark: SparkSession) -> bool:
        return jvm_reader.available(spark)

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        """Describe tables in one call (see `Metastore.describe`).

        `view` is the name of a temporary view that would hide the first table; "" if no view can hide it. The call
        fails if Spark does not support the kind of one of the tables; then each table is described by a separate call.
        Raises ServerError if the metastore fails.
        """
        from pyspark.errors import PySparkException

        jvm = bridge(spark)
        if view and jvm.session_catalog.getTempView(view).isDefined():
            return [Table(database=database, name=names[0], kind="TEMPORARY")]
        try:
            return _described(jvm, database, names)
        except DatabaseNotFound:
            return []
        except PySparkException as e:
            if not is_unknown_kind(e):
                raise
            if len(names) == 1:
                return []
            return [table for name in names for table in self.describe(spark, database, [name], view="")]

    def database_names(self, spark: SparkSession) -> list[str]:
        jvm = bridge(spark)
        names: list[str] = jvm.json(jvm.catalog.listDatabases())
        return names

    def database_folder(self, spark: SparkSession, database: str) -> str:
        return str(bridge(spark).catalog.getDatabase(database).locationUri().toString())

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        jvm = bridge(spark)
        names: list[str] = jvm.json(jvm.catalog.listTables(database, pattern))
        return names

    def partitions(self, spark: SparkSession, table: Table, values: Sequence[Values] | None = None) -> list[Partition]:
        return [
            Partition(
                values=_values(table, partition),
                location=hadoop_path(partition["storage"]["locationUri"]),
                input_format=partition["storage"]["inputFormat"] or "",
                serde=partition["storage"]["serde"] or "",
                properties=(*partition["parameters"].items(), *partition["storage"]["properties"].items()),
            )
            for partition in _partitions(spark, table, values)
        ]

    def create_table(self, spark: SparkSession, table: Table) -> bool:
        with owned_by(spark, table.owner):
            return super().create_table(spark, table)

    def change(self, spark: SparkSession, table: Table, changes: Changes) -> bool:
        if not table.partition_columns:
            return super().change(spark, table, changes)
        are_new = self._add_partitions(spark, table, changes.added)
        self._move_partitions(spark, table, changes.moved)
        spark.catalog.refreshTable(table.spark_name)
        return are_new

    def _add_partitions(self, spark: SparkSession, table: Table, new: Mapping[Values, str]) -> bool:
        """Add partitions through Spark's catalog; return whether all were new.

        No SQL statement runs. `new` has the folder of each partition; an existing partition is not changed.
        """
        if not new:
            return True
        jvm, are_new = bridge(spark), True
        storage = jvm.json(jvm.catalog.getTable(table.database, table.name).storage())
        for batch in table_ddl.batches(new):
            partitions = [
                {
                    "spec": _spec(table, values),
                    "storage": {**storage, "locationUri": quote(folder, safe="/:@")},
                    "parameters": {},
                    "createTime": int(time.time() * 1000),
                    "lastAccessTime": -1,
                    "stats": None,
                }
                for values, folder in batch.items()
            ]
            java_partitions = jvm.array_seq.unsafeWrapArray(
                jvm.mapper.readValue(json.dumps(partitions), jvm.partitions_type)
            )
            try:
                jvm.catalog.createPartitions(table.database, table.name, java_partitions, False)
            except Exception as e:
                if not is_there_already(e):
                    raise
                jvm.catalog.createPartitions(table.database, table.name, java_partitions, True)
                are_new = False
        return are_new

    def _move_partitions(self, spark: SparkSession, table: Table, moves: Mapping[Values, str]) -> None:
        """Move partitions in batches of AT_ONCE; each batch is one call and one transaction.

        `moves` has the new folder of each partition.
        """
        if not moves:
            return
        jvm, changed = bridge(spark), []
        for partition in _partitions(spark, table):
            values = _values(table, partition)
            if values in moves:
                partition["storage"]["locationUri"] = quote(moves[values], safe="/:@")
                changed.append({**partition, "stats": None})
        for start in range(0, len(changed), table_ddl.AT_ONCE):
            batch = json.dumps(changed[start : start + table_ddl.AT_ONCE])
            java_partitions = jvm.mapper.readValue(batch, jvm.partitions_type)
            jvm.catalog.alterPartitions(table.database, table.name, jvm.array_seq.unsafeWrapArray(java_partitions))

    def forget_files(self, spark: SparkSession, table: Table) -> None:
        """Drop the session's cached files and schema of a table.

        Cached rows stay.
        """
        bridge(spark).session_catalog.refreshTable(_identifier(spark, table))

    def refresh_files(self, spark: SparkSession, table: Table) -> None:
        """Make the session list the files of a table again.

        All DataFrames of the table share one listing. A table that Spark reads by a SerDe has no listing, because its
        files are listed for each query. If another session has altered or recreated the table, this session still has
        the old schema, which does not fit the files. Then the schema is read again, too.
        """
        leaves: Any = spark.table(table.spark_name)._jdf.queryExecution().analyzed().collectLeaves()
        relation = leaves.head()
        if relation.getClass().getSimpleName() != "LogicalRelation":
            return
        named = _identifier(spark, table)
        current = bridge(spark).session_catalog.getTableMetadata(named)
        if _identity(relation.catalogTable().get()) == _identity(current):
            relation.relation().location().refresh()
        else:
            bridge(spark).session_catalog.refreshTable(named)

    def is_cached(self, spark: SparkSession, spark_name: str) -> bool:
        """Return whether the rows of a table are cached in the session.

        If the session has cached nothing at all, `isCached` is not called, because a call would analyze the table.
        """
        return not bridge(spark).cache.isEmpty() and spark.catalog.isCached(spark_name)

    def time_zone(self, spark: SparkSession) -> str:
        return bridge(spark).time_zone

    def default_parallelism(self, spark: SparkSession) -> int:
        return spark.sparkContext.defaultParallelism

    def current_user(self, spark: SparkSession) -> str:
        """Return the user of the session: the value of `current_user()` in Spark's SQL."""
        return str(bridge(spark).jvm.org.apache.spark.sql.catalyst.CurrentUserContext.getCurrentUser())

    def has_foreign_rules(self, spark: SparkSession) -> bool:
        return bridge(spark).has_foreign_rules


@contextmanager
def owned_by(spark: SparkSession, owner: str) -> Iterator[None]:
    """Make `owner` the owner of tables that this thread creates in the `with` block.

    The tables belong to the user of the session instead if `owner` is "", or if the Python thread has no thread of its
    own in the JVM (Spark Connect, or PYSPARK_PIN_THREAD=false).
    """
    if not owner or not jvm_reader.available(spark) or not _has_jvm_thread(spark):
        yield
        return
    current = cast(Any, spark)._jvm.org.apache.spark.sql.catalyst.CurrentUserContext.CURRENT_USER()
    before = current.get()
    current.set(owner)
    try:
        yield
    finally:
        if before is None:
            current.remove()
        else:
            current.set(before)


def _has_jvm_thread(spark: SparkSession) -> bool:
    from py4j.clientserver import ClientServer  # type: ignore[import-untyped]

    return isinstance(spark.sparkContext._gateway, ClientServer)


def _described(jvm: Bridge, database: str, names: Sequence[str]) -> list[Table]:
    scala_names = jvm.to_scala.asScala(jvm.array_list(list(names))).toSeq()
    with _metastore_errors():
        tables = jvm.catalog.getTablesByName(database, scala_names)
    return [table_from(info) for info in jvm.json(tables)]


@contextmanager
def _metastore_errors() -> Iterator[None]:
    """Turn an error of the metastore into a ServerError of one sentence.

    The error for an unknown database becomes NotFound.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        yield
    except Py4JJavaError as e:
        cause = e.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        reason = str(cause.toString()).partition("\n")[0]
        if "UnknownDBException" in reason:
            raise DatabaseNotFound(f"no such database: {reason.rpartition(' ')[2].rstrip(')')}") from e
        if "Invalid method name" in reason:
            advice = "set spark.sql.hive.metastore.version and spark.sql.hive.metastore.jars to those of the metastore"
            raise ServerError(
                f"the metastore has another version than the session's client ({reason}): {advice}"
            ) from e
        raise ServerError(f"the metastore does not answer: {reason}") from e


def _partitions(spark: SparkSession, table: Table, wanted: Sequence[Values] | None = None) -> list[dict[str, Any]]:
    """Return the fields of all partitions, or of the partitions with the values `wanted`."""
    jvm = bridge(spark)
    partitions: list[dict[str, Any]] = []
    if wanted is None:
        return partitions + jvm.json(jvm.catalog.listPartitions(table.database, table.name, jvm.none))
    for values in wanted:
        spec = jvm.some_map(_spec(table, values))
        found = jvm.json(jvm.catalog.listPartitions(table.database, table.name, spec))
        partitions += [fields for fields in found if _values(table, fields) == values]
    return partitions


def _values(table: Table, partition: Mapping[str, Any]) -> Values:
    spec = {name.lower(): value for name, value in partition["spec"].items()}
    values = (spec[column.name.lower()] for column in table.partition_columns)
    return tuple(None if value == NULL_PARTITION else value for value in values)


def _spec(table: Table, values: Values) -> dict[str, str]:
    """Return partition values by column, in the form of Spark's catalog."""
    pairs = zip(table.partition_columns, values, strict=True)
    return {column.name: NULL_PARTITION if value is None else value for column, value in pairs}


def _identifier(spark: SparkSession, table: Table) -> Any:
    """Return a table's name in the form of Spark's catalog."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.TableIdentifier(table.name, jvm.scala.Option.apply(table.database))


def _identity(table: Any) -> tuple[int, str, str]:
    """Return a value that changes when the table is altered or recreated."""
    return table.createTime(), table.storage().locationUri().toString(), table.schema().catalogString().lower()
