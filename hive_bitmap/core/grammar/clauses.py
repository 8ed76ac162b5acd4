"""Parse CREATE INDEX.

Hive's clauses have a fixed order; openLooKeng has USING .. ON .. WITH .. WHERE.
"""

from __future__ import annotations

from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.statements import CreateIndex, Dialect, Pairs, TableName
from hive_bitmap.core.grammar.where import where
from hive_bitmap.core.index.definition import PREFIX, TYPES, one_of, own_property
from hive_bitmap.errors import InvalidProperty, Unsupported

_HANDLERS = "org.apache.hadoop.hive.ql.index."
_TYPES = {
    "bitmap": "BITMAP",
    "compact": "COMPACT",
    "aggregate": "AGGREGATE",
    _HANDLERS + "bitmap.BitmapIndexHandler": "BITMAP",
    _HANDLERS + "compact.CompactIndexHandler": "COMPACT",
    _HANDLERS + "AggregateIndexHandler": "AGGREGATE",
}
_OTHER_TYPES = ("BLOOM", "BTREE", "MINMAX")  # openLooKeng's other index types; BITMAP answers the same predicates
_PARQUET = (
    "parquet.serde.ParquetHiveSerDe",
    "parquet.MapredParquetInputFormat",
    "parquet.MapredParquetOutputFormat",
)
_CLAUSES = (
    "WITH DEFERRED REBUILD",
    "IDXPROPERTIES",
    "IN TABLE",
    "ROW FORMAT",
    "STORED",
    "LOCATION",
    "TBLPROPERTIES",
    "COMMENT",
)


def create_index(cursor: Cursor) -> CreateIndex | None:
    """Parse what follows CREATE INDEX.

    Return None if the table cannot have indexes, so that Spark must run the statement. But if a statement of
    openLooKeng's dialect names the catalog of such a table, raise Unsupported.
    """
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name().lower()
    if cursor.accept("USING"):
        return _openlookeng(cursor, name, if_not_exists)
    if not cursor.accept("ON"):
        raise cursor.mismatch("ON TABLE", "USING")
    cursor.accept("TABLE")
    table = cursor.table()
    return None if cursor.is_foreign(table) else _hive(cursor, name, table, if_not_exists)


def properties(cursor: Cursor) -> Pairs:
    """Parse Hive's `('k'='v', ..)`."""

    def pair() -> tuple[str, str]:
        key = cursor.string()
        cursor.expect("=")
        return key, cursor.string()

    return cursor.items(pair)


def index_properties(cursor: Cursor) -> Pairs:
    """Parse IDXPROPERTIES.

    Names of hive_bitmap's own properties become lower case. Other names keep their case. Raises InvalidProperty for a
    name that looks like a misspelt property of hive_bitmap.
    """
    return tuple((own_property(key) or key, value) for key, value in properties(cursor))


def _hive(cursor: Cursor, name: str, table: TableName, if_not_exists: bool) -> CreateIndex:
    columns = cursor.items(cursor.key)
    has_type = cursor.accept("AS")
    type = _handler(cursor.string()) if has_type else "BITMAP"
    deferred = cursor.accept("WITH")
    if deferred:
        cursor.expect("DEFERRED", "REBUILD")
    idx_properties = index_properties(cursor) if cursor.accept("IDXPROPERTIES") else ()
    index_table = None
    if cursor.accept("IN"):
        cursor.expect("TABLE")
        index_table = cursor.table()
    _row_format(cursor)
    _stored(cursor)
    location = cursor.string() if cursor.accept("LOCATION") else None
    table_properties = _table_properties(cursor) if cursor.accept("TBLPROPERTIES") else ()
    comment = cursor.string() if cursor.accept("COMMENT") else ""
    cursor.end(*([] if has_type else ["AS"]), "one of " + ", ".join(_CLAUSES) + " in this order")
    return CreateIndex(
        name=name,
        table=table,
        columns=columns,
        type=type,
        if_not_exists=if_not_exists,
        deferred=deferred,
        properties=idx_properties,
        index_table=index_table,
        location=location,
        table_properties=table_properties,
        comment=comment,
    )


def _openlookeng(cursor: Cursor, name: str, if_not_exists: bool) -> CreateIndex | None:
    type = cursor.token.key
    if type in _OTHER_TYPES:
        raise Unsupported(f"index type {type} is not supported: use USING bitmap, which answers the same predicates")
    if not cursor.accept("BITMAP") and not cursor.accept("AGGREGATE"):
        raise cursor.mismatch("BITMAP", "AGGREGATE")
    cursor.expect("ON")
    table = cursor.table()
    if cursor.is_foreign(table):
        if table.catalog:
            raise Unsupported(f"table {table} is in catalog {table.catalog!r}, which has no bitmap indexes")
        return None
    columns = cursor.items(cursor.key)
    if any("=" in column for column in columns if isinstance(column, str)):
        raise Unsupported("a partition cannot be a column of an index: choose partitions with WHERE")
    pairs = cursor.items(lambda: _with_pair(cursor)) if cursor.accept("WITH") else ()
    condition = where(cursor) if cursor.accept("WHERE") else None
    cursor.end(*([] if pairs else ["WITH"]), "WHERE")
    return CreateIndex(
        name=name,
        table=table,
        columns=columns,
        type=type,
        dialect=Dialect.OPENLOOKENG,
        if_not_exists=if_not_exists,
        properties=pairs,
        where=condition,
    )


def _handler(name: str) -> str:
    """Return the index type that Hive's `AS 'name'` means.

    The name is a word or the name of a handler class.
    """
    type = _TYPES.get(name) or _TYPES.get(name.lower())
    return type or one_of("index type", name, TYPES)


def _table_properties(cursor: Cursor) -> Pairs:
    pairs = properties(cursor)
    for key, _ in pairs:
        if key.startswith(PREFIX):
            raise InvalidProperty(
                f"{key} cannot be set in TBLPROPERTIES: set it in IDXPROPERTIES, like ('encoding'='gap')"
            )
    return pairs


def _row_format(cursor: Cursor) -> None:
    """Parse ROW FORMAT, which may only name Parquet's SerDe.

    Index tables are always Parquet.
    """
    if not cursor.next_is("ROW"):
        return
    error = cursor.error("an index table is Parquet and has no other ROW FORMAT: leave it out")
    cursor.expect("ROW", "FORMAT")
    if not cursor.accept("SERDE") or not _is_parquet(cursor.string()):
        raise error
    if cursor.accept("WITH"):
        cursor.expect("SERDEPROPERTIES")
        properties(cursor)


def _stored(cursor: Cursor) -> None:
    """Parse STORED AS, which may only name Parquet.

    Index tables are always Parquet.
    """
    if not cursor.next_is("STORED"):
        return
    error = cursor.error("an index table is stored as Parquet and cannot be stored otherwise: leave it out")
    cursor.expect("STORED")
    if not cursor.accept("AS"):
        raise error
    if cursor.accept("INPUTFORMAT"):
        formats = [cursor.string()]
        cursor.expect("OUTPUTFORMAT")
        formats.append(cursor.string())
        if not all(map(_is_parquet, formats)):
            raise error
    elif cursor.name().upper() != "PARQUET":
        raise error


def _is_parquet(class_name: str) -> bool:
    return class_name.removeprefix("org.apache.hadoop.hive.ql.io.") in _PARQUET


def _with_pair(cursor: Cursor) -> tuple[str, str]:
    """Parse one property of openLooKeng's WITH clause.

    Key and value may be in single quotes, in double quotes or unquoted.
    """
    key = cursor.string(escapes=False) if cursor.token.kind == "string" else ".".join(cursor.path())
    cursor.expect("=")
    if cursor.token.kind == "string":
        return _checked(key.lower(), cursor.string(escapes=False))
    if cursor.token.kind not in ("word", "name", "number"):
        raise cursor.mismatch("a value")
    return _checked(key.lower(), cursor.advance().text)


def _checked(key: str, value: str) -> tuple[str, str]:
    """Validate a property as openLooKeng does; return the property.

    Properties without meaning for hive_bitmap are preserved.
    """
    match key:
        case "level" if value.upper() not in ("STRIPE", "UNDEFINED"):
            raise InvalidProperty(f"unknown level {value!r}; known: stripe")
        case "autoload" if value.lower() not in ("true", "false"):
            raise InvalidProperty(f"unknown value of autoload {value!r}; known: true, false")
        case "bitmap.values_per_node" if not value.isdigit():
            raise InvalidProperty(f"bitmap.values_per_node is {value!r}, which is not a number")
    return own_property(key) or key, value
