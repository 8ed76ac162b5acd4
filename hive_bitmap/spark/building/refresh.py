"""Planning the rebuild of one partition of an index, by pure functions that read and write nothing.

A base file that matches its fingerprint in the manifest is kept, with its index rows, or with the reason why it is not
indexed, as the same bytes would give the same reason. Every other file is read. A shard all of whose files are kept is
linked unchanged. A shard that also holds rows of changed or deleted files is rewritten without them, because SQL users
of the index table would see these rows. Small shards are merged on request, or if there are many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.manifest import DAMAGED, FILES, UNBUILT, Manifest
from hive_bitmap.core.index.shard import ROW_BYTES, cardinalities_path
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.spark.building.group_indexing import SHARD_BYTES
from hive_bitmap.spark.metastore.file_listing import is_visible

Flags = npt.NDArray[np.bool_]
MANY_SHARDS = 16  # small shards of a partition that are not merged: a lookup opens each, but merging costs more
COMPRESSION = 4  # rough ratio of bitmaps in memory to a shard on disk; for plain bitmaps it is unlimited


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """The plan for one partition of an index.

    `files` are the rows of its manifest that are kept (schema FILES), `read` the base files to index, `why` the reason
    for each of them. Of its shards,
    those in `linked` are kept unchanged, each item of `rewritten` is rewritten into one new shard, and others are
    dropped. If it is `up_to_date`, no new generation is needed.
    """

    files: pa.Table
    read: tuple[FileStatus, ...]
    why: tuple[str, ...]
    linked: tuple[str, ...]
    rewritten: tuple[tuple[str, ...], ...]
    up_to_date: bool

    def rows_of(self, shards: Collection[str]) -> pa.Table:
        """Return the rows of `files` that are in these shards."""
        return self.files.filter(pc.is_in(self.files["shard"], value_set=pa.array(shards, pa.string())))

    @property
    def untouched(self) -> pa.Table:
        """The rows of `files` that go into the new manifest unchanged: in linked shards, or not indexed."""
        rewritten = pa.array(chain.from_iterable(self.rewritten), pa.string())
        return self.files.filter(pc.invert(pc.is_in(self.files["shard"], value_set=rewritten)))


def from_scratch(found: Sequence[FileStatus], why: str = UNBUILT) -> Refresh:
    """Return a plan that keeps nothing and indexes these files, for this reason."""
    whys = (why,) * len(found)
    return Refresh(files=FILES.empty_table(), read=tuple(found), why=whys, linked=(), rewritten=(), up_to_date=False)


def refresh(
    published: Manifest,
    present: Mapping[str, int],
    found: Sequence[FileStatus],
    schemas: Collection[int] | None,
    schema_crc: int,
    shard_bytes: int,
    compact: bool = False,
    plain: bool = False,
) -> Refresh:
    """Plan how to bring a partition up to date whose generation has the manifest `published`.

    `present` maps the paths in the generation's folder and its hidden folder to sizes; `found` are the base files.
    A file that was indexed under none of `schemas` (`definition.valid_schemas`) is read again, and so is one that could
    not be indexed under another `schema_crc` than that of the base table now. Shards should cover
    about `shard_bytes` of base files; smaller ones are merged with `compact`, or if there are more than MANY_SHARDS.
    `plain` says that bitmaps have the plain encoding, whose size in memory is not proportional to the stored size.
    """
    intact = _intact(published, present)
    kept = np.zeros(published.files.num_rows, bool)
    read: dict[FileStatus, str] = {}
    for file in found:
        row, why = published.row_of.get(file.path), published.why_read(file, schemas, schema_crc)
        if row is not None and not why and published.shard_of[row] not in (None, *intact):
            why = DAMAGED
        if why or row is None:
            read[file] = why
        else:
            kept[row] = True
    linked, rewritten = _shards(published, kept, shard_bytes, compact, plain)
    split = (path.rpartition("/") for path in present)
    visible = {name for folder, _, name in split if folder == published.folder and is_visible(name)}
    only_ours = visible == set(linked)  # SQL users would see the rows of a file that somebody else added
    up_to_date = not read and not rewritten and bool(kept.all()) and only_ours
    return Refresh(
        files=published.files.filter(pa.array(kept)),
        read=tuple(read),
        why=tuple(read.values()),
        linked=linked,
        rewritten=rewritten,
        up_to_date=up_to_date,
    )


def _intact(published: Manifest, present: Mapping[str, int]) -> set[str]:
    """Return the shards that exist with their recorded size, and whose cardinalities do too."""
    names, sizes, counted = (published.shards[name].to_pylist() for name in ("shard", "size", "cardinality_size"))
    return {
        name
        for name, size, beside in zip(names, sizes, counted, strict=True)
        if present.get(published.shard_path(name)) == size
        and (not beside or present.get(cardinalities_path(published.shard_path(name))) == beside)
    }


def _shards(
    published: Manifest, kept: Flags, shard_bytes: int, compact: bool, plain: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the shards to link, and groups of shards to rewrite, each into one new shard.

    `kept` says for each row of the manifest's files whether it is kept.
    """
    names: list[str] = published.shards["shard"].to_pylist()
    shard_of = pc.index_in(published.files["shard"], value_set=published.shards["shard"])
    shard_of = shard_of.fill_null(len(names)).to_numpy()  # len(names) for files that are not indexed
    files = np.bincount(shard_of, minlength=len(names) + 1)[: len(names)]
    kept_files = np.bincount(shard_of[kept], minlength=len(names) + 1)[: len(names)]
    kept_sizes = np.where(kept, published.files["size"].to_numpy(), 0)
    kept_bytes = np.bincount(shard_of, kept_sizes, len(names) + 1)[: len(names)]
    fill = np.maximum(kept_bytes / shard_bytes, _memory(published, plain) / SHARD_BYTES)  # 1: a full shard
    small = np.flatnonzero((kept_files > 0) & (fill < 1 / 2))
    first = np.full(len(names) + 1, len(shard_of))  # the first file of each shard, by which neighbours are found
    np.minimum.at(first, shard_of, np.arange(len(shard_of)))
    merged = _merges(small[np.argsort(first[small])], fill) if compact or len(small) > MANY_SHARDS else []
    others = np.setdiff1d(np.flatnonzero(kept_files), [shard for some in merged for shard in some]).tolist()
    linked = tuple(names[shard] for shard in others if kept_files[shard] == files[shard])
    alone = [[shard] for shard in others if kept_files[shard] < files[shard]]
    return linked, tuple(tuple(names[shard] for shard in some) for some in [*merged, *alone])


def _memory(published: Manifest, plain: bool) -> npt.NDArray[np.float64]:
    """Estimate the bytes of each shard in memory; like a build, a merge should write no more than SHARD_BYTES."""
    path = pc.max(pc.binary_length(published.files["path"])).as_py() or 0
    bitmap = (pc.mean(pc.list_flatten(published.files["rows"])).as_py() or 0) / 8 if plain else 0
    stored, rows = (published.shards[name].to_numpy() for name in ("size", "rows"))
    memory: npt.NDArray[np.float64] = stored * COMPRESSION + rows * (ROW_BYTES + path + bitmap)
    return memory


def _merges(small: npt.NDArray[np.int64], fill: npt.NDArray[np.float64]) -> list[list[int]]:
    """Return groups of neighbouring small shards that together fill no more than one shard.

    A shard without such a neighbour is in no group. Each group but the last fills more than half a shard, so that its
    result is rarely merged again.
    """
    merges: list[list[int]] = [[]]
    filled = 0.0
    for shard in small.tolist():
        if filled + fill[shard] > 1:
            merges.append([])
            filled = 0.0
        merges[-1].append(shard)
        filled += fill[shard]
    return [some for some in merges if len(some) > 1]
