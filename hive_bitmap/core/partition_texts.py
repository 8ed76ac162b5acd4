"""Convert the texts of partition values in the metastore to values, as Spark does."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type

_INTEGER = r"^-?[0-9]{1,19}$"
# For each type, the pattern of the texts that Arrow reads as Spark does.
_CANONICAL = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _INTEGER),
    "date": r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$",
    "boolean": "^(true|false)$",
}


def column_values(column: Column, texts: Sequence[str | None]) -> pa.Array | None:
    """Convert texts of a partition column to Arrow values, as Spark does.

    The text None is NULL. The result is None if only Spark can read one of the texts.

    >>> column_values(Column("day", "date"), ["2026-02-28", None]).to_pylist()
    [datetime.date(2026, 2, 28), None]
    >>> column_values(Column("day", "date"), ["2026-02-30"]) is None
    True
    """
    array = pa.array(texts, pa.string())
    if column.type == "string":
        return array
    pattern = _CANONICAL.get(column.type)
    if pattern is None or not pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py():
        return None
    try:
        return array.cast(arrow_type(KeyColumn(column.name, column.type)))
    except pa.ArrowInvalid:  # a number out of range, or a day such as February 30
        return None
