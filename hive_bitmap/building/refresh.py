"""What a rebuild has to do for one partition of an index: values in, values out; nothing is read or written here.

A base file that is as the manifest has it stays, and its rows with it; so does the reason why it is not indexed, for
the same bytes would give the same reason. Every other file that is there is read. A shard all of whose files stay is
taken over as it is; one that also holds rows of files that changed or vanished is written anew from itself without
them, for SQL users see all of its rows; small ones are merged, where that is asked for or there are many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.building.group_indexing import SHARD_BYTES
from hive_bitmap.index.manifest import FILES, Manifest
from hive_bitmap.index.shard import ROW_BYTES, cardinalities_path
from hive_bitmap.metastore.file_listing import is_visible
from hive_bitmap.stores import FileStatus

Flags = npt.NDArray[np.bool_]
MANY_SHARDS = 16  # small ones of a partition: a lookup opens each of them, a merge in each refresh would cost more
COMPRESSION = 4  # of bitmaps in a shard, about; of plain ones it has no limit


@dataclass(frozen=True)
class Refresh:
    """What becomes of one partition of an index.

    `files` are the rows of its manifest that stay (schema FILES), `read` the base files to index. Of its shards,
    `linked` are taken over, and each item of `carried` is written anew as one; others go. An `idle` one stays as it is.
    """

    files: pa.Table
    read: tuple[FileStatus, ...]
    linked: tuple[str, ...]
    carried: tuple[tuple[str, ...], ...]
    idle: bool

    def rows_of(self, shards: Collection[str]) -> pa.Table:
        """Those of `files` that these shards hold."""
        return self.files.filter(pc.is_in(self.files["shard"], value_set=pa.array(shards, pa.string())))

    @property
    def untouched(self) -> pa.Table:
        """Those of `files` of which nothing changes: they are in linked shards, or not indexed."""
        carried = pa.array(chain.from_iterable(self.carried), pa.string())
        return self.files.filter(pc.invert(pc.is_in(self.files["shard"], value_set=carried)))


def anew(found: Sequence[FileStatus]) -> Refresh:
    """Nothing stays, and these files are indexed."""
    return Refresh(FILES.empty_table(), tuple(found), (), (), False)


def refresh(
    held: Manifest,
    present: Mapping[str, int],
    found: Sequence[FileStatus],
    schema_crc: int,
    shard_bytes: int,
    compact: bool = False,
    plain: bool = False,
) -> Refresh:
    """What brings a partition up to date whose generation has this manifest.

    `present` are the paths in the generation's folder and in its hidden one, with sizes, and `found` the base files.
    `schema_crc` tells the base table's columns: a file that was indexed under others is read again. Shards cover about
    `shard_bytes` of base files; smaller ones are merged with `compact`, or where there are more than MANY_SHARDS.
    `plain` tells that bitmaps are stored as they are, so that their stored size does not tell what they take in memory.
    """
    whole = _whole(held, present)
    same_schema = pc.equal(held.files["schema_crc"], schema_crc).to_pylist()
    stays = np.zeros(held.files.num_rows, bool)
    read = []
    for file in found:
        row = held.row_of.get(file.path)
        known = row is not None and same_schema[row] and held.fingerprints[row].matches(file)
        if row is not None and known and (held.shard_of[row] is None or held.shard_of[row] in whole):
            stays[row] = True
        else:
            read.append(file)
    linked, carried = _shards(held, stays, shard_bytes, compact, plain)
    places = (path.rpartition("/") for path in present)
    visible = {name for folder, _, name in places if folder == held.folder and is_visible(name)}
    as_said = visible == set(linked)  # without files of strangers, whose rows SQL users would see
    idle = not read and not carried and bool(stays.all()) and as_said
    return Refresh(held.files.filter(pa.array(stays)), tuple(read), linked, carried, idle)


def _whole(held: Manifest, present: Mapping[str, int]) -> set[str]:
    """The shards that are there with all their bytes, and their cardinalities with them."""
    names, sizes, counted = (held.shards[name].to_pylist() for name in ("shard", "size", "cardinality_size"))
    return {
        name
        for name, size, beside in zip(names, sizes, counted, strict=True)
        if present.get(held.shard_path(name)) == size
        and (not beside or present.get(cardinalities_path(held.shard_path(name))) == beside)
    }


def _shards(
    held: Manifest, stays: Flags, shard_bytes: int, compact: bool, plain: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The shards to take over, and those to write anew, together where they are merged."""
    names: list[str] = held.shards["shard"].to_pylist()
    of = pc.index_in(held.files["shard"], value_set=held.shards["shard"]).fill_null(len(names)).to_numpy()
    rows, staying = (np.bincount(some, minlength=len(names) + 1)[: len(names)] for some in (of, of[stays]))
    base = np.bincount(of, np.where(stays, held.files["size"].to_numpy(), 0), len(names) + 1)[: len(names)]
    share = np.maximum(base / shard_bytes, _memory(held, plain) / SHARD_BYTES)
    small = np.flatnonzero((staying > 0) & (share < 1 / 2))
    first = np.full(len(names) + 1, len(of))
    np.minimum.at(first, of, np.arange(len(of)))
    merged = _merges(small[np.argsort(first[small])], share) if compact or len(small) > MANY_SHARDS else []
    left = np.setdiff1d(np.flatnonzero(staying), [shard for some in merged for shard in some]).tolist()
    linked = tuple(names[shard] for shard in left if staying[shard] == rows[shard])
    alone = [[shard] for shard in left if staying[shard] < rows[shard]]
    return linked, tuple(tuple(names[shard] for shard in some) for some in [*merged, *alone])


def _memory(held: Manifest, plain: bool) -> npt.NDArray[np.float64]:
    """About the bytes that each shard takes when it is read: a build, or a merge, writes no more than SHARD_BYTES."""
    path = pc.max(pc.binary_length(held.files["path"])).as_py() or 0
    bitmap = (pc.mean(pc.list_flatten(held.files["rows"])).as_py() or 0) / 8 if plain else 0
    stored, rows = (held.shards[name].to_numpy() for name in ("size", "rows"))
    memory: npt.NDArray[np.float64] = stored * COMPRESSION + rows * (ROW_BYTES + path + bitmap)
    return memory


def _merges(small: npt.NDArray[np.int64], share: npt.NDArray[np.float64]) -> list[list[int]]:
    """Neighbours that together fill no more than one shard; one that finds no company is left out.

    Two that are left beside each other would fit together, so what was merged is not merged again in vain.
    """
    merges: list[list[int]] = [[]]
    filled = 0.0
    for shard in small.tolist():
        if filled + share[shard] > 1:
            merges.append([])
            filled = 0.0
        merges[-1].append(shard)
        filled += share[shard]
    return [some for some in merges if len(some) > 1]
