"""The files of a table as they are listed now, and what its indexes know of them, in arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.segments.covered import Covered, Flags, Listing, Longs
from hive_bitmap.core.stores import WITH_DELETES, FileStatus

ROWS_DELETED = "some of its rows are deleted"
OTHER_COLUMNS = "the table's columns, or how they are read, changed since it was indexed"


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """A partition as it is now; a table that is not partitioned has one, without name and values."""

    name: str  # `a=1/b=x`
    values: tuple[str | None, ...]  # of the partition columns
    files: tuple[FileStatus, ...]
    number: int = 0  # its place among the partitions that Spark listed, of which some may be pruned


@dataclass(frozen=True, kw_only=True)
class KnownFiles:
    """What one index knows of listed files. Arrays have an item for each file."""

    covered: Covered
    row: Longs  # the row of `covered.files`; -1 if the index does not know the file
    same: Flags  # whether the file is as it was indexed
    valid: Flags  # whether it is indexed, under columns that are still read alike
    vanished: Longs  # for each listed partition, how many files the index knows that are not listed

    @classmethod
    def of(
        cls, covered: Covered, listing: Listing, numbers: Longs, schemas: Collection[int] | None = None
    ) -> KnownFiles:
        """Compare a listing with what an index covers.

        `numbers` are the numbers in `covered` of the listed partitions; -1 for one that is not covered. Files that were
        indexed under none of the `definition.valid_schemas` are not valid. Of several segments that cover a file, one
        that knows it as it is now counts.
        """
        row = np.full(len(listing.files), -1)
        same = np.zeros(len(listing.files), bool)
        usable = np.append(covered.valid(schemas) & (covered.shard_of >= 0), False)
        for rows in covered.candidates(listing, numbers):
            matching = covered.matches(listing, rows)
            better = (row < 0) | ((matching & usable[rows]) & ~(same & usable[row]))
            row, same = np.where(better, rows, row), np.where(better, matching, same)
        count = max(len(covered.partitions), 1)
        distinct = ~covered.after_another(np.ones(covered.files.num_rows, bool))
        known = np.append(np.bincount(covered.partition[distinct], minlength=count), 0)[numbers]
        seen = np.bincount(listing.partition[row >= 0], minlength=len(listing.partitions))
        return cls(covered=covered, row=row, same=same, valid=usable[row], vanished=np.maximum(known - seen, 0))

    @cached_property
    def fresh(self) -> Flags:
        """Whether the index can be used for the file."""
        return self.same & self.valid

    @cached_property
    def indexed(self) -> Flags:
        """Whether the index has rows of the file, be they of the file as it was, or under other columns."""
        return np.append(self.covered.shard_of >= 0, False)[self.row]

    @cached_property
    def stale(self) -> Flags:
        """Whether the file, or how it is read, has changed since it was indexed."""
        return self.indexed & ~self.fresh

    @cached_property
    def shard(self) -> Longs:
        """The row of `covered.shards` of the shard of each fresh file; -1 for others."""
        return np.where(self.fresh, np.append(self.covered.shard_of, -1)[self.row], -1)

    @cached_property
    def shared(self) -> Flags:
        """Whether the path of the file is in several shards, as where partitions share a folder."""
        paths = self.covered.path_numbers
        counts = np.bincount(paths, minlength=1)
        return np.append(counts[paths] > 1, False)[self.row]

    def state(self, number: int, file: FileStatus) -> tuple[Freshness, str] | None:
        """Return the state of a file that is not fresh, and the reason; None if the index does not know it."""
        row = int(self.row[number])
        if row < 0:
            return None
        freshness = Freshness.STALE if self.indexed[number] else Freshness.UNINDEXED
        if file.etag == WITH_DELETES:
            return freshness, ROWS_DELETED
        if self.valid[number]:
            return freshness, "changed since it was indexed"
        return freshness, OTHER_COLUMNS if self.indexed[number] else str(
            self.covered.files["reason"][row].as_py() or ""
        )

    def only(self, files: Longs, partitions: Sequence[int]) -> KnownFiles:
        """Return the same for some of the files, which are those of these partitions."""
        return KnownFiles(
            covered=self.covered,
            row=self.row[files],
            same=self.same[files],
            valid=self.valid[files],
            vanished=self.vanished[list(partitions)],
        )


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Partitions of a table with their files, and what indexes know of these, by the name of the index."""

    partitions: tuple[PartitionState, ...]
    known: Mapping[str, KnownFiles] = field(default_factory=dict)

    @cached_property
    def partition_of(self) -> Longs:
        """The position of the partition of each file."""
        return np.repeat(np.arange(len(self.partitions)), [len(one.files) for one in self.partitions])

    @cached_property
    def files(self) -> tuple[FileStatus, ...]:
        """The files of all partitions."""
        return tuple(file for one in self.partitions for file in one.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def only(self, numbers: Sequence[int]) -> TableFiles:
        """Return some of the partitions, given by their positions in ascending order."""
        files = np.flatnonzero(np.isin(self.partition_of, list(numbers)))
        known = {name: one.only(files, numbers) for name, one in self.known.items()}
        return TableFiles(partitions=tuple(self.partitions[number] for number in numbers), known=known)


def listing_of(partitions: Sequence[PartitionState]) -> Listing:
    """Return the listing of partitions."""
    return Listing.of((one.values, one.files) for one in partitions)
