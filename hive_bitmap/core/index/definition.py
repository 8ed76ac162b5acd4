"""Define an index, and store its definition as TBLPROPERTIES of its index table.

The definition has the columns, type, encoding and so on. The default name of an index table is
`<db>__<table>_<index>__`, as in Hive. By default, the index table is in the database of the base table. Planning relies
on the properties of an index table, never on its name. docs/format.md lists the properties.

The module also checks the arguments of CREATE INDEX (`define`), and computes the schema checksums under which indexed
files stay valid when the table's columns change (`valid_schemas`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.columns import Column, KeyExpression, KeyText, find
from hive_bitmap.core.durations import interval_of, seconds_of
from hive_bitmap.core.index import aggregate_columns
from hive_bitmap.core.index.aggregate_columns import Aggregate
from hive_bitmap.core.index.key_columns import (
    BUCKET_NAME,
    KEY_TYPES,
    OFFSET_NAME,
    OFFSETS_NAME,
    SEGMENT_NAME,
    base_type,
    check_expressions,
    is_reserved,
    require_keys,
)
from hive_bitmap.core.table_info import Table, full_name, in_spark, index_table_name, quote
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported, nearest, suggestion

VERSION = "3"
FORMER_VERSIONS = {
    "": "1",
    "delta": "2",
    "iceberg": "2",
}  # by `source`; indexes of these versions are found, replaced and deleted, but not used
AGGREGATES = "aggregates"  # a feature, and the property of the same name
EXPRESSIONS = "expressions"  # a feature: keys that are expressions
MEASURED = "aggregated_expressions"  # a feature: aggregates of expressions
FEATURES = frozenset({AGGREGATES, EXPRESSIONS, MEASURED})  # the `hive_bitmap.features` that this version supports
PREFIX = "hive_bitmap."
POINTER = PREFIX + "index_tables"  # property of a base table: a comma-separated list of index tables
INDEX_DATABASE = PREFIX + "index_database"  # a setting of sessions, and a property of index tables
TYPES = ("BITMAP", "COMPACT", "AGGREGATE")
OWN_PROPERTIES = (
    "encoding",
    "compression",
    "comment",
    "enabled",
    "auto_refresh",
    "refresh_interval",
    "keep_removed",
    AGGREGATES,
)
REFRESH_INTERVAL = "30 seconds"
BY_NAME = -1  # an item of `valid_schemas` for all files whose columns are found by name (`Format.by_name`)
COMPRESSIONS = ("zstd", "snappy", "gzip")  # of the shards; Hive before 4 has no zstd
BUCKET, OFFSET = pa.field(BUCKET_NAME, pa.string()), pa.field(OFFSET_NAME, pa.int64())
OFFSETS = pa.field(OFFSETS_NAME, pa.list_(pa.int64()))
TEXT_PARTITIONS = ("timestamp", "timestamp_ntz")  # types of partition columns that an index table stores as text
SEGMENT = Column(SEGMENT_NAME, "int")  # the partition column of every index table


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The definition of an index.

    `id` is assigned at CREATE and never changes. An index of an early version gets an id at the next rebuild. `catalog`
    is Spark's name of the base table's catalog; empty for the session's own catalog. `table` is the base table.
    `index_database` is the database of the index table; empty for the database of the base table. All index tables are
    in the session's own catalog. `index_table` is the name of the index table, and `root` the folder of the
    generations.

    `where` is a condition on the partition columns. Only partitions that satisfy the condition are covered; empty means
    all partitions. `next_encoding` is the encoding that the next rebuild changes to; empty for no change. Each row of
    the index table has the values of the `aggregates`; the first aggregate of an AGGREGATE index is `count(*)`.
    `columns` has the keys: first columns of the base table, then the `expressions` under their aliases. `properties`
    are user-defined names and values, which are stored and shown, and have no effect. `version` is the version of the
    format.

    An index that is not `enabled` is kept up to date but not used. An index with `auto_refresh` is refreshed after
    writes, by the applications that see the writes. Each application refreshes the index at most once in
    `refresh_interval`, a length of time.

    `source` is `delta` or `iceberg` if a log of this kind lists the files of the base table. `source` is empty if the
    files are found by listing the folders of the table. `partitioned_by` are the partition columns that the base table
    had when the table was indexed. `keep_removed` is a length of time: index rows of files that were removed from a
    lake table are kept for this long, for queries of older versions of the table. If `keep_removed` is empty, these
    rows are not kept.
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
    auto_refresh: bool = False
    refresh_interval: str = REFRESH_INTERVAL
    keep_removed: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    id: str = ""
    source: str = ""
    catalog: str = ""
    partitioned_by: tuple[Column, ...] = ()
    version: str = VERSION
    index_database: str = ""
    aggregates: tuple[Aggregate, ...] = ()
    expressions: tuple[KeyExpression, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the keys in the index table.

        The name of a key that is an expression is its alias.
        """
        return tuple(column.name for column in self.columns)

    @property
    def plain_columns(self) -> tuple[Column, ...]:
        """The keys that are columns of the base table."""
        return self.columns[: len(self.columns) - len(self.expressions)]

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys in predicates and plans, in the order of `columns`.

        For a key that is an expression, this is `KeyExpression.name`, not the alias.
        """
        return (*(c.name for c in self.plain_columns), *(expression.name for expression in self.expressions))

    @property
    def lower_key_names(self) -> frozenset[str]:
        """The `key_names` in lower case, without their order."""
        return frozenset(name.lower() for name in self.key_names)

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The keys as users see them, in the order of `columns`."""
        return (*(c.name for c in self.plain_columns), *map(str, self.expressions))

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """The columns of the base table that the keys need.

        The result has the keys that are columns, and the columns that the expressions use.
        """
        computed = (column for expression in self.expressions for column in expression.columns)
        return tuple(dict.fromkeys((*self.plain_columns, *computed)))

    @property
    def has_bitmaps(self) -> bool:
        """Whether the index stores the bitmaps of its keys (BITMAP).

        A COMPACT or AGGREGATE index stores lists of the blocks that contain each key instead.
        """
        return self.type == "BITMAP"

    @property
    def counts_files(self) -> bool:
        """Whether the index stores counts and aggregates of each key in each file (AGGREGATE)."""
        return self.type == "AGGREGATE"

    @property
    def counts_rows(self) -> bool:
        """Whether the index stores the number of rows of each key.

        There is a number for each block or each file with the key.
        """
        return self.has_bitmaps or self.counts_files

    @property
    def bitmap_encoding(self) -> str | None:
        """The encoding of the bitmaps; None for an index without bitmaps."""
        return self.encoding if self.has_bitmaps else None

    @property
    def bitmap_fields(self) -> tuple[pa.Field, ...]:
        """The columns that hold bitmaps; none unless the type is BITMAP.

        In the index table, these columns follow `_bucketname` and `_offset`.
        """
        return ENCODINGS[self.encoding].FIELDS if self.has_bitmaps else ()

    @property
    def aggregate_fields(self) -> tuple[pa.Field, ...]:
        """The columns that hold partial aggregates, after the bitmaps or offsets."""
        return tuple(aggregate.field for aggregate in self.aggregates)

    @property
    def aggregated_columns(self) -> tuple[Column, ...]:
        """The columns of the base table that are aggregated themselves, not in expressions."""
        columns = (aggregate.column for aggregate in self.aggregates if aggregate.expression is None)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def aggregated_expressions(self) -> tuple[KeyExpression, ...]:
        """The expressions that are aggregated."""
        expressions = (aggregate.expression for aggregate in self.aggregates)
        return tuple(dict.fromkeys(expression for expression in expressions if expression is not None))

    @property
    def measured_columns(self) -> tuple[Column, ...]:
        """The aggregated columns, and the aggregated expressions as columns with their names."""
        return (*self.aggregated_columns, *(expression.stored for expression in self.aggregated_expressions))

    def read_columns(self, base: Table) -> tuple[Column, ...]:
        """Return the columns that builds read: `source_columns`, then the columns that aggregates need.

        A column that only aggregates need is left out if `base`, the base table, no longer has the same column. Its
        aggregates are then NULL.
        """
        computed = (column for expression in self.aggregated_expressions for column in expression.columns)
        aggregated = (column for column in (*self.aggregated_columns, *computed) if column in base.columns)
        return tuple(dict.fromkeys((*self.source_columns, *aggregated)))

    @property
    def index_table_database(self) -> str:
        """The database of the index table."""
        return self.index_database or self.database

    @property
    def full_index_table(self) -> str:
        """`<db>.<name>` of the index table."""
        return f"{self.index_table_database}.{self.index_table}"

    @property
    def pointer(self) -> str:
        """The item for this index table in the POINTER property of the base table.

        This is `<db>.<name>`, or only the name if the index table is in the base table's database.
        """
        return self.full_index_table if self.index_database else self.index_table

    @property
    def needs_pointer(self) -> bool:
        """Whether the index table can be found only by the base table's POINTER property."""
        return bool(self.index_database) or not self.has_default_table

    @property
    def sql_name(self) -> str:
        """The name of the index table in Hive's SQL."""
        return f"{quote(self.index_table_database)}.{quote(self.index_table)}"

    @property
    def spark_name(self) -> str:
        """The name of the index table in Spark's SQL."""
        return in_spark(self.index_table_database, self.index_table)

    @property
    def has_default_table(self) -> bool:
        """Whether the index table has its default name.

        The default name contains the name of the index.
        """
        return self.index_table == index_table_name(self.database, self.table, self.name)

    @property
    def full_table(self) -> str:
        """`<catalog>.<db>.<table>` of the base table, without the catalog if it is the session's own."""
        return full_name(self.catalog, self.database, self.table)

    def is_on(self, base: Table) -> bool:
        """Return whether the index is on this table, by name."""
        return (self.catalog, self.database, self.table) == (base.catalog, base.database, base.name)

    @property
    def refresh_seconds(self) -> float:
        """The `refresh_interval` in seconds."""
        return seconds_of(self.refresh_interval)

    @property
    def kept_seconds(self) -> float:
        """The `keep_removed` in seconds; 0 if nothing is kept."""
        return seconds_of(self.keep_removed) if self.keep_removed else 0.0

    @property
    def is_former(self) -> bool:
        """Whether the index has a format that this version no longer reads.

        The next rebuild replaces such an index.
        """
        return self.version != VERSION

    def renewed(self, base: Table) -> Definition:
        """Return the definition with `next_encoding` applied, in the current format.

        `base` is the base table. If the result differs from this definition, a rebuild must build the whole index.
        """
        partitioned_by = base.partition_columns if self.is_former else self.partitioned_by
        encoding = self.next_encoding or self.encoding
        return replace(self, encoding=encoding, next_encoding="", partitioned_by=partitioned_by, version=VERSION)


def define(
    table: Table,
    columns: Sequence[str | KeyExpression],
    *,
    name: str | None = None,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    index_table: str | None = None,
    index_database: str = "",
    comment: str = "",
    where: str = "",
    auto_refresh: bool = False,
    refresh_interval: str = REFRESH_INTERVAL,
    keep_removed: str = "",
    aggregates: str = "",
    measured: Mapping[KeyText, KeyExpression] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Definition:
    """Define an index on columns of a table.

    The columns are put in the order of the base table, as in Hive; keys that are expressions follow. `index_table` is
    the name of the index table, with or without a database. If `index_table` is None, the index table has its default
    name, in `index_database`. An index table of a Delta or Iceberg table gets no pointer, and stays in the database of
    its base table. `aggregates` is a list such as `count(*), sum(amount)`; an AGGREGATE index always has `count(*)`.
    `measured` maps each expression in this list to the expression as Spark has resolved it. The other arguments are as
    in `build`.

    Raise NotFound for an unknown column. Raise Unsupported for a column that cannot be a key or be aggregated, for a
    table that is itself an index table, for partition columns that an index table cannot have, for aggregates of a
    COMPACT index, and for `where` or `index_table` on a Delta or Iceberg table. Raise InvalidProperty for an unknown
    type, encoding or compression, for an invalid name, for `auto_refresh` of a COMPACT index, for an invalid interval
    or `keep_removed`, for malformed aggregates, and for a name in `properties` that has an argument of its own.
    """
    if not columns:
        raise InvalidProperty("an index needs at least one column")
    if existing := from_table(table):
        raise Unsupported(
            f"table {table.full_name} is the index table of {existing.name} on {existing.full_table}: "
            "index the base table"
        )
    table_text = f"table {table.full_name}"
    for column in table.partition_columns:
        if base_type(column) not in KEY_TYPES:
            raise Unsupported(
                f"{table_text} is partitioned by {column.name!r} ({column.type}), which index tables do not support"
            )
        if is_reserved(column.name):
            raise Unsupported(
                f"{table_text} is partitioned by {column.name!r}, the name of a column of every index table"
            )
    names = [item for item in columns if isinstance(item, str)]
    expressions = tuple(dict.fromkeys(item for item in columns if not isinstance(item, str)))
    require_keys(table, names)
    check_expressions(table, expressions)
    chosen = [find(table.columns, column_name, table_text) for column_name in names]
    plain = (column for column in table.columns if column in chosen)
    ordered = (*plain, *(expression.stored for expression in expressions))
    _require_of_lake(table, where=where, index_table=index_table)
    own_database, own_name = _index_table(table, index_table or "", index_database)
    kind = one_of("type", type.upper(), TYPES)
    index = check_name(name or default_name([column.name for column in ordered]))
    source = table.lake.kind if table.lake else ""
    require_followable(index, kind, auto_refresh)
    if aggregates.strip() and kind == "COMPACT":
        raise Unsupported(f"index {index} is COMPACT, which has no aggregates: use AGGREGATE, or BITMAP")
    return Definition(
        name=index,
        database=table.database,
        table=table.name,
        columns=ordered,
        type=kind,
        encoding=one_of("encoding", encoding.lower(), tuple(ENCODINGS)),
        compression=one_of("compression", compression.lower(), COMPRESSIONS),
        index_table=own_name or check_name(index_table_name(table.database, table.name, index)),
        index_database=own_database,
        comment=comment,
        where=where,
        auto_refresh=auto_refresh,
        refresh_interval=checked_interval(refresh_interval),
        keep_removed=checked_keeping(index, source, keep_removed),
        properties=_user_properties(properties or {}),
        source=source,
        catalog=table.catalog,
        partitioned_by=table.partition_columns,
        aggregates=aggregate_columns.resolve(table, ordered, aggregates, measured, counts_rows=kind == "AGGREGATE"),
        expressions=expressions,
    )


def _index_table(table: Table, index_table: str, index_database: str) -> tuple[str, str]:
    """Return the database and the name of a new index table.

    An empty database stands for the database of the base table, an empty name for the default name.
    """
    database, _, name = index_table.rpartition(".")
    if index_table and not name:
        raise InvalidProperty(f"{index_table!r} is not the name of a table: use table or database.table")
    if not index_table and table.lake is None:
        database = index_database
    database = check_name(database.strip())
    return "" if database == table.database else database, check_name(name)


def _require_of_lake(table: Table, *, where: str, index_table: str | None) -> None:
    """Raise Unsupported for options that Delta and Iceberg tables do not support.

    `where` is "" and `index_table` is None if the option is not given.
    """
    if table.lake is None:
        return
    table_text = f"{table.lake.kind} table {table.full_name}"
    if where:
        raise Unsupported(f"an index on {table_text} covers all of its files: WHERE is not supported there")
    if index_table:
        raise Unsupported(f"the index table of {table_text} has its default name: IN TABLE is not supported there")


def own_property(key: str) -> str | None:
    """Return the item of OWN_PROPERTIES with the name `key`, ignoring case.

    Return None for a user-defined property. Raise InvalidProperty if `key` is probably a misspelt item of
    OWN_PROPERTIES, which would silently have no effect.
    """
    if key.lower() in OWN_PROPERTIES:
        return key.lower()
    if meant := nearest(key.removeprefix(PREFIX), OWN_PROPERTIES):
        raise InvalidProperty(f"unknown property {key!r}; did you mean {meant!r}?")
    return None


def require_followable(name: str, type: str, auto_refresh: bool) -> None:
    """Raise InvalidProperty if `auto_refresh` is set for a COMPACT index, which cannot have it."""
    if auto_refresh and type == "COMPACT":
        raise InvalidProperty(
            f"index {name} is COMPACT, which readers expect to change only when it is rebuilt: auto_refresh is for "
            "BITMAP and AGGREGATE"
        )


def checked_keeping(name: str, source: str, length: str) -> str:
    """Check a value of `keep_removed`, and return its stored form.

    `length` is the value; a number without a unit is in days. `name` is the name of the index. `source` is `delta`,
    `iceberg` or "", the kind of log that lists the table's files. Return "" if nothing is to be kept. Raise
    InvalidProperty for an invalid length of time, and for a table that is neither Delta nor Iceberg, because removed
    files of such a table no longer exist.

    >>> [checked_keeping("i", "delta", length) for length in ("7", "12 hours", "0")]
    ['7 days', '12 hours', '']
    """
    days = length.strip()
    normalized = f"{days} days" if days.replace(".", "", 1).isdecimal() else days
    if not normalized or not seconds_of(normalized):
        return ""
    if not source:
        raise InvalidProperty(f"index {name} cannot have keep_removed: only Delta and Iceberg keep removed files")
    return normalized


def checked_interval(length: str) -> str:
    """Check a value of `refresh_interval`, and return its stored form.

    `length` is the value. Raise InvalidProperty if it is not a length of time, or is too short or too long.
    """
    interval_of(length, "refresh_interval")
    return length.strip().lower()


def flag(name: str, value: str) -> bool:
    """Convert the value of a property to a boolean.

    `value` is `true` or `false`, in any case. Raise InvalidProperty for any other value; the message has the `name` of
    the property.
    """
    return one_of(f"value of {name}", value.strip().lower(), ("true", "false")) == "true"


def check_name(name: str) -> str:
    """Return the name of an index or index table in lower case.

    Raise InvalidProperty for a name that metastores reject.
    """
    if re.search(r"[^a-z0-9_]", name.lower()):
        raise InvalidProperty(f"{name!r} cannot name an index or its table: names are letters, digits and _")
    return name.lower()


def default_name(columns: Sequence[str]) -> str:
    """Return the default name of an index on these columns.

    Characters that a metastore rejects become `_`.

    >>> default_name(["Origin", "dest city"])
    'origin_dest_city'
    """
    return re.sub(r"[^a-z0-9_]", "_", "_".join(columns).lower())


def require_distinct(definitions: Sequence[Definition]) -> None:
    """Raise AlreadyExists if two indexes of a build would share an index table."""
    tables = [definition.pointer for definition in definitions]
    for table in tables:
        if tables.count(table) > 1:
            raise AlreadyExists(f"two of the indexes would have the table {table}: build them one by one, with names")


def to_properties(definition: Definition) -> dict[str, str]:
    """Return the TBLPROPERTIES that store a definition."""
    columns = [_column_fields(column) for column in definition.columns]
    optional = {PREFIX + "next_encoding": definition.next_encoding} if definition.next_encoding else {}
    if definition.id:
        optional[PREFIX + "id"] = definition.id
    if definition.auto_refresh:
        optional[PREFIX + "auto_refresh"] = "true"
    if definition.refresh_interval != REFRESH_INTERVAL:
        optional[PREFIX + "refresh_interval"] = definition.refresh_interval
    if definition.keep_removed:
        optional[PREFIX + "keep_removed"] = definition.keep_removed
    if definition.source:
        optional[PREFIX + "source"] = definition.source
    if definition.index_database:
        optional[INDEX_DATABASE] = definition.index_database
    if definition.properties:
        optional[PREFIX + "properties"] = json.dumps(definition.properties, ensure_ascii=True)
    if definition.partitioned_by:
        by = [_column_fields(column) for column in definition.partitioned_by]
        optional[PREFIX + "partitioned_by"] = json.dumps(by, ensure_ascii=True)
    if definition.aggregates:
        optional[PREFIX + AGGREGATES] = _aggregates_text(definition.aggregates)
    if definition.expressions:
        optional[PREFIX + EXPRESSIONS] = _expressions_text(definition.expressions)
    if definition.aggregated_expressions:
        optional[PREFIX + MEASURED] = _expressions_text(definition.aggregated_expressions)
    if features := [name for name in (AGGREGATES, EXPRESSIONS, MEASURED) if PREFIX + name in optional]:
        optional[PREFIX + "features"] = ",".join(features)
    properties = {
        PREFIX + "version": definition.version,
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
        **optional,
    }
    return {**properties, PREFIX + "crc32": str(zlib.crc32(json.dumps(sorted(properties.items())).encode()))}


def from_table(table: Table) -> Definition | None:
    """Return the definition stored in an index table.

    Return None if the table is not an index table, or if its definition contradicts its database or its columns.
    """
    definition = from_properties(table.properties)
    if definition is None or definition.index_table_database != table.database:
        return None
    stored = _typed((*definition.columns, *stored_columns(definition)))
    if stored != _typed(table.columns)[: len(stored)]:
        return None
    if not definition.is_former and _typed(table.partition_columns) != _typed([SEGMENT]):
        return None
    return replace(definition, index_table=table.name)


def _typed(columns: Sequence[Column]) -> list[tuple[str, str]]:
    return [(column.name.lower(), column.type) for column in columns]


def pointers(table: Table) -> set[tuple[str, str]]:
    """Return the index tables in a base table's POINTER property, as pairs (database, name)."""
    entries = re.findall(r"(?:^|,)(?:([a-z0-9_]+)\.)?([a-z0-9_]+)(?=,|$)", table.properties.get(POINTER, ""))
    return {(database or table.database, name) for database, name in entries}


def has_properties(table: Table) -> bool:
    """Return whether a table has properties that only index tables have."""
    return any(key.startswith(PREFIX) and key != POINTER for key in table.properties)


def from_properties(properties: Mapping[str, str]) -> Definition | None:
    """Return the definition in these TBLPROPERTIES.

    Return None if the properties store no valid definition, if this version does not know its format (`knows`), or if
    the definition was edited.
    """
    stored = {key[len(PREFIX) :]: value for key, value in properties.items() if key.startswith(PREFIX)}
    try:
        source, version = stored.get("source", ""), stored["version"]
        if not knows(properties) or version not in (VERSION, FORMER_VERSIONS.get(source)):
            return None
        if stored["type"] not in TYPES:
            return None
        *catalog, database, base = stored["table"].split(".", 2 if source and stored["table"].count(".") > 1 else 1)
        definition = Definition(
            name=stored["index"],
            database=database,
            table=base,
            columns=_columns(stored["columns"], source),
            type=stored["type"],
            encoding=one_of("encoding", stored["encoding"], tuple(ENCODINGS)),
            compression=stored.get("compression", "zstd"),
            root=stored["root"],
            comment=stored.get("comment", ""),
            where=stored.get("where", ""),
            enabled=stored.get("enabled", "true") == "true",
            next_encoding=stored.get("next_encoding", ""),
            auto_refresh=stored.get("auto_refresh") == "true",
            refresh_interval=checked_interval(stored.get("refresh_interval", REFRESH_INTERVAL)),
            keep_removed=checked_keeping(stored["index"], source, stored.get("keep_removed", "")),
            properties=tuple((key, value) for key, value in json.loads(stored.get("properties", "[]"))),
            id=stored.get("id", ""),
            source=source,
            catalog=catalog[0] if catalog else "",
            partitioned_by=_columns(stored.get("partitioned_by", "[]"), source),
            version=version,
            index_database=check_name(stored.get("index_database", "")),
            aggregates=_aggregates(
                stored.get(AGGREGATES, "[]"), _expressions(stored.get(MEASURED, "[]"), source), source
            ),
            expressions=_expressions(stored.get(EXPRESSIONS, "[]"), source),
        )
        if definition.columns[len(definition.plain_columns) :] != tuple(e.stored for e in definition.expressions):
            return None
        if definition.counts_files and definition.aggregates[:1] != (Aggregate("count"),):
            return None
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError, InvalidProperty, Unsupported):
        return None
    crc32 = to_properties(definition)[PREFIX + "crc32"]
    return definition if stored.get("crc32", crc32) == crc32 else None


def knows(properties: Mapping[str, str]) -> bool:
    """Return whether this version of hive_bitmap knows the format of a stored definition.

    `properties` are the TBLPROPERTIES that store the definition. The formats of FORMER_VERSIONS are known, too.
    """
    version, features = properties.get(PREFIX + "version", VERSION), properties.get(PREFIX + "features", "")
    if version not in (VERSION, *FORMER_VERSIONS.values()):
        return False
    return FEATURES.issuperset(filter(None, features.split(",")))


def _columns(text: str, source: str) -> tuple[Column, ...]:
    """Read a JSON array of columns.

    Raise ValueError or TypeError for other content, and RecursionError for deeply nested content. If `source` is empty,
    raise ValueError for a column that has another name or an id in files: only columns of Delta and Iceberg tables have
    these.
    """
    columns = tuple(_column(*fields) for fields in json.loads(text))
    if not source and any(column.file_name or column.field_id is not None for column in columns):
        raise ValueError(f"{text} has more than names and types")
    if not all(isinstance(part, str) for column in columns for part in (column.name, column.type, column.file_name)):
        raise ValueError(f"{text} does not consist of names and types")
    return columns


def _aggregates_text(aggregates: Sequence[Aggregate]) -> str:
    """Return aggregates as JSON.

    There is a list for each aggregate, with its function and its column (`_column_fields`).
    """
    items = [[a.function, *([] if a.column is None else [_column_fields(a.column)])] for a in aggregates]
    return json.dumps(items, ensure_ascii=True)


def _aggregates(text: str, expressions: Sequence[KeyExpression], source: str) -> tuple[Aggregate, ...]:
    """Read a JSON array of aggregates.

    If the column of an aggregate has the alias and type of one of the `expressions`, the expression is aggregated,
    otherwise a column of the base table. Raise the same errors as `_columns`.
    """
    by_column = {expression.stored: expression for expression in expressions}
    items = [(function, _columns(json.dumps(columns), source)) for function, *columns in json.loads(text)]
    pairs = ((function, columns[0] if columns else None) for function, columns in items)
    aggregates = tuple(
        Aggregate(function, column, None if column is None else by_column.get(column)) for function, column in pairs
    )
    if not all(
        a.function in ({"count"} if a.column is None else aggregate_columns.functions_of(a.column)) for a in aggregates
    ):
        raise ValueError(f"{text} does not consist of aggregates")
    if not {a.column for a in aggregates if a.column} <= {a.column for a in aggregates if a.function == "count"}:
        raise ValueError(f"{text} lacks the count of a column")
    return aggregates if all(a.field for a in aggregates) else ()


def _expressions_text(expressions: Sequence[KeyExpression]) -> str:
    """Return keys or aggregated expressions as a JSON array of objects."""
    items = [
        {
            "alias": expression.alias,
            "type": expression.type,
            "sql": expression.sql,
            "canonical": expression.canonical,
            "columns": [_column_fields(column) for column in expression.columns],
            "settings": dict(expression.settings),
            "spark": expression.spark,
        }
        for expression in expressions
    ]
    return json.dumps(items, ensure_ascii=True)


def _expressions(text: str, source: str) -> tuple[KeyExpression, ...]:
    """Read a JSON array of expressions.

    The expressions are keys, or are aggregated. Raise the same errors as `_columns`, KeyError and AttributeError.
    """
    return tuple(
        KeyExpression(
            alias=item["alias"],
            type=item["type"],
            sql=item["sql"],
            canonical=item["canonical"],
            columns=_columns(json.dumps(item["columns"]), source),
            settings=tuple((str(name), str(value)) for name, value in item["settings"].items()),
            spark=item["spark"],
        )
        for item in json.loads(text)
    )


def _column(name: str, type: str, file_name: str = "", field_id: int | None = None) -> Column:
    return Column(name, type, file_name=file_name, field_id=None if field_id is None else int(field_id))


def _column_fields(column: Column) -> list[str | int]:
    """Return a column as a list to store as JSON.

    The list has the name and the type. If files identify the column by another name, the list also has that name. If
    files identify the column by an id, the list has four items: the third is the other name (empty if there is none),
    the fourth is the id.
    """
    if column.field_id is not None:
        return [column.name, column.type, column.file_name, column.field_id]
    return [column.name, column.type, *filter(None, [column.file_name])]


def stored_columns(definition: Definition) -> list[Column]:
    """Return the columns of an index table that follow the key columns.

    The partition column SEGMENT is left out.
    """
    bucket = Column(BUCKET.name, "string")
    aggregates = [aggregate.stored for aggregate in definition.aggregates]
    if not definition.has_bitmaps:
        return [bucket, Column(OFFSETS.name, "array<bigint>"), *aggregates, *value_columns(definition)]
    bitmaps = [Column(field.name, _spark_type(field.type)) for field in definition.bitmap_fields]
    return [bucket, Column(OFFSET.name, "bigint"), *bitmaps, *aggregates, *value_columns(definition)]


def value_columns(definition: Definition) -> list[Column]:
    """Return the columns of an index table that store partition values.

    An index row has the partition values of its base file. Timestamps are stored as text, because the value of a
    timestamp depends on the time zone of the reader.
    """
    as_text = ("timestamp", "timestamp_ntz")
    return [
        Column(column.name, "string" if column.type in as_text else column.type) for column in definition.partitioned_by
    ]


def schema_crc(columns: Sequence[Column], time_zone: str, reading: Sequence[str] = ()) -> int:
    """Return a CRC-32 that identifies the columns of the base table.

    The result changes when a column is added, dropped, renamed, moved or retyped. If there is a timestamp column, the
    result also depends on the time zone of Spark's JVM, which determines the values of ORC's wall-clock times.
    `reading` has the other properties that determine how files are read (`serde.read_properties`).
    """
    zone = time_zone if any(column.type == "timestamp" for column in columns) else ""
    typed = ([column.name.lower(), column.type] for column in columns)
    return zlib.crc32(json.dumps([zone, *reading, *typed]).encode())


def valid_schemas(
    format: str, columns: Sequence[Column], time_zone: str, reading: Sequence[str] = ()
) -> frozenset[int] | None:
    """Return the checksums (`schema_crc`) under which files stay indexed.

    `format` is the file format of the table, and `columns` are its current columns. `time_zone` is the time zone of
    Spark's JVM, and `reading` has the other properties that determine how files are read. The result depends on how the
    files can be read:

    * Parquet files, whose columns are found by name, and files of Iceberg tables, whose columns are found by id, stay
      indexed after any change. The result is None, which stands for all checksums.
    * ORC files with column names and without timestamps also stay indexed after any change. The result has BY_NAME,
      which stands for such ORC files.
    * Other ORC files may lack column names or hold wall-clock times. Such files stay indexed only if the changes added
      columns after the existing columns.
    * Files that a SerDe reads stay indexed only if nothing changed.
    """
    ids = [column.field_id is not None for column in columns]
    if format == "parquet" or (format == "orc" and not reading and all(ids)):
        return None
    by_name = {BY_NAME} if format == "orc" and not reading and not any(ids) else set()
    return frozenset(known_schemas(columns, time_zone, reading)) | by_name


def known_schemas(columns: Sequence[Column], time_zone: str, reading: Sequence[str] = ()) -> dict[int, frozenset[str]]:
    """Return the checksums (`schema_crc`) that a table may have had.

    The columns may have been added one after another, so there is a checksum for the first column, for the first two,
    and so on. The result maps each checksum to the lower-case names of its columns. `time_zone` is the time zone of
    Spark's JVM, and `reading` has the other properties that determine how files are read. If a SerDe reads the table,
    there is only the checksum of all current columns.
    """
    ends = [len(columns)] if reading else range(1, len(columns) + 1)
    return {
        schema_crc(columns[:end], time_zone, reading): frozenset(column.name.lower() for column in columns[:end])
        for end in ends
    }


def one_of(kind: str, value: str, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of `allowed`; raise InvalidProperty if not.

    `kind` says in the message what the value is, for example "encoding".
    """
    if value not in allowed:
        raise InvalidProperty(f"unknown {kind} {value!r}; known: {', '.join(allowed)}{suggestion(value, allowed)}")
    return value


def _user_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for key in properties:
        if argument := own_property(key):
            raise InvalidProperty(f"{key!r} is not a user-defined property: pass it as the argument {argument}")
    return tuple(properties.items())


def _spark_type(arrow: pa.DataType) -> str:
    if not pa.types.is_list(arrow):
        return "binary"
    return "array<int>" if arrow.value_type == pa.int32() else "array<bigint>"
