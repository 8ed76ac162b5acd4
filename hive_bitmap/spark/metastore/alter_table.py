"""Change tables in the metastore: by SQL, except that the JVM changes many partitions in one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    new, moved, dropped = changes(before, folders, gone)
    with verbatim_partitions(spark) as verbatim:
        for statement in adding(table, new):
            verbatim.sql(statement)
        _change(spark, table, moved, properties)
        for statement in dropping(table, dropped):
            verbatim.sql(statement)
    if new or moved or dropped:
        spark.catalog.refreshTable(table.spark_name)  # what this session has listed of it


def changes(
    before: Mapping[Values, str], folders: Mapping[Values, str], gone: Iterable[Values]
) -> tuple[dict[Values, str], dict[Values, str], list[Values]]:
    """Return the partitions to add and those to move, with their folders, and those to drop.

    >>> changes({("1",): "a", ("2",): "b", ("3",): "c"}, {("1",): "a", ("2",): "B", ("4",): "D"}, [("3",), ("5",)])
    ({('4',): 'D'}, {('2',): 'B'}, [('3',)])
    """
    new = {values: folder for values, folder in folders.items() if values not in before}
    moved = {values: folder for values, folder in folders.items() if before.get(values, folder) != folder}
    return new, moved, [values for values in gone if values in before]


def adding(table: Table, new: Mapping[Values, str]) -> Iterator[str]:
    """Yield the statements that add partitions, AT_ONCE in each."""
    specs = [f"PARTITION {partition_spec(table, values)} LOCATION {literal(folder)}" for values, folder in new.items()]
    for batch in _batches(specs):
        yield f"ALTER TABLE {table.spark_name} ADD IF NOT EXISTS {' '.join(batch)}"


def dropping(table: Table, dropped: Iterable[Values]) -> Iterator[str]:
    """Yield the statements that drop partitions, AT_ONCE in each."""
    specs = [f"PARTITION {partition_spec(table, values)}" for values in dropped]
    for batch in _batches(specs):
        yield f"ALTER TABLE {table.spark_name} DROP IF EXISTS {', '.join(batch)}"


def set_properties(spark: SparkSession, table: Table, properties: Mapping[str, str], less: Iterable[str] = ()) -> None:
    """Set these table properties in one statement, then unset those in `less` that the table has."""
    for statement in setting(table, properties, less):
        spark.sql(statement)


def setting(table: Table, properties: Mapping[str, str], less: Iterable[str] = ()) -> Iterator[str]:
    """Yield the statements of `set_properties`."""
    if properties:
        pairs = ", ".join(f"{literal(key)}={literal(value)}" for key, value in properties.items())
        yield f"ALTER TABLE {table.spark_name} SET TBLPROPERTIES ({pairs})"
    unwanted = [key for key in less if key in table.properties]
    if unwanted:
        yield f"ALTER TABLE {table.spark_name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, unwanted))})"


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
