"""Convert table columns from the form that Spark gives and stores them in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_bitmap.core.columns import Column

CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata where Spark stores CHAR(n) and VARCHAR(n)
DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata where Spark stores a column's value for files that lack it


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a Spark schema in JSON form.

    The types CHAR and VARCHAR are restored.
    """
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]
