"""Have Spark evaluate leaves of a predicate over the keys of an index.

Only Spark can evaluate these leaves. Spark evaluates each leaf over the distinct keys. If the evaluation fails, the
leaf has no answer, so all rows may match. For example, `10/k` fails for a key 0 that another conjunct excludes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, lookup
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.table_schema import key_fields
from hive_bitmap.core.predicates.nodes import Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.spark.preparing.request import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
MAX_KEYS = 200_000  # evaluating more distinct keys than this takes longer than the index may save
MAX_KEY_BYTES = 16 << 20  # most bytes of keys to send to the JVM, which converts them to rows
FEW_KEYS = 10_000
PLACE = "hive_bitmap_place"  # no column of an index has such a name


def evaluate_leaves(
    engine: Engine,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    table: TableFiles,
) -> dict[SparkLeaf, pa.Array]:
    """Have Spark evaluate the leaves of a predicate that only Spark can evaluate.

    Return by leaf the keys for which the leaf is TRUE. The keys are those of the index in `chosen` that serves the
    column of the leaf, in the files of `table`. Leaves without such an index, and leaves that Spark could not evaluate,
    are left out.
    """
    leaves = dict.fromkeys(leaf for leaf in leaves_of(predicate) if isinstance(leaf, SparkLeaf))
    matching_keys = {}
    for leaf in leaves:
        definition = chosen.get(leaf.column.lower())
        if definition is None:
            continue
        keys = _distinct(definition, leaf.column, table)
        column, _ = _key(definition, leaf.column)
        matching = None if keys is None else engine.satisfying(leaf, column, keys)
        if matching is not None:
            matching_keys[leaf] = matching
    return matching_keys


def _key(definition: Definition, name: str) -> tuple[Column, pa.Field]:
    """Return a key of an index under its name in predicates, with its Arrow field in the index table.

    `name` is this name, in any case.
    """
    keys = zip(definition.key_names, definition.columns, key_fields(definition), strict=True)
    return next((Column(key, column.type), field) for key, column, field in keys if key.lower() == name.lower())


def _distinct(definition: Definition, column: str, table: TableFiles) -> pa.Array | None:
    """Return all distinct keys of a column in an index.

    Only keys in the files of `table` are returned. Return None if there are too many keys to evaluate, or if a shard is
    damaged.
    """
    _, field = _key(definition, column)
    keys, pending, rows = pa.array([], field.type), [], 0
    try:
        for group_keys in _keys_of_row_groups(definition.name, field, table):
            pending.append(group_keys)
            rows += len(group_keys)
            if rows > MAX_KEYS or sum(array.nbytes for array in pending) > MAX_KEY_BYTES:
                keys, pending, rows = pc.unique(pa.chunked_array([keys, *pending])), [], 0
                if _are_too_many(keys):
                    return None
    except CorruptIndex as e:
        checksums.log_whole(log, f"index {definition.name}", e)
        return None
    keys = pc.unique(pa.chunked_array([keys, *pending]))
    return None if _are_too_many(keys) else keys


def _keys_of_row_groups(index: str, field: pa.Field, table: TableFiles) -> Iterator[pa.Array]:
    if (files := table.records.get(index)) is not None:
        shards = files.covered.shards.take(pa.array(np.unique(files.shard[files.shard >= 0])))
        for path, size in zip(shards["shard"].to_pylist(), shards["size"].to_pylist(), strict=True):
            yield from lookup.distinct(path, size, field)


def _are_too_many(keys: pa.Array) -> bool:
    return len(keys) > MAX_KEYS or keys.nbytes > MAX_KEY_BYTES


def with_places(column: Column, keys: pa.Array) -> pa.Table:
    """Return a table of the keys and their positions.

    The keys are in a column with the name of `column`, the positions in PLACE (int32).
    """
    return pa.table({column.name: keys, PLACE: pa.array(range(len(keys)), pa.int32())})


def at_places(keys: pa.Array, frame: DataFrame) -> pa.Array:
    """Return the keys that are left after Spark has filtered them.

    `frame` was made from the result of `with_places` and then filtered. Its column PLACE has the positions in `keys` of
    the keys to return.
    """
    places = frame.select(PLACE)
    if len(keys) <= FEW_KEYS:  # Spark collects a small LocalRelation without a job
        return keys.take(pa.array([row[0] for row in places.collect()], pa.int32()))
    return keys.take(places.toArrow().column(0).combine_chunks())
