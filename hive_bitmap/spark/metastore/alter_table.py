"""Change tables in the metastore: by SQL, except that the JVM changes many partitions in one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from hive_bitmap.core import table_info
from hive_bitmap.core.table_info import Table, Values, literal, partition_spec
from hive_bitmap.spark.metastore import jvm_reader
from hive_bitmap.spark.metastore.session_settings import verbatim_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 200  # partitions in one statement or call


def switch(
    spark: SparkSession,
    table: Table,
    before: Mapping[Values, str],
    folders: Mapping[Values, str],
    gone: Collection[Values],
    properties: Mapping[Values, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Set the locations of a table or of its partitions, add missing partitions, and drop the partitions in `gone`.

    `properties` are set of these and of other partitions. Only the JVM can set those of partitions: a session that
    py4j cannot reach leaves them as they are.

    `before` are the current locations by partition values, `folders` the new ones; an unpartitioned table has the key
    (). The change of each table or partition is atomic. The partitions of a table are not changed all at the same time.
    """
    if not table.partition_columns:
        if () in folders and before[()] != folders[()]:
            spark.sql(f"ALTER TABLE {table.spark_name} SET LOCATION {literal(folders[()])}")
        set_properties(spark, table, properties.get((), {}))
        return
    new = [f"PARTITION {partition_spec(table, v)} LOCATION {literal(f)}" for v, f in folders.items() if v not in before]
    moved = {values: folder for values, folder in folders.items() if before.get(values, folder) != folder}
    dropped = [f"PARTITION {partition_spec(table, values)}" for values in gone if values in before]
    with verbatim_partitions(spark) as verbatim:
        for batch in _batches(new):
            verbatim.sql(f"ALTER TABLE {table.spark_name} ADD IF NOT EXISTS {' '.join(batch)}")
        _change(spark, table, moved, properties)
        for batch in _batches(dropped):
            verbatim.sql(f"ALTER TABLE {table.spark_name} DROP IF EXISTS {', '.join(batch)}")
    if new or moved or dropped:
        spark.catalog.refreshTable(table.spark_name)  # what this session has listed of it


def set_properties(spark: SparkSession, table: Table, properties: Mapping[str, str], less: Iterable[str] = ()) -> None:
    """Set these table properties in one statement, then unset those in `less` that the table has."""
    if properties:
        pairs = ", ".join(f"{literal(key)}={literal(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {table.spark_name} SET TBLPROPERTIES ({pairs})")
    unwanted = [key for key in less if key in table.properties]
    if unwanted:
        spark.sql(f"ALTER TABLE {table.spark_name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, unwanted))})")


def rename(spark: SparkSession, table: Table, name: str) -> None:
    """Rename a table inside its database; its files are not moved."""
    spark.sql(f"ALTER TABLE {table.spark_name} RENAME TO {table_info.quote(table.database)}.{table_info.quote(name)}")


def _change(
    spark: SparkSession, table: Table, folders: Mapping[Values, str], properties: Mapping[Values, Mapping[str, str]]
) -> None:
    """Set locations of partitions, and, if the session can, properties."""
    if jvm_reader.available(spark):
        if folders or properties:
            jvm_reader.change_partitions(spark, table, folders, properties, AT_ONCE)
        return
    for values, folder in folders.items():
        spec = partition_spec(table, values)
        spark.sql(f"ALTER TABLE {table.spark_name} PARTITION {spec} SET LOCATION {literal(folder)}")


def _batches(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
