"""Command line options for how an index is stored."""

from __future__ import annotations

import click

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import COMPRESSIONS, REFRESH_INTERVAL, TYPES

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
