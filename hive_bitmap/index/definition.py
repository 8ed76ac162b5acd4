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
from hive_bitmap.errors import InvalidProperty, Unsupported, nearest, suggestion
from hive_bitmap.metastore.table_info import Table, index_table_name

VERSION = "1"
PREFIX = "hive_bitmap."
TYPES = ("BITMAP", "COMPACT")
OWN_PROPERTIES = ("encoding", "compression", "comment", "enabled")
COMPRESSIONS = ("zstd", "snappy", "gzip")  # of the shards; Hive before 4 has no zstd
BUCKET, OFFSET = pa.field("_bucketname", pa.string()), pa.field("_offset", pa.int64())
OFFSETS = pa.field("_offsets", pa.list_(pa.int64()))
KEY_TYPES = (
    "boolean tinyint smallint int bigint float double decimal string varchar char binary date timestamp timestamp_ntz"
)


@dataclass(frozen=True)
class Definition:
    """One index. `table` is the base table, `index_table` its index table in the same database, `root` its folder.

    `where` is SQL over the partition columns: only partitions of which it is true are covered; empty is all. An index
    that is not `enabled` is kept fresh but not used. `next_encoding` is what the next rebuild changes the encoding to.
    `properties` are names and values of the owner's: they are kept and shown, and decide nothing.
    """

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
    where: str = ""
    enabled: bool = True
    next_encoding: str = ""
    properties: tuple[tuple[str, str], ...] = ()

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

    @property
    def has_default_table(self) -> bool:
        """Whether the name of the index table is the one that goes with the name of the index."""
        return self.index_table == index_table_name(self.database, self.table, self.name)

    @property
    def full_table(self) -> str:
        """`<db>.<table>` of the base table."""
        return f"{self.database}.{self.table}"

    def renewed(self) -> Definition:
        """The definition as the next rebuild makes it; all of the index is built anew where that differs."""
        return replace(self, encoding=self.next_encoding or self.encoding, next_encoding="")


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
    where: str = "",
    properties: Mapping[str, str] | None = None,
) -> Definition:
    """The definition of an index on columns of a table, in base-table order as Hive had it.

    Raises NotFound for a column that is not there, Unsupported for one that cannot be a key and for the table of an
    index, and InvalidProperty for an unknown type, encoding or compression, and for a property that is one of ours.
    """
    if not columns:
        raise InvalidProperty("an index needs at least one column")
    if of := from_table(table):
        raise Unsupported(f"table {table.full_name} holds the index {of.name} on {of.full_table}: it is not indexed")
    partition_names = {column.name.lower() for column in table.partition_columns}
    for wanted in columns:
        if wanted.lower() in partition_names:
            raise Unsupported(
                f"column {wanted!r} partitions table {table.full_name}: partitions are pruned without an index"
            )
    home = f"table {table.full_name}"
    chosen = [find(table.columns, wanted, home) for wanted in columns]
    ordered = tuple(column for column in table.columns if column in chosen)
    for column in ordered:
        _check_key(column, home)
    kind = one_of("type", type.upper(), TYPES)
    index = check_name(name or default_name([column.name for column in ordered]))
    return Definition(
        index,
        table.database,
        table.name,
        ordered,
        kind,
        one_of("encoding", encoding.lower(), tuple(ENCODINGS)),
        one_of("compression", compression.lower(), COMPRESSIONS),
        check_name(index_table or index_table_name(table.database, table.name, index)),
        comment=comment,
        where=where,
        properties=_of_the_owner(properties or {}),
    )


def own_property(key: str) -> str | None:
    """Which of OWN_PROPERTIES a key is, in any case; None for a key of the owner's, which is kept and shown.

    Raises InvalidProperty for one that is nearly one of ours, and would be of no effect unseen.
    """
    if key.lower() in OWN_PROPERTIES:
        return key.lower()
    if meant := nearest(key.removeprefix(PREFIX), OWN_PROPERTIES):
        raise InvalidProperty(f"unknown property {key!r}; did you mean {meant!r}?")
    return None


def check_name(name: str) -> str:
    """The name of an index or of its table in lower case; InvalidProperty for one that a metastore does not take."""
    if re.search(r"[^a-z0-9_]", name.lower()):
        raise InvalidProperty(f"{name!r} cannot name an index or its table: names are letters, digits and _")
    return name.lower()


def default_name(columns: Sequence[str]) -> str:
    """The name of an index that was given none; what a metastore does not take in a name becomes `_`.

    >>> default_name(["Origin", "dest city"])
    'origin_dest_city'
    """
    return re.sub(r"[^a-z0-9_]", "_", "_".join(columns).lower())


def to_properties(definition: Definition) -> dict[str, str]:
    """The TBLPROPERTIES that hold a definition."""
    columns = [[column.name, column.type] for column in definition.columns]
    later = {PREFIX + "next_encoding": definition.next_encoding} if definition.next_encoding else {}
    if definition.properties:
        later[PREFIX + "properties"] = json.dumps(definition.properties, ensure_ascii=True)
    properties = {
        PREFIX + "version": VERSION,
        PREFIX + "index": definition.name,
        PREFIX + "table": definition.full_table,
        PREFIX + "columns": json.dumps(columns, ensure_ascii=True),
        PREFIX + "type": definition.type,
        PREFIX + "encoding": definition.encoding,
        PREFIX + "compression": definition.compression,
        PREFIX + "root": definition.root,
        PREFIX + "comment": definition.comment,
        PREFIX + "where": definition.where,
        PREFIX + "enabled": str(definition.enabled).lower(),
        **later,
    }
    return {**properties, PREFIX + "crc32": str(zlib.crc32(json.dumps(sorted(properties.items())).encode()))}


def from_table(table: Table) -> Definition | None:
    """The definition that an index table carries; None for a table that is none of ours, or says what cannot be."""
    definition = from_properties(table.properties)
    if definition is None or definition.database != table.database:
        return None
    stored = [(column.name.lower(), column.type) for column in (*definition.columns, *stored_columns(definition))]
    if stored != [(column.name.lower(), column.type) for column in table.columns[: len(stored)]]:
        return None
    return replace(definition, index_table=table.name)


def from_properties(properties: Mapping[str, str]) -> Definition | None:
    """The definition in these TBLPROPERTIES; None where there is none, one of a later version, or they were edited."""
    said = {key[len(PREFIX) :]: value for key, value in properties.items() if key.startswith(PREFIX)}
    try:
        if said["version"] != VERSION or said["type"] not in TYPES:
            return None
        database, _, base = said["table"].partition(".")
        definition = Definition(
            said["index"],
            database,
            base,
            tuple(Column(name, type) for name, type in json.loads(said["columns"])),
            said["type"],
            one_of("encoding", said["encoding"], tuple(ENCODINGS)),
            said.get("compression", "zstd"),
            root=said["root"],
            comment=said.get("comment", ""),
            where=said.get("where", ""),
            enabled=said.get("enabled", "true") == "true",
            next_encoding=said.get("next_encoding", ""),
            properties=tuple((key, value) for key, value in json.loads(said.get("properties", "[]"))),
        )
    except (KeyError, ValueError, TypeError, InvalidProperty):
        return None
    crc32 = to_properties(definition)[PREFIX + "crc32"]
    return definition if said.get("crc32", crc32) == crc32 else None


def stored_columns(definition: Definition) -> list[Column]:
    """The columns of the index table after the indexed ones, as Spark names their types; without the partitions'."""
    bucket = Column(BUCKET.name, "string")
    if definition.type == "COMPACT":
        return [bucket, Column(OFFSETS.name, "array<bigint>")]
    bitmaps = [Column(field.name, _spark_type(field.type)) for field in definition.bitmap_fields]
    return [bucket, Column(OFFSET.name, "bigint"), *bitmaps]


def schema_crc(columns: Sequence[Column], time_zone: str, reading: Sequence[str] = ()) -> int:
    """A number that changes when a column of the base table is added, dropped, renamed, moved or changes its type.

    It changes with the zone of the engine's JVM too, where that decides what a column holds (ORC's wall-clock times),
    and with `reading`, what else decides as what the files are read.
    """
    zone = time_zone if any(column.type == "timestamp" for column in columns) else ""
    typed = ([column.name.lower(), column.type] for column in columns)
    return zlib.crc32(json.dumps([zone, *reading, *typed]).encode())


def one_of(kind: str, value: str, known: Sequence[str]) -> str:
    """The value, if it is one of the known ones; else InvalidProperty, which lists them."""
    if value not in known:
        raise InvalidProperty(f"unknown {kind} {value!r}; known: {', '.join(known)}{suggestion(value, known)}")
    return value


def _of_the_owner(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for key in properties:
        if own := own_property(key):
            raise InvalidProperty(f"{key!r} is no property of the owner's: it is the argument {own}")
    return tuple(properties.items())


def _spark_type(arrow: pa.DataType) -> str:
    if not pa.types.is_list(arrow):
        return "binary"
    return "array<int>" if arrow.value_type == pa.int32() else "array<bigint>"


def _check_key(column: Column, where: str) -> None:
    base = column.type.partition("(")[0]
    stored = {field.name for encoding in ENCODINGS.values() for field in encoding.FIELDS}
    if column.name.lower() in {BUCKET.name, OFFSET.name, OFFSETS.name, "_cardinality", *stored}:
        raise Unsupported(f"column {column.name!r} of {where} has the name of a column of every index table")
    if column.name.lower().startswith("hive_bitmap"):
        raise Unsupported(
            f"column {column.name!r} of {where} begins with hive_bitmap, as names do that queries use themselves"
        )
    if " collate " in column.type:
        raise Unsupported(f"column {column.name!r} of {where} is {column.type}: collated strings cannot be keys")
    if column.default:
        raise Unsupported(f"column {column.name!r} of {where} has a default value, which old files do not hold")
    if base not in KEY_TYPES.split():
        raise Unsupported(
            f"column {column.name!r} of {where} is {column.type}: keys are {', '.join(KEY_TYPES.split())}"
        )
