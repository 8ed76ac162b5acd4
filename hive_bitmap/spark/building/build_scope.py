"""Plan a build, from the current table, indexes, partitions, base files and segments."""

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
from hive_bitmap.core.index import checksums, generation, generation_names, manifest, roots
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition, from_table, schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.indexing.group_indexing import SHARD_BYTES
from hive_bitmap.core.indexing.segment_change import BaseFile, Change
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import format_of, is_visible
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.segments import segment_plan, slots
from hive_bitmap.core.segments.covered import Covered, Listing, numbered
from hive_bitmap.core.segments.segment_plan import NewSegment, Rules, SegmentPlan
from hive_bitmap.core.segments.slots import Slots
from hive_bitmap.core.stores import Access
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.spark.building.file_groups import shard_bytes
from hive_bitmap.spark.metastore import base_files, metastore, permission
from hive_bitmap.spark.metastore.base_files import Source, Spec
from hive_bitmap.spark.registry import catalog, catalog_changes, coverage, locations
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
SAMPLED_PARTITIONS = 16  # partitions to check whether a rename has moved the files of a table


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """The state of an index before a build.

    `covered` is what the segments of the index cover; `slots` are the slots of the index. `foreign` has the folders of
    slots that point neither at a readable segment nor at the empty folder. `full` says whether the index is built from
    scratch, so that all files in scope are read. `removed` has the paths of removed files whose rows the index keeps.
    `remains` says whether a killed build has left a table that was to replace the index table. `stored` is the
    definition in the metastore when the build is planned, or None for a new index.

    `is_attached` says that this is a new index of a renamed table, built from the index that the table had under its
    old name. Then `covered` is what the old index covers, and `moved` maps the current paths of moved files to their
    paths in the index rows.

    `elsewhere` is set in a copy of a metastore: the definition whose root belongs to the original metastore. The build
    gives the index a new root.
    """

    definition: Definition
    covered: Covered
    slots: Slots
    foreign: tuple[str, ...] = ()
    full: bool = False
    remains: bool = False
    removed: frozenset[str] = frozenset()
    is_attached: bool = False
    moved: Mapping[str, str]
    elsewhere: Definition | None = None
    stored: Definition | None = None


@dataclass(frozen=True, kw_only=True)
class Scope:
    """An index in a build: its state before, its plan, and the files to cover.

    `before` is the state of the index before the build, `plan` the plan for its segments. `listing` has the files to
    cover.
    """

    before: Indexed
    plan: SegmentPlan
    listing: Listing

    @property
    def definition(self) -> Definition:
        return self.before.definition

    @property
    def gone(self) -> frozenset[str]:
        """The folders that no slot points at after the build."""
        return frozenset((*self.before.foreign, *(() if self.before.is_attached else self.plan.gone)))

    @property
    def dropped(self) -> list[Values]:
        """The partitions that lose all rows in the build."""
        covered, after = self.before.covered, set(self.listing.partitions)
        for segment in self.plan.new:
            after.update(numbered(segment.files["values"])[0])
        is_kept = np.isin(covered.segment, [n for n, folder in enumerate(covered.segments) if folder in self.kept])
        after.update(covered.partitions[number] for number in np.unique(covered.partition[is_kept]).tolist())
        return [] if self.before.is_attached else [values for values in covered.partitions if values not in after]

    @property
    def kept(self) -> frozenset[str]:
        """The folders of segments that stay unchanged."""
        return frozenset() if self.before.is_attached else frozenset(self.before.covered.segments) - self.gone


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """The plan of a build.

    `sources` are the base files of the partitions in scope, `scopes` the indexes, and `changes` the new segments.
    `schema_crc` is the checksum of the base table's columns. `left_out` has a sentence for each index that is left out
    of the plan: why it does not fit the table.
    """

    base: Table
    sources: tuple[Source, ...]
    scopes: tuple[Scope, ...]
    changes: tuple[Change, ...]
    schema_crc: int
    left_out: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to publish."""
        are_unchanged = not any(scope.gone or slots.repeated(scope.before.slots) for scope in self.scopes)
        return not self.changes and are_unchanged

    def without_files(self) -> BuildPlan:
        """Return a plan that creates the indexes without files.

        The plan has no new segments: a later build indexes the files (CREATE INDEX with DEFERRED REBUILD).
        """
        scopes = tuple(replace(scope, plan=SegmentPlan((), ())) for scope in self.scopes)
        return replace(self, scopes=scopes, changes=())

    def require_all(self) -> None:
        """Raise Unsupported if indexes were left out of the plan."""
        if self.left_out:
            others = f"the other indexes of table {self.base.full_name} have been brought up to date"
            raise Unsupported("; ".join((*self.left_out, others)))

    def changes_of(self, index: int) -> list[Change]:
        """Return the changes of one index, given its position in `scopes`."""
        return [change for change in self.changes if change.index == index]


def plan_creation(spark: SparkSession, base: Table, definitions: Sequence[Definition]) -> BuildPlan:
    """Plan the build of new indexes.

    Raise InvalidProperty if a root lies in or above the folder of a partition of the table.
    """
    empty = [_new(definition) for definition in definitions]
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    return _plan(spark, base, empty, partitions, None)


def plan_attachment(
    spark: SparkSession, base: Table, definitions: Sequence[Definition], former: Sequence[Index]
) -> BuildPlan:
    """Plan the build of new indexes of a renamed table from its old indexes.

    `former` has the old index for each of the new `definitions`.
    """
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    folders = {partition.values: partition.location for partition in partitions}
    states = []
    for definition, index in zip(definitions, former, strict=True):
        covered, _ = _read(catalog.segments(spark, index), index.definition, fresh=True)
        moved_covered, moved = (covered, {}) if base.lake is not None else covered.moved_to(folders)
        states.append(replace(_new(definition), covered=moved_covered, is_attached=True, moved=moved))
    return _plan(spark, base, states, partitions, None)


def plan_rebuild(
    spark: SparkSession, table: str, names: Sequence[str], partition: Spec | None, full: bool, compact: bool
) -> BuildPlan:
    """Plan the rebuild of the named indexes, or of all indexes of a table.

    `build.rebuild` describes the arguments. Raise NotFound, NotPermitted, and Unsupported if indexed columns have
    changed.
    """

    def choose(base: Table, values: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching(base, partition, values)

    options = Asked(full=full, compact=compact, remove_dead=True)
    return _plan_existing(spark, table, names, choose, options, whole=not partition)


def plan_refresh(spark: SparkSession, table: str, names: Sequence[str], partitions: Sequence[Spec]) -> BuildPlan:
    """Plan a refresh of the named indexes, or of all indexes of a table.

    A refresh is a rebuild that keeps rows of deleted files for a while. It covers the partitions that match one of the
    specs `partitions`, or all partitions without specs. Raise the errors of `plan_rebuild`.
    """

    def choose(base: Table, values: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching_any(base, partitions, values) if partitions else values

    return _plan_existing(spark, table, names, choose, Asked(), whole=not partitions)


def plan_removal(spark: SparkSession, table: str, name: str, partitions: Collection[Values]) -> BuildPlan:
    """Plan the removal of partitions from an index.

    After the build, the index no longer covers these partitions. Raise the errors of `plan_rebuild`.
    """
    removed = frozenset(partitions)

    def choose(base: Table, candidates: Sequence[Values]) -> Sequence[Values]:
        return [values for values in candidates if values in removed]

    return _plan_existing(spark, table, [name], choose, Asked(remove_dead=True), whole=False)


def covered_partitions(spark: SparkSession, index: Index) -> tuple[Values, ...]:
    """Return the values of the partitions with files that an index covers."""
    return covered_by(spark, index).partitions


def covered_by(spark: SparkSession, index: Index) -> Covered:
    """Return what an index covers."""
    return _read(catalog.segments(spark, index), index.definition, fresh=False)[0]


def that_stayed(spark: SparkSession, base: Table, indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes whose base files stayed in place when their table was renamed.

    A file has stayed if it is in the current folder of its partition. An index may also cover files that were moved or
    removed before the rename, so at least half of the files in a sample of partitions must have stayed. For a Delta or
    Iceberg table, it is enough that the table still lists one of the files that the index covers.
    """
    if not indexes:
        return []
    if base.lake is not None:
        partitions = base_files.partitions(spark, base)
        paths = [file.path for source in base_files.list_files(base, partitions) for file in source.files]
        listed = pa.array(paths, pa.string())
        return [
            index
            for index in indexes
            if pc.any(pc.is_in(covered_by(spark, index).files["path"], value_set=listed)).as_py()
        ]
    coverages = [covered_by(spark, index) for index in indexes]
    sample = {values for covered in coverages for values in _some(covered.partitions)}
    folders = _folders(spark, base, sorted(sample, key=str))
    if not all(any(values in folders for values in covered.partitions) for covered in coverages):
        folders = _folders(spark, base, None)  # the table has dropped all sampled partitions of an index
    return [index for index, covered in zip(indexes, coverages, strict=True) if _most_in_place(covered, folders)]


def _some(partitions: Sequence[Values]) -> Sequence[Values]:
    """Return at most SAMPLED_PARTITIONS of these partitions, evenly spread."""
    count = len(partitions)
    return [partitions[at * count // SAMPLED_PARTITIONS] for at in range(SAMPLED_PARTITIONS)] if count else []


def _folders(spark: SparkSession, base: Table, values: Sequence[Values] | None) -> dict[Values, str]:
    """Return the folders of the partitions with these values; None stands for all partitions."""
    return {partition.values: partition.location for partition in base_files.partitions(spark, base, values)}


def _most_in_place(covered: Covered, folders: Mapping[Values, str]) -> bool:
    paths = zip(covered.files["path"].to_pylist(), covered.paths_in(folders), strict=True)
    in_place = [old == new for old, new in paths if new is not None]
    return any(in_place) and 2 * sum(in_place) >= len(in_place)


def plan_mending(spark: SparkSession, planned: BuildPlan) -> BuildPlan:
    """Plan repairs after another build has published at the same time.

    `planned` is the plan of this build. After the repairs, no two segments cover the same file.
    """
    indexes = []
    for scope in planned.scopes:
        definition = scope.definition
        for table in metastore.describe_many(spark, definition.index_table_database, [definition.index_table]):
            stored = from_table(table)
            if stored is None or stored.encoding != definition.encoding:
                continue  # another build has replaced the index table, and repairs its own work
            slots_now = catalog.slots_of(spark, table)
            covered, unreadable = _read(slots.segments(slots_now, definition), definition, fresh=False)
            state = replace(_new(definition), covered=covered, slots=slots_now, foreign=unreadable)
            indexes.append(replace(state, stored=stored))
    return _plan(spark, planned.base, indexes, (), frozenset())


@dataclass(frozen=True)
class Asked:
    """The options that the caller of a build has chosen; see `segment_plan.Rules`."""

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
    options: Asked,
    *,
    whole: bool,
) -> BuildPlan:
    """Plan a build of existing indexes, in the partitions that `choose` selects.

    `choose` gets the values of all partitions of the table and of the indexes, and returns the values to build. `whole`
    says that `choose` returns all of these values. Without names, indexes that no longer fit the table are left out,
    unless none fits it.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    selected = [catalog.named(base, indexes, name) for name in dict.fromkeys(map(str.lower, names))]
    left_out: tuple[str, ...] = ()
    if not selected:
        fitting, others = catalog.part_by_fit(spark, base, trusted(indexes))
        selected, left_out = fitting or others, tuple(index.problem for index in others)
    if not selected:
        raise NotFound(f"table {base.full_name} has no index to rebuild")
    for index in selected:
        catalog_changes.require_same_table(spark, base, index)
    keys = sorted({column.name for index in selected for column in index.definition.read_columns(base)})
    permission.require_reading(spark, base, keys, "a rebuild")
    partitions = base_files.partitions(spark, base)
    elsewhere = [locations.any_elsewhere(spark, [index.definition]) for index in selected]

    def planned(elsewhere: Sequence[bool]) -> BuildPlan:
        is_rebuilt = any(elsewhere) or any(index.definition.is_former for index in selected)
        states = [
            _existing(spark, base, indexes, index, is_elsewhere, options, whole=whole or is_rebuilt)
            for index, is_elsewhere in zip(selected, elsewhere, strict=True)
        ]
        chosen = None
        if not whole and not is_rebuilt:
            covered = [values for state in states for values in state.covered.partitions]
            chosen = frozenset(
                choose(base, list(dict.fromkeys([*(partition.values for partition in partitions), *covered])))
            )
        return replace(_plan(spark, base, states, partitions, chosen, options), left_out=left_out)

    if any(elsewhere) and options == Asked():  # a refresh of a copy that finds no change leaves the copy as it is
        plan = planned([False] * len(selected))
        if plan.is_empty:
            return plan
    return planned(elsewhere)


def _existing(
    spark: SparkSession,
    base: Table,
    indexes: Sequence[Index],
    index: Index,
    is_elsewhere: bool,
    options: Asked,
    *,
    whole: bool,
) -> Indexed:
    """Return the state of an index before a build.

    The state has the definition that `index` gets in the build. `indexes` are all indexes of the base table. `whole`
    says that all partitions are in scope, so that the encoding may change. `is_elsewhere` says that the root belongs
    to another metastore, so that the index gets a new root. Raise Unsupported for a copy of another index.
    """
    definition = index.definition.renewed(base) if whole else index.definition
    if problem := roots.rival(definition, catalog.trusted_definitions(indexes)):
        raise Unsupported(problem)
    if index.definition.is_former:
        log.warning("index %s has the old format %s, and is built again", definition.name, index.definition.version)
    if is_elsewhere:
        log.warning(
            "index %s gets a new folder: %s is marked as that of another metastore; if this metastore was moved, "
            "and is not a copy, run clean with --take-over before a rebuild",
            definition.name,
            definition.root,
        )
        definition = locations.with_root(spark, definition, None)
    current_slots = {} if index.definition.is_former else catalog.slots_of(spark, index.table)
    covered, unreadable = _read(slots.segments(current_slots, definition), definition, fresh=options.remove_dead)
    return Indexed(
        definition=roots.identified(definition),
        covered=covered,
        slots=current_slots,
        foreign=(*unreadable, *(current_slots[number] for number in slots.foreign(current_slots, definition))),
        full=options.full or definition != index.definition,
        removed=_removed(spark, base, definition),
        remains=any(roots.is_replacement(copy, index.definition) for copy in index.copies),
        moved={},
        elsewhere=index.definition if is_elsewhere else None,
        stored=index.definition,
    )


def _read(folders: Sequence[str], definition: Definition, *, fresh: bool) -> tuple[Covered, tuple[str, ...]]:
    """Return what segments cover, and which of their `folders` have no readable manifest.

    With `fresh`, cached manifests are not used, because they would hide later damage to a manifest.
    """
    manifests = map_parallel(partial(_manifest, fresh=fresh), folders)
    unreadable = tuple(folder for folder, content in zip(folders, manifests, strict=True) if content is None)
    return Covered.by([content for content in manifests if content is not None]), unreadable


def _removed(spark: SparkSession, base: Table, definition: Definition) -> frozenset[str]:
    """Return the paths of removed files whose rows the index keeps.

    The property `keep_removed` of the index says how long rows are kept after the table has removed their file.
    """
    if not definition.keep_removed:
        return frozenset()
    return base_files.removed_files(spark, base, max(time.time() - definition.kept_seconds, 0.0))


def trusted(indexes: Sequence[Index]) -> Sequence[Index]:
    """Return the trusted indexes, or all indexes if none is trusted.

    In the first case, the untrusted indexes are logged; in the second, the caller refuses all indexes.
    """
    usable = [index for index in indexes if index.trusted] or indexes
    for index in indexes:
        if index not in usable:
            log.warning("not rebuilt: %s", index.problem)
    return usable


def _plan(
    spark: SparkSession,
    base: Table,
    indexes: Sequence[Indexed],
    partitions: Sequence[table_info.Partition],
    chosen: frozenset[Values] | None,
    options: Asked = Asked(),
) -> BuildPlan:
    """Plan a build in some partitions of a table.

    `chosen` has the values of these partitions; None stands for all. `partitions` are all partitions of the table.
    """
    in_scope = [partition for partition in partitions if chosen is None or partition.values in chosen]
    values = [partition.values for partition in in_scope]
    covers = [coverage.covered(spark, base, index.definition.where, values) for index in indexes]
    needed = [number for number in range(len(values)) if any(flags[number] for flags in covers)]
    listed = base_files.list_files(base, [in_scope[number] for number in needed])
    sources = dict(zip(needed, listed, strict=True))
    target = shard_bytes(sum(file.size for source in listed for file in source.files), parallelism(spark))
    columns, zone, reading = base.columns, metastore.time_zone(spark), serde.read_properties(base)
    rules = Rules(
        schemas=valid_schemas(format_of(base), columns, zone, reading),
        schema_crc=schema_crc(columns, zone, reading),
        shard_bytes=target,
        shard_memory=SHARD_BYTES,
        now=time.time(),
        compact=options.compact,
        remove_dead=options.remove_dead,
    )
    scopes: list[Scope] = []
    changes: list[Change] = []
    for number, (index, flags) in enumerate(zip(indexes, covers, strict=True)):
        index_sources = [source for at, source in sources.items() if flags[at]]
        excluded = frozenset(value for value, is_covered in zip(values, flags, strict=True) if not is_covered)
        scope = segment_plan.Scope(partitions=chosen, excluded=excluded, removed=index.removed)
        scopes.append(
            _scoped(index, Listing.of((source.values, source.files) for source in index_sources), scope, rules)
        )
        changes += _changes(number, scopes[-1])
    return BuildPlan(
        base=base,
        sources=tuple(listed),
        scopes=tuple(scopes),
        changes=tuple(changes),
        schema_crc=rules.schema_crc,
    )


def _scoped(index: Indexed, listing: Listing, scope: segment_plan.Scope, rules: Rules) -> Scope:
    definition, covered = index.definition, index.covered
    present = _present(covered.segments)
    index_rules = replace(rules, full=index.full, take_over=index.is_attached, rewrite=bool(index.moved))
    judged = segment_plan.judge(covered, listing, scope, index_rules, present)
    readers = _readers(listing, list(judged.why), definition.root)
    made = segment_plan.plan(
        covered, judged, listing, index_rules, present, _readers_of, readers, _is_taken_for_a_shard
    )
    return Scope(before=index, plan=made, listing=listing)


def _is_taken_for_a_shard(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return is_visible(name) and not folder.endswith(f"/{FOLDER}")


def _changes(index: int, scope: Scope) -> list[Change]:
    listing, root = scope.listing, scope.definition.root
    files_to_read = [
        tuple(BaseFile(listing.partitions[listing.partition[at]], listing.files[at]) for at in segment.read)
        for segment in scope.plan.new
    ]
    folders = [list(dict.fromkeys(parent(file.status.path) for file in read)) for read in files_to_read]
    distinct = list(dict.fromkeys(folder for some in folders for folder in some))
    of_base = dict(zip(distinct, generation.accesses([(folder, root) for folder in distinct]), strict=True))
    return [
        Change(
            index=index,
            definition=scope.definition,
            segment=segment,
            folder=f"{root}/{generation_names.new_name()}",
            read=read,
            shards=scope.before.covered.shards,
            access=_access([of_base[folder] for folder in base_folders], segment),
            moved=scope.before.moved,
        )
        for segment, read, base_folders in zip(scope.plan.new, files_to_read, folders, strict=True)
    ]


def _access(of_base: Sequence[Access | None], segment: NewSegment) -> Access | None:
    """Return the access that the folder of a new segment gets.

    `of_base` has the access of each base folder, None if it is unknown. Users may enter the new folder, or write in
    it, only if they may do so in all base folders and replaced segments. The result is None if no access is known.
    """
    candidates = [*of_base, *map(stores.permissions_of, segment.replaced)]
    accesses = [access for access in candidates if access is not None]
    return accesses[0].within(accesses[1:]).written_like(accesses[1:]) if accesses else None


def _readers(listing: Listing, numbers: Sequence[int], root: str) -> dict[int, Hashable]:
    """Return, for each of these files, a value that identifies its readers.

    `numbers` are the positions of these files in the listing, and the keys of the result. Files with equal values have
    the same readers: the users who may enter the file's folder and open the file. Folders that contain both the file
    and `root`, the root of the index, are ignored.
    """
    folders = list(dict.fromkeys(parent(listing.files[at].path) for at in numbers))
    enters = dict(zip(folders, generation.accesses([(folder, root) for folder in folders]), strict=True))
    opens = map_parallel(lambda at: stores.permissions_of(listing.files[at].path), numbers)
    return {
        at: _readers_value(enters[parent(listing.files[at].path)], access)
        for at, access in zip(numbers, opens, strict=True)
    }


def _readers_of(folders: Sequence[str]) -> list[Hashable]:
    """Return, for each segment, a value that identifies its readers.

    The readers are the users who may enter the segment's folder and open its manifest.
    """
    paths = [path for folder in folders for path in (folder, f"{folder}/{FOLDER}/{manifest.FILES_NAME}")]
    permissions = map_parallel(stores.permissions_of, paths)
    return [_readers_value(enters, opens) for enters, opens in zip(permissions[::2], permissions[1::2], strict=True)]


def _readers_value(enters: Access | None, opens: Access | None) -> Hashable:
    return enters and enters.readers, opens and opens.of_file.readers


def _manifest(folder: str, *, fresh: bool) -> Manifest | None:
    """Return the manifest of a segment; None if it is damaged or missing.

    With `fresh`, a cached manifest is not used.
    """
    if fresh:
        manifest.read.forget(folder)
        checksums.of_generation.forget(folder)
    try:
        return manifest.read(folder)
    except CorruptIndex as e:
        log.warning("a damaged part of the index is built from scratch: %s", e)
        return None


def _present(folders: Sequence[str]) -> dict[str, int]:
    """Return the bytes of each file in these segments, by path.

    Files in the folders of manifests are included.
    """
    listed = map_parallel(_files, [path for folder in folders for path in (folder, f"{folder}/{FOLDER}")])
    return {path: size for sizes in listed for path, size in sizes.items()}


def _files(folder: str) -> dict[str, int]:
    try:
        return {file.path: file.size for file in stores.listing(folder).files}
    except FileNotFoundError:
        return {}
