"""Print the rows of a DataFrame, a partition at a time.

The values are exactly Spark's. Spark's `to_json` converts each row: numbers with all digits, dates and timestamps in
ISO 8601 with microseconds (in the session's time zone, with its offset), binary as Base64, NaN and infinities as
strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hive_bitmap.cli.invocation import messages
from hive_bitmap.cli.output import TABLE_ROWS, print_table, write_csv, write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxxxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class _Number(str):
    """A number in JSON, stored as text to be written with the same digits."""


def print_rows(format_: str, frame: DataFrame, limit: int | None) -> None:
    """Print at most `limit` rows.

    Without a limit, all rows are printed, but in a table only TABLE_ROWS.
    """
    match format_:
        case "json":
            write_json(_json(frame if limit is None else frame.limit(limit)))
        case "csv":
            rows = _json(frame if limit is None else frame.limit(limit))
            write_csv(frame.columns, (map(csv_value, values_of(row)) for row in rows))
        case _:
            _print_as_table(frame, limit)


def _print_as_table(frame: DataFrame, limit: int | None) -> None:
    shown = TABLE_ROWS if limit is None else limit
    rows = list(_json(frame.limit(shown if limit is not None else shown + 1)))
    right = [type.partition("(")[0] in NUMBERS for _, type in frame.dtypes]
    print_table(frame.columns, ([text_of(value) for value in values_of(row)] for row in rows[:shown]), right)
    if len(rows) > shown:
        messages().print(f"[dim]only the first {shown} rows; --limit N shows more, --format csv or json all")


def _json(frame: DataFrame) -> Iterator[str]:
    from pyspark.sql import functions as f

    from hive_bitmap.core.table_info import quote

    whole = f.struct(*(f.col(quote(name)) for name in frame.columns))
    rows = frame.select(f.to_json(whole, JSON_OPTIONS).alias("row"))
    return (row[0] for row in rows.toLocalIterator(prefetchPartitions=True))


def values_of(row: str) -> list[Any]:
    """Return the values of a row in JSON; numbers keep their digits."""
    return list(json.loads(row, parse_float=_Number, parse_int=_Number).values())


def csv_value(value: Any) -> Any:
    """Return a value for CSV; nested values become text."""
    return _nested(value) if isinstance(value, (dict, list)) else value


def text_of(value: Any) -> str:
    """Return a value as text for people."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return value
        case _:
            return _nested(value)


def _nested(value: Any) -> str:
    """Return a nested value as JSON, with the digits of its numbers unchanged."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_nested(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_nested, value)) + "]"
        case _Number():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
