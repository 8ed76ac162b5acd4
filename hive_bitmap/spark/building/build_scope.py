"""The plan of a build, made from the table, its indexes, partitions, base files and segments as they are now."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores, table_info
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index import checksums, generation, manifest, roots
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition, schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.parallel import THREADS, map_parallel
from hive_bitmap.core.segments import segment_plan, slots
from hive_bitmap.core.segments.covered import Covered, Listing, numbered
from hive_bitmap.core.segments.segment_plan import NewSegment, Rules, SegmentPlan
from hive_bitmap.core.segments.slots import Slots
from hive_bitmap.core.stores import Access
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.spark.building.file_groups import shard_bytes
from hive_bitmap.spark.building.group_indexing import SHARD_BYTES
from hive_bitmap.spark.building.segment_change import BaseFile, Change
from hive_bitmap.spark.metastore import base_files, metastore, permission, serde
from hive_bitmap.spark.metastore.base_files import Source, Spec
from hive_bitmap.spark.metastore.file_listing import format_of, is_visible
from hive_bitmap.spark.registry import catalog, coverage, locations
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """An index before a build: what its segments cover, and the slots that point elsewhere or at what cannot be read.

    `slots` are all of its slots. `remains` says that a killed build left a table which was to replace the index table.
    A new index takes what it can from an index of the table under an earlier name: then `covered` are the segments of
    that, and `moved` the paths that their rows have for files that were moved since, by their present paths.
    `elsewhere` is the definition with the root of another metastore, of which this one is a copy; the build gives the
    index a root of its own.
    """

    definition: Definition
    covered: Covered
    slots: Slots
    strange: tuple[str, ...] = ()
    full: bool = False
    remains: bool = False
    removed: frozenset[str] = frozenset()
    is_attached: bool = False
    moved: Mapping[str, str]
    elsewhere: Definition | None = None


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One index in a build: its state before, what is done with its segments, and the files that it covers."""

    before: Indexed
    plan: SegmentPlan
    listing: Listing

    @property
    def definition(self) -> Definition:
        return self.before.definition

    @property
    def gone(self) -> frozenset[str]:
        """The folders to which no slot points after the build."""
        return frozenset((*self.before.strange, *(() if self.before.is_attached else self.plan.gone)))

    @property
    def dropped(self) -> list[Values]:
        """The partitions of which the build removes all rows."""
        known, after = self.before.covered, set(self.listing.partitions)
        for one in self.plan.new:
            after.update(numbered(one.files["values"])[0])
        stays = np.isin(known.segment, [n for n, folder in enumerate(known.segments) if folder in self.kept])
        after.update(known.partitions[number] for number in np.unique(known.partition[stays]).tolist())
        return [] if self.before.is_attached else [values for values in known.partitions if values not in after]

    @property
    def kept(self) -> frozenset[str]:
        """The folders of segments that stay as they are."""
        return frozenset() if self.before.is_attached else frozenset(self.before.covered.segments) - self.gone


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """The plan of a build: its indexes, the base files that they need, and a Change for each new segment.

    `schema_crc` is that of the base table.
    """

    base: Table
    sources: tuple[Source, ...]
    scopes: tuple[Scope, ...]
    changes: tuple[Change, ...]
    schema_crc: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to publish."""
        return not self.changes and not any(scope.gone for scope in self.scopes)

    def without_files(self) -> BuildPlan:
        """Return the plan of indexes that are built later: none of their files is read."""
        scopes = tuple(replace(scope, plan=SegmentPlan((), ())) for scope in self.scopes)
        return replace(self, scopes=scopes, changes=())

    def changes_of(self, index: int) -> list[Change]:
        """Return the changes of one index, given its number in `scopes`."""
        return [change for change in self.changes if change.index == index]


def plan_creation(spark: SparkSession, base: Table, definitions: Sequence[Definition]) -> BuildPlan:
    """Plan the build of new indexes. Raise InvalidProperty if a root lies where a partition of the table does."""
    empty = [_new(definition) for definition in definitions]
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    return _plan(spark, base, empty, partitions, None)


def plan_attachment(
    spark: SparkSession, base: Table, definitions: Sequence[Definition], former: Sequence[Index]
) -> BuildPlan:
    """Plan the build of new indexes from those that the table had under its former name, one for each of them."""
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    folders = {partition.values: partition.location for partition in partitions}
    taken = []
    for definition, index in zip(definitions, former, strict=True):
        known, _ = _read(catalog.segments(spark, index), index.definition, fresh=True)
        moved = {} if base.lake is not None else known.moved_to(folders)
        at = replace(known, files=known.files_at(moved))
        taken.append(
            replace(_new(definition), covered=at, is_attached=True, moved={new: old for old, new in moved.items()})
        )
    return _plan(spark, base, taken, partitions, None)


def plan_rebuild(
    spark: SparkSession, table: str, names: Sequence[str], partition: Spec | None, full: bool, compact: bool
) -> BuildPlan:
    """Plan the rebuild of existing indexes, all of them or those named.

    Raise NotFound, NotPermitted, and Unsupported if indexed columns have changed.
    """

    def choose(base: Table, known: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching(base, partition, known)

    asked = Asked(full=full, compact=compact, remove_dead=True)
    return _plan_existing(spark, table, names, choose, asked, whole=not partition)


def plan_refresh(spark: SparkSession, table: str, names: Sequence[str], partitions: Sequence[Spec]) -> BuildPlan:
    """Plan a refresh: a rebuild that leaves rows of files that are gone in their segments for a while.

    `partitions` are specs, of which a partition in scope matches one; none means that all are in scope. Raise as
    `plan_rebuild`.
    """

    def choose(base: Table, known: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching_any(base, partitions, known) if partitions else known

    return _plan_existing(spark, table, names, choose, Asked(), whole=not partitions)


def plan_removal(spark: SparkSession, table: str, name: str, partitions: Collection[Values]) -> BuildPlan:
    """Plan the removal of rows of these partitions, which an index no longer covers. Raise as `plan_rebuild`."""
    wanted = frozenset(partitions)

    def choose(base: Table, known: Sequence[Values]) -> Sequence[Values]:
        return [values for values in known if values in wanted]

    return _plan_existing(spark, table, [name], choose, Asked(remove_dead=True), whole=False)


def covered_partitions(spark: SparkSession, index: Index) -> tuple[Values, ...]:
    """Return the values of the partitions of which an index covers files."""
    return covered_by(spark, index).partitions


def covered_by(spark: SparkSession, index: Index) -> Covered:
    """Return what an index covers."""
    return _read(catalog.segments(spark, index), index.definition, fresh=False)[0]


def has_stayed(spark: SparkSession, base: Table, index: Index) -> bool:
    """Return whether files that an index covers are where a table has files now, under equal partition values.

    None of them may lie elsewhere. So it is of an index that a table had before it was renamed, if the files stayed.
    """
    known, partitions = covered_by(spark, index), base_files.partitions(spark, base)
    if base.lake is not None:
        listed = [file.path for one in partitions for file in base_files.list_partition(base, one).files]
        return bool(pc.any(pc.is_in(known.files["path"], value_set=pa.array(listed, pa.string()))).as_py())
    folders = {one.values: one.location for one in partitions}
    return any(values in folders for values in known.partitions) and not known.moved_to(folders)


def plan_mending(spark: SparkSession, planned: BuildPlan) -> BuildPlan:
    """Plan what the indexes of a build need after it because of another build: that no segments cover one file."""
    indexes = []
    for scope in planned.scopes:
        definition = scope.definition
        for table in metastore.describe_many(spark, definition.index_table_database, [definition.index_table]):
            slots_now = catalog.slots_of(spark, table)
            known, unreadable = _read(slots.segments(slots_now, definition), definition, fresh=False)
            indexes.append(replace(_new(definition), covered=known, slots=slots_now, strange=unreadable))
    return _plan(spark, planned.base, indexes, (), frozenset())


@dataclass(frozen=True)
class Asked:
    """What the caller of a build asks for, as in `segment_plan.Rules`."""

    full: bool = False
    compact: bool = False
    remove_dead: bool = False


def _new(definition: Definition) -> Indexed:
    return Indexed(definition=definition, covered=Covered.by([]), slots={}, moved={})


def _plan_existing(
    spark: SparkSession,
    table: str,
    names: Sequence[str],
    choose: Callable[[Table, Sequence[Values]], Sequence[Values]],
    asked: Asked,
    *,
    whole: bool,
) -> BuildPlan:
    """Plan a build of the partitions that `choose` returns of those known; `whole` says that these are all."""
    base, indexes = catalog.table_and_indexes(spark, table)
    wanted = [catalog.named(base, indexes, name) for name in dict.fromkeys(map(str.lower, names))] or trusted(indexes)
    if not wanted:
        raise NotFound(f"table {base.full_name} has no index to rebuild")
    for index in wanted:
        catalog.require_same_table(base, index)
    keys = sorted({name for index in wanted for name in index.definition.column_names})
    permission.require_reading(spark, base, keys, "a rebuild")
    partitions = base_files.partitions(spark, base)
    elsewhere = [locations.any_elsewhere(spark, [index.definition]) for index in wanted]
    anew = any(elsewhere) or any(index.definition.is_former for index in wanted)
    states = [
        _existing(spark, base, indexes, index, is_elsewhere, asked, whole=whole or anew)
        for index, is_elsewhere in zip(wanted, elsewhere, strict=True)
    ]
    chosen = None
    if not whole and not anew:
        covered = [values for state in states for values in state.covered.partitions]
        chosen = frozenset(choose(base, list(dict.fromkeys([*(one.values for one in partitions), *covered]))))
    return _plan(spark, base, states, partitions, chosen, asked)


def _existing(
    spark: SparkSession,
    base: Table,
    indexes: Sequence[Index],
    index: Index,
    is_elsewhere: bool,
    asked: Asked,
    *,
    whole: bool,
) -> Indexed:
    """Return the state of an existing index, and its definition after the build. Raise Unsupported for a copy."""
    definition = index.definition.renewed(base) if whole else index.definition
    if problem := roots.rival(definition, catalog.trusted_definitions(indexes)):
        raise Unsupported(problem)
    if index.definition.is_former:
        log.warning("index %s has format %s, and is built anew", definition.name, index.definition.version)
    if is_elsewhere:
        log.warning(
            "index %s gets a folder of its own: %s is marked as that of another metastore; if this one was moved, "
            "and is not a copy, run clean with --take-over before a rebuild",
            definition.name,
            definition.root,
        )
        definition = locations.with_root(spark, definition, None)
    now = {} if index.definition.is_former else catalog.slots_of(spark, index.table)
    known, unreadable = _read(slots.segments(now, definition), definition, fresh=asked.remove_dead)
    return Indexed(
        definition=roots.identified(definition),
        covered=known,
        slots=now,
        strange=(*unreadable, *(now[number] for number in slots.strange(now, definition))),
        full=asked.full or definition != index.definition,
        removed=_removed(spark, base, definition),
        remains=any(roots.is_replacement(copy, index.definition) for copy in index.copies),
        moved={},
        elsewhere=index.definition if is_elsewhere else None,
    )


def _read(folders: Sequence[str], definition: Definition, *, fresh: bool) -> tuple[Covered, tuple[str, ...]]:
    """Return what segments cover, and those of which the manifest is damaged or gone.

    With `fresh` manifests are read again: a cached one would hide damage that came after it was read.
    """
    found = map_parallel(partial(_manifest, fresh=fresh), folders)
    unreadable = tuple(folder for folder, one in zip(folders, found, strict=True) if one is None)
    return Covered.by([one for one in found if one is not None]), unreadable


def _removed(spark: SparkSession, base: Table, definition: Definition) -> frozenset[str]:
    """The paths of the files that the table has lost since the time for which an index keeps them."""
    if not definition.keep_removed:
        return frozenset()
    return base_files.removed_files(spark, base, max(time.time() - definition.kept_seconds, 0.0))


def trusted(indexes: Sequence[Index]) -> Sequence[Index]:
    """Return the indexes that are trusted, and log the others; return all if none is, to be refused."""
    wanted = [index for index in indexes if index.trusted] or indexes
    for index in indexes:
        if index not in wanted:
            log.warning("not rebuilt: %s", index.problem)
    return wanted


def _plan(
    spark: SparkSession,
    base: Table,
    indexes: Sequence[Indexed],
    partitions: Sequence[table_info.Partition],
    chosen: frozenset[Values] | None,
    asked: Asked = Asked(),
) -> BuildPlan:
    """Plan a build in the `chosen` partitions, all if that is None, of those that the table has."""
    in_scope = [one for one in partitions if chosen is None or one.values in chosen]
    values = [one.values for one in in_scope]
    covers = [coverage.covered(spark, base, one.definition.where, values) for one in indexes]
    needed = [number for number in range(len(values)) if any(flags[number] for flags in covers)]
    remote = any(not stores.is_local(in_scope[number].location) for number in needed)
    list_one = partial(base_files.list_partition, base)  # of a local disk, threads list half as fast
    listed = map_parallel(list_one, [in_scope[number] for number in needed], THREADS if remote else 1)
    sources = dict(zip(needed, listed, strict=True))
    target = shard_bytes(sum(file.size for source in listed for file in source.files), parallelism(spark))
    columns, zone, reading = base.columns, metastore.time_zone(spark), serde.read_properties(base)
    rules = Rules(
        schemas=valid_schemas(format_of(base), columns, zone, reading),
        schema_crc=schema_crc(columns, zone, reading),
        shard_bytes=target,
        shard_memory=SHARD_BYTES,
        now=time.time(),
        compact=asked.compact,
        remove_dead=asked.remove_dead,
    )
    scopes: list[Scope] = []
    changes: list[Change] = []
    for number, (one, flags) in enumerate(zip(indexes, covers, strict=True)):
        own = [source for at, source in sources.items() if flags[at]]
        excluded = frozenset(value for value, covers_it in zip(values, flags, strict=True) if not covers_it)
        scope = segment_plan.Scope(partitions=chosen, excluded=excluded, removed=one.removed)
        scopes.append(_scoped(one, Listing.of((source.values, source.files) for source in own), scope, rules))
        changes += _changes(number, scopes[-1])
    return BuildPlan(
        base=base,
        sources=tuple(listed),
        scopes=tuple(scopes),
        changes=tuple(changes),
        schema_crc=rules.schema_crc,
    )


def _scoped(one: Indexed, listing: Listing, scope: segment_plan.Scope, rules: Rules) -> Scope:
    definition, known = one.definition, one.covered
    present = _present(known.segments)
    plain = definition.has_bitmaps and ENCODINGS[definition.encoding].DENSE
    own = replace(rules, plain=plain, full=one.full, take_over=one.is_attached, rewrite=bool(one.moved))
    judged = segment_plan.judge(known, listing, scope, own, present)
    readers = _readers(listing, list(judged.why), definition.root)
    made = segment_plan.plan(known, judged, listing, own, present, _readers_of, readers, _is_taken_for_a_shard)
    return Scope(before=one, plan=made, listing=listing)


def _is_taken_for_a_shard(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return is_visible(name) and not folder.endswith(f"/{FOLDER}")


def _changes(index: int, scope: Scope) -> list[Change]:
    listing, root = scope.listing, scope.definition.root
    made = [
        tuple(BaseFile(listing.partitions[listing.partition[at]], listing.files[at]) for at in one.read)
        for one in scope.plan.new
    ]
    folders = [parent(read[0].status.path) if read else "" for read in made]
    of_base = dict(zip(folders, generation.accesses([(folder or root, root) for folder in folders]), strict=True))
    return [
        Change(
            index=index,
            definition=scope.definition,
            segment=one,
            folder=f"{root}/{generation.new_name()}",
            read=read,
            shards=scope.before.covered.shards,
            access=_access(of_base[folder] if folder else None, one),
            moved=scope.before.moved,
        )
        for one, read, folder in zip(scope.plan.new, made, folders, strict=True)
    ]


def _access(of_base: Access | None, segment: NewSegment) -> Access | None:
    """Return the access of the folder of a new segment: that of the base folder and of what it replaces."""
    found = [of_base, *map(stores.permissions_of, segment.replaced)]
    known = [one for one in found if one is not None]
    return known[0].within(known[1:]) if known else None


def _readers(listing: Listing, numbers: Sequence[int], root: str) -> dict[int, Hashable]:
    """Return who may read each of these listed files, by its number: those who may enter its folder and open it."""
    folders = list(dict.fromkeys(parent(listing.files[at].path) for at in numbers))
    enters = dict(zip(folders, generation.accesses([(folder, root) for folder in folders]), strict=True))
    opens = map_parallel(lambda at: stores.permissions_of(listing.files[at].path), numbers)
    return {at: _who(enters[parent(listing.files[at].path)], access) for at, access in zip(numbers, opens, strict=True)}


def _readers_of(folders: Sequence[str]) -> list[Hashable]:
    """Return who may read each of these segments."""
    asked = [path for folder in folders for path in (folder, f"{folder}/{FOLDER}/{manifest.FILES_NAME}")]
    found = map_parallel(stores.permissions_of, asked)
    return [_who(enters, opens) for enters, opens in zip(found[::2], found[1::2], strict=True)]


def _who(enters: Access | None, opens: Access | None) -> Hashable:
    return enters and enters.readers, opens and opens.of_file.readers


def _manifest(folder: str, *, fresh: bool) -> Manifest | None:
    """Return the manifest of a segment; None if it is damaged or gone."""
    if fresh:
        manifest.read.forget(folder)
        checksums.of_generation.forget(folder)
    try:
        return manifest.read(folder)
    except CorruptIndex as e:
        log.warning("a damaged part of the index is built from scratch: %s", e)
        return None


def _present(folders: Sequence[str]) -> dict[str, int]:
    """Return the paths of the files in segments and their hidden folders, with their sizes in bytes."""
    listed = map_parallel(_files, [path for folder in folders for path in (folder, f"{folder}/{FOLDER}")])
    return {path: size for found in listed for path, size in found.items()}


def _files(folder: str) -> dict[str, int]:
    try:
        return {file.path: file.size for file in stores.listing(folder).files}
    except FileNotFoundError:
        return {}
