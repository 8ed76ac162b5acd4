"""Take a snapshot of a table and its indexes at one moment.

A snapshot has the partitions that remain after pruning by the predicate, and records which files of these partitions
the published manifests of the indexes cover.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import partition_values
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.index.definition import known_schemas, valid_schemas
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.listings import file_listing, serde
from hive_bitmap.core.listings.file_listing import files_in
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.predicates.nodes import Constant, Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.segments.covered import Covered, Longs
from hive_bitmap.core.selecting.candidates import residual_predicates
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles, listing_of
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.stores.speed import LOCAL, Speed
from hive_bitmap.core.table_info import Partition, Table, Values, partition_name
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.spark.metastore import base_files, metastore
from hive_bitmap.spark.preparing.request import Engine, ResolvedTable
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
# The coverage of an index, by the folders of its segments. A segment never changes. The manifests are cached, too.
_joined: Cache[tuple[str, ...], Covered] = Cache("what indexes cover", lambda covered: covered.nbytes)
SAMPLED = 8  # partitions to look up first if a lookup in all partitions may not pay


def prune_partitions(
    base: Table, values: Sequence[Values], predicate: Predicate, engine: Engine
) -> tuple[list[int], list[Predicate], pa.Table]:
    """Prune partitions by a predicate.

    `values` are the values of all partitions. Return the positions of the remaining partitions in `values`, their
    residual predicates, and a table of their typed values (see `typed_values`), with a row for each partition. A
    partition remains unless the predicate is FALSE or NULL for all its rows.
    """
    if not base.partition_columns:
        return [0], [predicate], pa.table({"": [0]})
    typed = typed_values(base.partition_columns, values)
    matching = _matching_values(base, predicate, typed, engine)
    residuals = residual_predicates(predicate, base.partition_columns, typed, matching)
    numbers = [
        number
        for number, residual in enumerate(residuals)
        if not isinstance(residual, Constant) or residual.value is True
    ]
    return numbers, [residuals[number] for number in numbers], typed.take(pa.array(numbers, pa.int64()))


def _matching_values(base: Table, predicate: Predicate, typed: pa.Table, engine: Engine) -> MatchingKeys:
    """Return, by leaf, the partition values for which the leaf is TRUE.

    The leaves are those of the predicate that test a partition column, and that only Spark (`engine`) can evaluate.
    Spark evaluates a leaf over the distinct values of its column in `typed`. A leaf that Spark cannot evaluate is left
    out.
    """
    columns = {column.name.lower(): column for column in base.partition_columns if column.name in typed.column_names}
    matching_values = {}
    for leaf in leaves_of(predicate):
        column = columns.get(leaf.column.lower()) if isinstance(leaf, SparkLeaf) else None
        if isinstance(leaf, SparkLeaf) and column is not None and leaf not in matching_values:
            matching = engine.satisfying(leaf, column, pc.unique(typed[column.name]))
            matching_values.update({} if matching is None else {leaf: matching})
    return matching_values


def states(
    spark: SparkSession,
    partitions: Sequence[Partition],
    base: Table,
    indexes: Sequence[Index],
    schemas: Collection[int] | None,
    numbers: Sequence[int],
) -> TableFiles:
    """Return the files of partitions, and what indexes record about the files.

    `schemas` are the schema checksums under which an indexed file's keys are still valid. None means all checksums.
    Files indexed under another checksum count as unindexed. `numbers` are the positions of the partitions among all
    listed partitions. Raises Unsupported for a folder with an ambiguous layout.
    """
    files = files_in(base, [partition.location for partition in partitions])
    listed = _states(base, [partition.values for partition in partitions], files, numbers)

    def place(covered: Covered) -> Longs:
        return np.array([covered.numbers.get(partition.values, -1) for partition in listed], np.int64)

    return _table_files(spark, listed, indexes, schemas, place)


def states_of(
    spark: SparkSession,
    partitions: Sequence[tuple[Values, tuple[FileStatus, ...]]],
    base: Table,
    indexes: Sequence[Index],
    schemas: Collection[int] | None,
    numbers: Sequence[int],
) -> TableFiles:
    """Return the files of partitions that Spark has listed, and their index records.

    Each of the `partitions` is a pair of its values and its files. `schemas` and `numbers` mean the same as in
    `states`. Spark prints a partition value by its type, for example `1` for the metastore's `01`, so partitions are
    matched by typed values. A value that only Spark can convert to the column's type is matched as text, which succeeds
    only if the metastore's text is what Spark prints. If several partitions of an index have equal values, none of them
    is used. In the index of a lake table, files belong to no partition.
    """
    listed = _states(base, [values for values, _ in partitions], [files for _, files in partitions], numbers)
    listed_rows = comparable(base, [partition.values for partition in listed])

    def place(covered: Covered) -> Longs:
        if base.lake is not None:
            return np.full(len(listed), covered.numbers.get((), -1))
        by_value: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(comparable(base, covered.partitions)):
            by_value[row] = -1 if row in by_value else number
        return np.array([by_value.get(row, -1) for row in listed_rows], np.int64)

    return _table_files(spark, listed, indexes, schemas, place)


def _table_files(
    spark: SparkSession,
    listed: tuple[PartitionState, ...],
    indexes: Sequence[Index],
    schemas: Collection[int] | None,
    place: Callable[[Covered], Longs],
) -> TableFiles:
    """Return partitions, and what indexes record about their files.

    `place(covered)` returns, for each of the `listed` partitions, its position in `covered.partitions`, or -1 if the
    index lacks the partition. `schemas` are the schema checksums under which an indexed file's keys are still valid;
    None stands for all checksums.
    """
    listing, files = listing_of(listed), {}
    for index in indexes:
        covered = _covered(spark, index)
        files[index.definition.name] = FileRecords.of(covered, listing, place(covered), schemas)
    return TableFiles(partitions=listed, records=files)


def _covered(spark: SparkSession, index: Index) -> Covered:
    """Return the coverage of an index, without damaged segments."""
    folders = catalog.segments(spark, index, catalog.INDEX_CACHE_SECONDS)
    threads = max(map(stores.parallel, folders), default=1)
    manifests = [read for read in map_parallel(partial(_manifest, index), folders, threads) if read is not None]
    return _joined.of(tuple(segment.folder for segment in manifests), lambda: Covered.by(manifests))


def comparable(base: Table, values: Sequence[Values]) -> list[tuple[Any, ...]]:
    """Return the values of each partition as a tuple that can be compared.

    Tuples of equal values are equal. A tuple has a typed value for each partition column, or the text if only Spark can
    convert it to the type.
    """
    columns = [
        _typed_or_text(column, [texts[position] for texts in values])
        for position, column in enumerate(base.partition_columns)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * len(values)


def _typed_or_text(column: Column, texts: Sequence[str | None]) -> list[Any]:
    typed = partition_values(column, texts)
    if typed is not None:
        return typed.to_pylist()
    single = {text: partition_values(column, [text]) for text in dict.fromkeys(texts)}
    return [text if (value := single[text]) is None else value[0].as_py() for text in texts]


def _states(
    base: Table,
    values: Sequence[Values],
    files: Sequence[tuple[FileStatus, ...]],
    numbers: Sequence[int],
) -> tuple[PartitionState, ...]:
    names = [column.name for column in base.partition_columns]
    return tuple(
        PartitionState(number=number, name=partition_name(names, texts), values=texts, files=listed)
        for number, texts, listed in zip(numbers, values, files, strict=True)
    )


def typed_values(columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """Return partition values in the Arrow types of their columns.

    There is a row for each partition. A column is left out if its type is not simple or if a value is not in canonical
    form. The column "" has the position of each row.
    """
    arrays = {"": pa.array(np.arange(len(values)))}  # keeps the number of rows if every column is left out
    for position, column in enumerate(columns):
        typed = partition_values(column, [value[position] for value in values])
        if typed is not None:
            arrays[column.name] = typed
    return pa.table(arrays)


def _manifest(index: Index, folder: str) -> Manifest | None:
    """Return the manifest of an index's segment; None if it is damaged."""
    try:
        return manifest.read(folder)
    except CorruptIndex as e:
        checksums.log_whole(log, f"index {index.definition.name}", e)
        return None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The partitions that remain after pruning, and their files.

    `predicates` are the residual predicates of these partitions. `values` has a row of typed values for each of them.
    `indexes` are the names of the indexes whose manifests were read. `zone` is the default time zone of Spark's JVM.
    `schemas` are the `definition.known_schemas` of the table. `store` is the speed of the files' store.
    `all_partitions` are all partitions of the table, including the pruned ones; empty if Spark has listed the files.
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

    Raises Unsupported for a folder with an ambiguous layout, and for a lake table whose files Spark does not list.
    Raises StoreError if a store fails.
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
        numbers, residuals, typed = prune_partitions(
            base, [partition.values for partition in all_partitions], predicate, engine
        )
        files = states(spark, [all_partitions[number] for number in numbers], base, indexes, valid, numbers)
    else:
        listed = resolved.partitions
        numbers, residuals, typed = prune_partitions(base, [values for values, _ in listed], predicate, engine)
        numbers = numbers if listed else []
        files = states_of(spark, [listed[number] for number in numbers], base, indexes, valid, numbers)
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
