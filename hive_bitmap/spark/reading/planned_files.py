"""Keep the files of a plan, to compare them at execution.

They are the files that planning has listed itself, or those that its tasks open.
"""

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
    """Files that were listed at planning time.

    `partitions` are all partitions of the table, `read` those that the plan reads, with their files. This is for SerDe
    tables: Spark itself lists their files only at execution.
    """

    base: Table
    partitions: tuple[Partition, ...]
    read: tuple[Source, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> PlannedFiles:
        """Return the files of a snapshot that listed them itself."""
        folders = {partition.values: partition.location for partition in snapshot.all_partitions}
        read = [Source(state.values, folders[state.values], state.files) for state in snapshot.files.partitions]
        return cls(base=snapshot.resolved.base, partitions=snapshot.all_partitions, read=tuple(read))

    def are_current(self, spark: SparkSession) -> bool:
        """Whether a new listing has the same partitions and files.

        False if the listing fails.
        """
        try:
            partitions = tuple(base_files.partitions(spark, self.base))
            return partitions == self.partitions and not base_files.changed(self.base, self.read)
        except (HiveBitmapError, FileNotFoundError):
            return False


@dataclass(frozen=True, kw_only=True)
class OpenedFiles:
    """The indexed files that tasks of a plan open or check.

    Spark may have listed them long before it planned. A task that finds another file can only fail.
    """

    files: tuple[Fingerprint, ...]

    @classmethod
    def of(cls, reading: Reading) -> OpenedFiles:
        """Return the files with rows located by the indexes."""
        places = {(piece.lookup, piece.file): None for piece in reading.pieces or () if isinstance(piece, Piece)}
        return cls(files=tuple(reading.results.lookups[lookup].fingerprints[file] for lookup, file in places))

    def are_current(self, spark: SparkSession) -> bool:
        """Whether the files are unchanged; False if a store fails."""
        session_stores.use(spark)
        try:
            return are_unchanged(self.files)
        except (HiveBitmapError, FileNotFoundError):
            return False
