"""Command line options of several commands: how an index is stored, and for which tables a command is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.cli.output import Field
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import COMPRESSIONS, REFRESH_INTERVAL, TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE_FIELD = Field("table", "table")
type_option = click.option(
    "--type",
    "type_",
    type=click.Choice(TYPES, case_sensitive=False),
    default=TYPES[0],
    show_default=True,
    help="BITMAP stores the rows of each key, COMPACT only its blocks.",
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
    help="Refresh the index after writes.  [default: as hive.optimize.index.autoupdate says]",
)
refresh_interval_option = click.option(
    "--refresh-interval",
    default=REFRESH_INTERVAL,
    show_default=True,
    metavar="TIME",
    help="Least time between two refreshes after writes.",
)

keep_removed_option = click.option(
    "--keep-removed",
    default="",
    metavar="TIME",
    help="How long to keep files that a Delta or Iceberg table no longer has, for queries of older versions.",
)


def all_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--all` and `--database`."""
    database = click.option("--database", metavar="NAME", help="All tables of this database that have an index.")
    all_ = click.option("--all", "all_", is_flag=True, help="All tables that have an index, of all databases.")
    return all_(database(command))


def require_one(table: str | None, all_: bool, database: str | None) -> str | None:
    """Return the table that is given; None if all tables, or those of a database, are meant. Raise UsageError."""
    if table is not None and (all_ or database is not None):
        raise click.UsageError("give a table, --database or --all, and not two of them")
    if table is None and not all_ and database is None:
        raise click.UsageError("Missing argument 'TABLE': or give --all, or --database")
    return table


def tables_of(spark: SparkSession, database: str | None, all_: bool) -> list[str]:
    """Return the names of the tables that have an index: of the database if one is named, else of all."""
    from hive_bitmap.spark.registry.catalog import indexed_tables

    return indexed_tables(spark, database, all_databases=all_ and database is None)
