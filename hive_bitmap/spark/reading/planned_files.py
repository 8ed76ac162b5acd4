"""The files of a plan, to be compared when it is executed: those that it has listed itself, or that its tasks open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.table_info import Partition, Table
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import base_files, session_stores
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.preparing.prepare import Reading
from hive_bitmap.spark.preparing.snapshot import Snapshot
from hive_bitmap.spark.reading.read_task import are_unchanged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class PlannedFiles:
    """All partitions of a table as a plan found them, and the files of those that it reads.

    So it is of a table that a SerDe reads, whose files Spark lists only when it executes a plan.
    """

    base: Table
    partitions: tuple[Partition, ...]
    read: tuple[Source, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> PlannedFiles:
        """Return the files of a snapshot that listed them itself."""
        folders = {partition.values: partition.location for partition in snapshot.found}
        read = [Source(one.values, folders[one.values], one.files) for one in snapshot.files.partitions]
        return cls(base=snapshot.resolved.base, partitions=snapshot.found, read=tuple(read))

    def are_current(self, spark: SparkSession) -> bool:
        """Whether another listing finds the same partitions and files; False if it fails."""
        try:
            found = tuple(base_files.partitions(spark, self.base))
            return found == self.partitions and not base_files.changed(self.base, self.read)
        except (HiveBitmapError, FileNotFoundError):
            return False


@dataclass(frozen=True, kw_only=True)
class OpenedFiles:
    """The files that tasks of a plan open or check, as an index knows them.

    Spark may have listed them long before it planned; a task that finds another file can only fail.
    """

    files: tuple[Fingerprint, ...]

    @classmethod
    def of(cls, reading: Reading) -> OpenedFiles:
        """Return the files of which the indexes know where rows are."""
        places = {(piece.lookup, piece.file): None for piece in reading.pieces or () if isinstance(piece, Piece)}
        return cls(files=tuple(reading.results.lookups[lookup].fingerprints[file] for lookup, file in places))

    def are_current(self, spark: SparkSession) -> bool:
        """Whether the files are still these; False if a store does not say."""
        session_stores.use(spark)
        try:
            return are_unchanged(self.files)
        except (HiveBitmapError, FileNotFoundError):
            return False
