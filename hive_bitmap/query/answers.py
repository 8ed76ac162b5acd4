"""What only Spark knows of a predicate: its leaves asked over the distinct keys of an index, once.

Any error on the way (`10/k` over a key that another condition excludes) leaves the leaf unanswered: all rows may match.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.errors import CorruptIndex
from hive_bitmap.index import lookup
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.group import key_fields
from hive_bitmap.index.metastore import CHAR_TYPE_KEY, quote
from hive_bitmap.query.candidates import PartitionState
from hive_bitmap.query.nodes import Predicate, SparkLeaf, leaves_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
MAX_KEYS = 200_000  # more distinct keys than these are not worth a detour


def ask(
    spark: SparkSession,
    table: str,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    states: Sequence[PartitionState],
) -> dict[SparkLeaf, pa.Array]:
    """For each leaf that Spark could evaluate, the keys of which it is TRUE."""
    leaves = dict.fromkeys(leaf for leaf in leaves_of(predicate) if isinstance(leaf, SparkLeaf))
    answers = {}
    for leaf in leaves:
        definition = chosen.get(leaf.column.lower())
        if definition is None:
            continue
        keys = _distinct(definition, leaf.column, states)
        answer = None if keys is None else _true_keys(spark, table, leaf, definition, keys)
        if answer is not None:
            answers[leaf] = answer
    return answers


def _distinct(definition: Definition, column: str, states: Sequence[PartitionState]) -> pa.Array | None:
    """All distinct keys of a column in the index, None if there are too many or a shard is damaged."""
    field = next(field for field in key_fields(definition) if field.name.lower() == column.lower())
    keys = pa.array([], field.type)
    for state in states:
        manifest = state.manifests.get(definition.name)
        if manifest is None:
            continue
        for name, size in manifest.sizes.items():
            try:
                more = lookup.distinct(manifest.shard_path(name), size, field)
            except CorruptIndex as e:
                log.warning("index %s is damaged: %s", definition.name, e)
                return None
            keys = pc.unique(pa.chunked_array([keys, more]))
            if len(keys) > MAX_KEYS:
                return None
    return keys


def _true_keys(
    spark: SparkSession, table: str, leaf: SparkLeaf, definition: Definition, keys: pa.Array
) -> pa.Array | None:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import BooleanType

    column = next(column for column in definition.columns if column.name.lower() == leaf.column.lower())
    if not len(keys):
        return keys
    try:
        frame = spark.createDataFrame(pa.table({column.name: keys}))
        if column.type.startswith(("char", "varchar")):
            frame = frame.withMetadata(column.name, {CHAR_TYPE_KEY: column.type})
        tested = frame.alias(table).selectExpr(quote(column.name), f"({leaf.text}) AS answer")
        if tested.schema.fields[1].dataType != BooleanType():
            return None
        found = tested.where("answer").select(quote(column.name)).toArrow()
    except PySparkException as e:
        log.info("left to the rows, Spark cannot ask %s over the keys: %s", leaf.text, str(e).splitlines()[0])
        return None
    return found.column(0).cast(keys.type).combine_chunks()
