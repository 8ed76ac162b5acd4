"""Leaves of a predicate that only Spark can evaluate, evaluated over the distinct keys of an index.

After any error (such as `10/k` for a key that another conjunct excludes) the leaf has no answer: all rows may match.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.index import lookup, unreadable
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.table_schema import key_fields
from hive_bitmap.core.predicates.nodes import Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.spark.preparing.request import Evaluate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
MAX_KEYS = 200_000  # evaluating more distinct keys than this takes longer than the index may save
MAX_KEY_BYTES = 16 << 20  # of keys that are sent to the JVM, which makes rows of them
FEW_KEYS = 10_000
PLACE = "hive_bitmap_place"  # no column of an index has such a name


def evaluate_leaves(
    evaluate: Evaluate,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    table: TableFiles,
) -> dict[SparkLeaf, pa.Array]:
    """For each leaf that Spark could evaluate, the keys for which it is TRUE."""
    leaves = dict.fromkeys(leaf for leaf in leaves_of(predicate) if isinstance(leaf, SparkLeaf))
    found = {}
    for leaf in leaves:
        definition = chosen.get(leaf.column.lower())
        if definition is None:
            continue
        keys = _distinct(definition, leaf.column, table)
        column = find(definition.columns, leaf.column, f"index {definition.name}")
        matching = None if keys is None else evaluate(leaf, column, keys)
        if matching is not None:
            found[leaf] = matching
    return found


def _distinct(definition: Definition, column: str, table: TableFiles) -> pa.Array | None:
    """All distinct keys of a column in the index; None if there are too many to evaluate, or a shard is damaged."""
    field = next(field for field in key_fields(definition) if field.name.lower() == column.lower())
    keys, pending, rows = pa.array([], field.type), [], 0
    try:
        for more in _keys_of_row_groups(definition.name, field, table):
            pending.append(more)
            rows += len(more)
            if rows > MAX_KEYS or sum(some.nbytes for some in pending) > MAX_KEY_BYTES:
                keys, pending, rows = pc.unique(pa.chunked_array([keys, *pending])), [], 0
                if _are_too_many(keys):
                    return None
    except CorruptIndex as e:
        unreadable.log_whole(log, f"index {definition.name}", e)
        return None
    keys = pc.unique(pa.chunked_array([keys, *pending]))
    return None if _are_too_many(keys) else keys


def _keys_of_row_groups(index: str, field: pa.Field, table: TableFiles) -> Iterator[pa.Array]:
    if (known := table.known.get(index)) is not None:
        shards = known.covered.shards.take(pa.array(np.unique(known.shard[known.shard >= 0])))
        for path, size in zip(shards["shard"].to_pylist(), shards["size"].to_pylist(), strict=True):
            yield from lookup.distinct(path, size, field)


def _are_too_many(keys: pa.Array) -> bool:
    return len(keys) > MAX_KEYS or keys.nbytes > MAX_KEY_BYTES


def with_places(column: Column, keys: pa.Array) -> pa.Table:
    """A table of the keys, under the name of their column, and their positions (PLACE, int32)."""
    return pa.table({column.name: keys, PLACE: pa.array(range(len(keys)), pa.int32())})


def at_places(keys: pa.Array, found: DataFrame) -> pa.Array:
    """The keys whose positions are left in a DataFrame that was made from `with_places`."""
    places = found.select(PLACE)
    if len(keys) <= FEW_KEYS:  # Spark collects a small LocalRelation without a job
        return keys.take(pa.array([row[0] for row in places.collect()], pa.int32()))
    return keys.take(places.toArrow().column(0).combine_chunks())
