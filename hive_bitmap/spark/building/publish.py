"""Publish builds, and drop indexes.

To publish a build is to move slots to its new segments, and to retire the segments that the new segments replace. All
slots that change are moved at once if the session can do that, so that readers see the state before or after. If the
metastore fails halfway, new segments that the metastore does not reference are deleted. If the metastore does not
answer at all, new segments are left to `clean`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.index import deletion, generation, generation_names, roots
from hive_bitmap.core.index.definition import SEGMENT, Definition, from_table, stored_columns, to_properties
from hive_bitmap.core.index.generation import State
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.segments import slots
from hive_bitmap.core.segments.slots import Slots
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import BuildFailed, StoreError, Unsupported
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog, catalog_changes
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
DISCOVER = "discover.partitions"  # a property that lets Hive's metastore add and drop partitions by their folders


MOST_ROUNDS = 5  # attempts to move slots while other builds move them too


class NotPublished(BuildFailed):
    """The error for a build that was not published, or only in part.

    Files of the build that are not published are deleted, or left to `clean`.
    """


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The metastore changes for one index.

    `new` has the folders of the new segments. After the publication, no slot may point at the folders in `gone`.
    `unchanged` has the folders of the segments that were to stay when the build was planned. `created` says whether
    this build creates the index; otherwise the index table must exist. `former` is the definition with the old root, if
    the index of a copied metastore gets a new root; otherwise None. `stored` is the definition in the metastore when
    the build was planned; None for a new index.
    """

    definition: Definition
    new: tuple[str, ...]
    gone: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    created: bool = False
    former: Definition | None = None
    stored: Definition | None = None


@dataclass(frozen=True)
class IndexToDrop:
    """An index to drop, and its state before its index table is dropped.

    `live` has the published generations. `refusal` says why the files of the index must stay, for example because the
    index is not trusted; "" if the files are deleted.
    """

    definition: Definition
    live: frozenset[str]
    refusal: str = ""


def publish(spark: SparkSession, base: Table, publications: Sequence[Publication], this_metastore: str) -> bool:
    """Publish new segments of indexes, one index after the other.

    `this_metastore` is the id of this metastore. Return whether all indexes have exactly the planned segments
    afterwards; another build may have changed them at the same time. Raise NotPublished if the metastore fails or an
    index has been dropped. The message says which indexes are published and which are not; new segments that are not
    published are deleted.
    """
    is_alone = True
    with catalog.changing():
        for done, publication in enumerate(publications):
            try:
                is_alone = _publish(spark, base, publication, this_metastore) and is_alone
            except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
                referenced = _discard(spark, base, publication, this_metastore)
                for later in publications[done + 1 :]:
                    _delete_new(later, later.new, this_metastore)
                raise NotPublished(_failure(publications, done, referenced, e)) from e
    return is_alone


def index_to_drop(spark: SparkSession, index: Index, indexes: Iterable[Index]) -> IndexToDrop:
    """Return what `drop` needs to know before it drops an index table.

    `indexes` are all indexes of the same base table or database.
    """
    untrusted = f"folder {index.definition.root} is left alone, because {index.problem}"
    refusal = roots.rival(index.definition, catalog.trusted_definitions(indexes)) if index.trusted else untrusted
    live = frozenset(_referenced(spark, index.definition))
    return IndexToDrop(index.definition, live, refusal)


def drop(spark: SparkSession, base: Table | None, index: IndexToDrop) -> None:
    """Drop an index table and delete its generations; delete nothing else.

    `base` is None if the base table no longer exists. Generations of a running build stay: the build publishes them in
    a new index table, or deletes them when it fails. Files that may not belong to this index stay, and the log says
    why. Raise StoreError if files could not be deleted.
    """
    definition, live = index.definition, index.live
    with catalog.changing():
        if _is_there(spark, definition):
            alter_table.drop_named(spark, definition.spark_name, if_exists=True)
            drop_remains(spark, definition, of_others=True)
        if base is None and definition.index_database:  # the index table may have been dropped, not the base table
            base = next(iter(metastore.describe_many(spark, definition.database, [definition.table])), None)
        if base is not None and definition.needs_pointer:
            catalog_changes.point_to(spark, base, set(), {definition.pointer, _next(definition).pointer})
    this_metastore = metastore_id(spark)
    try:
        if refusal := index.refusal or roots.refusal(definition, this_metastore):
            log.warning("index %s is dropped, but %s", definition.name, refusal)
            return
        folders = generation.all_below(definition.root)
        unused = generation.superseded([folder for folder in folders if folder not in live], (), definition, 0)
        remains = deletion.delete(
            [*(folder for folder in folders if folder in live), *unused], definition, this_metastore
        )
        stays = deletion.remove_root(definition, this_metastore)
        for why in dict.fromkeys([*(remaining.why for remaining in remains), *filter(None, [stays])]):
            log.warning("index %s is dropped, but %s", definition.name, why)
    except (OSError, StoreError, Unsupported) as e:
        # without a marker, `clean` would have to wait until the process that built the generations has ended
        with suppress(OSError, StoreError, Unsupported):
            _retire(definition, live, this_metastore)
        raise StoreError(
            f"index {definition.name} is dropped, but files of it are left in {definition.root} ({e}): once they can "
            f"be deleted, run clean with the location {definition.root} and a grace of 0"
        ) from e


def index_table(definition: Definition) -> Table:
    """Return the index table to create.

    Hive can read the table unless it has a timestamp_ntz column.
    """
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


def _publish(spark: SparkSession, base: Table, publication: Publication, this_metastore: str) -> bool:
    definition = publication.definition
    empty = generation.make_empty_folder(definition.root, stores.permissions_of(definition.root))
    table, is_new = _index_table(spark, base, publication)
    before = {} if is_new else catalog.slots_of(spark, table)
    after = _moved(spark, table, publication, empty, before)
    if publication.created and definition.needs_pointer:  # again: another build may have overwritten the property
        catalog_changes.point_to(spark, base, {definition.pointer}, set())
    try:
        if refusal := roots.refusal(definition, this_metastore):
            log.warning("index %s is published, but nothing is deleted: %s", definition.name, refusal)
            return True
        # If another build has already replaced a new segment of this build, this segment is among the replaced ones.
        is_whole = bool(after) and set(publication.new) <= set(after.values())
        live = {table.location, *after.values()} if is_new and is_whole else _referenced(spark, definition)
        replaced = {*before.values(), *publication.new} - live
        replaced = {folder for folder in replaced if generation_names.belongs_to(folder, definition)}
        _retire(definition, replaced, this_metastore)
        old = generation.superseded(generation.all_below(definition.root), live, definition)
        for folder in old:
            log.info("deleting the superseded segment %s", folder)
        for remains in deletion.delete(old, definition, this_metastore):
            log.warning("a superseded segment was not deleted: %s", remains.why)
    except (OSError, StoreError) as e:
        log.warning("index %s is published, but replaced segments were not deleted: run clean: %s", definition.name, e)
    return set(slots.segments(after, definition)) == {*publication.unchanged, *publication.new}


def _moved(spark: SparkSession, table: Table, publication: Publication, empty: str, before: Slots) -> Slots:
    """Move the slots of an index as this build requires; return all slots afterwards.

    `before` are the slots before the build, and `empty` is the folder of empty slots. If another build takes a slot at
    the same time, this build chooses another slot.
    """
    current = before
    for _ in range(MOST_ROUNDS):
        moves = slots.plan_moves(current, empty, publication.new, publication.gone)
        if current and not moves.moved:
            break
        added, moved = dict.fromkeys(moves.added or (() if current else (0,)), empty), moves.moved
        if moves.moved.keys() <= added.keys():  # only new slots change, so they can be added with their new folders
            added, moved = {**added, **moves.moved}, {}
        are_new = alter_table.change(
            spark,
            table,
            added={_values(number): folder for number, folder in added.items()},
            vacated={_values(number): empty for number in moves.vacated},
            moved={_values(number): folder for number, folder in moved.items()},
        )
        if not current and are_new:  # any concurrent build also adds this first slot, or sees it
            return {**added, **moved}
        catalog.clear_caches()
        current = catalog.slots_of(spark, table)
    return current


def _values(number: int) -> Values:
    """Return the partition values of a slot."""
    return (str(number),)


def _index_table(spark: SparkSession, base: Table, publication: Publication) -> tuple[Table, bool]:
    """Return the index table, and whether this call created the table.

    The index table is created or replaced if necessary, so that it has the definition of the new segments.
    """
    definition = publication.definition
    if publication.created:
        new_table = index_table(definition)
        if definition.needs_pointer:  # before the table exists, so that it can be found even if the build is killed
            catalog_changes.point_to(spark, base, {definition.pointer}, set())
        if alter_table.create(spark, new_table):
            return new_table, True  # the metastore need not be asked for it
    tables = _named(spark, definition)
    if not tables:
        raise BuildFailed(f"index {definition.name} on {definition.full_table} was dropped while it was built")
    [table] = tables
    if not _is_same(table, publication.former or definition):
        raise BuildFailed(
            f"another build has created index {definition.name} on {definition.full_table} since this one began"
        )
    owner = from_table(table)
    if owner is not None and (owner.encoding != definition.encoding or owner.is_former):
        stored = publication.stored
        if stored is None or (stored.encoding, stored.version) != (owner.encoding, owner.version):
            raise BuildFailed(
                f"another build has changed the encoding of index {definition.name} on {definition.full_table} to "
                f"{owner.encoding} since this one began: run it again"
            )
        return _replace_table(spark, base, table, replace(publication, definition=_as_set(owner, definition))), False
    if owner is None or publication.former is not None:
        as_built = definition if owner is None else replace(owner, id=definition.id, root=definition.root)
        alter_table.set_properties(spark, table, to_properties(as_built))
        if table.location != as_built.root:
            whole = replace(table, partition_columns=())
            alter_table.change(spark, whole, moved={(): as_built.root})
    elif not owner.id:
        alter_table.set_properties(spark, table, to_properties(replace(owner, id=definition.id)))
    return table, False


def _as_set(current: Definition, built: Definition) -> Definition:
    """Return the `current` definition, with the encoding and format of `built`.

    Properties that were set during the build stay.
    """
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
    """Return whether a table is the index table of this index.

    Another table may have the same name.
    """
    index = catalog.at(table, definition.root)
    return index is not None and index.definition.root == definition.root and roots.is_of(index.definition, definition)


def _is_there(spark: SparkSession, definition: Definition) -> bool:
    """Return whether the index table exists and can be dropped.

    The table must belong to this index. It must be external, so that dropping it deletes no files.
    """
    if not metastore.database_exists(spark, definition.index_table_database):
        return False
    return any(table.kind == "EXTERNAL" and _is_same(table, definition) for table in _named(spark, definition))


def _named(spark: SparkSession, definition: Definition) -> list[Table]:
    """Return the table that has the name of the index table.

    The result is a list, empty if there is no such table. The table may belong to another index, or be no index table.
    """
    return metastore.describe_many(spark, definition.index_table_database, [definition.index_table])


def _next(definition: Definition) -> Definition:
    """Return the definition with a temporary table name.

    The table of this name will replace the index table.
    """
    return replace(definition, index_table=roots.next_table(definition))


def _replace_table(spark: SparkSession, base: Table, table: Table, publication: Publication) -> Table:
    """Replace the index table by a table with other columns.

    The new table is created under another name before the old table is dropped, so that one of the two always exists.
    """
    definition = publication.definition
    new = _next(definition)
    for existing in _named(spark, new):
        if not _is_replacement(existing, definition):
            raise Unsupported(
                f"table {existing.full_name} has the name that index {new.name} needs for its new table: rename it"
            )
        alter_table.drop(spark, existing)
    if definition.needs_pointer:
        catalog_changes.point_to(spark, base, {new.pointer}, set())
    alter_table.create(spark, replace(index_table(new), owner=table.owner))  # the user of a refresh must not own it
    [created] = _named(spark, new)
    empty = generation.make_empty_folder(definition.root, stores.permissions_of(definition.root))
    _moved(spark, created, replace(publication, definition=new), empty, catalog.slots_of(spark, created))
    before = catalog.places(spark, table)
    alter_table.drop(spark, table)
    alter_table.rename(spark, created, definition.index_table)
    if definition.needs_pointer:
        catalog_changes.point_to(spark, base, set(), {new.pointer})
    replaced = (folder for folder in before if generation_names.belongs_to(folder, definition))
    _retire(definition, replaced, metastore_id(spark))
    return replace(created, name=definition.index_table)


def drop_remains(spark: SparkSession, definition: Definition, *, of_others: bool = False) -> None:
    """Drop the table with which an unfinished build would replace the index table.

    If the build may still be running, its table is dropped only with `of_others`; this build is then lost.
    """
    for table in _named(spark, _next(definition)):
        if _is_replacement(table, definition):
            folders = [] if of_others else filter(generation_names.is_generation, catalog.places(spark, table))
            if not any(_may_be_building(folder) for folder in folders):
                alter_table.drop(spark, table)


def _may_be_building(folder: str) -> bool:
    """Return whether the build of a generation may still be running.

    Return False for a deleted generation.
    """
    return bool(generation.entries(folder).names) and generation.usage(folder).state is State.BUILDING


def _is_replacement(table: Table, definition: Definition) -> bool:
    """Return whether a table was made to replace this index's table.

    The table must be external, so that dropping it deletes no files.
    """
    replacement = from_table(table)
    return replacement is not None and roots.is_replacement(replacement, definition) and table.kind == "EXTERNAL"


def _retire(definition: Definition, folders: Iterable[str], this_metastore: str) -> None:
    """Start the grace period of the generations `folders` of an index.

    `this_metastore` is the id of this metastore. Do nothing if this session may not delete in the root of the index.
    """
    if not roots.refusal(definition, this_metastore):
        map_parallel(lambda folder: generation.retire(folder, definition), folders)


def _delete_new(publication: Publication, folders: Sequence[str], this_metastore: str) -> None:
    """Delete new segments that are not published, and the root of a `created` index.

    `folders` are the folders of these segments.
    """
    deletion.delete(folders, publication.definition, this_metastore)
    if publication.created:
        deletion.remove_root(publication.definition, this_metastore)


def _discard(spark: SparkSession, base: Table, publication: Publication, this_metastore: str) -> int | None:
    """Delete the new segments that the metastore does not reference.

    Return how many new segments the metastore references. Return None if the metastore does not answer; the segments
    are then left to `clean`.
    """
    definition, new = publication.definition, publication.new
    try:
        live = _referenced(spark, definition)
        is_there = _is_there(spark, definition)
        if publication.created and definition.needs_pointer and not _named(spark, definition):
            catalog_changes.point_to(spark, base, set(), {definition.pointer})
    except Exception as e:  # noqa: BLE001 - as above
        log.warning("run clean to delete new files of index %s: the metastore does not answer: %s", definition.name, e)
        _retire(definition, new, this_metastore)  # harmless for a segment that was published after all
        return None
    unpublished = [folder for folder in new if folder not in live]
    _delete_new(replace(publication, created=not is_there), unpublished, this_metastore)
    return sum(folder in live for folder in new)


def _referenced(spark: SparkSession, definition: Definition) -> set[str]:
    """Return the folders of an index that the metastore references.

    The index may have moved to another index table, because its base table was renamed.
    """
    names = [definition.index_table, roots.next_table(definition)]
    named = metastore.describe_many(spark, definition.index_table_database, names)
    tables = [table for table in named if table.name == definition.index_table or _is_replacement(table, definition)]
    if all(table.name != definition.index_table for table in tables):
        indexes = catalog.indexes_of_database(spark, definition.index_table_database)
        tables += [index.table for index in indexes if index.definition.root == definition.root]
    return {folder for table in tables for folder in catalog.places(spark, table)}


def _failure(publications: Sequence[Publication], done: int, referenced: int | None, error: Exception) -> str:
    """Return the message of a failed publication.

    The first `done` of the publications succeeded; the next one failed with `error`. `referenced` says how many new
    segments of the failed publication the metastore references, or is None if that is unknown (the result of
    `_discard`).
    """
    names = [publication.definition.name for publication in publications]
    published = f"; published before it: {', '.join(names[:done])}" if done else ""
    later = f"; not published: {', '.join(names[done + 1 :])}" if names[done + 1 :] else ""
    state = "nothing of it remains" if publications[done].created else "its old state remains"
    if referenced:
        state += f", except for {referenced:,} of {len(publications[done].new):,} new segments"
    leftover = "; run clean to delete its new files" if referenced is None else ""
    return f"index {names[done]} could not be published, {state}: {_cause(error)}{leftover}{published}{later}"


def _cause(error: Exception) -> str:
    """Return the first line of an error.

    Py4j's introduction and the JVM's stack trace are left out.
    """
    lines = [line.strip(": ") for line in str(error).splitlines() if not line.startswith(("\t", "An error occurred"))]
    reason = next(filter(None, lines), type(error).__name__)
    if "PARAM_VALUE" in reason:  # the column of a metastore that holds properties
        return "the metastore holds no property as long as one of this index: give it fewer aggregates or shorter texts"
    return f"{reason}; give another LOCATION" if "within managed warehouse root" in reason else reason
