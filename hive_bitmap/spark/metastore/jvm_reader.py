"""Read values from a classic session's JVM through py4j.

A value is transferred as JSON text, written by Spark's Jackson library. The text takes one call for each 8,000
characters; without the text, there would be one call for each field. Except for `available`, all functions that take a
session need a session for which `available` is true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from hive_bitmap.core.table_info import SESSION_CATALOG, Table, hadoop_path
from hive_bitmap.spark.metastore import lake_tables
from hive_bitmap.spark.metastore.protocol import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULES = ("buildResolutionRules", "buildPostHocResolutionRules", "buildCheckRules", "buildOptimizerRules")
PIECE = 8000  # characters of a text that are transferred in one call
_bridges: WeakKeyDictionary[SparkSession, Bridge] = WeakKeyDictionary()


def available(spark: SparkSession) -> bool:
    """Return whether py4j can reach the JVM of this session.

    py4j can reach the JVM of a classic session, but not over Spark Connect.
    """
    return getattr(spark, "_jsparkSession", None) is not None


def cloned(spark: SparkSession) -> SparkSession:
    """Return a new session with the same settings and the same catalog."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, cast(Any, spark)._jsparkSession.cloneSession())


def table_of(spark: SparkSession, described: Any) -> Table:
    """Convert a `CatalogTable`, an object of the JVM, to a table."""
    return table_from(bridge(spark).json(described))


def to_python(spark: SparkSession, value: Any) -> Any:
    """Convert a Scala or Java value to Python, by way of its JSON text.

    The value is a collection, a map, or an object with public fields.
    """
    return bridge(spark).json(value)


def text_of(text: Any) -> str:
    """Return the text of a Java `StringBuilder` or `StringBuffer`.

    The text is transferred in pieces: a text larger than the buffer of the socket would be delayed by 40 ms, until the
    receiver acknowledges the first part.
    """
    length = text.length()
    return "".join(text.substring(at, min(at + PIECE, length)) for at in range(0, length, PIECE))


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """Objects of the JVM that most requests need.

    `session` is the Java half of the Spark session. `catalog` is Spark's external catalog, `session_catalog` the
    catalog of the session, and `cache` Spark's cache manager. `to_scala` converts collections. `array_list`,
    `array_seq` and `writer` are classes, `partitions_type` is the class of arrays of partitions, and `none` is Scala's
    None. `mapper` converts values to JSON. The objects are cached, because each step on the way to an object takes a
    call.
    """

    jvm: Any
    session: Any
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
        """Convert a Scala or Java value to Python, by way of its JSON text."""
        writer = self.writer()
        self.mapper.writeValue(writer, value)
        return json.loads(text_of(writer.getBuffer()))

    def some_map(self, values: Mapping[str, str]) -> Any:
        """Return an immutable map as a Scala Option."""
        type = self.jvm.java.lang.Class.forName("scala.collection.immutable.Map")
        return self.jvm.scala.Option.apply(self.mapper.readValue(json.dumps(values), type))

    @cached_property
    def time_zone(self) -> str:
        """The JVM's default time zone.

        Spark reads the local timestamps of ORC files in this time zone.
        """
        return str(self.jvm.java.util.TimeZone.getDefault().getID())

    @cached_property
    def has_foreign_rules(self) -> bool:
        """Whether other programs have added rules that see all plans.

        The rules of hive_bitmap do not count; they are added in another place.
        """
        extensions = self.session.extensions()
        return any(not getattr(extensions, name)(self.session).isEmpty() for name in _RULES)


def bridge(spark: SparkSession) -> Bridge:
    """Return the `Bridge` to the JVM of a session; it is cached."""
    cached = _bridges.get(spark)
    if cached is None:
        cached = _bridges[spark] = _new_bridge(spark)
    return cached


def _new_bridge(spark: SparkSession) -> Bridge:
    jvm: Any = spark._jvm
    scala = jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule()
    partition = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogTablePartition")
    return Bridge(
        jvm=jvm,
        session=spark._jsparkSession,
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


def table_from(info: Mapping[str, Any]) -> Table:
    """Convert the fields of a `CatalogTable` to a table."""
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
