"""Check whether the files of a plan are still the current files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.index.fingerprint import Fingerprint, are_unchanged
from hive_bitmap.core.listings.scan_listing import FILE_BYTES, PARTITION_BYTES
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.table_info import Partition, Table
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import base_files, session_settings
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a plan that Spark itself does not check.

    Spark lists the files of a SerDe table only at execution, so planning lists them itself. For such a table,
    `partitions` are all partitions of the table, and `read` are the partitions that the plan reads, with their files.
    For other tables, `partitions` is None. `opened` are the indexed files that tasks of the plan open. These files are
    compared before the tasks run, because a task that finds a changed file can only fail.
    """

    base: Table
    partitions: tuple[Partition, ...] | None = None
    read: tuple[Source, ...] = ()
    opened: tuple[Fingerprint, ...] = ()

    @classmethod
    def listed(cls, snapshot: Snapshot) -> FileSet:
        """Return the files that planning itself has listed for a snapshot."""
        folders = {partition.values: partition.location for partition in snapshot.all_partitions}
        read = [Source(state.values, folders[state.values], state.files) for state in snapshot.files.partitions]
        return cls(base=snapshot.resolved.base, partitions=snapshot.all_partitions, read=tuple(read))

    @classmethod
    def of_tasks(cls, prepared: Prepared) -> FileSet:
        """Return the indexed files that tasks open to read selected rows."""
        places = {(piece.lookup, piece.file): None for piece in prepared.pieces or () if isinstance(piece, Piece)}
        lookups = prepared.looked_up.lookups
        opened = tuple(lookups[lookup].fingerprints[file] for lookup, file in places)
        return cls(base=prepared.resolved.base, opened=opened)

    def is_current(self, spark: SparkSession) -> bool:
        """Return whether the files are unchanged.

        The result is False if a store or the metastore fails.
        """
        try:
            session_settings.use_stores(spark)
            if self.partitions is not None:
                partitions = tuple(base_files.partitions(spark, self.base))
                if partitions != self.partitions or base_files.changed(self.base, self.read):
                    return False
            return are_unchanged(self.opened)
        except (HiveBitmapError, FileNotFoundError):
            return False

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory."""
        paths = [file.path for source in self.read for file in source.files] + [file.path for file in self.opened]
        partitions = self.partitions or ()
        texts = sum(map(len, paths))
        for partition in partitions:
            properties = dict(partition.properties).items()
            texts += len(partition.location) + sum(len(name) + len(value) for name, value in properties)
        return texts + FILE_BYTES * len(paths) + PARTITION_BYTES * len(partitions)
