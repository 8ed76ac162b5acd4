"""The table and its indexes as they are at this moment: partitions, files, published manifests."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap import stores
from hive_bitmap.columns import Column
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.formats.key_values import KeyColumn, arrow_type, is_simple
from hive_bitmap.index import catalog, generation, manifest
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.file_listing import files_of
from hive_bitmap.metastore.table_info import Partition, Table, Values, partition_name
from hive_bitmap.parallel import each
from hive_bitmap.planning.request import Evaluate
from hive_bitmap.predicates.nodes import Constant, Predicate, SparkLeaf, leaves_of
from hive_bitmap.selecting.candidates import PartitionState, residuals
from hive_bitmap.selecting.key_matches import Answers
from hive_bitmap.session_cache import TtlCache
from hive_bitmap.stores import FileStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
# hashes of the files in partitions of tables
_followed: TtlCache[tuple[str, str], dict[Values, int]] = TtlCache(most=256)


def partitions_left(
    base: Table, found: Sequence[Values], predicate: Predicate, evaluate: Evaluate
) -> tuple[list[int], list[Predicate], pa.Table]:
    """Which partitions the predicate leaves something of, what it leaves, and their typed values, a row each."""
    if not base.partition_columns:
        return [0], [predicate], pa.table({"": [0]})
    typed = typed_values(base.partition_columns, found)
    left = residuals(predicate, base.partition_columns, typed, _asked(base, predicate, typed, evaluate))
    kept = [number for number, rest in enumerate(left) if not isinstance(rest, Constant) or rest.value is True]
    return kept, [left[number] for number in kept], typed.take(pa.array(kept, pa.int64()))


def _asked(base: Table, predicate: Predicate, typed: pa.Table, evaluate: Evaluate) -> Answers:
    """What Spark says of the functions of one partition column, over the values that there are."""
    columns = {column.name.lower(): column for column in base.partition_columns if column.name in typed.column_names}
    answers = {}
    for leaf in leaves_of(predicate):
        column = columns.get(leaf.column.lower()) if isinstance(leaf, SparkLeaf) else None
        if isinstance(leaf, SparkLeaf) and column is not None and leaf not in answers:
            found = evaluate(leaf, column, pc.unique(typed[column.name]))
            answers.update({} if found is None else {leaf: found})
    return answers


def states(
    spark: SparkSession,
    partitions: Sequence[Partition],
    base: Table,
    indexes: Sequence[Index],
    schemas: Sequence[int] | None,
) -> list[PartitionState]:
    """Files and manifests of each partition. Raises Unsupported for a folder whose layout leaves doubt.

    Where `schemas` are given, keys mean what they meant only in files that were indexed under one of these numbers.
    """
    manifests: list[dict[str, Manifest]] = [{} for _ in partitions]
    threads = max((stores.parallel(partition.location) for partition in partitions), default=1)
    for index in indexes:
        folders = catalog.states(spark, index, catalog.INDEXES_REMEMBERED)
        _hold(manifests, index, [folders.get(partition.values) for partition in partitions], schemas, threads)
    files = each(lambda partition: tuple(files_of(base, partition.location)), partitions, threads)
    return _states(base, [partition.values for partition in partitions], files, manifests)


def states_of(
    spark: SparkSession,
    partitions: Sequence[tuple[Values, tuple[FileStatus, ...]]],
    typed: pa.Table,
    base: Table,
    indexes: Sequence[Index],
    schemas: Sequence[int] | None,
) -> list[PartitionState]:
    """The same of partitions whose files Spark has listed; `typed` are their values, a row each.

    Spark shows values as their types have them, `1` where the metastore says `01`: an index partition is found by the
    typed values, and not at all where these do not tell it from another one.
    """
    manifests: list[dict[str, Manifest]] = [{} for _ in partitions]
    threads = max((stores.parallel(files[0].path) for _, files in partitions if files), default=1)
    wanted = _rows(base, typed)
    for index in indexes:
        folders = catalog.states(spark, index, catalog.INDEXES_REMEMBERED)
        spelled = list(folders)
        by_value: dict[tuple[Any, ...], list[str]] = {}
        for values, row in zip(spelled, _rows(base, typed_values(base.partition_columns, spelled)), strict=True):
            by_value.setdefault(row, []).append(folders[values])
        found = [by_value.get(row, []) for row in wanted]
        _hold(manifests, index, [one[0] if len(one) == 1 else None for one in found], schemas, threads)
    return _states(base, [values for values, _ in partitions], [files for _, files in partitions], manifests)


def _hold(
    manifests: Sequence[dict[str, Manifest]],
    index: Index,
    folders: Sequence[str | None],
    schemas: Sequence[int] | None,
    threads: int,
) -> None:
    """Add what an index knows of each partition, in these folders, to what is known of it."""
    found = each(lambda folder: _held(index, folder, schemas), folders, threads)
    for held, one in zip(manifests, found, strict=True):
        held.update({} if one is None else {index.definition.name: one})


def _rows(base: Table, typed: pa.Table) -> list[tuple[Any, ...]]:
    """Typed partition values as tuples; where a column could not be typed none of them equals another."""
    if any(column.name not in typed.column_names for column in base.partition_columns):
        return [(number, object()) for number in range(typed.num_rows)]
    columns = [typed[column.name].to_pylist() for column in base.partition_columns]
    return list(zip(*columns, strict=True)) if columns else [()] * typed.num_rows


def _states(
    base: Table,
    values: Sequence[Values],
    files: Sequence[tuple[FileStatus, ...]],
    manifests: Sequence[Mapping[str, Manifest]],
) -> list[PartitionState]:
    names = [column.name for column in base.partition_columns]
    return [
        PartitionState(partition_name(names, mine), mine, listed, held)
        for mine, listed, held in zip(values, files, manifests, strict=True)
    ]


def follow(spark: SparkSession, base: Table, found: Sequence[PartitionState]) -> None:
    """Have the session forget the files that it listed, where these are others than when this was last asked.

    It may remember those of another day; a query that reads a table twice, once through the index, would see both.
    """
    where = (base.database, base.name)
    before = _followed.get(spark, where, math.inf) or {}
    now = {state.values: hash(state.files) for state in found}
    if not now.items() <= before.items():
        metastore.forget_files(spark, base)
        _followed.keep(spark, where, {**before, **now})


def typed_values(columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """Partition values in the Arrow types of their columns, a row each; one of an odd type or value is left out."""
    arrays = {"": pa.array(range(len(values)))}  # keeps the number of rows where every column is left out
    for position, column in enumerate(columns):
        texts = [value[position] for value in values]
        typed = [None if text is None else _value(column.type, text) for text in texts]
        if all((text is None) == (value is None) for text, value in zip(texts, typed, strict=True)):
            arrays[column.name] = pa.array(typed, arrow_type(KeyColumn(column.name, column.type)))
    return pa.table(arrays)


def _value(type: str, text: str) -> Any:
    """What Spark makes of a partition value; None for what is left to Spark."""
    if not is_simple(KeyColumn("", type)):
        return None
    match type:
        case "string":
            return text
        case "tinyint" | "smallint" | "int" | "bigint":
            bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[type]
            found = int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
            return found if found is not None and -(1 << bits - 1) <= found < 1 << bits - 1 else None
        case "date":
            return date.fromisoformat(text) if re.fullmatch(r"[1-9]\d{3}-\d\d-\d\d", text) else None
        case "boolean":
            return {"true": True, "false": False}.get(text)
        case _:
            return None


def _held(index: Index, folder: str | None, schemas: Sequence[int] | None) -> Manifest | None:
    """What an index knows of a partition; None where it does not cover it, or is damaged."""
    if folder is None or not generation.is_of(folder, index.definition):
        return None
    try:
        found = manifest.read(folder)
        if schemas is not None:
            others = pc.invert(pc.is_in(found.files["schema_crc"], value_set=pa.array(schemas, pa.int64())))
            found = _without(found, others) if pc.any(others).as_py() else found
        return found
    except CorruptIndex as e:
        log.warning("index %s is damaged, the files of this generation are read whole: %s", index.definition.name, e)
        return None


def _without(found: Manifest, others: pa.ChunkedArray) -> Manifest:
    """The manifest with these files as not indexed."""
    place = found.files.schema.get_field_index("shard")
    shards = pc.if_else(others, pa.scalar(None, pa.string()), found.files["shard"])
    reasons = pc.if_else(others, "indexed under another time zone or schema", found.files["reason"])
    files = found.files.set_column(place, "shard", shards)
    return Manifest(
        found.folder, files.set_column(files.schema.get_field_index("reason"), "reason", reasons), found.shards
    )
