"""What a build looks at, and what becomes of it: tables, indexes, partitions, files and manifests as they are now."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.building.file_groups import shard_bytes
from hive_bitmap.building.partition_change import Change
from hive_bitmap.building.refresh import anew, refresh
from hive_bitmap.errors import CorruptIndex, NotFound
from hive_bitmap.index import catalog, checksums, generation, manifest
from hive_bitmap.index.coverage import covered
from hive_bitmap.index.definition import Definition, schema_crc
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.metastore import base_files, metastore, serde, table_info
from hive_bitmap.metastore.base_files import Source, Spec
from hive_bitmap.metastore.table_info import Table, Values
from hive_bitmap.parallel import each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scope:
    """One index in a build: what is published of the partitions looked at, and the numbers of those to cover.

    With `full` nothing that is published is taken over.
    """

    definition: Definition
    published: Mapping[Values, str]
    partitions: tuple[int, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Build:
    """A build as it is planned: its indexes, the partitions that it looks at, and what it does for each such pair."""

    base: Table
    found: tuple[Source, ...]
    scopes: tuple[Scope, ...]
    changes: tuple[Change, ...]

    def changes_of(self, index: int) -> list[Change]:
        """What becomes of the partitions of one index, by its number."""
        return [change for change in self.changes if change.index == index]

    def gone(self, index: int) -> list[Values]:
        """The partitions of an index that the table, or what the index covers of it, has no more."""
        scope = self.scopes[index]
        there = {self.found[number].values for number in scope.partitions}
        return [values for values in scope.published if values not in there]


def creation(spark: SparkSession, base: Table, definitions: Sequence[Definition]) -> Build:
    """The build of new indexes."""
    empty = [Scope(definition, {}) for definition in definitions]
    return _build(spark, base, empty, base_files.partitions(spark, base), compact=False)


def refreshing(
    spark: SparkSession, table: str, names: Sequence[str], partition: Spec | None, full: bool, compact: bool
) -> Build:
    """The rebuild of existing indexes: of all, or those named. Raises NotFound, and Unsupported for changed columns."""
    base, indexes = catalog.table_and_indexes(spark, table)
    wanted = [catalog.named(base, indexes, name) for name in dict.fromkeys(map(str.lower, names))] if names else indexes
    if not wanted:
        raise NotFound(f"table {base.full_name} has no index to rebuild")
    found = base_files.partitions(spark, base)
    states = [catalog.states(spark, index) for index in wanted]
    known = dict.fromkeys([one.values for one in found] + [values for state in states for values in state])
    chosen = set(base_files.matching(base, partition, list(known)))
    scopes = []
    for index, state in zip(wanted, states, strict=True):
        catalog.require_same_table(base, index)
        definition = index.definition if partition else index.definition.renewed()
        published = {values: folder for values, folder in state.items() if values in chosen}
        scopes.append(Scope(definition, published, full=full or definition != index.definition))
    return _build(spark, base, scopes, [one for one in found if one.values in chosen], compact)


def _build(
    spark: SparkSession, base: Table, scopes: Sequence[Scope], partitions: Sequence[table_info.Partition], compact: bool
) -> Build:
    values = [one.values for one in partitions]
    covers = [covered(spark, base, scope.definition.where, values) for scope in scopes]
    needed = [number for number in range(len(values)) if any(flags[number] for flags in covers)]
    found = base_files.list_files(base, [partitions[number] for number in needed])
    placed = [
        replace(scope, partitions=tuple(place for place, number in enumerate(needed) if flags[number]))
        for scope, flags in zip(scopes, covers, strict=True)
    ]
    crc = schema_crc(base.columns, metastore.time_zone(spark), serde.reading(base))
    target = shard_bytes(spark, (file for source in found for file in source.files))
    return Build(base, tuple(found), tuple(placed), tuple(_changes(base, placed, found, crc, target, compact)))


def _changes(
    base: Table, scopes: Sequence[Scope], found: Sequence[Source], crc: int, target: int, compact: bool
) -> list[Change]:
    name = generation.new_name()
    manifest.read.cache_clear()  # what was damaged after this process had read it would be taken over
    checksums.of_generation.cache_clear()

    def change(place: tuple[int, int]) -> Change:
        scope, source = scopes[place[0]], found[place[1]]
        folder = f"{catalog.generation_parent(base, scope.definition, source.values)}/{name}"
        held = None if scope.full else _held(scope.published.get(source.values), scope.definition)
        what = anew(source.files)
        if held is not None:
            plain = scope.definition.type == "BITMAP" and scope.definition.encoding == "plain"
            what = refresh(held, _present(held.folder), source.files, crc, target, compact, plain)
        return Change(*place, scope.definition, source, held, what, folder)

    return each(change, [(index, number) for index, scope in enumerate(scopes) for number in scope.partitions])


def _held(folder: str | None, definition: Definition) -> Manifest | None:
    """What a generation says of itself; None where it is damaged, gone or none of this index."""
    if folder is None or not generation.is_of(folder, definition):
        return None
    try:
        return manifest.read(folder)
    except CorruptIndex as e:
        log.warning("the index is built anew where it is damaged: %s", e)
        return None


def _present(folder: str) -> dict[str, int]:
    """The files of a generation and of its hidden folder, with their sizes."""
    try:
        found = [*stores.listing(folder).files, *stores.listing(f"{folder}/{checksums.FOLDER}").files]
    except FileNotFoundError:
        return {}
    return {file.path: file.size for file in found}
