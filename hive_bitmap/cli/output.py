"""Print records, and the rows of a DataFrame.

The output is a table for people, or JSON or CSV for programs. JSON is an array with one record a line. CSV is quoted
as in RFC 4180, with lines that end in LF, and has a header line if the names of the columns are known. In CSV, NULL is
an empty field, an empty string is `""`, and a value that is not a string, number or boolean is written as JSON. The
driver fetches the partitions of a DataFrame one after the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hive_bitmap.cli.invocation import messages
from hive_bitmap.core.explaining.reports import Field, HasFields, columns_of, record_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FORMATS = ("table", "json", "csv")
TABLE_ROWS = 100  # rows of query results that a table shows without --limit
LIMIT_HELP = f"Maximum number of rows.  [default: {TABLE_ROWS} in a table, else all]"
UNLIMITED = 100_000  # line width in characters if stdout is not a terminal
TABLE_FIELD = Field("table", "table")

format_option = click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format."
)
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxxxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def print_reports(
    format_: str,
    reports: Sequence[HasFields],
    empty_message: str,
    *,
    columns: Sequence[str] = (),
    with_table: bool = False,
) -> None:
    """Print reports of one kind as a table, JSON or CSV.

    `format_` is `table`, `json` or `csv`. `columns` names the fields that a table shows; by default, it shows all
    fields with a heading. With `with_table`, a table also shows the base table of each report's index, in the first
    column. JSON and CSV always have all fields of a report. If the format is `table` and there are no reports,
    `empty_message` is printed on stderr instead.
    """
    fields = [TABLE_FIELD] * with_table + columns_of(reports, columns)
    print_records(format_, list(map(record_of, reports)), fields, empty_message)


def print_records(
    format_: str, records: Sequence[Mapping[str, Any]], fields: Sequence[Field], empty_message: str
) -> None:
    """Print records as a table, JSON or CSV.

    `format_` is `table`, `json` or `csv`. A table shows only `fields`; JSON and CSV have all values of the records. If
    the format is `table` and there are no records, `empty_message` is printed on stderr instead.
    """
    match format_:
        case "json":
            write_json(json.dumps(record, ensure_ascii=False) for record in records)
        case "csv":
            write_csv(list(records[0]) if records else [], (record.values() for record in records))
        case _ if records:
            rows = ([field.show(record[field.name]) for field in fields] for record in records)
            print_table([field.heading for field in fields], rows, [field.right for field in fields])
        case _:
            messages().print(Text(empty_message))


def print_count(format_: str, count: int) -> None:
    """Print a number of rows: as one record in JSON and CSV, alone in the format `table`."""
    match format_:
        case "json":
            write_json([json.dumps({"count": count})])
        case "csv":
            write_csv(["count"], [[count]])
        case _:
            sys.stdout.write(f"{count}\n")


def write_json(records: Iterable[str]) -> None:
    """Write records, each given as JSON, as an array.

    Nothing is written before the first record arrives.
    """
    lines = iter(records)
    first = next(lines, None)
    if first is None:
        sys.stdout.write("[]\n")
        return
    sys.stdout.write("[\n" + first)
    for line in lines:
        sys.stdout.write(",\n" + line)
    sys.stdout.write("\n]\n")


def write_csv(names: Sequence[str], records: Iterable[Iterable[Any]]) -> None:
    """Write records as CSV, below a header line if there are `names`.

    Nothing is written before the first record arrives. Then the header is written, too. Without records, only the
    header is written.
    """
    lines = map(csv_line, records)
    first = next(lines, None)
    if names:
        sys.stdout.write(csv_line(names))
    if first is not None:
        sys.stdout.write(first)
    sys.stdout.writelines(lines)


def csv_line(values: Iterable[Any]) -> str:
    r"""Return a record as a line of CSV.

    >>> csv_line([None, "", "a, b", True, 1.5, [1, 2]])
    ',"","a, b",true,1.5,"[1, 2]"\n'
    """
    return ",".join(map(_csv_field, values)) + "\n"


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> None:
    """Print a table for people.

    `right` says which columns are aligned to the right. On a terminal, long cells are wrapped. In a file or pipe, each
    row is one line.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, numeric in zip(headings, right, strict=True):
        table.add_column(Text(printable(heading)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = stdout()
    with console.capture() as captured:
        console.print(table)
    sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print names and their values for people, one pair a line."""
    pairs = list(lines)
    width = max(len(name) for name, _ in pairs)
    sys.stdout.writelines(f"{name:{width}}  {printable(value)}\n" for name, value in pairs)


def stdout() -> Console:
    """Return a console on stdout."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else UNLIMITED, soft_wrap=False)


def printable(text: str) -> str:
    r"""Return text with control characters escaped.

    Control characters could move a terminal's cursor or change its colours.

    >>> printable("naïve\n\x1b[31m")
    'naïve\\n\\x1b[31m'
    """
    return text if text.isprintable() else "".join(_escaped(text))


def _escaped(text: str) -> Iterator[str]:
    return (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _csv_field(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            quoted = not value or any(char in value for char in '",\r\n')
            return '"' + value.replace('"', '""') + '"' if quoted else value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return _csv_field(json.dumps(value, ensure_ascii=False))


class _Number(str):
    """A number from JSON, kept as text, so that its digits are written unchanged."""


def print_rows(format_: str, frame: DataFrame, limit: int | None) -> None:
    """Print at most `limit` rows of a DataFrame.

    If `limit` is None, JSON and CSV have all rows, and a table has at most TABLE_ROWS rows.
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
    """Parse the values of a row from a JSON object; numbers keep their digits."""
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
