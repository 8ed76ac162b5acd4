"""The current state of a table and its indexes: partitions, files, published manifests."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index import generation, manifest, unreadable
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.partition_texts import typed_value
from hive_bitmap.core.predicates.nodes import Constant, Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.selecting.candidates import PartitionState, residual_predicates
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Partition, Table, Values, partition_name
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.spark.metastore.file_listing import files_of
from hive_bitmap.spark.preparing.request import Evaluate
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
# By table: the hash of the file listing of each partition, as last seen.


def partitions_left(
    base: Table, found: Sequence[Values], predicate: Predicate, evaluate: Evaluate
) -> tuple[list[int], list[Predicate], pa.Table]:
    """Prune partitions: the numbers of those kept, the residual predicate of each, and their typed values.

    A partition is kept unless the predicate is FALSE or NULL for all its rows. The table has a row for each kept
    partition; see `typed_values`.
    """
    if not base.partition_columns:
        return [0], [predicate], pa.table({"": [0]})
    typed = typed_values(base.partition_columns, found)
    matching = _matching_values(base, predicate, typed, evaluate)
    left = residual_predicates(predicate, base.partition_columns, typed, matching)
    kept = [number for number, rest in enumerate(left) if not isinstance(rest, Constant) or rest.value is True]
    return kept, [left[number] for number in kept], typed.take(pa.array(kept, pa.int64()))


def _matching_values(base: Table, predicate: Predicate, typed: pa.Table, evaluate: Evaluate) -> MatchingKeys:
    """For each leaf that Spark evaluates over one partition column, the existing values for which it is TRUE."""
    columns = {column.name.lower(): column for column in base.partition_columns if column.name in typed.column_names}
    found = {}
    for leaf in leaves_of(predicate):
        column = columns.get(leaf.column.lower()) if isinstance(leaf, SparkLeaf) else None
        if isinstance(leaf, SparkLeaf) and column is not None and leaf not in found:
            matching = evaluate(leaf, column, pc.unique(typed[column.name]))
            found.update({} if matching is None else {leaf: matching})
    return found


def states(
    spark: SparkSession,
    partitions: Sequence[Partition],
    base: Table,
    indexes: Sequence[Index],
    schemas: Collection[int] | None,
    numbers: Sequence[int],
) -> list[PartitionState]:
    """Return the files and manifests of each partition. Raises Unsupported for a folder whose layout is ambiguous.

    `schemas` are the schema checksums under which an indexed file's keys are still valid; files indexed under another
    one count as unindexed. None: any checksum is valid. `numbers` are the places of the partitions among all that were
    listed.
    """
    manifests: list[dict[str, Manifest]] = [{} for _ in partitions]
    threads = max((stores.parallel(partition.location) for partition in partitions), default=1)
    for index in indexes:
        folders = catalog.published_generations(spark, index, catalog.INDEX_CACHE_SECONDS)
        _add_manifests(manifests, index, [folders.get(partition.values) for partition in partitions], schemas, threads)
    files = map_parallel(lambda partition: tuple(files_of(base, partition.location)), partitions, threads)
    return _states(base, [partition.values for partition in partitions], files, manifests, numbers)


def states_of(
    spark: SparkSession,
    partitions: Sequence[tuple[Values, tuple[FileStatus, ...]]],
    typed: pa.Table,
    base: Table,
    indexes: Sequence[Index],
    schemas: Collection[int] | None,
    numbers: Sequence[int],
) -> list[PartitionState]:
    """Do the same for partitions whose files Spark has listed; `typed` has a row of typed values for each.

    Spark prints a partition value by its type, `1` where the metastore has `01`, so index partitions are matched by
    typed values. Where several index partitions have equal typed values, none of them is used. The index of a table
    whose log has the partitions is not partitioned.
    """
    manifests: list[dict[str, Manifest]] = [{} for _ in partitions]
    threads = max((stores.parallel(files[0].path) for _, files in partitions if files), default=1)
    wanted = _rows(base, typed)
    for index in indexes:
        folders = catalog.published_generations(spark, index, catalog.INDEX_CACHE_SECONDS)
        if base.lake is not None:
            _add_manifests(manifests, index, [folders.get(()) for _ in partitions], schemas, threads)
            continue
        spelled = list(folders)
        by_value: dict[tuple[Any, ...], list[str]] = {}
        for values, row in zip(spelled, _rows(base, typed_values(base.partition_columns, spelled)), strict=True):
            by_value.setdefault(row, []).append(folders[values])
        found = [by_value.get(row, []) for row in wanted]
        _add_manifests(manifests, index, [one[0] if len(one) == 1 else None for one in found], schemas, threads)
    return _states(base, [values for values, _ in partitions], [files for _, files in partitions], manifests, numbers)


def _add_manifests(
    manifests: Sequence[dict[str, Manifest]],
    index: Index,
    folders: Sequence[str | None],
    schemas: Collection[int] | None,
    threads: int,
) -> None:
    """Add to each partition's manifests, by index name, the one that the index published in this folder."""
    found = map_parallel(lambda folder: _manifest(index, folder, schemas), folders, threads)
    for of_partition, one in zip(manifests, found, strict=True):
        if one is not None:
            of_partition[index.definition.name] = one


def _rows(base: Table, typed: pa.Table) -> list[tuple[Any, ...]]:
    """Typed partition values as tuples. If a column could not be typed, no two of them are equal."""
    if any(column.name not in typed.column_names for column in base.partition_columns):
        return [(number, object()) for number in range(typed.num_rows)]
    columns = [typed[column.name].to_pylist() for column in base.partition_columns]
    return list(zip(*columns, strict=True)) if columns else [()] * typed.num_rows


def _states(
    base: Table,
    values: Sequence[Values],
    files: Sequence[tuple[FileStatus, ...]],
    manifests: Sequence[Mapping[str, Manifest]],
    numbers: Sequence[int],
) -> list[PartitionState]:
    names = [column.name for column in base.partition_columns]
    return [
        PartitionState(number=number, name=partition_name(names, mine), values=mine, files=listed, manifests=known)
        for number, mine, listed, known in zip(numbers, values, files, manifests, strict=True)
    ]


def typed_values(columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """Return partition values in the Arrow types of their columns, a row for each partition.

    A column is left out if its type is not simple or if one of its values is not in canonical form. The column ""
    numbers the rows.
    """
    arrays = {"": pa.array(range(len(values)))}  # keeps the number of rows where every column is left out
    for position, column in enumerate(columns):
        texts = [value[position] for value in values]
        typed = [None if text is None else typed_value(column.type, text) for text in texts]
        if all((text is None) == (value is None) for text, value in zip(texts, typed, strict=True)):
            arrays[column.name] = pa.array(typed, arrow_type(KeyColumn(column.name, column.type)))
    return pa.table(arrays)


def _manifest(index: Index, folder: str | None, schemas: Collection[int] | None) -> Manifest | None:
    """The manifest of an index for a partition; None if it does not cover the partition or is damaged."""
    if folder is None or not generation.belongs_to(folder, index.definition):
        return None
    try:
        return manifest.read(folder).valid_under(schemas)
    except CorruptIndex as e:
        unreadable.log_whole(log, f"index {index.definition.name}", e)
        return None
