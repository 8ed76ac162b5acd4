"""One partition of one index in a build, from its plan to its manifest.

A partition that is up to date keeps its generation. Any other gets a new one: shards that stay are linked, what tasks
wrote is added, and the manifest names both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap import stores
from hive_bitmap.building.group_indexing import ShardReport
from hive_bitmap.building.refresh import Refresh
from hive_bitmap.index import checksums, generation, manifest
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.manifest import SHARDS, Manifest
from hive_bitmap.index.shard import cardinalities_path
from hive_bitmap.metastore.base_files import Source
from hive_bitmap.parallel import each


@dataclass(frozen=True)
class Change:
    """One partition of one index: what is published, if it can be read, what becomes of it, and the new generation.

    `index` and `partition` are numbers in the build.
    """

    index: int
    partition: int
    definition: Definition
    source: Source
    held: Manifest | None
    refresh: Refresh
    folder: str

    @property
    def live(self) -> str:
        """The generation that is published after the build."""
        return self.held.folder if self.held is not None and self.refresh.idle else self.folder


@dataclass(frozen=True)
class Content:
    """What a generation holds after the build: the tables of its manifest (schemas FILES and SHARDS)."""

    files: pa.Table
    shards: pa.Table


def start(change: Change) -> None:
    """Make the new generation, with the shards that stay."""
    generation.start(change.folder, change.source.folder, change.definition)
    if change.held is None or not change.refresh.linked:
        return
    stores.make_folder(f"{change.folder}/{checksums.FOLDER}")
    links = [(change.held.shard_path(shard), f"{change.folder}/{shard}") for shard in change.refresh.linked]
    if change.definition.type == "BITMAP":
        links += [(cardinalities_path(before), cardinalities_path(after)) for before, after in links]
    each(lambda link: stores.link_or_copy(*link), links, stores.parallel(change.folder))


def finish(changes: Sequence[Change], reports: Sequence[ShardReport]) -> list[Content]:
    """Write the manifests of the new generations; returns what each generation holds, those of idle partitions too."""
    made: dict[tuple[int, int], list[ShardReport]] = defaultdict(list)
    for report in reports:
        made[report.index, report.partition].append(report)
    return each(lambda change: _finish(change, made[change.index, change.partition]), changes)


def _finish(change: Change, reports: Sequence[ShardReport]) -> Content:
    held = change.held
    if held is not None and change.refresh.idle:
        return Content(held.files, held.shards)
    rows = [
        {"shard": r.shard, "size": r.written.size, "rows": r.shard_rows, "cardinality_size": r.written.cardinality_size}
        for r in reports
        if r.shard
    ]
    files = pa.concat_tables([change.refresh.untouched, *(report.files for report in reports)])
    shards = pa.Table.from_pylist(rows, SHARDS)
    sums: dict[str, Sequence[int]] = {name: found for report in reports for name, found in report.written.sums.items()}
    if held is not None:
        linked = pa.array(change.refresh.linked, pa.string())
        shards = pa.concat_tables([held.shards.filter(pc.is_in(held.shards["shard"], value_set=linked)), shards])
        sums |= _sums(held, change.refresh.linked)
    manifest.write(change.folder, [files], shards, sums)
    return Content(files, shards)


def _sums(held: Manifest, shards: Sequence[str]) -> dict[str, Sequence[int]]:
    """The checksums of these shards, and of their cardinalities."""
    known = checksums.read(held.folder)
    beside = (cardinalities_path(held.shard_path(shard)).rpartition("/")[2] for shard in shards)
    return {name: known[name] for name in (*shards, *beside) if name in known}
