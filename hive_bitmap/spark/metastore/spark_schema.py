"""The columns of a table in the form in which Spark gives and keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_bitmap.core.columns import Column

CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata in which Spark keeps CHAR(n) and VARCHAR(n)
DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata in which Spark keeps the value of a column for files that lack it


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a Spark schema in JSON form, with the types CHAR and VARCHAR restored."""
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]
