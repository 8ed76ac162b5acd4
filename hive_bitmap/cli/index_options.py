"""Define the options that several commands share, and parse their values.

Some options choose how an index is stored; other options choose the tables for which a command runs. Some values are
lists of names, or of pairs NAME=VALUE.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import COMPRESSIONS, REFRESH_INTERVAL, TYPES
from hive_bitmap.core.predicates.tokens import key_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]+?))\s*(?:,|$)")
PAIR = re.compile(
    r"\s*(?:`(?P<name_quoted>(?:[^`]|``)+)`|(?P<name>[^`,=]+?))\s*="
    r"\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<plain>[^',]*?))\s*(?:,|$)"
)
type_option = click.option(
    "--type",
    "type_",
    type=click.Choice(TYPES, case_sensitive=False),
    default=TYPES[0],
    show_default=True,
    help="BITMAP stores the rows of each key, COMPACT only its blocks, AGGREGATE also sums for each file.",
)
encoding_option = click.option(
    "--encoding",
    type=click.Choice(tuple(ENCODINGS), case_sensitive=False),
    default="gap",
    show_default=True,
    help="Encoding of the stored bitmaps.",
)
compression_option = click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS, case_sensitive=False),
    default="zstd",
    show_default=True,
    help="Compression of the index files. Hive before version 4 cannot read zstd.",
)
auto_refresh_option = click.option(
    "--auto-refresh/--no-auto-refresh",
    default=None,
    help="Refresh the index after writes.  [default: the value of hive.optimize.index.autoupdate]",
)
refresh_interval_option = click.option(
    "--refresh-interval",
    default=REFRESH_INTERVAL,
    show_default=True,
    metavar="TIME",
    help="Minimum time between two refreshes after writes.",
)
keep_removed_option = click.option(
    "--keep-removed",
    default="",
    metavar="TIME",
    help="How long to keep files that a Delta or Iceberg table no longer has, for queries of older versions.",
)
aggregates_option = click.option(
    "--aggregates",
    default="",
    metavar="LIST",
    help="Aggregates of other columns to store with each key, such as 'count(*), sum(amount), min(amount)'.",
)


def split_names(text: str) -> list[str]:
    """Return the names in a comma-separated list.

    >>> split_names("origin, `a,b`,`tick``s`")
    ['origin', 'a,b', 'tick`s']
    """
    return [match["plain"] or match["quoted"].replace("``", "`") for match in _items(NAME, text, "names")]


def split_keys(text: str) -> list[str]:
    """Return the keys in a comma-separated list.

    A key is a name of a column, or an expression with a name.

    >>> split_keys("origin, date_trunc('HOUR', ts) AS hour,`a,b`")
    ['origin', "date_trunc('HOUR', ts) AS hour", 'a,b']
    """
    keys: list[str] = []
    names: list[str] = []
    for part in _at_commas(text):
        if key_text(part) is None:
            names.append(part)
            continue
        keys += [*(split_names(",".join(names)) if names else []), part.strip()]
        names = []
    return keys + (split_names(",".join(names)) if names or not keys else [])


def _at_commas(text: str) -> list[str]:
    """Cut a text at the commas outside brackets and quotes."""
    parts, start, depth, quote = [], 0, 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def split_pairs(text: str) -> dict[str, str | None]:
    """Return the names and values of a comma-separated list NAME=VALUE.

    The value NULL becomes None. Values may be quoted as in SQL. The names are partition columns or, for the command
    `set`, properties.

    >>> split_pairs("month=1, `a,b`='x, y',c=NULL,d=")
    {'month': '1', 'a,b': 'x, y', 'c': None, 'd': ''}
    """
    pairs = {}
    for match in _items(PAIR, text, "NAME=VALUE"):
        name = match["name"] or match["name_quoted"].replace("``", "`")
        if match["text"] is not None:
            pairs[name] = match["text"].replace("''", "'")
        else:
            pairs[name] = None if match["plain"].upper() == "NULL" else match["plain"]
    return pairs


def _items(pattern: re.Pattern[str], text: str, what: str) -> list[re.Match[str]]:
    """Match each item of a comma-separated list.

    `pattern` matches an item with the comma after it. Raises BadParameter if an item does not match; `what` names the
    items in its message.
    """
    matches: list[re.Match[str]] = []
    at = 0
    while not matches or text[matches[-1].end() - 1 : matches[-1].end()] == ",":
        match = pattern.match(text, at)
        if match is None:
            raise click.BadParameter(
                f"{text!r} is not a list of {what}, from {text[at:]!r} on; quote a name in backticks"
            )
        matches.append(match)
        at = match.end()
    return matches


def all_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--all` and `--database`."""
    database = click.option("--database", metavar="NAME", help="All tables of this database that have an index.")
    all_ = click.option("--all", "all_", is_flag=True, help="All tables that have an index, of all databases.")
    return all_(database(command))


def table_argument(table: str | None, all_: bool, database: str | None) -> str | None:
    """Return the argument TABLE; None if --all or --database replaces it.

    `all_` and `database` are the values of the two options, which may be given together (`tables_of`). Raises
    UsageError if TABLE is combined with an option, and if neither TABLE nor an option is given.
    """
    if table is not None and (all_ or database is not None):
        raise click.UsageError("give only one of TABLE, --database and --all")
    if table is None and not all_ and database is None:
        raise click.UsageError("Missing argument 'TABLE': give it, --all or --database")
    return table


def tables_of(spark: SparkSession, database: str | None, all_: bool) -> list[str]:
    """Return the names of the tables that have an index.

    The names are written as in Spark's SQL, and sorted. If `database` is given, the tables of this database are
    returned. If it is None, the tables of all databases are returned with `all_`, and the tables of the current
    database otherwise.
    """
    from hive_bitmap.spark.registry.catalog import indexed_tables

    return indexed_tables(spark, database, all_databases=all_ and database is None)
