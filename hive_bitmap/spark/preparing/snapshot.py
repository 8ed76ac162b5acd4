"""Take a snapshot of a table and its indexes at one moment.

A snapshot has the partitions that remain after pruning by the predicate, and records which of their files the indexes
cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.index.definition import known_schemas, valid_schemas
from hive_bitmap.core.listings import file_listing, serde
from hive_bitmap.core.predicates.nodes import Predicate
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.core.stores.speed import LOCAL, Speed
from hive_bitmap.core.table_info import Partition
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import base_files, metastore
from hive_bitmap.spark.preparing import table_state
from hive_bitmap.spark.preparing.request import ResolvedTable
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLED = 8  # partitions to look up first if a lookup in all partitions may not pay


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The partitions that remain after pruning, and their files.

    `predicates` are the residual predicates of these partitions. `values` has a row of typed values for each partition.
    `indexes` are the names of the indexes whose manifests were read, `zone` is the session's time zone, `schemas` the
    `definition.known_schemas` of the table, `store` the speed of the files' store. If Spark has not listed the files of
    the table, `all_partitions` are all its partitions, including the pruned ones.
    """

    resolved: ResolvedTable
    indexes: frozenset[str]
    files: TableFiles
    predicates: list[Predicate]
    values: pa.Table
    zone: str
    schemas: Mapping[int, frozenset[str]]
    store: Speed
    all_partitions: tuple[Partition, ...] = ()

    def sample(self) -> Snapshot | None:
        """Return a snapshot of a sample of the partitions.

        The sample has SAMPLED partitions, evenly spread. Return None if this snapshot has fewer than 2 * SAMPLED
        partitions.
        """
        step = len(self.files.partitions) // SAMPLED
        if step < 2:
            return None
        numbers = range(step // 2, step * SAMPLED, step)
        return replace(
            self,
            files=self.files.only(numbers),
            predicates=[self.predicates[number] for number in numbers],
            values=self.values.take(pa.array(numbers, pa.int64())),
        )


def take(spark: SparkSession, resolved: ResolvedTable, indexes: Sequence[Index]) -> Snapshot:
    """Read the current state of a table and these indexes.

    Raises Unsupported for a folder with an ambiguous layout, and StoreError.
    """
    base, format = resolved.base, file_listing.format_of(resolved.base)
    zone = metastore.time_zone(spark)
    reading = serde.read_properties(base)
    valid = valid_schemas(format, base.columns, zone, reading)
    predicate, engine = resolved.predicate, resolved.engine
    all_partitions: list[Partition] = []
    if resolved.partitions is None and base.lake is not None:
        raise Unsupported(f"Spark does not list the files of {base.lake.kind} table {base.full_name} that it reads")
    if resolved.partitions is None:
        all_partitions = base_files.partitions(spark, base)
        numbers, residuals, typed = table_state.prune_partitions(
            base, [partition.values for partition in all_partitions], predicate, engine
        )
        files = table_state.states(spark, [all_partitions[number] for number in numbers], base, indexes, valid, numbers)
    else:
        listed = resolved.partitions
        numbers, residuals, typed = table_state.prune_partitions(
            base, [values for values, _ in listed], predicate, engine
        )
        numbers = numbers if listed else []
        files = table_state.states_of(
            spark, [listed[number] for number in numbers], typed, base, indexes, valid, numbers
        )
    store = next((stores.speed_of(file.path) for file in files.files), LOCAL)
    names = frozenset(index.definition.name for index in indexes)
    return Snapshot(
        resolved=resolved,
        indexes=names,
        files=files,
        predicates=residuals,
        values=typed,
        zone=zone,
        schemas=known_schemas(base.columns, zone, reading),
        store=store,
        all_partitions=tuple(all_partitions),
    )
