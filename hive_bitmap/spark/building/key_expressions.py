"""Resolve the keys of a new index.

A key is the name of a column, or an expression with a name, such as `date_trunc('HOUR', ts) AS hour`. Spark resolves
the expression under the settings of the session, and says which of them its value depends on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hive_bitmap.core.columns import Key, KeyExpression, KeyText
from hive_bitmap.core.index.key_columns import require_stored
from hive_bitmap.core.predicates.tokens import key_text
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.metastore import jvm_reader
from hive_bitmap.spark.versions import feature_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def resolved(spark: SparkSession, base: Table, keys: Sequence[Key]) -> list[str | KeyExpression]:
    """Return the keys of an index, each as the name of a column or as a resolved expression.

    Raise Unsupported for an expression that cannot be a key.
    """
    names = {column.name.lower() for column in (*base.columns, *base.partition_columns)}
    return [_resolved(spark, base, _parsed(key, names)) for key in keys]


def _parsed(key: Key, names: set[str]) -> Key:
    if not isinstance(key, str) or key.lower() in names:
        return key
    return key_text(key) or key


def _resolved(spark: SparkSession, base: Table, key: Key) -> str | KeyExpression:
    if not isinstance(key, KeyText):
        return key
    what = f"{key.sql} cannot be a key of an index on table {base.full_name}"
    if base.lake is not None:
        raise Unsupported(f"{what}: keys of {base.lake.kind} tables are columns")
    if not jvm_reader.available(spark):
        raise Unsupported(f"{what} from a Spark Connect client: use a classic session")
    described = json.loads(bridge(spark).describeKey(spark._jsparkSession, key.sql, base.declared))
    if "refusal" in described:
        raise Unsupported(f"{what}: {described['refusal']}")
    columns = [require_stored(base, name) for name in described["columns"]]
    if reserved := [column.name for column in columns if column.name.lower().startswith("hive_bitmap")]:
        raise Unsupported(f"{what}: column {reserved[0]!r} begins with hive_bitmap, which is reserved: rename it")
    return KeyExpression(
        alias=key.alias,
        type=described["type"],
        sql=key.sql,
        canonical=described["sql"],
        columns=tuple(column for column in base.columns if column in columns),
        settings=tuple(sorted(described["settings"].items())),
        spark=feature_version(spark),
    )
