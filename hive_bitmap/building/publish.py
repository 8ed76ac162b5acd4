"""Publishing: the metastore is pointed at new generations, one switch a table or partition, and old ones are retired.

Readers see the old state or the new one. When the metastore fails on the way, what it does not reference is deleted;
where it cannot even be asked, that is left to `clean`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.errors import BuildFailed, StoreError
from hive_bitmap.index import catalog, generation
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.definition import Definition, from_table, stored_columns, to_properties
from hive_bitmap.metastore import alter_table, metastore
from hive_bitmap.metastore.table_info import Table, Values, literal, quote
from hive_bitmap.parallel import each

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
            switched = _discard(spark, switch)
            generation.delete(folder for later in switches[done + 1 :] for folder in later.folders.values())
            raise BuildFailed(_told(switches, done, switched, e)) from e


def drop(spark: SparkSession, base: Table | None, index: Index) -> None:
    """Drop an index table and delete its generations, and nothing else; `base` is None where it is gone itself.

    Those on which a build is at work are left to it: it fails, or it makes the index anew. Raises StoreError where
    files stay.
    """
    catalog.forget()
    definition, depth = index.definition, len(index.table.partition_columns)
    live = _live(spark, definition)
    spark.sql(f"{metastore.OURS} DROP TABLE IF EXISTS {definition.sql_name}")
    if base is not None:
        catalog.point_to(spark, base, set(), {definition.index_table})
    try:
        found = generation.below(definition.root, depth)
        generation.delete([folder for folder in found if folder in live])
        generation.delete(generation.superseded([folder for folder in found if folder not in live], (), 0))
        generation.remove_empty(definition.root, depth)
    except (OSError, StoreError) as e:
        with suppress(OSError, StoreError):  # where not even that can be written, clean waits until its builder ended
            each(generation.retire, sorted(live))
        raise StoreError(
            f"index {definition.name} is dropped, but files of it are left in {definition.root}, which clean deletes "
            f"with that as its location: {e}"
        ) from e


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


def _publish(spark: SparkSession, base: Table, switch: Switch) -> None:
    catalog.forget()
    table = _table(spark, base, switch)
    if not switch.folders and not switch.gone:
        return
    before = catalog.states(spark, Index(switch.definition, table))
    after = set(before.values())
    if switch.gone or any(before.get(values) != folder for values, folder in switch.folders.items()):
        alter_table.switch(spark, table, before, switch.folders, switch.gone)
        after = _live(spark, switch.definition)
    try:
        replaced = {*before.values(), *switch.folders.values()} - after  # our own where another build was later
        each(generation.retire, replaced)
        parents = {folder.rpartition("/")[0] for folder in (*switch.folders.values(), *replaced)}
        old = generation.superseded(generation.in_folders(sorted(parents)), after)
        for folder in old:
            log.info("deleting the superseded generation %s", folder)
        generation.delete(old)
    except (OSError, StoreError) as e:
        log.warning("index %s is published, but what it replaced is left to clean: %s", switch.definition.name, e)


def _table(spark: SparkSession, base: Table, switch: Switch) -> Table:
    """The index table, made first where it may be, and with the definition that goes with the new generations."""
    definition = switch.definition
    location = switch.folders.get((), definition.root)
    if switch.created:
        made = _create(spark, base, definition, location)
        if not definition.has_default_table:
            catalog.point_to(spark, base, {definition.index_table}, set())
        if made is not None:
            return made
    found = metastore.describe_many(spark, definition.database, [definition.index_table])
    if not found:
        raise BuildFailed(f"index {definition.name} on {definition.full_table} was dropped while it was built")
    [table] = found
    owner = from_table(table)
    if owner is not None and owner.root != definition.root:
        raise BuildFailed(f"index {definition.name} on {definition.full_table} was made anew while it was built")
    if owner is not None and owner.encoding != definition.encoding:
        return _replace(spark, base, table, switch)
    if owner is None:
        alter_table.set_properties(spark, table, to_properties(definition))
    return table


def _create(spark: SparkSession, base: Table, definition: Definition, location: str) -> Table | None:
    """Make the index table, as it is then known without a look at it; None where it was there."""
    from pyspark.errors import AnalysisException

    try:
        spark.sql(create_statement(base, definition, location))
    except AnalysisException:
        if not metastore.describe_many(spark, definition.database, [definition.index_table]):
            raise
        return None
    name, columns = definition.index_table, base.partition_columns
    return Table(definition.database, name, "EXTERNAL", partition_columns=columns, location=location)


def _replace(spark: SparkSession, base: Table, table: Table, switch: Switch) -> Table:
    """The index table made anew, for another encoding has other columns: at every moment there is one of the two."""
    definition = switch.definition
    new = replace(definition, index_table=_next_table(definition))
    spark.sql(f"{metastore.OURS} DROP TABLE IF EXISTS {new.sql_name}")
    spark.sql(create_statement(base, new, switch.folders.get((), definition.root)))
    [made] = metastore.describe_many(spark, definition.database, [new.index_table])
    alter_table.switch(spark, made, {(): made.location}, switch.folders, ())
    before = catalog.states(spark, Index(definition, table))
    spark.sql(f"{metastore.OURS} DROP TABLE IF EXISTS {definition.sql_name}")
    alter_table.rename(spark, made, definition.index_table)
    each(generation.retire, before.values())
    return replace(made, name=definition.index_table)


def _discard(spark: SparkSession, switch: Switch) -> int | None:
    """Delete new generations that the metastore does not reference; returns how many it does, None if it is silent."""
    definition, new = switch.definition, list(switch.folders.values())
    try:
        live = _live(spark, definition)
    except Exception as e:  # noqa: BLE001 - as above
        log.warning("what was built of index %s is left to clean, as nobody can be asked: %s", definition.name, e)
        each(generation.retire, new)  # which is no harm to one that is published after all
        return None
    generation.delete(folder for folder in new if folder not in live)
    return sum(folder in live for folder in new)


def _live(spark: SparkSession, definition: Definition) -> set[str]:
    """The generations of an index that the metastore references now, whatever its table is called by now."""
    names = [definition.index_table, _next_table(definition)]
    found = metastore.describe_many(spark, definition.database, names)
    if all(table.name != definition.index_table for table in found):
        others = catalog.indexes_of_database(spark, definition.database)
        found += [index.table for index in others if index.definition.root == definition.root]
    return {folder for table in found for folder in catalog.states(spark, Index(definition, table)).values()}


def _next_table(definition: Definition) -> str:
    """The name of the table that takes the place of an index table; it is one of an index of the same base table."""
    return f"{definition.index_table}next__"


def _told(switches: Sequence[Switch], done: int, switched: int | None, error: Exception) -> str:
    """Which indexes are published and which are not, and why."""
    names = [switch.definition.name for switch in switches]
    published = f"; published before it: {', '.join(names[:done])}" if done else ""
    later = f"; not published: {', '.join(names[done + 1 :])}" if names[done + 1 :] else ""
    state = "its old state stays"
    if switched:
        state += f", but for {switched:,} of {len(switches[done].folders):,} partitions that are switched"
    left = "; what was built of it is left to clean" if switched is None else ""
    return f"index {names[done]} could not be published, {state}: {_cause(error)}{left}{published}{later}"


def _cause(error: Exception) -> str:
    """What went wrong, without the stack of the JVM, and without py4j's line about what was called."""
    lines = [line.strip(": ") for line in str(error).splitlines() if not line.startswith(("\t", "An error occurred"))]
    reason = next(filter(None, lines), type(error).__name__)
    return f"{reason}; give another LOCATION" if "within managed warehouse root" in reason else reason


def _columns(fields: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{quote(name)} {type}" for name, type in fields)
