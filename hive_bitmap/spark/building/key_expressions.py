"""Resolve the keys and the aggregated expressions of a new index.

A key is the name of a column, or an expression with a name: a text such as `date_trunc('HOUR', ts) AS hour`, or a
Column of Spark, `date_trunc("HOUR", "ts").alias("hour")`. Spark resolves the expression under the settings of the
session, and reports the settings on which the value of the expression depends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

from hive_bitmap.core.columns import Key, KeyExpression, KeyText
from hive_bitmap.core.index import aggregate_columns
from hive_bitmap.core.index.key_columns import require_keys, require_stored
from hive_bitmap.core.predicates.tokens import key_text
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.metastore import jvm_reader
from hive_bitmap.spark.versions import feature_version

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

SparkKey: TypeAlias = Union[Key, "Column"]  # a key of a new index in Python
MOST_CHARACTERS = 200  # of an expression in a message
FROM_CONNECT = "run CREATE INDEX by spark.sql on a server with the extension, or use a classic session"


def resolved_items(
    spark: SparkSession, base: Table, items: Sequence[SparkKey | Sequence[SparkKey]]
) -> list[list[str | KeyExpression]]:
    """Resolve the keys of several indexes.

    An item is a key, or a sequence of keys. The result has a list of keys for each item. Raise Unsupported for an
    expression that cannot be a key, and NotFound for a missing column.
    """
    from pyspark.sql import Column

    single = (str, KeyText, KeyExpression, Column)
    keys = [resolved(spark, base, [item] if isinstance(item, single) else item) for item in items]
    require_keys(base, [key for of_index in keys for key in of_index if isinstance(key, str)])
    return keys


def resolved(spark: SparkSession, base: Table, keys: Sequence[SparkKey]) -> list[str | KeyExpression]:
    """Resolve the keys of an index.

    A resolved key is the name of a column, or an expression that Spark has resolved. Raise Unsupported for an
    expression that cannot be a key.
    """
    names = {column.name.lower() for column in (*base.columns, *base.partition_columns)}
    return [_resolved(spark, base, _parsed(key, names)) for key in keys]


def resolved_aggregates(spark: SparkSession, base: Table, text: str) -> dict[KeyText, KeyExpression]:
    """Resolve the expressions in a list of aggregates.

    Raise InvalidProperty for a malformed list, Unsupported for an expression that cannot be aggregated, and NotFound
    for a missing column.
    """
    texts = dict.fromkeys(item for _, item in aggregate_columns.parse(text) if isinstance(item, KeyText))
    what = f"cannot be aggregated by an index on table {base.full_name}"
    return {item: _described_expression(spark, base, item, what, is_aggregated=True) for item in texts}


def _parsed(key: SparkKey, names: set[str]) -> SparkKey:
    if not isinstance(key, str) or key.lower() in names:
        return key
    return key_text(key) or key


def _resolved(spark: SparkSession, base: Table, key: SparkKey) -> str | KeyExpression:
    if isinstance(key, (str, KeyExpression)):
        return key
    what = f"cannot be a key of an index on table {base.full_name}"
    return _described_expression(spark, base, key, what)


def _shown(key: KeyText | Column) -> str:
    """Return the text of an expression for a message, cut to MOST_CHARACTERS."""
    text = key.sql if isinstance(key, KeyText) else str(key)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 2]}.."


def _described_expression(
    spark: SparkSession, base: Table, key: KeyText | Column, what: str, *, is_aggregated: bool = False
) -> KeyExpression:
    """Have Spark resolve an expression: a key, or a value to aggregate.

    `is_aggregated` says that the expression is a value to aggregate. `what` follows the expression in error messages,
    for example "cannot be a key of an index on table db.t". Raise Unsupported if the expression cannot be resolved or
    used in an index, and NotFound for a missing column.
    """
    what = f"{_shown(key)} {what}"
    if not jvm_reader.available(spark):
        raise Unsupported(f"{what} from a Spark Connect client: {FROM_CONNECT}")
    if not isinstance(key, KeyText) and not hasattr(key, "_jc"):
        raise Unsupported(
            f"{what}: it is a Column of Spark Connect, but the session is a classic one: write it as text"
        )
    described = _described(spark, base, key, is_aggregated)
    if "refusal" in described:
        raise Unsupported(f"{what}: {described['refusal']}")
    columns = [require_stored(base, name) for name in described["columns"]]
    if reserved := [column.name for column in columns if column.name.lower().startswith("hive_bitmap")]:
        raise Unsupported(f"{what}: column {reserved[0]!r} begins with hive_bitmap, which is reserved: rename it")
    named = key if isinstance(key, KeyText) else KeyText(described["sql"], described["alias"].lower())
    return KeyExpression(
        alias=named.alias,
        type=described["type"],
        sql=named.sql,
        canonical=described["sql"],
        columns=tuple(column for column in base.columns if column in columns),
        settings=tuple(sorted(described["settings"].items())),
        spark=feature_version(spark),
    )


def _described(spark: SparkSession, base: Table, key: KeyText | Column, is_aggregated: bool) -> dict[str, Any]:
    java, session = bridge(spark), spark._jsparkSession
    if isinstance(key, KeyText):
        if is_aggregated:
            return dict(json.loads(java.describeAggregated(session, key.sql, base.declared)))
        return dict(json.loads(java.describeKey(session, key.sql, base.declared)))
    return dict(json.loads(java.describeColumn(session, cast(Any, key)._jc, base.declared)))
