"""One partition of one index in a build, from its plan to its manifest.

A partition that is up to date keeps its generation. Any other gets a new one: unchanged shards are linked or copied
into it, tasks write the others, and the new manifest lists both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, generation, manifest
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import SHARDS, Manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import Access
from hive_bitmap.spark.building.group_indexing import ShardReport
from hive_bitmap.spark.building.refresh import Refresh
from hive_bitmap.spark.metastore.base_files import Source


@dataclass(frozen=True, kw_only=True)
class Change:
    """The plan for one partition of one index.

    `index` and `partition` are numbers in the build. `published` is the published manifest; None if there is none, if
    it cannot be read, or if nothing of it is to be kept. `folder` is the new generation, unless the partition is up to
    date. `moved_from` is the folder in which the base files lay when the published generation was built, if that is
    another one than now; else "".
    """

    index: int
    partition: int
    definition: Definition
    source: Source
    published: Manifest | None
    refresh: Refresh
    folder: str
    moved_from: str = ""

    @property
    def generation(self) -> str:
        """The folder of the generation that is published after the build."""
        return self.published.folder if self.published is not None and self.refresh.up_to_date else self.folder


@dataclass(frozen=True)
class Content:
    """The manifest of a generation after the build, as its two tables (schemas FILES and SHARDS)."""

    files: pa.Table
    shards: pa.Table


def start(changes: Sequence[Change]) -> None:
    """Create the new generations, and link or copy the unchanged shards into them.

    Raise OSError, a FileExistsError if somebody else has made a folder in one of them, and StoreError.
    """
    accesses = generation.accesses([(change.source.folder, change.definition.root) for change in changes])
    map_parallel(lambda pair: _start(*pair), zip(changes, accesses, strict=True))


def _start(change: Change, access: Access | None) -> None:
    linked = () if change.published is None else change.refresh.linked
    generation.start(change.folder, access, change.definition, linked)
    if change.published is None or not linked:
        return
    links = [(change.published.shard_path(shard), f"{change.folder}/{shard}") for shard in linked]
    if change.definition.has_bitmaps:
        links += [(cardinalities_path(before), cardinalities_path(after)) for before, after in links]
    map_parallel(lambda link: stores.link_or_copy(*link), links, stores.parallel(change.folder))


def finish(changes: Sequence[Change], reports: Sequence[ShardReport]) -> list[Content]:
    """Write the manifests of the new generations; return the content of each change, also if it was up to date."""
    by_change: dict[tuple[int, int], list[ShardReport]] = defaultdict(list)
    for report in reports:
        by_change[report.index, report.partition].append(report)
    return map_parallel(lambda change: _finish(change, by_change[change.index, change.partition]), changes)


def _finish(change: Change, reports: Sequence[ShardReport]) -> Content:
    published = change.published
    if published is not None and change.refresh.up_to_date:
        return Content(published.files, published.shards)
    rows = [
        {"shard": r.shard, "size": r.written.size, "rows": r.shard_rows, "cardinality_size": r.written.cardinality_size}
        for r in reports
        if r.shard
    ]
    files = pa.concat_tables([change.refresh.untouched, *(report.files for report in reports)])
    shards = pa.Table.from_pylist(rows, SHARDS)
    sums: dict[str, Sequence[int]] = {name: found for report in reports for name, found in report.written.sums.items()}
    if published is not None:
        linked = pc.is_in(published.shards["shard"], value_set=pa.array(change.refresh.linked, pa.string()))
        shards = pa.concat_tables([published.shards.filter(linked), shards])
        sums |= _sums(published, change.refresh.linked)
    manifest.write(change.folder, [files], shards, sums)
    return Content(files, shards)


def _sums(published: Manifest, shards: Sequence[str]) -> dict[str, Sequence[int]]:
    """Return the checksums of these shards and of their cardinalities, by file name."""
    known = checksums.read(published.folder)
    beside = (cardinalities_path(published.shard_path(shard)).rpartition("/")[2] for shard in shards)
    return {name: known[name] for name in (*shards, *beside) if name in known}
