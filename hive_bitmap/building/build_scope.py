"""The plan of a build, made from the table, its indexes, partitions, base files and manifests as they are now."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.building.file_groups import shard_bytes
from hive_bitmap.building.partition_change import Change
from hive_bitmap.building.refresh import from_scratch, refresh
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.index import catalog, checksums, generation, manifest, roots
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.coverage import covered
from hive_bitmap.index.definition import Definition, schema_crc
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.metastore import base_files, metastore, permission, serde, table_info
from hive_bitmap.metastore.base_files import Source, Spec
from hive_bitmap.metastore.table_info import Table, Values
from hive_bitmap.parallel import map_parallel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scope:
    """One index in a build.

    `published` holds the published generations of the partitions in scope, `partitions` the numbers (in
    `BuildPlan.sources`) of those to cover. With `full` nothing is kept of a published generation.
    """

    definition: Definition
    published: Mapping[Values, str]
    partitions: tuple[int, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class BuildPlan:
    """The plan of a build: its indexes, the partitions in scope, and a Change for each pair of the two."""

    base: Table
    sources: tuple[Source, ...]
    scopes: tuple[Scope, ...]
    changes: tuple[Change, ...]

    def changes_of(self, index: int) -> list[Change]:
        """Return the changes of one index, given its number in `scopes`."""
        return [change for change in self.changes if change.index == index]

    def dropped(self, index: int) -> list[Values]:
        """Return the published partitions of an index that the table no longer has, or the index no longer covers."""
        scope = self.scopes[index]
        covered_now = {self.sources[number].values for number in scope.partitions}
        return [values for values in scope.published if values not in covered_now]


def plan_creation(spark: SparkSession, base: Table, definitions: Sequence[Definition]) -> BuildPlan:
    """Plan the build of new indexes."""
    empty = [Scope(definition, {}) for definition in definitions]
    return _plan(spark, base, empty, base_files.partitions(spark, base), compact=False)


def plan_rebuild(
    spark: SparkSession, table: str, names: Sequence[str], partition: Spec | None, full: bool, compact: bool
) -> BuildPlan:
    """Plan the rebuild of existing indexes, all of them or those named.

    Raise NotFound, NotPermitted, and Unsupported if indexed columns have changed.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    wanted = [catalog.named(base, indexes, name) for name in dict.fromkeys(map(str.lower, names))] or _trusted(indexes)
    if not wanted:
        raise NotFound(f"table {base.full_name} has no index to rebuild")
    for index in wanted:
        catalog.require_same_table(base, index)
    keys = sorted({name for index in wanted for name in index.definition.column_names})
    permission.require_reading(spark, base, keys, "a rebuild")
    partitions = base_files.partitions(spark, base)
    states = [catalog.published_generations(spark, index) for index in wanted]
    known = dict.fromkeys([one.values for one in partitions] + [values for state in states for values in state])
    chosen = set(base_files.matching(base, partition, list(known)))
    scopes = []
    for index, state in zip(wanted, states, strict=True):
        definition = index.definition if partition else index.definition.renewed()
        if problem := roots.rival(definition, catalog.trusted_definitions(indexes)):
            raise Unsupported(problem)
        published = {values: folder for values, folder in state.items() if values in chosen}
        changed = definition != index.definition
        scopes.append(Scope(roots.identified(definition), published, full=full or changed))
    return _plan(spark, base, scopes, [one for one in partitions if one.values in chosen], compact)


def _trusted(indexes: Sequence[Index]) -> Sequence[Index]:
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
    sources = base_files.list_files(base, [partitions[number] for number in needed])
    numbered = [
        replace(scope, partitions=tuple(position for position, number in enumerate(needed) if flags[number]))
        for scope, flags in zip(scopes, covers, strict=True)
    ]
    crc = schema_crc(base.columns, metastore.time_zone(spark), serde.read_properties(base))
    target = shard_bytes(spark, (file for source in sources for file in source.files))
    changes = _changes(base, numbered, sources, crc, target, compact)
    return BuildPlan(base, tuple(sources), tuple(numbered), tuple(changes))


def _changes(
    base: Table, scopes: Sequence[Scope], sources: Sequence[Source], crc: int, target: int, compact: bool
) -> list[Change]:
    name = generation.new_name()
    # A cached manifest would hide damage that came after it was read, and the damaged shards would be kept.
    manifest.read.cache_clear()
    checksums.of_generation.cache_clear()

    def change(pair: tuple[int, int]) -> Change:
        index, partition = pair
        scope, source = scopes[index], sources[partition]
        folder = f"{catalog.generation_parent(base, scope.definition, source.values)}/{name}"
        published = None if scope.full else _manifest(scope.published.get(source.values), scope.definition)
        what = from_scratch(source.files)
        if published is not None:
            plain = scope.definition.has_bitmaps and ENCODINGS[scope.definition.encoding].DENSE
            what = refresh(published, _present(published.folder), source.files, crc, target, compact, plain)
        return Change(
            index=index,
            partition=partition,
            definition=scope.definition,
            source=source,
            published=published,
            refresh=what,
            folder=folder,
        )

    return map_parallel(change, [(index, number) for index, scope in enumerate(scopes) for number in scope.partitions])


def _manifest(folder: str | None, definition: Definition) -> Manifest | None:
    """Return the manifest of a generation; None if it is damaged, missing, or not of this index."""
    if folder is None or not generation.belongs_to(folder, definition):
        return None
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
