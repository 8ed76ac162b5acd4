"""A table as it is at one moment: the partitions that its predicate leaves, and what indexes know of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.index.definition import known_schemas, valid_schemas
from hive_bitmap.core.predicates.nodes import Predicate
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.core.stores.speed import LOCAL, Speed
from hive_bitmap.core.table_info import Partition
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import base_files, file_listing, metastore, serde
from hive_bitmap.spark.preparing import table_state
from hive_bitmap.spark.preparing.request import ResolvedTable
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLED = 8  # partitions to look up first, of many, where a lookup in all of them may not pay


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The partitions that pruning kept and their files, the residual predicates, and the typed values (a row for each).

    `indexes` are the names of the indexes whose manifests were read, `zone` is the session's time zone, `schemas`
    the `definition.known_schemas` of the table, `store` how fast the files come. `found` are all partitions of the
    table, pruned ones too, if Spark has not listed its files.
    """

    resolved: ResolvedTable
    indexes: frozenset[str]
    files: TableFiles
    predicates: list[Predicate]
    values: pa.Table
    zone: str
    schemas: Mapping[int, frozenset[str]]
    store: Speed
    found: tuple[Partition, ...] = ()

    def sample(self) -> Snapshot | None:
        """The snapshot with SAMPLED of its partitions, evenly spread; None where it has fewer than twice as many."""
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
    """Read the current state of the table of a request, and of these of its indexes.

    Raises Unsupported for a folder whose layout is ambiguous, and StoreError.
    """
    base, format = resolved.base, file_listing.format_of(resolved.base)
    zone = metastore.time_zone(spark)
    reading = serde.read_properties(base)
    known = valid_schemas(format, base.columns, zone, reading)
    predicate, evaluate = resolved.predicate, resolved.evaluate
    found: list[Partition] = []
    if resolved.partitions is None and base.lake is not None:
        raise Unsupported(f"Spark does not tell which files of {base.lake.kind} table {base.full_name} it reads")
    if resolved.partitions is None:
        found = base_files.partitions(spark, base)
        kept, left, typed = table_state.partitions_left(base, [one.values for one in found], predicate, evaluate)
        now = table_state.states(spark, [found[number] for number in kept], base, indexes, known, kept)
    else:
        listed = resolved.partitions
        kept, left, typed = table_state.partitions_left(base, [values for values, _ in listed], predicate, evaluate)
        kept = kept if listed else []
        now = table_state.states_of(spark, [listed[number] for number in kept], typed, base, indexes, known, kept)
    store = next((stores.speed_of(file.path) for file in now.files), LOCAL)
    names = frozenset(index.definition.name for index in indexes)
    return Snapshot(
        resolved=resolved,
        indexes=names,
        files=now,
        predicates=left,
        values=typed,
        zone=zone,
        schemas=known_schemas(base.columns, zone, reading),
        store=store,
        found=tuple(found),
    )
