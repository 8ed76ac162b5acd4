"""Publishing: the metastore is pointed at new generations, one switch a table or partition, and old ones are retired.

Readers see the old state or the new one. When the metastore fails on the way, what it does not reference is deleted;
where it cannot even be asked, that is left to `clean`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.errors import BuildFailed
from hive_bitmap.index import catalog, generation, metastore, metastore_alter
from hive_bitmap.index.catalog import Index, Values
from hive_bitmap.index.definition import Definition, from_table, stored_columns, to_properties
from hive_bitmap.index.metastore import Table, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Switch:
    """What becomes of one index: new generations by partition, and partitions that it has no more. Others stay.

    A `created` index may have no table yet; the table of any other must be there.
    """

    definition: Definition
    folders: Mapping[Values, str]
    gone: Collection[Values] = ()
    created: bool = False


def publish(spark: SparkSession, base: Table, switches: Sequence[Switch]) -> None:
    """Switch indexes of a table to new generations, one index after the other.

    Raises BuildFailed, which names what is published and what is not, where the metastore fails or an index was
    dropped meanwhile; what is not published is deleted.
    """
    for done, switch in enumerate(switches):
        try:
            _publish(spark, base, switch)
        except Exception as e:  # py4j's errors have no parent that is there without py4j
            kept = _discard(spark, switch)
            generation.delete(folder for later in switches[done + 1 :] for folder in later.folders.values())
            raise BuildFailed(_told(switches, done, kept, e)) from e


def drop(spark: SparkSession, base: Table | None, index: Index) -> None:
    """Drop an index table and delete the generations, and nothing else; `base` is None where it is gone itself."""
    catalog.forget()
    definition = index.definition
    spark.sql(f"DROP TABLE IF EXISTS {definition.sql_name}")
    if base is not None:
        catalog.point_to(spark, base, set(), {definition.index_table})
    generation.delete(generation.below(definition.root, len(index.table.partition_columns)))
    generation.remove_empty(definition.root, len(index.table.partition_columns))


def create_statement(base: Table, definition: Definition, location: str) -> str:
    """The DDL of an index table, ready to run in Spark (and in Hive but for timestamp_ntz, which Hive lacks)."""
    fields = [(column.name, column.type) for column in (*definition.columns, *stored_columns(definition))]
    partitions = [(column.name, column.type) for column in base.partition_columns]
    properties = ", ".join(f"{literal(key)}={literal(value)}" for key, value in to_properties(definition).items())
    comment = f" COMMENT {literal(definition.comment)}" if definition.comment else ""
    hive = all(column.type != "timestamp_ntz" for column in (*definition.columns, *base.partition_columns))
    by = f" PARTITIONED BY ({_columns(partitions) if hive else ', '.join(quote(name) for name, _ in partitions)})"
    return (
        f"CREATE {'EXTERNAL ' if hive else ''}TABLE IF NOT EXISTS {definition.sql_name}"
        f" ({_columns(fields if hive else fields + partitions)})"
        f"{' STORED AS PARQUET' if hive else ' USING parquet'}{by if partitions else ''}{comment}"
        f" LOCATION {literal(location)} TBLPROPERTIES ({properties})"
    )


def _publish(spark: SparkSession, base: Table, switch: Switch) -> None:
    catalog.forget()
    table = _table(spark, base, switch)
    if not switch.folders and not switch.gone:
        return
    before = catalog.states(spark, Index(switch.definition, table))
    metastore_alter.switch(spark, table, before, switch.folders, switch.gone)
    after = _live(spark, switch.definition)
    try:
        replaced = {*before.values(), *switch.folders.values()} - after  # our own where another build was later
        for folder in replaced:
            generation.retire(folder)
        parents = {folder.rpartition("/")[0] for folder in (*switch.folders.values(), *replaced)}
        old = generation.superseded(generation.in_folders(sorted(parents)), after)
        for folder in old:
            log.info("deleting the superseded generation %s", folder)
        generation.delete(old)
    except OSError as e:
        log.warning("index %s is published, but what it replaced is left to clean: %s", switch.definition.name, e)


def _table(spark: SparkSession, base: Table, switch: Switch) -> Table:
    """The index table, made first where it may be, and with the definition that goes with the new generations."""
    definition = switch.definition
    found = metastore.describe_many(spark, definition.database, [definition.index_table])
    if not found:
        if not switch.created:
            raise BuildFailed(f"index {definition.name} on {definition.full_table} was dropped while it was built")
        spark.sql(create_statement(base, definition, switch.folders.get((), definition.root)))
        if not definition.has_default_table:
            catalog.point_to(spark, base, {definition.index_table}, set())
        found = metastore.describe_many(spark, definition.database, [definition.index_table])
    [table] = found
    owner = from_table(table)
    if owner is not None and owner.root != definition.root:
        raise BuildFailed(f"index {definition.name} on {definition.full_table} was made anew while it was built")
    if owner is not None and owner.encoding != definition.encoding:
        return _replace(spark, base, table, switch)
    if owner is None:
        metastore_alter.set_properties(spark, table, to_properties(definition))
    return table


def _replace(spark: SparkSession, base: Table, table: Table, switch: Switch) -> Table:
    """The index table made anew, for another encoding has other columns: at every moment there is one of the two."""
    definition = switch.definition
    new = replace(definition, index_table=f"{definition.index_table}next__")
    spark.sql(f"DROP TABLE IF EXISTS {new.sql_name}")
    spark.sql(create_statement(base, new, switch.folders.get((), definition.root)))
    [made] = metastore.describe_many(spark, definition.database, [new.index_table])
    metastore_alter.switch(spark, made, {(): made.location}, switch.folders, ())
    before = catalog.states(spark, Index(definition, table))
    spark.sql(f"DROP TABLE IF EXISTS {definition.sql_name}")
    metastore_alter.rename(spark, made, definition.index_table)
    for folder in before.values():
        generation.retire(folder)
    return replace(made, name=definition.index_table)


def _discard(spark: SparkSession, switch: Switch) -> bool:
    """Delete those of the new generations that the metastore does not reference; whether it could be asked."""
    definition = switch.definition
    try:
        live = _live(spark, definition)
    except Exception as e:  # noqa: BLE001 - as above
        log.warning(
            "what was built of index %s is left to clean, the metastore does not answer: %s", definition.name, e
        )
        return False
    generation.delete(folder for folder in switch.folders.values() if folder not in live)
    return True


def _live(spark: SparkSession, definition: Definition) -> set[str]:
    """The generations of an index that the metastore references now."""
    found = metastore.describe_many(spark, definition.database, [definition.index_table])
    return {folder for table in found for folder in catalog.states(spark, Index(definition, table)).values()}


def _told(switches: Sequence[Switch], done: int, tidy: bool, error: Exception) -> str:
    """Which indexes are published and which are not, and why."""
    names = [switch.definition.name for switch in switches]
    reason = str(error).partition("\n\nJVM stacktrace")[0].strip() or type(error).__name__
    published = f"; published before it: {', '.join(names[:done])}" if done else ""
    later = f"; not published: {', '.join(names[done + 1 :])}" if names[done + 1 :] else ""
    left = "" if tidy else "; what was built of it is left to clean"
    return f"index {names[done]} could not be published, its old state stays: {reason}{left}{published}{later}"


def _columns(fields: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{quote(name)} {type}" for name, type in fields)
