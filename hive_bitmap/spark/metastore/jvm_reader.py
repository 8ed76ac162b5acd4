"""Read the session's catalog through py4j: many tables, or all partitions, in one call. Classic sessions only.

Results are transferred as one JSON text, written by the Jackson library of Spark, so that a request needs few calls
however many tables or partitions it is for. Changed partitions are sent back in the same way. All functions but
`available` need a session that is `available`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote
from weakref import WeakKeyDictionary

from hive_bitmap.core.table_info import NULL_PARTITION, SESSION_CATALOG, Partition, Table, Values, hadoop_path
from hive_bitmap.errors import DatabaseNotFound, ServerError
from hive_bitmap.spark.metastore import lake_tables
from hive_bitmap.spark.metastore.reader import is_unknown_kind
from hive_bitmap.spark.metastore.spark_schema import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
PIECE = 8000  # characters of a text that are transferred in one call
_bridges: WeakKeyDictionary[SparkSession, _Bridge] = WeakKeyDictionary()


def available(spark: SparkSession) -> bool:
    """Return whether py4j can reach the JVM of this session: it is classic, not Spark Connect."""
    return getattr(spark, "_jsparkSession", None) is not None


def cloned(spark: SparkSession) -> SparkSession:
    """Return a new session with the settings of this one, of the same catalog."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, cast(Any, spark)._jsparkSession.cloneSession())


def describe(spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
    """Return those of the tables that exist.

    If there is a temporary view named `view`, it hides the first table, and only the view is returned. Spark fails the
    whole call if one table is of a kind that it does not support, as the tables of Hive's own indexes are; they are
    left out. Raises ServerError if the metastore fails, and NotFound for an unknown database.
    """
    from pyspark.errors import PySparkException

    bridge = _bridge(spark)
    if view and bridge.session_catalog.getTempView(view).isDefined():
        return [Table(database=database, name=names[0], kind="TEMPORARY")]
    try:
        return _described(bridge, database, names)
    except PySparkException as e:
        if not is_unknown_kind(e):
            raise
        return [] if len(names) == 1 else [one for name in names for one in describe(spark, database, [name], "")]


def _described(bridge: _Bridge, database: str, names: Sequence[str]) -> list[Table]:
    wanted = bridge.to_scala.asScala(bridge.array_list(list(names))).toSeq()
    with _metastore_errors():
        found = bridge.catalog.getTablesByName(database, wanted)
    return [_table(info) for info in bridge.json(found)]


def table_of(spark: SparkSession, described: Any) -> Table:
    """Convert a `CatalogTable`, an object of the JVM, to a table."""
    return _table(_bridge(spark).json(described))


def to_python(spark: SparkSession, value: Any) -> Any:
    """Convert a Scala or Java value: a collection, a map, or an object with public fields."""
    return _bridge(spark).json(value)


def text_of(text: Any) -> str:
    """Return the text of a Java `StringBuilder` or `StringBuffer`.

    It is transferred in pieces, since a text larger than the buffer of the socket waits 40 ms for an acknowledgement.
    """
    length = text.length()
    return "".join(text.substring(at, min(at + PIECE, length)) for at in range(0, length, PIECE))


def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
    """Return the names of the tables of a database that match the pattern, in which `*` stands for any text."""
    bridge = _bridge(spark)
    names: list[str] = bridge.json(bridge.catalog.listTables(database, pattern))
    return names


def partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """Return all partitions of a table."""
    return [
        Partition(
            values=_values(table, partition),
            location=hadoop_path(partition["storage"]["locationUri"]),
            input_format=partition["storage"]["inputFormat"] or "",
            serde=partition["storage"]["serde"] or "",
            properties=(*partition["parameters"].items(), *partition["storage"]["properties"].items()),
        )
        for partition in _partitions(spark, table)
    ]


def change_partitions(
    spark: SparkSession,
    table: Table,
    folders: Mapping[Values, str],
    properties: Mapping[Values, Mapping[str, str]],
    at_once: int,
) -> None:
    """Set the locations and properties of partitions, each of which keeps those that it is not given.

    `at_once` of them are changed in one call; partitions that no longer exist are skipped.
    """
    bridge = _bridge(spark)
    changed = []
    for partition in _partitions(spark, table):
        values = _values(table, partition)
        if values in folders:
            partition["storage"]["locationUri"] = quote(folders[values], safe="/:@")
        if values in folders or values in properties:
            partition["parameters"].update(properties.get(values, {}))
            changed.append({**partition, "stats": None})
    for start in range(0, len(changed), at_once):
        found = bridge.mapper.readValue(json.dumps(changed[start : start + at_once]), bridge.partitions_type)
        bridge.catalog.alterPartitions(table.database, table.name, bridge.array_seq.unsafeWrapArray(found))


def forget_files(spark: SparkSession, table: Table) -> None:
    """Drop what the session has cached of the files and the schema of a table, but not cached rows."""
    _bridge(spark).session_catalog.refreshTable(_identifier(spark, table))


def refresh_files(spark: SparkSession, table: Table) -> None:
    """Make the session list the files of a table again: those of the one listing that all its DataFrames share.

    A table that Spark reads by a SerDe has none; its files are listed each time. Of a table that another session
    altered or made anew, the session's relation has the columns of before, which fit the files no longer: it is
    forgotten as a whole.
    """
    leaves: Any = spark.table(table.spark_name)._jdf.queryExecution().analyzed().collectLeaves()
    relation = leaves.head()
    if relation.getClass().getSimpleName() != "LogicalRelation":
        return
    named = _identifier(spark, table)
    of_now = _bridge(spark).session_catalog.getTableMetadata(named)
    if _identity(relation.catalogTable().get()) == _identity(of_now):
        relation.relation().location().refresh()
    else:
        _bridge(spark).session_catalog.refreshTable(named)


def _identifier(spark: SparkSession, table: Table) -> Any:
    """Return a table's name as Spark's catalog takes it."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.TableIdentifier(table.name, jvm.scala.Option.apply(table.database))


def _identity(table: Any) -> tuple[int, str, str]:
    """Return what tells the table that a session knows from one of the same name that was altered or made anew."""
    return table.createTime(), table.storage().locationUri().toString(), table.schema().catalogString().lower()


def is_cached(spark: SparkSession, spark_name: str) -> bool:
    """Return whether the rows of a table are cached in the session.

    `isCached` has to analyze the table, so first check cheaply whether anything is cached at all.
    """
    return not _bridge(spark).cache.isEmpty() and spark.catalog.isCached(spark_name)


def default_parallelism(spark: SparkSession) -> int:
    """Return how many tasks the cluster runs at once."""
    return spark.sparkContext.defaultParallelism


@lru_cache(maxsize=8)
def time_zone(spark: SparkSession) -> str:
    """Return the default time zone of the JVM, in which Spark interprets the local timestamps of ORC files."""
    jvm: Any = spark._jvm
    return str(jvm.java.util.TimeZone.getDefault().getID())


@contextlib.contextmanager
def _metastore_errors() -> Iterator[None]:
    """Turn an error of the metastore into a ServerError of one sentence."""
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
            advice = "set spark.sql.hive.metastore.version and spark.sql.hive.metastore.jars to what the metastore is"
            raise ServerError(f"the metastore is not of this session's client's version ({reason}): {advice}") from e
        raise ServerError(f"the metastore does not answer: {reason}") from e


def _partitions(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    bridge = _bridge(spark)
    found: list[dict[str, Any]] = bridge.json(bridge.catalog.listPartitions(table.database, table.name, bridge.none))
    return found


def _values(table: Table, partition: Mapping[str, Any]) -> Values:
    spec = {name.lower(): value for name, value in partition["spec"].items()}
    values = (spec[column.name.lower()] for column in table.partition_columns)
    return tuple(None if value == NULL_PARTITION else value for value in values)


@dataclass(frozen=True, kw_only=True)
class _Bridge:
    """Objects of the JVM that most requests need. They are cached, because reaching one takes a call for each step."""

    catalog: Any
    session_catalog: Any
    cache: Any
    to_scala: Any
    array_list: Any
    array_seq: Any
    partitions_type: Any
    none: Any
    mapper: Any
    writer: Any

    def json(self, value: Any) -> Any:
        """Convert a Scala value to Python."""
        writer = self.writer()
        self.mapper.writeValue(writer, value)
        return json.loads(text_of(writer.getBuffer()))


def _bridge(spark: SparkSession) -> _Bridge:
    known = _bridges.get(spark)
    if known is None:
        known = _bridges[spark] = _new_bridge(spark)
    return known


def _new_bridge(spark: SparkSession) -> _Bridge:
    jvm: Any = spark._jvm
    scala = jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule()
    partition = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogTablePartition")
    return _Bridge(
        catalog=spark._jsparkSession.sharedState().externalCatalog(),
        session_catalog=spark._jsparkSession.sessionState().catalog(),
        cache=spark._jsparkSession.sharedState().cacheManager(),
        to_scala=jvm.scala.jdk.javaapi.CollectionConverters,
        array_list=jvm.java.util.ArrayList,
        array_seq=jvm.scala.collection.immutable.ArraySeq,
        partitions_type=jvm.java.lang.reflect.Array.newInstance(partition, 0).getClass(),
        none=jvm.scala.Option.apply(None),
        mapper=jvm.com.fasterxml.jackson.databind.json.JsonMapper.builder().addModule(scala).build(),
        writer=jvm.java.io.StringWriter,
    )


def _catalog(identifier: Mapping[str, Any]) -> str:
    name = identifier.get("catalog") or ""
    return "" if name.lower() == SESSION_CATALOG else name


def _table(info: dict[str, Any]) -> Table:
    storage = info["storage"]
    partition_names = [name.lower() for name in info["partitionColumnNames"]]
    columns = columns_of(info["schema"])
    by_name = {column.name.lower(): column for column in columns}
    table = Table(
        database=info["identifier"]["database"],
        name=info["identifier"]["table"],
        kind=info["tableType"]["name"],
        provider=info["provider"] or "",
        columns=tuple(column for column in columns if column.name.lower() not in partition_names),
        partition_columns=tuple(by_name[name] for name in partition_names),
        location=hadoop_path(storage["locationUri"]) if storage["locationUri"] else "",
        input_format=storage["inputFormat"] or "",
        serde=storage["serde"] or "",
        properties=info["properties"],
        options=storage["properties"],
        declared=json.dumps(info["schema"]),
        by_folders=info["provider"] != "hive" and bool(partition_names) and not info["tracksPartitionsInCatalog"],
        owner=info["owner"] or "",
        catalog=_catalog(info["identifier"]),
    )
    return lake_tables.described(table)
