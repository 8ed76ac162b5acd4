"""The files of a plan where Spark lists them only when it executes one, as of a table that a SerDe reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.table_info import Partition, Table
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import base_files
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.preparing.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class PlannedFiles:
    """All partitions of a table as a plan found them, and the files of those that it reads."""

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
