"""The indexes of a table, as the metastore holds them: finding, publishing and dropping index tables.

An index table is a plain EXTERNAL table; its definition is in its TBLPROPERTIES, its state is where its location, or
that of each of its partitions, points.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.errors import AlreadyExists, NotFound, Unsupported
from hive_bitmap.formats import storage
from hive_bitmap.index import generation, metastore
from hive_bitmap.index.definition import PREFIX, Definition, from_table, stored_columns, to_properties
from hive_bitmap.index.metastore import Table, hadoop_path, literal, partition_spec, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
POINTER = PREFIX + "index_tables"  # on a base table: names that IN TABLE gave, comma-separated
TABLES_AT_ONCE = 500  # described in one call to the metastore
_remembered: dict[tuple[int, str, str], tuple[float, list[Table]]] = {}  # the index tables of a session's base tables
Values = tuple[str | None, ...]  # of the partition columns; () for the one state of an unpartitioned table


@dataclass(frozen=True)
class Index:
    """An index that exists: its definition, and its index table as the metastore has it now."""

    definition: Definition
    table: Table


def table_and_indexes(spark: SparkSession, name: str, seconds: float = 0) -> tuple[Table, list[Index]]:
    """A table and all indexes on it, by name. Raises NotFound for an unknown table.

    Index tables may be those of up to `seconds` ago: where they point then is no less right, since files are known by
    their fingerprints. The base table is always looked up.
    """
    where = (id(spark), *metastore.split_name(spark, name))
    when, remembered = _remembered.get(where, (0.0, []))
    if time.monotonic() - when < seconds:
        base, tables = metastore.describe(spark, name), list(remembered)
    else:
        base, tables = metastore.describe_with(
            spark, name, lambda database, table: metastore.names_like(spark, database, f"{database}__{table}_*__")
        )
        _remembered[where] = (time.monotonic(), list(tables))
    known = {table.name for table in tables}
    named = [other for other in base.properties.get(POINTER, "").split(",") if other and other not in known]
    tables += metastore.describe_many(spark, base.database, named)
    found = [
        Index(definition, table)
        for table in tables
        if (definition := from_table(table)) is not None
        and (definition.database, definition.table) == (base.database, base.name)
    ]
    return base, sorted(found, key=lambda index: index.definition.name)


def indexes_of_database(spark: SparkSession, database: str) -> list[Index]:
    """Every index table of a database, whatever its name, by table and index."""
    names = metastore.names_like(spark, database, "*")
    tables = [
        table
        for start in range(0, len(names), TABLES_AT_ONCE)
        for table in metastore.describe_many(spark, database, names[start : start + TABLES_AT_ONCE])
    ]
    found = [Index(definition, table) for table in tables if (definition := from_table(table)) is not None]
    return sorted(found, key=lambda index: (index.definition.table, index.definition.name))


def named(base: Table, indexes: Sequence[Index], name: str) -> Index:
    """The index of that name; NotFound names those that exist."""
    for index in indexes:
        if index.definition.name == name.lower():
            return index
    raise NotFound.of("index", name, [index.definition.name for index in indexes], f"table {base.full_name}")


def require_free(spark: SparkSession, base: Table, indexes: Sequence[Index], definition: Definition) -> None:
    """Raise AlreadyExists if the name of the index or of its index table is taken."""
    if any(index.definition.name == definition.name for index in indexes):
        raise AlreadyExists(f"index {definition.name} already exists on table {base.full_name}")
    for table in metastore.describe_many(spark, base.database, [definition.index_table]):
        owner = from_table(table)
        whose = f"it is index {owner.name} on {owner.database}.{owner.table}" if owner else "it is no index table"
        raise AlreadyExists(f"table {table.full_name} already exists and {whose}: give another name with IN TABLE")


def require_distinct(definitions: Sequence[Definition]) -> None:
    """Raise AlreadyExists if two indexes of one build would share a name or a table."""
    tables = [definition.index_table for definition in definitions]
    for table in tables:
        if tables.count(table) > 1:
            raise AlreadyExists(f"two of the indexes would be table {table}: build them one by one, with names")


def require_same_columns(base: Table, definition: Definition) -> None:
    """Raise Unsupported if an indexed column of the base table is not what it was when the index was created."""
    for column in definition.columns:
        if column not in base.columns:
            now = next((f"is {c.type}" for c in base.columns if c.name.lower() == column.name.lower()), "is gone")
            raise Unsupported(
                f"index {definition.name} is on {column.name} {column.type}, but in table {base.full_name} it {now}"
                ": drop the index and create it anew"
            )


def place(spark: SparkSession, definition: Definition, location: str | None) -> Definition:
    """The definition with the folder its generations go to: LOCATION, else one under the external warehouse root."""
    if location is None:
        external = spark.conf.get("spark.hadoop.metastore.warehouse.external.dir", None)
        database = hadoop_path(spark.catalog.getDatabase(definition.database).locationUri)
        location = f"{external or database}/{definition.index_table}"
    elif ":" not in location.partition("/")[0]:
        location = "file:" + storage.absolute(location)
    return replace(definition, root=hadoop_path(location))


def states(spark: SparkSession, index: Index) -> dict[Values, str]:
    """The published generation of each partition; of an unpartitioned table under the key ()."""
    if not index.table.partition_columns:
        return {(): index.table.location}
    return {partition.values: partition.location for partition in metastore.partitions(spark, index.table)}


def publish(
    spark: SparkSession, base: Table, definition: Definition, folders: Mapping[Values, str], whole: bool
) -> None:
    """Switch an index to new generations, one a partition, and make its table first where there is none.

    With `whole`, partitions that `folders` does not name are dropped. What is replaced is retired, and what may go by
    now is deleted.
    """
    _remembered.clear()
    existing = metastore.describe_many(spark, definition.database, [definition.index_table])
    if not existing:
        spark.sql(create_statement(base, definition, folders.get((), definition.root)))
        if definition.index_table != f"{base.database}__{base.name}_{definition.name}__":
            _point_to(spark, base, {definition.index_table}, set())
        existing = metastore.describe_many(spark, definition.database, [definition.index_table])
    index = Index(definition, existing[0])
    before = states(spark, index)
    _switch(spark, index, before, folders, whole)
    for values, folder in before.items():
        if folders.get(values, folder if not whole else "") != folder:
            generation.retire(folder)
    for values, folder in folders.items():
        _clean(generation_parent(base, definition, values), folder)


def drop(spark: SparkSession, base: Table, index: Index) -> None:
    """Drop the index table and delete the generations, and nothing else."""
    _remembered.clear()
    definition = index.definition
    parents = {generation_parent(base, definition, values) for values in states(spark, index)} | {definition.root}
    spark.sql(f"DROP TABLE IF EXISTS {definition.sql_name}")
    _point_to(spark, base, set(), {definition.index_table})
    for parent in sorted(parents, key=len, reverse=True):
        for name in _subfolders(parent):
            if generation.is_generation(name):
                storage.delete_folder(f"{parent}/{name}")
        storage.remove_empty_folders(parent, definition.root)


def generation_parent(base: Table, definition: Definition, values: Values) -> str:
    """The folder that holds the generations of one partition."""
    names = [column.name for column in base.partition_columns]
    return generation.partition_folder(definition.root, names, values)


def create_statement(base: Table, definition: Definition, location: str) -> str:
    """The DDL of an index table, ready to run in Spark (and in Hive but for timestamp_ntz, which Hive lacks)."""
    fields = [(column.name, column.type) for column in (*definition.columns, *stored_columns(definition))]
    partitions = [(column.name, column.type) for column in base.partition_columns]
    properties = ", ".join(f"{literal(key)}={literal(value)}" for key, value in to_properties(definition).items())
    comment = f" COMMENT {literal(definition.comment)}" if definition.comment else ""
    hive = all(column.type != "timestamp_ntz" for column in (*definition.columns, *base.partition_columns))
    by = f" PARTITIONED BY ({_columns(partitions) if hive else ', '.join(quote(name) for name, _ in partitions)})"
    return (
        f"CREATE {'EXTERNAL ' if hive else ''}TABLE {definition.sql_name}"
        f" ({_columns(fields if hive else fields + partitions)})"
        f"{' STORED AS PARQUET' if hive else ' USING parquet'}{by if partitions else ''}{comment}"
        f" LOCATION {literal(location)} TBLPROPERTIES ({properties})"
    )


def _switch(
    spark: SparkSession, index: Index, before: Mapping[Values, str], folders: Mapping[Values, str], whole: bool
) -> None:
    name, table = index.definition.sql_name, index.table
    if not table.partition_columns:
        if before[()] != folders[()]:
            spark.sql(f"ALTER TABLE {name} SET LOCATION {literal(folders[()])}")
        return
    new = [f"PARTITION {partition_spec(table, v)} LOCATION {literal(f)}" for v, f in folders.items() if v not in before]
    for batch in _batches(new):
        spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS {' '.join(batch)}")
    for values, folder in folders.items():
        if before.get(values, folder) != folder:
            spark.sql(f"ALTER TABLE {name} PARTITION {partition_spec(table, values)} SET LOCATION {literal(folder)}")
    gone = [f"PARTITION {partition_spec(table, values)}" for values in before if whole and values not in folders]
    for batch in _batches(gone):
        spark.sql(f"ALTER TABLE {name} DROP IF EXISTS {', '.join(batch)}")


def _batches(items: Sequence[str], size: int = 200) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _clean(parent: str, live: str) -> None:
    for folder in generation.superseded(parent, live):
        log.info("deleting the superseded generation %s", folder)
        storage.delete_folder(folder)


def _point_to(spark: SparkSession, base: Table, more: set[str], less: set[str]) -> None:
    """Keep the base table's pointer to index tables of other names; nothing else is ever written there."""
    before = {name for name in base.properties.get(POINTER, "").split(",") if name}
    after = (before | more) - less
    if after and after != before:
        spark.sql(
            f"ALTER TABLE {base.sql_name} SET TBLPROPERTIES ({literal(POINTER)}={literal(','.join(sorted(after)))})"
        )
    elif before and not after:
        spark.sql(f"ALTER TABLE {base.sql_name} UNSET TBLPROPERTIES IF EXISTS ({literal(POINTER)})")


def _subfolders(path: str) -> list[str]:
    try:
        return storage.subfolders(path)
    except FileNotFoundError:
        return []


def _columns(fields: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{quote(name)} {type}" for name, type in fields)
