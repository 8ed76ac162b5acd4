"""The plan of a build, made from the table, its indexes, partitions, base files and manifests as they are now."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from hive_bitmap.core import stores, table_info
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index import checksums, generation, listing_digest, manifest, roots
from hive_bitmap.core.index.definition import Definition, schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import ALL, UNBUILT, Manifest
from hive_bitmap.core.parallel import THREADS, map_parallel
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.spark.building.file_groups import shard_bytes
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.building.refresh import from_scratch, refresh
from hive_bitmap.spark.metastore import base_files, metastore, permission, serde
from hive_bitmap.spark.metastore.base_files import Source, Spec
from hive_bitmap.spark.metastore.file_listing import format_of
from hive_bitmap.spark.registry import catalog, locations
from hive_bitmap.spark.registry.catalog import Index, Published
from hive_bitmap.spark.registry.coverage import covered
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One index in a build.

    `published` holds the published generations of the partitions in scope, `partitions` the numbers (in
    `BuildPlan.sources`) of those to cover. With `full` nothing is kept of a published generation. With `quick`, what
    is recorded of a partition is believed: where it says that nothing changed, the partition leaves the scope, and is
    only counted in `untouched`. `remains` says that a killed build left a table which was to replace the index table.
    What it knows of the files with the paths `removed`, which the table no longer has, is kept for older versions. A
    new index takes what it can from `former`, an index of the table under an earlier name, whose generations are
    `taken`. `elsewhere` is the definition with the root of another metastore, of which this one is a copy; the build
    gives the index a root of its own.
    """

    definition: Definition
    published: Mapping[Values, Published]
    partitions: tuple[int, ...] = ()
    full: bool = False
    quick: bool = False
    untouched: int = 0
    remains: bool = False
    removed: frozenset[str] = frozenset()
    former: Definition | None = None
    taken: Mapping[Values, str] = field(default_factory=dict)
    elsewhere: Definition | None = None

    def kept(self, values: Values) -> Manifest | None:
        """Return the manifest of a partition from which a build keeps what it can; None if there is none."""
        known = self.published.get(values)
        if self.former is not None:
            return _manifest(self.taken[values], self.former) if values in self.taken else None
        return None if self.full or known is None else _manifest(known.folder, self.definition)

    def recorded(self, values: Values) -> str:
        """Return the digest that is recorded of a partition's published generation; "" if there is none."""
        known = self.published.get(values)
        return known.listing if known else ""

    def is_untouched(self, source: Source, crc: int) -> bool:
        """Whether the record of a partition says that its generation covers these files, under this schema."""
        known = self.published.get(source.values)
        if known is None or not known.listing or not self.quick or self.full:
            return False
        return known.listing == listing_digest.of_listing(known.folder, self.definition, source.files, crc)


@dataclass(frozen=True)
class _Looked:
    """A partition that was listed: its files, unless no index needs them, and their bytes.

    `indexes` are the numbers of those to plan it for, `untouched` of those of which its record is believed.
    """

    source: Source
    bytes: int
    indexes: tuple[int, ...]
    untouched: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Refreshing:
    """What `refresh.refresh` needs of the table and the build, the same for all partitions."""

    schemas: Collection[int] | None
    schema_crc: int
    shard_bytes: int
    compact: bool


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """The plan of a build: its indexes, the partitions in scope, and a Change for each pair of the two.

    `schema_crc` is that of the base table.
    """

    base: Table
    sources: tuple[Source, ...]
    scopes: tuple[Scope, ...]
    changes: tuple[Change, ...]
    schema_crc: int

    @property
    def is_empty(self) -> bool:
        """Whether no partition has to be looked at or dropped."""
        return not self.changes and not any(self.dropped(number) for number in range(len(self.scopes)))

    def changes_of(self, index: int) -> list[Change]:
        """Return the changes of one index, given its number in `scopes`."""
        return [change for change in self.changes if change.index == index]

    def dropped(self, index: int) -> list[Values]:
        """Return the published partitions of an index that the table no longer has, or the index no longer covers."""
        scope = self.scopes[index]
        covered_now = {self.sources[number].values for number in scope.partitions}
        return [values for values in scope.published if values not in covered_now]


def plan_creation(spark: SparkSession, base: Table, definitions: Sequence[Definition]) -> BuildPlan:
    """Plan the build of new indexes. Raise InvalidProperty if a root lies where a partition of the table does."""
    empty = [Scope(definition=definition, published={}) for definition in definitions]
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    return _plan(spark, base, empty, partitions, compact=False)


def plan_attachment(
    spark: SparkSession, base: Table, definitions: Sequence[Definition], former: Sequence[Index]
) -> BuildPlan:
    """Plan the build of new indexes from those that the table had under its former name, one for each of them."""
    scopes = [
        Scope(
            definition=definition,
            published={},
            former=index.definition,
            taken=catalog.published_generations(spark, index),
        )
        for definition, index in zip(definitions, former, strict=True)
    ]
    partitions = base_files.partitions(spark, base)
    locations.require_apart_from(base, definitions, [partition.location for partition in partitions])
    return _plan(spark, base, scopes, partitions, compact=False)


def plan_rebuild(
    spark: SparkSession, table: str, names: Sequence[str], partition: Spec | None, full: bool, compact: bool
) -> BuildPlan:
    """Plan the rebuild of existing indexes, all of them or those named.

    Raise NotFound, NotPermitted, and Unsupported if indexed columns have changed.
    """

    def choose(base: Table, known: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching(base, partition, known)

    return _plan_existing(spark, table, names, choose, whole=not partition, full=full, compact=compact)


def plan_refresh(spark: SparkSession, table: str, names: Sequence[str], partitions: Sequence[Spec]) -> BuildPlan:
    """Plan a rebuild of the partitions that their records do not say to be up to date.

    `partitions` are specs, of which a partition in scope matches one; none means that all are in scope. Raise as
    `plan_rebuild`.
    """

    def choose(base: Table, known: Sequence[Values]) -> Sequence[Values]:
        return base_files.matching_any(base, partitions, known) if partitions else known

    return _plan_existing(spark, table, names, choose, whole=not partitions, quick=True)


def _plan_existing(
    spark: SparkSession,
    table: str,
    names: Sequence[str],
    choose: Callable[[Table, Sequence[Values]], Sequence[Values]],
    *,
    whole: bool,
    full: bool = False,
    compact: bool = False,
    quick: bool = False,
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
    states = [catalog.published(spark, index) for index in wanted]
    known = list(dict.fromkeys([one.values for one in partitions] + [values for state in states for values in state]))
    chosen = set(choose(base, known))
    elsewhere = [not quick and locations.any_elsewhere(spark, [index.definition]) for index in wanted]
    if any(elsewhere):
        chosen, whole = set(known), True
    scopes = []
    for index, state, is_elsewhere in zip(wanted, states, elsewhere, strict=True):
        definition = index.definition.renewed() if whole else index.definition
        if problem := roots.rival(definition, catalog.trusted_definitions(indexes)):
            raise Unsupported(problem)
        if is_elsewhere:
            log.warning(
                "index %s gets a folder of its own: %s is marked as that of another metastore; if this one was moved, "
                "and is not a copy, run clean with --take-over before a rebuild",
                definition.name,
                definition.root,
            )
            definition = locations.with_root(spark, definition, None)
        scope = Scope(
            definition=roots.identified(definition),
            published={values: one for values, one in state.items() if values in chosen},
            full=full or definition != index.definition,
            quick=quick and not index.problem,  # which a build that looks at everything repairs
            removed=_removed(spark, base, definition),
            remains=any(roots.is_replacement(copy, index.definition) for copy in index.copies),
            elsewhere=index.definition if is_elsewhere else None,
        )
        scopes.append(scope)
    return _plan(spark, base, scopes, [one for one in partitions if one.values in chosen], compact)


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
    spark: SparkSession, base: Table, scopes: Sequence[Scope], partitions: Sequence[table_info.Partition], compact: bool
) -> BuildPlan:
    values = [one.values for one in partitions]
    covers = [covered(spark, base, scope.definition.where, values) for scope in scopes]
    needed = [number for number in range(len(values)) if any(flags[number] for flags in covers)]
    columns, zone, reading = base.columns, metastore.time_zone(spark), serde.read_properties(base)
    crc, schemas = schema_crc(columns, zone, reading), valid_schemas(format_of(base), columns, zone, reading)

    def look(number: int) -> _Looked:
        source = base_files.list_partition(base, partitions[number])
        covering = [index for index, flags in enumerate(covers) if flags[number]]
        untouched = tuple(index for index in covering if scopes[index].is_untouched(source, crc))
        indexes = tuple(index for index in covering if index not in untouched)
        size = sum(file.size for file in source.files)
        return _Looked(source if indexes else replace(source, files=()), size, indexes, untouched)

    remote = any(not stores.is_local(partitions[number].location) for number in needed)
    looked = map_parallel(look, needed, THREADS if remote else 1)  # of a local disk, threads list half as fast
    planned = [one for one in looked if one.indexes]
    narrowed = [_narrowed(scope, index, looked, planned) for index, scope in enumerate(scopes)]
    sources = [one.source for one in planned]
    target = shard_bytes(sum(one.bytes for one in looked), parallelism(spark))
    settings = _Refreshing(schemas=schemas, schema_crc=crc, shard_bytes=target, compact=compact)
    changes = _changes(base, narrowed, sources, settings)
    return BuildPlan(base=base, sources=tuple(sources), scopes=tuple(narrowed), changes=tuple(changes), schema_crc=crc)


def _narrowed(scope: Scope, index: int, looked: Sequence[_Looked], planned: Sequence[_Looked]) -> Scope:
    """Return the scope of the index of this number, with the numbers of its partitions among the planned ones."""
    untouched = {one.source.values for one in looked if index in one.untouched}
    return replace(
        scope,
        published={values: one for values, one in scope.published.items() if values not in untouched},
        partitions=tuple(number for number, one in enumerate(planned) if index in one.indexes),
        untouched=len(untouched),
    )


def _changes(base: Table, scopes: Sequence[Scope], sources: Sequence[Source], settings: _Refreshing) -> list[Change]:
    name = generation.new_name()

    def change(pair: tuple[int, int]) -> Change:
        index, partition = pair
        scope, source = scopes[index], sources[partition]
        folder = f"{catalog.generation_parent(base, scope.definition, source.values)}/{name}"
        published, moved_from = scope.kept(source.values), ""
        what = from_scratch(source.files, ALL if scope.full else UNBUILT)
        if published is not None and scope.former is not None:
            before, published = published, published.at(source.folder)
            moved_from = "" if published is before else next(iter(before.row_of)).rpartition("/")[0]
        if published is not None:
            plain = scope.definition.has_bitmaps and ENCODINGS[scope.definition.encoding].DENSE
            files = (*source.files, *_still_kept(published, source.files, scope.removed))
            what = refresh(published, _present(published.folder), files, **asdict(settings), plain=plain)
            if scope.former is not None:  # all goes into the new index
                alone = tuple((shard,) for shard in what.linked) if moved_from else ()
                linked = () if moved_from else what.linked
                what = replace(what, linked=linked, rewritten=(*what.rewritten, *alone), up_to_date=False)
        return Change(
            index=index,
            partition=partition,
            definition=scope.definition,
            source=source,
            published=published,
            refresh=what,
            folder=folder,
            moved_from=moved_from,
        )

    return map_parallel(change, [(index, number) for index, scope in enumerate(scopes) for number in scope.partitions])


def _still_kept(published: Manifest, files: Sequence[FileStatus], removed: frozenset[str]) -> list[FileStatus]:
    """Return the removed files that an index keeps, as it knows them: none of those that it could not index."""
    if not removed:
        return []
    known = removed.intersection(published.row_of) - {file.path for file in files}
    rows = sorted(published.row_of[path] for path in known)
    return [published.fingerprints[row].status for row in rows if published.shard_of[row] is not None]


def _manifest(folder: str, definition: Definition) -> Manifest | None:
    """Return the manifest of a generation as it is now; None if it is damaged, missing, or not of this index."""
    if not generation.belongs_to(folder, definition):
        return None
    # A cached manifest would hide damage that came after it was read, and the damaged shards would be kept.
    manifest.read.forget(folder)
    checksums.of_generation.forget(folder)
    try:
        return manifest.read(folder)
    except CorruptIndex as e:
        log.warning("a damaged part of the index is built from scratch: %s", e)
        return None


def _present(folder: str) -> dict[str, int]:
    """Return the paths of the files in a generation and its hidden folder, with their sizes in bytes."""
    try:
        found = [*stores.listing(folder).files, *stores.listing(f"{folder}/{checksums.FOLDER}").files]
    except FileNotFoundError:
        return {}
    return {file.path: file.size for file in found}
