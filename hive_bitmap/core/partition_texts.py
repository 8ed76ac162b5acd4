"""Read partition values from their texts in the metastore.

The values are those that Spark reads.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from hive_bitmap.core.formats.key_values import KeyColumn, is_simple


def typed_value(type: str, text: str) -> Any:
    """Return the value that Spark reads from a partition's text.

    None if only Spark can read it.
    """
    if not is_simple(KeyColumn("", type)):
        return None
    match type:
        case "string":
            return text
        case "tinyint" | "smallint" | "int" | "bigint":
            bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[type]
            number = int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
            return number if number is not None and -(1 << bits - 1) <= number < 1 << bits - 1 else None
        case "date":
            return date.fromisoformat(text) if re.fullmatch(r"[1-9]\d{3}-\d\d-\d\d", text) else None
        case "boolean":
            return {"true": True, "false": False}.get(text)
        case _:
            return None
