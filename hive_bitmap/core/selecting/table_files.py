"""Compare a table's listed files with the records of its indexes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.segments.covered import Covered, Flags, Listing, Longs
from hive_bitmap.core.stores import WITH_DELETES, FileStatus

ROWS_DELETED = "some of its rows are deleted"
OTHER_COLUMNS = "the table's columns, or how they are read, changed since it was indexed"


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """A partition and its listed files.

    A table that is not partitioned has a single partition, without name and values. In `values`, None stands for NULL.
    `number` is the position of the partition among the partitions that Spark listed before pruning.
    """

    name: str  # `a=1/b=x`
    values: tuple[str | None, ...]  # of the partition columns
    files: tuple[FileStatus, ...]
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class FileRecords:
    """What one index records about listed files.

    Arrays have an item for each file, unless noted.
    """

    covered: Covered
    row: Longs  # the row of `covered.files`; -1 if the index does not list the file
    same: Flags  # whether the file is unchanged since it was indexed
    valid: Flags  # whether the file is indexed, and the table's columns are still read in the same way
    vanished: Longs  # for each listed partition, how many indexed files are not listed

    @classmethod
    def of(
        cls, covered: Covered, listing: Listing, numbers: Longs, schemas: Collection[int] | None = None
    ) -> FileRecords:
        """Compare a listing with what an index covers.

        `numbers` has the position of each listed partition in `covered.partitions`, or -1 if the index covers no file
        of the partition. A file is valid only if it was indexed under one of the `schemas` (`definition.valid_schemas`;
        None stands for all schemas). If several segments cover a file, a segment with the current state of the file is
        preferred.
        """
        row = np.full(len(listing.files), -1)
        same = np.zeros(len(listing.files), bool)
        usable = np.append(covered.valid(schemas) & (covered.shard_of >= 0), False)
        for rows in covered.candidates(listing, numbers):
            matching = covered.matches(listing, rows)
            better = (row < 0) | ((matching & usable[rows]) & ~(same & usable[row]))
            row, same = np.where(better, rows, row), np.where(better, matching, same)
        repeated = np.bincount(row[row >= 0], minlength=covered.files.num_rows + 1) > 1
        same &= ~repeated[row]  # a row describes one file, even if partitions with equal values share a folder
        count = max(len(covered.partitions), 1)
        distinct = ~covered.after_another(np.ones(covered.files.num_rows, bool))
        indexed = np.append(np.bincount(covered.partition[distinct], minlength=count), 0)[numbers]
        listed = np.bincount(listing.partition[row >= 0], minlength=len(listing.partitions))
        return cls(covered=covered, row=row, same=same, valid=usable[row], vanished=np.maximum(indexed - listed, 0))

    @cached_property
    def fresh(self) -> Flags:
        """Whether the index can be used for the file."""
        return self.same & self.valid

    @cached_property
    def indexed(self) -> Flags:
        """Whether the index has rows of the file, valid or not.

        The rows may describe an earlier state of the file. The rows may also date from before a change of the table's
        columns that has changed how the file is read.
        """
        return np.append(self.covered.shard_of >= 0, False)[self.row]

    @cached_property
    def stale(self) -> Flags:
        """Whether the file, or the way to read it, has changed since the build."""
        return self.indexed & ~self.fresh

    @cached_property
    def shard(self) -> Longs:
        """The position in `covered.shards` of each file's shard.

        The position is -1 for a file that is not fresh.
        """
        return np.where(self.fresh, np.append(self.covered.shard_of, -1)[self.row], -1)

    @cached_property
    def shared(self) -> Flags:
        """Whether the index has the path of the file more than once.

        Partitions that share a folder have the same paths.
        """
        paths = self.covered.path_numbers
        counts = np.bincount(paths, minlength=1)
        return np.append(counts[paths] > 1, False)[self.row]

    def state(self, number: int, file: FileStatus) -> tuple[Freshness, str] | None:
        """Return the state of a file that is not fresh, and the reason.

        `number` is the position of the file in the records, and `file` is its listed status. Return None if the index
        lacks the file.
        """
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

    def only(self, files: Longs, partitions: Sequence[int]) -> FileRecords:
        """Restrict the records to some partitions.

        `files` are the positions of all files in these partitions.
        """
        return FileRecords(
            covered=self.covered,
            row=self.row[files],
            same=self.same[files],
            valid=self.valid[files],
            vanished=self.vanished[list(partitions)],
        )


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Partitions with their files, and what indexes record about the files.

    `records` has the records of each index, by its name.
    """

    partitions: tuple[PartitionState, ...]
    records: Mapping[str, FileRecords] = field(default_factory=dict)

    @cached_property
    def partition_of(self) -> Longs:
        """The position in `partitions` of each file's partition."""
        return np.repeat(np.arange(len(self.partitions)), [len(partition.files) for partition in self.partitions])

    @cached_property
    def files(self) -> tuple[FileStatus, ...]:
        """The files of all partitions."""
        return tuple(file for partition in self.partitions for file in partition.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int | None:
        """The number of rows of all files.

        The number is None if no index describes the current state of all files.
        """
        described = next((records for records in self.records.values() if records.fresh.all()), None)
        if described is None:
            return None
        rows = described.covered.files["rows"].take(pa.array(described.row))
        return pc.sum(pc.list_flatten(rows)).as_py() or 0

    def only(self, numbers: Sequence[int]) -> TableFiles:
        """Restrict the files to some partitions, given by positions in ascending order."""
        files = np.flatnonzero(np.isin(self.partition_of, list(numbers)))
        records = {name: index.only(files, numbers) for name, index in self.records.items()}
        return TableFiles(partitions=tuple(self.partitions[number] for number in numbers), records=records)


def listing_of(partitions: Sequence[PartitionState]) -> Listing:
    """Return the files of partitions as a Listing of `core/segments/covered`."""
    return Listing.of((partition.values, partition.files) for partition in partitions)
