"""Say what a rebuild would do, without doing it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.compute as pc

from hive_bitmap.core.explaining.measures import by_reason, or_dash, reasons, seconds, size
from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, Report, Reports, figure, record_of, texts_of
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.table_info import Values, partition_name
from hive_bitmap.spark.building.build_scope import BuildPlan, plan_rebuild
from hive_bitmap.spark.metastore.base_files import Spec
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Seconds of a build on one core: for the job, for a byte of the base files, and for a row of the index.
JOB_SECONDS, BYTE_SECONDS, ROW_SECONDS = 0.3, 1.2e-9, 2e-6
BUILD, REFRESH, DROP = "build", "refresh", "drop"
_READ = (
    figure("files_read", "files read", of="files"),
    figure("bytes_read", "of", size, of="bytes"),
)


@dataclass(frozen=True, kw_only=True)
class PartitionPreview:
    """What a rebuild would do for one partition of an index.

    `name` is "" if the table is not partitioned. `what` is BUILD if the index covers no file of the partition, DROP if
    the table no longer has the partition, and else REFRESH. `files` base files of `bytes` bytes would be read; `why`
    has the number of these files for each reason.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        Field("partition", "partition", or_dash, of="name"),
        Field("what", "what"),
        *_READ,
    )

    name: str
    what: str
    files: int = 0
    bytes: int = 0
    why: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Preview(Report):
    """What a rebuild would do for one index.

    `partitions` are the partitions that would change; `untouched` counts all others. `seconds` is the rough time of a
    rebuild of this index alone. `shards_kept` counts the shards that would be linked into new segments.
    `shards_rewritten` counts the shards that would be read and written again, without reading base files.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        *INDEX_FIELDS[:2],  # the name and the table of the index
        *_READ,
        Field("why", "why", lambda why: or_dash(reasons(why))),
        figure("seconds", "about", seconds, lambda preview: round(preview.seconds, 1)),
        figure("partitions_changed", "partitions", of=lambda preview: len(preview.partitions)),
        Field("partitions", of=lambda preview: _partition_records(preview)),
    )

    definition: Definition
    partitions: tuple[PartitionPreview, ...]
    untouched: int
    seconds: float = 0.0
    shards_kept: int = 0
    shards_rewritten: int = 0

    @property
    def files(self) -> int:
        """How many base files would be read."""
        return sum(partition.files for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """How many bytes of base files would be read."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def why(self) -> dict[str, int]:
        """The number of files to read for each reason, the most frequent first."""
        return by_reason(partition.why for partition in self.partitions)

    def __repr__(self) -> str:
        return f"Preview({self})"

    def _cells(self) -> dict[str, str]:
        return texts_of(self, "index", "table") | {
            "partitions": f"{len(self.partitions):,} of {len(self.partitions) + self.untouched:,}",
            "files to read": f"{self.files:,}, {size(self.bytes)}",
            "why": reasons(self.why) or "up to date",
            "about": seconds(self.seconds),
        }

    def __str__(self) -> str:
        name = f"{self.definition.name} on {self.definition.full_table}"
        if not self.partitions:
            return f"{name}: up to date"
        dropped = sum(partition.what == DROP for partition in self.partitions)
        gone = f"; {dropped:,} partitions are dropped" if dropped else ""
        why = reasons(self.why) or "none"
        took = f"some {seconds(self.seconds)}"
        return f"{name}: {self.files:,} files of {size(self.bytes)} to read ({why}), {took}{gone}"


def _partition_records(preview: Preview) -> list[dict[str, Any]]:
    names = {"index": preview.definition.name, "table": preview.definition.full_table}
    return [names | record_of(partition) for partition in preview.partitions]


def preview(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partition: Spec | None = None,
    full: bool = False,
    compact: bool = False,
) -> list[Preview]:
    """Return what `rebuild` would do with the same arguments; write nothing.

    There is one Preview for each index. Raise NotFound and Unsupported as `rebuild` would.
    """
    planned = plan_rebuild(spark, table, names, partition, full, compact)
    cores = parallelism(spark)
    return Reports(preview_of(planned, number, cores) for number in range(len(planned.scopes)))


def preview_of(planned: BuildPlan, number: int, cores: int) -> Preview:
    """Return what a planned build does for one index.

    `number` is the position of the index in the build; `cores` tasks run at once.
    """
    scope, segments = planned.scopes[number], [change.segment for change in planned.changes_of(number)]
    before, listed = scope.before.covered, scope.listing
    read: dict[Values, list[tuple[int, str]]] = defaultdict(list)
    for segment in segments:
        for at, why in zip(segment.read, segment.why, strict=True):
            read[listed.partitions[listed.partition[at]]].append((int(listed.sizes[at]), why))
    columns = [column.name for column in planned.base.partition_columns]
    covered = frozenset() if scope.before.full else frozenset(before.partitions)
    changed = [
        PartitionPreview(
            name=partition_name(columns, values),
            what=REFRESH if values in covered else BUILD,
            files=len(files),
            bytes=sum(bytes for bytes, _ in files),
            why=tuple(Counter(why for _, why in files).most_common()),
        )
        for values, files in read.items()
    ]
    dropped = [PartitionPreview(name=partition_name(columns, values), what=DROP) for values in scope.dropped]
    took = _seconds(before, sum(partition.bytes for partition in changed), cores)
    return Preview(
        scope.definition,
        (*changed, *dropped),
        len(listed.partitions) - len(changed),
        took,
        sum(len(segment.linked) for segment in segments),
        sum(len(shards) for segment in segments for shards in segment.rewritten),
    )


def _seconds(before: Covered, to_read: int, cores: int) -> float:
    """Estimate the seconds of indexing `to_read` bytes in `cores` concurrent tasks.

    The index is assumed to get as many rows per byte of base files as it has now (`before`).
    """
    indexed, rows = (pc.sum(column).as_py() or 0 for column in (before.files["size"], before.shards["rows"]))
    new_rows = rows * to_read / indexed if indexed > 0 else 0
    return (JOB_SECONDS if to_read else 0.0) + (to_read * BYTE_SECONDS + new_rows * ROW_SECONDS) / cores
