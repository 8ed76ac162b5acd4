"""Previews of a rebuild: what it would do, without doing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table, Values, partition_name
from hive_bitmap.spark.building.build_scope import BuildPlan, plan_rebuild
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.metastore.base_files import Spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILD, REFRESH, DROP = "build", "refresh", "drop"


@dataclass(frozen=True, kw_only=True)
class PartitionPreview:
    """What a rebuild would do for one partition of an index; `name` is empty if the table is not partitioned.

    `what` is BUILD if nothing of the published generation would be kept, REFRESH, or DROP. `files` base files of
    `bytes` bytes would be read. `shards_kept` existing shards would be kept unchanged, and `shards_rewritten` of them
    rewritten without reading base files.
    """

    name: str
    what: str
    files: int = 0
    bytes: int = 0
    shards_kept: int = 0
    shards_rewritten: int = 0


@dataclass(frozen=True)
class Preview:
    """What a rebuild would do for one index: the `partitions` that would change; `untouched` counts the others."""

    definition: Definition
    partitions: tuple[PartitionPreview, ...]
    untouched: int

    @property
    def files(self) -> int:
        """How many base files would be read."""
        return sum(one.files for one in self.partitions)

    @property
    def bytes(self) -> int:
        """How many bytes of base files would be read."""
        return sum(one.bytes for one in self.partitions)


def preview(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partition: Spec | None = None,
    full: bool = False,
    compact: bool = False,
) -> list[Preview]:
    """Return what `rebuild` with these arguments would do, one Preview for each index; write nothing.

    Raise NotFound and Unsupported as `rebuild` would.
    """
    planned = plan_rebuild(spark, table, names, partition, full, compact)
    return [_preview(planned, number) for number in range(len(planned.scopes))]


def _preview(planned: BuildPlan, number: int) -> Preview:
    changes = planned.changes_of(number)
    changed = [_partition(planned.base, change) for change in changes if not change.refresh.up_to_date]
    dropped = [PartitionPreview(name=_name(planned.base, values), what=DROP) for values in planned.dropped(number)]
    return Preview(planned.scopes[number].definition, (*changed, *dropped), len(changes) - len(changed))


def _partition(base: Table, change: Change) -> PartitionPreview:
    refresh = change.refresh
    return PartitionPreview(
        name=_name(base, change.source.values),
        what=BUILD if change.published is None else REFRESH,
        files=len(refresh.read),
        bytes=sum(file.size for file in refresh.read),
        shards_kept=len(refresh.linked),
        shards_rewritten=sum(len(shards) for shards in refresh.rewritten),
    )


def _name(base: Table, values: Values) -> str:
    return partition_name([column.name for column in base.partition_columns], values)
