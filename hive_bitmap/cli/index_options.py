"""The options that say how an index is stored."""

from __future__ import annotations

import click

from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.index.definition import COMPRESSIONS, TYPES

type_option = click.option(
    "--type",
    "type_",
    type=click.Choice(TYPES, case_sensitive=False),
    default=TYPES[0],
    show_default=True,
    help="COMPACT keeps blocks only, no rows.",
)
encoding_option = click.option(
    "--encoding",
    type=click.Choice(tuple(ENCODINGS), case_sensitive=False),
    default="gap",
    show_default=True,
    help="How bitmaps are stored.",
)
compression_option = click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS, case_sensitive=False),
    default="zstd",
    show_default=True,
    help="Of the index table's files; Hive before 4 has no zstd.",
)
