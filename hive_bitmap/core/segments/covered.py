"""Compare the base files in the segments of an index with a listing.

A listed file is covered if a segment's manifest has its partition values, path and fingerprint. Only arrays grow with
the number of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.manifest import FILES, SHARDS, Manifest, valid_rows
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Values

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Listing:
    """Base files as they were listed.

    `partitions` has the values of each partition. `partition` has the position in `partitions` of each file's
    partition.
    """

    partitions: tuple[Values, ...]
    partition: Longs
    files: tuple[FileStatus, ...]

    @classmethod
    def of(cls, partitions: Iterable[tuple[Values, Sequence[FileStatus]]]) -> Listing:
        """Create a listing of partitions, each given by its values and files."""
        listed = [(values, tuple(files)) for values, files in partitions]
        numbers = np.repeat(np.arange(len(listed)), [len(files) for _, files in listed])
        return cls(tuple(values for values, _ in listed), numbers, tuple(file for _, files in listed for file in files))

    @cached_property
    def paths(self) -> pa.Array:
        return pa.array([file.path for file in self.files], pa.string())

    @cached_property
    def sizes(self) -> Longs:
        return np.array([file.size for file in self.files], np.int64)

    @cached_property
    def times(self) -> Longs:
        return np.array([file.mtime_ms for file in self.files], np.int64)

    @cached_property
    def etags(self) -> pa.Array:
        return pa.array([file.etag for file in self.files], pa.string())


@dataclass(frozen=True)
class Covered:
    """The joined manifests of an index's segments.

    `segments` has the folders of the segments, the oldest first. `files` and `shards` have the schemas FILES and
    SHARDS, and contain the paths of shards, not only their names. `segment` has the position in `segments` of the
    segment of each row of `files`, and `shard_segment` has the same for each row of `shards`.
    """

    segments: tuple[str, ...]
    files: pa.Table
    shards: pa.Table
    segment: Longs
    shard_segment: Longs

    @classmethod
    def by(cls, manifests: Sequence[Manifest]) -> Covered:
        """Join the manifests of segments, given with the oldest segment first."""
        located = [manifest.located() for manifest in manifests]
        return cls(
            tuple(manifest.folder for manifest in manifests),
            pa.concat_tables([FILES.empty_table(), *(manifest.files for manifest in located)]).combine_chunks(),
            pa.concat_tables([SHARDS.empty_table(), *(manifest.shards for manifest in located)]).combine_chunks(),
            np.repeat(np.arange(len(located)), [manifest.files.num_rows for manifest in located]),
            np.repeat(np.arange(len(located)), [manifest.shards.num_rows for manifest in located]),
        )

    @property
    def nbytes(self) -> int:
        """The approximate bytes of the computed arrays, without the manifests."""
        return int(self.files.num_rows * 100 + self.files["path"].nbytes + 200 * self.shards.num_rows)

    @cached_property
    def _numbered(self) -> tuple[tuple[Values, ...], Longs]:
        return numbered(self.files["values"])

    @property
    def partitions(self) -> tuple[Values, ...]:
        """The values of all partitions with covered files."""
        return self._numbered[0]

    @property
    def partition(self) -> Longs:
        """The position in `partitions` of the partition of each row of `files`."""
        return self._numbered[1]

    @cached_property
    def numbers(self) -> dict[Values, int]:
        """The position in `partitions` of each partition, by its values."""
        return {values: number for number, values in enumerate(self.partitions)}

    @cached_property
    def key(self) -> Longs:
        """A number for each row of `files`, equal for the same path and partition."""
        return self.path_numbers.astype(np.int64) * max(len(self.partitions), 1) + self.partition

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        encoded = pc.dictionary_encode(self.files["path"])
        return encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded

    @property
    def path_numbers(self) -> Longs:
        """A number for each row of `files`, equal for the same path."""
        codes: Longs = self._encoded.indices.to_numpy(zero_copy_only=False)
        return codes

    @cached_property
    def _order(self) -> Longs:
        return np.argsort(self.key, kind="stable")

    @cached_property
    def shard_of(self) -> Longs:
        """The position in `shards` of the shard of each row of `files`.

        The position is -1 for a file that is not indexed.
        """
        rows = pc.index_in(self.files["shard"], value_set=self.shards["shard"])
        numbers: Longs = rows.fill_null(-1).to_numpy().astype(np.int64)
        return numbers

    @cached_property
    def has_spark_only(self) -> Flags:
        """Whether each file of `files` has columns that only Spark may read."""
        flags: Flags = pc.greater(pc.list_value_length(self.files["indirect"]), 0).fill_null(False).to_numpy()
        return flags.astype(bool)

    @cached_property
    def rows(self) -> Longs:
        """The number of rows of each base file in `files`."""
        return sums(self.files["rows"])

    def valid(self, schemas: Collection[int] | None) -> Flags:
        """Return for each row of `files` whether its `schema_crc` is still valid.

        `schemas` are the valid checksums (`definition.valid_schemas`); None means that all checksums are valid.
        """
        return valid_rows(self.files, schemas)

    def candidates(self, listing: Listing, numbers: Longs) -> list[Longs]:
        """Find the rows of `files` for each listed file.

        These rows have the path and the partition of the listed file. `numbers` has the position of each listed
        partition in the `partitions` of this object, or -1 if no file of the partition is covered. The result is a list
        of arrays. Each array has a row number of `files`, or -1, for each listed file. A file has several rows if
        several segments cover it: the first array has the row of the oldest segment, the next array the row of the next
        segment, and so on.
        """
        codes = pc.index_in(listing.paths, value_set=self._encoded.dictionary).fill_null(-1).to_numpy()
        place = numbers[listing.partition] if len(numbers) else np.full(len(listing.files), -1)
        key = np.where((codes >= 0) & (place >= 0), codes.astype(np.int64) * max(len(self.partitions), 1) + place, -1)
        ordered = self.key[self._order]
        first, end = (np.searchsorted(ordered, key, side) for side in ("left", "right"))
        depth = int((end - first).max(initial=0))
        padded = np.append(self._order, -1)
        return [
            np.where(first + at < end, padded[np.minimum(first + at, len(self._order))], -1) for at in range(depth or 1)
        ]

    def matches(self, listing: Listing, rows: Longs) -> Flags:
        """Return for each listed file whether its row in `files` has the listed fingerprint.

        `rows` has the position in `files` of each listed file's row; -1 for a listed file without a row, for which the
        result is false. If the listing has no tags, size and time decide.
        """
        if not self.files.num_rows:
            return np.zeros(len(listing.files), bool)
        indexed = self.files.select(["size", "mtime_ms", "etag"]).take(pa.array(np.maximum(rows, 0)))
        return (rows >= 0) & fingerprint.matching(indexed, listing.sizes, listing.times, listing.etags)

    def paths_in(self, folders: Mapping[Values, str]) -> list[str | None]:
        """Return the path of each file in the current folder of its partition.

        The path is computed as if each file had moved with its partition. `folders` has the current folders of
        partitions. The path is None if `folders` lacks the partition.
        """
        values = [self.partitions[number] for number in self.partition.tolist()]
        return [
            f"{folders[partition]}/{path.rpartition('/')[2]}" if partition in folders else None
            for path, partition in zip(self.files["path"].to_pylist(), values, strict=True)
        ]

    def moved_to(self, folders: Mapping[Values, str]) -> tuple[Covered, dict[str, str]]:
        """Return the files with paths in their partitions' current folders.

        `folders` has the current folders of partitions. The second result maps the new path of each moved file to its
        former path. If no path changes, this object is returned unchanged. Otherwise, rows are left out if `folders`
        lacks their partition, if two files would get the same path, or if a file would get two paths.
        """
        paths: list[str] = self.files["path"].to_pylist()
        new_paths = self.paths_in(folders)
        pairs = {(old, new) for old, new in zip(paths, new_paths, strict=True) if new is not None}
        if all(old == new for old, new in pairs):
            return self, {}
        olds, news = Counter(old for old, _ in pairs), Counter(new for _, new in pairs)
        is_unique = [
            new is not None and olds[old] == 1 and news[new] == 1 for old, new in zip(paths, new_paths, strict=True)
        ]
        unique_rows = np.array(is_unique, bool)
        files = self.files.filter(pa.array(unique_rows))
        at = files.schema.get_field_index("path")
        moved = pa.array([new for new, is_kept in zip(new_paths, is_unique, strict=True) if is_kept], pa.string())
        return (
            replace(self, files=files.set_column(at, files.schema.field(at), moved), segment=self.segment[unique_rows]),
            {new: old for old, new in pairs if old != new and olds[old] == 1 and news[new] == 1},
        )

    def after_another(self, rows: Flags) -> Flags:
        """Return which of the flagged rows repeat a file of an older segment.

        `rows` flags rows of `files`. A flagged row repeats a file if a flagged row in an older segment has the same
        path and partition.
        """
        ordered, flagged = self.key[self._order], rows[self._order].astype(np.int64)
        before = np.cumsum(flagged) - flagged
        first = np.searchsorted(ordered, ordered, "left")
        repeats = np.zeros(len(rows), bool)
        repeats[self._order] = before > before[first]
        return repeats & rows


def numbered(values: pa.ChunkedArray) -> tuple[tuple[Values, ...], Longs]:
    """Number the distinct items of a column of partition values.

    Return the distinct items, and the number of each row's item.

    >>> numbered(pa.chunked_array([[["1", None], ["2", "x"], ["1", None]]]))
    ((('1', None), ('2', 'x')), array([0, 1, 0]))
    """
    lists = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    count = len(lists)
    width = (pc.max(pc.list_value_length(lists)).as_py() or 0) if count else 0
    if not width:
        return (((),) if count else ()), np.zeros(count, np.int64)
    codes, texts = np.zeros(count, np.int64), list[list[str | None]]()
    for at in range(width):
        encoded = pc.dictionary_encode(pc.list_element(lists, at), null_encoding="encode")
        texts.append(encoded.dictionary.to_pylist())
        codes = codes * len(texts[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    distinct = tuple(tuple(item) for item in lists.take(pa.array(first)).to_pylist())
    return distinct, codes.astype(np.int64)


def sums(lists: pa.ChunkedArray) -> Longs:
    """Return the sum of each list of a column."""
    combined = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    flat = pc.list_flatten(combined).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(combined).to_numpy(zero_copy_only=False)
    return np.bincount(parents, flat, len(combined)).astype(np.int64)
