"""Make a new segment of an index, from plan to manifest.

Unchanged shards of the replaced segments are linked or copied into the new segment. Tasks write all further shards of
the new segment. The manifest of the new segment lists all of its shards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, deletion, generation, manifest
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import FILES, SHARDS, Manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.indexing.group_indexing import ShardReport
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.segments.segment_plan import NewSegment
from hive_bitmap.core.stores import Access, FileStatus
from hive_bitmap.core.table_info import Values


@dataclass(frozen=True)
class BaseFile:
    """A listed base file, and the values of its partition."""

    values: Values
    status: FileStatus


@dataclass(frozen=True, kw_only=True)
class Change:
    """A new segment of an index, and its planned contents.

    `segment` says which shards are taken over, and which base files are indexed.
    """

    index: int  # the number of the index in the build
    definition: Definition
    segment: NewSegment
    folder: str  # the folder of the new segment
    read: tuple[BaseFile, ...]  # the base files to index
    shards: pa.Table = field(default_factory=SHARDS.empty_table)  # published shards that may be taken over, with paths
    access: Access | None = None  # the permissions of the folder; None if its store has none
    moved: Mapping[str, str] = field(default_factory=dict)  # current path of a moved file -> its path in shards

    @property
    def sizes(self) -> dict[str, int]:
        """The size in bytes of each shard in `shards`, by path."""
        return dict(zip(self.shards["shard"].to_pylist(), self.shards["size"].to_pylist(), strict=True))


def start(changes: Sequence[Change]) -> None:
    """Create the new segments of changes, and link or copy unchanged shards.

    The unchanged shards of a change are linked or copied into its new segment. Raise OSError or StoreError;
    FileExistsError if another process has created one of the folders.
    """
    map_parallel(_start, changes)


def _start(change: Change) -> None:
    linked = [shard.rpartition("/")[2] for shard in change.segment.linked]
    generation.start(change.folder, change.access, change.definition, linked)
    links = [(shard, f"{change.folder}/{name}") for shard, name in zip(change.segment.linked, linked, strict=True)]
    if change.definition.has_bitmaps:
        links += [(cardinalities_path(before), cardinalities_path(after)) for before, after in links]
    map_parallel(lambda link: stores.link_or_copy(*link), links, stores.parallel(change.folder))


def finish(changes: Sequence[Change], reports: Sequence[ShardReport]) -> list[Manifest]:
    """Write and return the manifests of the new segments.

    There is a manifest for each of `changes`, made from the reports of the tasks.
    """
    by_change: dict[int, list[ShardReport]] = defaultdict(list)
    for report in reports:
        by_change[report.index].append(report)
    return map_parallel(lambda pair: _finish(pair[1], by_change[pair[0]]), enumerate(changes))


def _finish(change: Change, reports: Sequence[ShardReport]) -> Manifest:
    rows = [
        {"shard": r.shard, "size": r.written.size, "rows": r.shard_rows, "cardinality_size": r.written.cardinality_size}
        for r in reports
        if r.shard
    ]
    linked = pa.array(change.segment.linked, pa.string())
    linked_shards = change.shards.filter(pc.is_in(change.shards["shard"], value_set=linked))
    taken_over = Manifest("", change.segment.untouched, linked_shards).named()
    files = pa.concat_tables([FILES.empty_table(), taken_over.files, *(report.files for report in reports)])
    shards = pa.concat_tables([taken_over.shards, pa.Table.from_pylist(rows, SHARDS)])
    sums: dict[str, Sequence[int]] = {name: crcs for report in reports for name, crcs in report.written.sums.items()}
    deletion.delete_abandoned(change.folder, change.definition.root, shards["shard"].to_pylist())
    manifest.write(change.folder, [files], shards, {**_sums(change.segment.linked), **sums})
    return Manifest(change.folder, files, shards)


def _sums(shards: Sequence[str]) -> dict[str, Sequence[int]]:
    """Return the recorded checksums of shards and of their cardinality files.

    `shards` has the paths of the shards. The result maps the name of each file to its checksums (see `checksums`).
    Files without recorded checksums are missing.
    """
    sums: dict[str, Sequence[int]] = {}
    for shard in shards:
        folder, _, name = shard.rpartition("/")
        of_folder = checksums.read(folder)
        sums |= {
            file: of_folder[file] for file in (name, cardinalities_path(shard).rpartition("/")[2]) if file in of_folder
        }
    return sums
