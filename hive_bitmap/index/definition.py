"""What an index is: its columns, type and encoding, and how the TBLPROPERTIES of its index table say so.

The name of an index table is `<db>__<table>_<index>__`, Hive's own. Planning believes the properties, never the name.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.columns import Column, find
from hive_bitmap.errors import InvalidProperty, Unsupported
from hive_bitmap.index.metastore import Table

VERSION = "1"
PREFIX = "hive_bitmap."
TYPES = ("BITMAP", "COMPACT")
COMPRESSIONS = ("zstd", "snappy", "gzip")  # of the shards; Hive before 4 has no zstd
BUCKET, OFFSET = pa.field("_bucketname", pa.string()), pa.field("_offset", pa.int64())
OFFSETS = pa.field("_offsets", pa.list_(pa.int64()))
KEY_TYPES = (
    "boolean tinyint smallint int bigint float double decimal string varchar char binary date timestamp timestamp_ntz"
)


@dataclass(frozen=True)
class Definition:
    """One index. `table` is the base table, `index_table` its index table in the same database, `root` its folder."""

    name: str
    database: str
    table: str
    columns: tuple[Column, ...]
    type: str = "BITMAP"
    encoding: str = "gap"
    compression: str = "zstd"
    index_table: str = ""
    root: str = ""
    comment: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def bitmap_fields(self) -> tuple[pa.Field, ...]:
        """The stored columns after `_bucketname` and `_offset`; none for COMPACT."""
        return ENCODINGS[self.encoding].FIELDS if self.type == "BITMAP" else ()

    @property
    def sql_name(self) -> str:
        return f"`{self.database}`.`{self.index_table.replace('`', '``')}`"


def define(
    table: Table,
    columns: Sequence[str],
    *,
    name: str | None = None,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    index_table: str | None = None,
    comment: str = "",
) -> Definition:
    """The definition of an index on columns of a table, in base-table order as Hive had it.

    Raises NotFound for a column that is not there, Unsupported for one that cannot be a key and InvalidProperty for
    an unknown type, encoding or compression.
    """
    if not columns:
        raise InvalidProperty("an index needs at least one column")
    partition_names = {column.name.lower() for column in table.partition_columns}
    for wanted in columns:
        if wanted.lower() in partition_names:
            raise Unsupported(
                f"column {wanted!r} partitions table {table.full_name}: partitions are pruned without an index"
            )
    where = f"table {table.full_name}"
    chosen = [find(table.columns, wanted, where) for wanted in columns]
    ordered = tuple(column for column in table.columns if column in chosen)
    for column in ordered:
        _check_key(column, where)
    kind = _one_of("type", type.upper(), TYPES)
    index = (name or default_name([column.name for column in ordered])).lower()
    for said in (index, index_table or ""):
        if re.search(r"[^a-z0-9_]", said.lower()):
            raise InvalidProperty(f"{said!r} cannot name an index or its table: names are letters, digits and _")
    return Definition(
        index,
        table.database,
        table.name,
        ordered,
        kind,
        _one_of("encoding", encoding.lower(), tuple(ENCODINGS)),
        _one_of("compression", compression.lower(), COMPRESSIONS),
        (index_table or f"{table.database}__{table.name}_{index}__").lower(),
        "",
        comment,
    )


def default_name(columns: Sequence[str]) -> str:
    """The name of an index that was given none; what a metastore does not take in a name becomes `_`.

    >>> default_name(["Origin", "dest city"])
    'origin_dest_city'
    """
    return re.sub(r"[^a-z0-9_]", "_", "_".join(columns).lower())


def to_properties(definition: Definition) -> dict[str, str]:
    """The TBLPROPERTIES that hold a definition."""
    columns = [[column.name, column.type] for column in definition.columns]
    return {
        PREFIX + "version": VERSION,
        PREFIX + "index": definition.name,
        PREFIX + "table": f"{definition.database}.{definition.table}",
        PREFIX + "columns": json.dumps(columns, ensure_ascii=True),
        PREFIX + "type": definition.type,
        PREFIX + "encoding": definition.encoding,
        PREFIX + "compression": definition.compression,
        PREFIX + "root": definition.root,
        PREFIX + "comment": definition.comment,
    }


def from_table(table: Table) -> Definition | None:
    """The definition that an index table carries; None for a table that is none of ours, or of a later version."""
    said: Mapping[str, str] = {k[len(PREFIX) :]: v for k, v in table.properties.items() if k.startswith(PREFIX)}
    if said.get("version") != VERSION or said.get("encoding") not in ENCODINGS:
        return None
    database, _, base = said["table"].partition(".")
    columns = tuple(Column(name, type) for name, type in json.loads(said["columns"]))
    compression = said.get("compression", "zstd")
    definition = Definition(said["index"], database, base, columns, said["type"], said["encoding"], compression)
    return replace(definition, index_table=table.name, root=said["root"], comment=said.get("comment", ""))


def schema_crc(columns: Sequence[Column], time_zone: str) -> int:
    """A number that changes when a column of the base table is added, dropped, renamed, moved or changes its type.

    It changes with the zone of the engine's JVM too, where that decides what a column holds (ORC's wall-clock times).
    """
    zone = time_zone if any(column.type == "timestamp" for column in columns) else ""
    return zlib.crc32(json.dumps([zone, *([column.name.lower(), column.type] for column in columns)]).encode())


def _one_of(kind: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InvalidProperty(f"unknown {kind} {value!r}; known: {', '.join(known)}")
    return value


def _check_key(column: Column, where: str) -> None:
    base = column.type.partition("(")[0]
    if column.name.lower() in (BUCKET.name, OFFSET.name, OFFSETS.name, "_bitmaps", "_gap_lengths"):
        raise Unsupported(f"column {column.name!r} of {where} has the name of a column of every index table")
    if " collate " in column.type:
        raise Unsupported(f"column {column.name!r} of {where} is {column.type}: collated strings cannot be keys")
    if column.default:
        raise Unsupported(f"column {column.name!r} of {where} has a default value, which old files do not hold")
    if base not in KEY_TYPES.split():
        raise Unsupported(
            f"column {column.name!r} of {where} is {column.type}: keys are {', '.join(KEY_TYPES.split())}"
        )
