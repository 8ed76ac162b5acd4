"""What a rebuild would do, told before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.building.build_scope import Build, refreshing
from hive_bitmap.building.partition_change import Change
from hive_bitmap.index.definition import Definition
from hive_bitmap.metastore.base_files import Spec
from hive_bitmap.metastore.table_info import Table, Values, partition_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILD, REFRESH, DROP = "build", "refresh", "drop"


@dataclass(frozen=True)
class PartitionPreview:
    """What a rebuild would do for one partition of an index; the name is empty where the table has none.

    `what`: BUILD where nothing of it is taken over, REFRESH, or DROP. `files` base files of `bytes` would be read; of
    the shards that are there, some would be kept as they are and some rewritten without reading base files.
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
        """Base files to read."""
        return sum(one.files for one in self.partitions)

    @property
    def bytes(self) -> int:
        """Their bytes."""
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
    """What `rebuild` with these arguments would do, an item an index; nothing is written.

    Raises NotFound and Unsupported as `rebuild` would.
    """
    planned = refreshing(spark, table, names, partition, full, compact)
    return [_preview(planned, number) for number in range(len(planned.scopes))]


def _preview(planned: Build, number: int) -> Preview:
    mine = planned.changes_of(number)
    found = [_partition(planned.base, change) for change in mine if not change.refresh.idle]
    dropped = [PartitionPreview(_name(planned.base, values), DROP) for values in planned.gone(number)]
    idle = len(mine) - len(found)
    return Preview(planned.scopes[number].definition, (*found, *dropped), idle)


def _partition(base: Table, change: Change) -> PartitionPreview:
    what = change.refresh
    return PartitionPreview(
        _name(base, change.source.values),
        BUILD if change.held is None else REFRESH,
        len(what.read),
        sum(file.size for file in what.read),
        len(what.linked),
        sum(len(shards) for shards in what.carried),
    )


def _name(base: Table, values: Values) -> str:
    return partition_name([column.name for column in base.partition_columns], values)
