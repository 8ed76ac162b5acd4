"""Publishing: the slots of an index table are moved to its new segments, and what these replace is retired.

All slots that change are moved at once where the session can, so readers see the state before or after. If the
metastore fails on the way, new segments that it does not reference are deleted; if it cannot even be asked, that is
left to `clean`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.index import deletion, generation, roots
from hive_bitmap.core.index.definition import SEGMENT, Definition, from_table, stored_columns, to_properties
from hive_bitmap.core.index.generation import State
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.segments import slots
from hive_bitmap.core.segments.slots import Slots
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import BuildFailed, StoreError, Unsupported
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
DISCOVER = "discover.partitions"  # a property by which Hive's metastore may add and drop partitions by their folders


MOST_ROUNDS = 5  # in which slots are moved, while other builds move them too


class NotPublished(BuildFailed):
    """A build that was not published, or not all of it; its files are deleted, or left to `clean`."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The metastore changes for one index: the folders of `new` segments, and those to which no slot may point then.

    `kept` are the folders of other segments, as they were when the build was planned. The table of a `created` index
    may not exist yet; any other must exist. `former` is the definition that the table of an index has before the index
    gets another root, in a copied metastore.
    """

    definition: Definition
    new: tuple[str, ...]
    gone: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    created: bool = False
    former: Definition | None = None


@dataclass(frozen=True)
class Doomed:
    """An index that is to be dropped, as it was while its table existed.

    `live` are the published generations. `refusal` says why its files have to stay; empty if they need not. Those of an
    index that is not trusted stay, and nothing is asked of the store in which it claims to be.
    """

    definition: Definition
    live: frozenset[str]
    refusal: str = ""


def publish(spark: SparkSession, base: Table, publications: Sequence[Publication]) -> bool:
    """Publish new segments of indexes of a table, one index after the other.

    Return whether the indexes have no other segments than they were planned to have. Raise NotPublished if the
    metastore fails or an index was dropped meanwhile. It says which indexes are published and which are not; new
    segments that are not published are deleted.
    """
    alone = True
    with catalog.changing():
        for done, one in enumerate(publications):
            try:
                alone = _publish(spark, base, one) and alone
            except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
                known = _discard(spark, base, one)
                for later in publications[done + 1 :]:
                    _delete_new(spark, later, later.new)
                raise NotPublished(_failure(publications, done, known, e)) from e
    return alone


def doomed(spark: SparkSession, index: Index, indexes: Iterable[Index]) -> Doomed:
    """Return what has to be known of an index to drop it; `indexes` are all of its table or database."""
    left = f"folder {index.definition.root} is left alone, as {index.problem}"
    refusal = roots.rival(index.definition, catalog.trusted_definitions(indexes)) if index.trusted else left
    live = frozenset(_referenced(spark, index.definition))
    return Doomed(index.definition, live, refusal)


def drop(spark: SparkSession, base: Table | None, index: Doomed) -> None:
    """Drop an index table and delete its generations, and nothing else; `base` is None if the base table is gone.

    Generations of a running build are not deleted: the build deletes them when it fails, or publishes them in a new
    index table. What is not known to be of this index stays, and the log says why. Raise StoreError if files could not
    be deleted.
    """
    definition, live = index.definition, index.live
    with catalog.changing():
        if _is_there(spark, definition):
            alter_table.drop_named(spark, definition.spark_name, if_exists=True)
            drop_remains(spark, definition, of_others=True)
        if base is None and definition.index_database:  # which may have been dropped, and the base table not
            base = next(iter(metastore.describe_many(spark, definition.database, [definition.table])), None)
        if base is not None and definition.needs_pointer:
            catalog.point_to(spark, base, set(), {definition.pointer, _next(definition).pointer})
    mine = metastore_id(spark)
    try:
        if refusal := index.refusal or roots.refusal(definition, mine):
            log.warning("index %s is dropped, but %s", definition.name, refusal)
            return
        found = generation.all_below(definition.root)
        unused = generation.superseded([folder for folder in found if folder not in live], (), definition, 0)
        remains = deletion.delete([*(folder for folder in found if folder in live), *unused], definition, mine)
        stays = deletion.remove_root(definition, mine)
        for why in dict.fromkeys([*(left.why for left in remains), *filter(None, [stays])]):
            log.warning("index %s is dropped, but %s", definition.name, why)
    except (OSError, StoreError, Unsupported) as e:
        with suppress(
            OSError, StoreError, Unsupported
        ):  # without the marker, clean must wait until the build process has ended
            _retire(spark, definition, live)
        raise StoreError(
            f"index {definition.name} is dropped, but files of it are left in {definition.root} ({e}): once they can "
            f"be deleted, run clean with the location {definition.root} and a grace of 0"
        ) from e


def index_table(definition: Definition) -> Table:
    """Return the index table to create, which Hive reads too, unless there is a timestamp_ntz column."""
    columns = (*definition.columns, *stored_columns(definition))
    comment = {"comment": definition.comment} if definition.comment else {}
    return Table(
        database=definition.index_table_database,
        name=definition.index_table,
        kind="EXTERNAL",
        provider="parquet" if any(column.type == "timestamp_ntz" for column in columns) else "hive",
        columns=columns,
        partition_columns=(SEGMENT,),
        location=definition.root,
        properties={**to_properties(definition), DISCOVER: "false", **comment},
    )


def _publish(spark: SparkSession, base: Table, one: Publication) -> bool:
    definition = one.definition
    table = _index_table(spark, base, one)
    before = catalog.places(spark, table)
    empty = generation.make_empty_folder(definition.root, stores.permissions_of(definition.root))
    after = _moved(spark, table, one, empty)
    if one.created and definition.needs_pointer:  # again: another build may have written an older state since
        catalog.point_to(spark, base, {definition.pointer}, set())
    try:
        mine = metastore_id(spark)
        if refusal := roots.refusal(definition, mine):
            log.warning("index %s is published, but nothing is deleted: %s", definition.name, refusal)
            return True
        # A new segment of this build is among them if another build has replaced it already.
        live = _referenced(spark, definition)
        replaced = {*before, *one.new} - live
        replaced = {folder for folder in replaced if generation.belongs_to(folder, definition)}
        _retire(spark, definition, replaced)
        old = generation.superseded(generation.all_below(definition.root), live, definition)
        for folder in old:
            log.info("deleting the superseded segment %s", folder)
        for left in deletion.delete(old, definition, mine):
            log.warning("a segment that was superseded stays: %s", left.why)
    except (OSError, StoreError) as e:
        log.warning("index %s is published, but what it replaced is left to clean: %s", definition.name, e)
    return set(slots.segments(after, definition)) == {*one.kept, *one.new}


def _moved(spark: SparkSession, table: Table, one: Publication, empty: str) -> Slots:
    """Move the slots of an index until they are as this build wants them; return them.

    Another build may move them too: what it takes from this one is put into other slots.
    """
    for _ in range(MOST_ROUNDS):
        now = catalog.slots_of(spark, table)
        made = slots.moves(now, empty, one.new, one.gone)
        if now and not made.moved:
            return now
        added = dict.fromkeys(made.added or (() if now else (0,)), empty)
        alter_table.change(
            spark,
            table,
            added={_values(number): folder for number, folder in added.items()},
            vacated={_values(number): empty for number in made.vacated},
            moved={_values(number): folder for number, folder in made.moved.items()},
        )
        catalog.clear_caches()
    return catalog.slots_of(spark, table)


def _values(number: int) -> Values:
    """Return the partition values of a slot."""
    return (str(number),)


def _index_table(spark: SparkSession, base: Table, one: Publication) -> Table:
    """Return the index table with the definition of the new segments; create or replace it if need be."""
    definition = one.definition
    if one.created:
        made = index_table(definition)
        if definition.needs_pointer:  # before there is a table: then that is found, whatever ends the build
            catalog.point_to(spark, base, {definition.pointer}, set())
        if alter_table.create(spark, made):
            return made  # without asking the metastore for it
    found = _named(spark, definition)
    if not found:
        raise BuildFailed(f"index {definition.name} on {definition.full_table} was dropped while it was built")
    [table] = found
    if not _is_same(table, one.former or definition):
        raise BuildFailed(
            f"another build has created index {definition.name} on {definition.full_table} since this one began"
        )
    owner = from_table(table)
    if owner is not None and (owner.encoding != definition.encoding or owner.is_former):
        return _replace_table(spark, base, table, replace(one, definition=_as_set(owner, definition)))
    if owner is None or one.former is not None:
        as_built = definition if owner is None else replace(owner, id=definition.id, root=definition.root)
        alter_table.set_properties(spark, table, to_properties(as_built))
        if table.location != as_built.root:
            whole = replace(table, partition_columns=())
            alter_table.change(spark, whole, moved={(): as_built.root})
    elif not owner.id:
        alter_table.set_properties(spark, table, to_properties(replace(owner, id=definition.id)))
    return table


def _as_set(current: Definition, built: Definition) -> Definition:
    """Return the definition of an index in its new encoding and format, with what was set while it was built."""
    later = "" if current.next_encoding == built.encoding else current.next_encoding
    return replace(
        current,
        id=built.id,
        root=built.root,
        columns=built.columns,
        encoding=built.encoding,
        next_encoding=later,
        partitioned_by=built.partitioned_by,
        version=built.version,
    )


def _is_same(table: Table, definition: Definition) -> bool:
    """Return whether a table is the index table of this very index, and not another of its name."""
    index = catalog.at(table, definition.root)
    return index is not None and index.definition.root == definition.root and roots.is_of(index.definition, definition)


def _is_there(spark: SparkSession, definition: Definition) -> bool:
    """Return whether the index table exists, is of this index, and is external: to drop it deletes no files."""
    if not metastore.database_exists(spark, definition.index_table_database):
        return False
    return any(table.kind == "EXTERNAL" and _is_same(table, definition) for table in _named(spark, definition))


def _named(spark: SparkSession, definition: Definition) -> list[Table]:
    """Return the table that has the name of an index table, whatever it is, or none."""
    return metastore.describe_many(spark, definition.index_table_database, [definition.index_table])


def _next(definition: Definition) -> Definition:
    """Return the definition that the table has which is to replace the index table."""
    return replace(definition, index_table=roots.next_table(definition))


def _replace_table(spark: SparkSession, base: Table, table: Table, one: Publication) -> Table:
    """Replace the index table by one with other columns; return the new one.

    The new table is created under another name before the old one is dropped, so that one of the two always exists.
    """
    definition = one.definition
    new = _next(definition)
    for there in _named(spark, new):
        if not _is_replacement(there, definition):
            raise Unsupported(
                f"table {there.full_name} has the name that index {new.name} needs for its new table: rename it"
            )
        alter_table.drop(spark, there)
    if definition.needs_pointer:
        catalog.point_to(spark, base, {new.pointer}, set())
    alter_table.create(spark, replace(index_table(new), owner=table.owner))  # else a server's refresh would take it
    [created] = _named(spark, new)
    empty = generation.make_empty_folder(definition.root, stores.permissions_of(definition.root))
    _moved(spark, created, replace(one, definition=new), empty)
    before = catalog.places(spark, table)
    alter_table.drop(spark, table)
    alter_table.rename(spark, created, definition.index_table)
    if definition.needs_pointer:
        catalog.point_to(spark, base, set(), {new.pointer})
    _retire(spark, definition, (folder for folder in before if generation.belongs_to(folder, definition)))
    return replace(created, name=definition.index_table)


def drop_remains(spark: SparkSession, definition: Definition, *, of_others: bool = False) -> None:
    """Drop the new index table that a killed replacement of an index table left behind.

    With `of_others` also that of a build which may still be at work; what that builds is lost.
    """
    for table in _named(spark, _next(definition)):
        if _is_replacement(table, definition):
            folders = [] if of_others else filter(generation.is_generation, catalog.places(spark, table))
            if not any(_may_be_building(folder) for folder in folders):
                alter_table.drop(spark, table)


def _may_be_building(folder: str) -> bool:
    """Return whether the build of a generation may still be at work; not of one that has been deleted."""
    return bool(generation.entries(folder).names) and generation.usage(folder).state is State.BUILDING


def _is_replacement(table: Table, definition: Definition) -> bool:
    """Whether a table was made to replace the index table of this index; an external one, so it holds no files."""
    known = from_table(table)
    return known is not None and roots.is_replacement(known, definition) and table.kind == "EXTERNAL"


def _retire(spark: SparkSession, definition: Definition, folders: Iterable[str]) -> None:
    """Start the grace period of generations of an index, unless its root is another's."""
    if not roots.refusal(definition, metastore_id(spark)):
        map_parallel(lambda folder: generation.retire(folder, definition), folders)


def _delete_new(spark: SparkSession, one: Publication, folders: Sequence[str]) -> None:
    """Delete new segments that are not published, and the root of an index that was not created, or dropped."""
    mine = metastore_id(spark)
    deletion.delete(folders, one.definition, mine)
    if one.created:
        deletion.remove_root(one.definition, mine)


def _discard(spark: SparkSession, base: Table, one: Publication) -> int | None:
    """Delete the new segments that the metastore does not reference; return how many it does.

    Return None if the metastore does not answer; then `clean` has to delete them.
    """
    definition, new = one.definition, one.new
    try:
        live = _referenced(spark, definition)
        is_there = _is_there(spark, definition)
        if one.created and definition.needs_pointer and not _named(spark, definition):
            catalog.point_to(spark, base, set(), {definition.pointer})
    except Exception as e:  # noqa: BLE001 - as above
        log.warning("new files of index %s are left to clean, as the metastore does not answer: %s", definition.name, e)
        _retire(spark, definition, new)  # harmless for one that was published after all
        return None
    unpublished = [folder for folder in new if folder not in live]
    _delete_new(spark, replace(one, created=not is_there), unpublished)
    return sum(folder in live for folder in new)


def _referenced(spark: SparkSession, definition: Definition) -> set[str]:
    """Return the generations of an index that the metastore references now, even if its table was renamed."""
    names = [definition.index_table, roots.next_table(definition)]
    named = metastore.describe_many(spark, definition.index_table_database, names)
    found = [one for one in named if one.name == definition.index_table or _is_replacement(one, definition)]
    if all(table.name != definition.index_table for table in found):
        others = catalog.indexes_of_database(spark, definition.index_table_database)
        found += [index.table for index in others if index.definition.root == definition.root]
    return {folder for table in found for folder in catalog.places(spark, table)}


def _failure(publications: Sequence[Publication], done: int, known: int | None, error: Exception) -> str:
    """Return a message that says which indexes are published, which are not, and why."""
    names = [one.definition.name for one in publications]
    published = f"; published before it: {', '.join(names[:done])}" if done else ""
    later = f"; not published: {', '.join(names[done + 1 :])}" if names[done + 1 :] else ""
    state = "nothing of it stays" if publications[done].created else "its old state stays"
    if known:
        state += f", but for {known:,} of {len(publications[done].new):,} new segments"
    left = "; what was built of it is left to clean" if known is None else ""
    return f"index {names[done]} could not be published, {state}: {_cause(error)}{left}{published}{later}"


def _cause(error: Exception) -> str:
    """Return the first line of an error that is neither py4j's introduction nor part of the JVM's stack trace."""
    lines = [line.strip(": ") for line in str(error).splitlines() if not line.startswith(("\t", "An error occurred"))]
    reason = next(filter(None, lines), type(error).__name__)
    return f"{reason}; give another LOCATION" if "within managed warehouse root" in reason else reason
