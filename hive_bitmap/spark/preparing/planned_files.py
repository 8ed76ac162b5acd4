"""The files of a plan where Spark lists them only when it executes one, as of a table that a SerDe reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Partition, Table, Values
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import base_files
from hive_bitmap.spark.preparing.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class PlannedFiles:
    """All partitions of a table as a plan found them, and the files of those that it reads, by their values."""

    base: Table
    partitions: tuple[Partition, ...]
    files: Mapping[Values, frozenset[FileStatus]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> PlannedFiles:
        """Return the files of a snapshot that listed them itself."""
        return cls(
            base=snapshot.resolved.base,
            partitions=snapshot.found,
            files={partition.values: frozenset(partition.files) for partition in snapshot.partitions},
        )

    def are_current(self, spark: SparkSession) -> bool:
        """Whether another listing finds the same partitions and files; False if it fails."""
        try:
            found = tuple(base_files.partitions(spark, self.base))
            if found != self.partitions:
                return False
            read = [partition for partition in found if partition.values in self.files]
            listed = base_files.list_files(self.base, read)
        except (HiveBitmapError, FileNotFoundError):
            return False
        return all(frozenset(source.files) == self.files[source.values] for source in listed)
