"""CREATE INDEX, read: Hive's clauses in their fixed order, or openLooKeng's USING .. ON .. WITH .. WHERE."""

from __future__ import annotations

from hive_bitmap.errors import InvalidProperty, NotFound, Unsupported
from hive_bitmap.index.definition import PREFIX, own_property
from hive_bitmap.sql.cursor import Cursor
from hive_bitmap.sql.statements import CreateIndex, Dialect, Pairs, TableName
from hive_bitmap.sql.where import where

_HANDLERS = "org.apache.hadoop.hive.ql.index."
_TYPES = {
    "bitmap": "BITMAP",
    "compact": "COMPACT",
    _HANDLERS + "bitmap.BitmapIndexHandler": "BITMAP",
    _HANDLERS + "compact.CompactIndexHandler": "COMPACT",
}
_AGGREGATE = ("aggregate", _HANDLERS + "AggregateIndexHandler")
_SERVED = ("BLOOM", "BTREE", "MINMAX")  # types of openLooKeng whose predicates a BITMAP index answers
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
    """The statement behind CREATE INDEX; None if it is Spark's own, about a table of another catalog."""
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    name = cursor.name().lower()
    if cursor.took("USING"):
        return _openlookeng(cursor, name, if_not_exists)
    if not cursor.took("ON"):
        raise cursor.mismatch("ON TABLE", "USING")
    cursor.took("TABLE")
    table = cursor.table()
    return None if table.foreign else _hive(cursor, name, table, if_not_exists)


def properties(cursor: Cursor) -> Pairs:
    """Hive's `('k'='v', ..)`."""

    def pair() -> tuple[str, str]:
        key = cursor.string()
        cursor.expect("=")
        return key, cursor.string()

    return cursor.items(pair)


def index_properties(cursor: Cursor) -> Pairs:
    """Hive's properties of an index: ours and any other; raises InvalidProperty for what is nearly one of ours."""
    return tuple((own_property(key) or key, value) for key, value in properties(cursor))


def _hive(cursor: Cursor, name: str, table: TableName, if_not_exists: bool) -> CreateIndex:
    columns = cursor.items(cursor.name)
    cursor.expect("AS")
    type = _handler(cursor.string())
    deferred = cursor.took("WITH")
    if deferred:
        cursor.expect("DEFERRED", "REBUILD")
    idx_properties = index_properties(cursor) if cursor.took("IDXPROPERTIES") else ()
    index_table = None
    if cursor.took("IN"):
        cursor.expect("TABLE")
        index_table = cursor.table()
    _row_format(cursor)
    _stored(cursor)
    location = cursor.string() if cursor.took("LOCATION") else None
    table_properties = _table_properties(cursor) if cursor.took("TBLPROPERTIES") else ()
    comment = cursor.string() if cursor.took("COMMENT") else ""
    cursor.end("one of " + ", ".join(_CLAUSES) + " in this order")
    return CreateIndex(
        name,
        table,
        columns,
        type=type,
        if_not_exists=if_not_exists,
        deferred=deferred,
        properties=idx_properties,
        index_table=index_table,
        location=location,
        table_properties=table_properties,
        comment=comment,
    )


def _openlookeng(cursor: Cursor, name: str, if_not_exists: bool) -> CreateIndex:
    type = cursor.token.key
    if type in _SERVED:
        raise Unsupported(f"type {type} is not built: BITMAP answers the same predicates, say USING bitmap")
    if not cursor.took("BITMAP"):
        raise cursor.mismatch("BITMAP")
    cursor.expect("ON")
    table = cursor.table()
    if table.foreign:
        raise Unsupported(f"CREATE INDEX is not supported in catalog '{table.catalog}'")
    columns = cursor.items(cursor.name)
    if any("=" in column for column in columns):
        raise Unsupported("Index can not be created on a partitioned column")
    pairs = cursor.items(lambda: _with_pair(cursor)) if cursor.took("WITH") else ()
    condition = where(cursor) if cursor.took("WHERE") else None
    cursor.end(*([] if pairs else ["WITH"]), "WHERE")
    return CreateIndex(
        name,
        table,
        columns,
        Dialect.OPENLOOKENG,
        if_not_exists=if_not_exists,
        properties=pairs,
        where=condition,
    )


def _handler(said: str) -> str:
    """The type that a word, or the name of Hive's class, stands for."""
    type = _TYPES.get(said) or _TYPES.get(said.lower())
    if type is not None:
        return type
    if said in _AGGREGATE or said.lower() in _AGGREGATE:
        raise Unsupported("type AGGREGATE is not built: counts come from a BITMAP index, say AS 'BITMAP'")
    raise NotFound(f"class name provided for index handler not found. '{said}' is none of BITMAP and COMPACT")


def _table_properties(cursor: Cursor) -> Pairs:
    pairs = properties(cursor)
    for key, _ in pairs:
        if key.startswith(PREFIX):
            raise InvalidProperty(f"{key} cannot be set in TBLPROPERTIES: say ('encoding'='gap') in IDXPROPERTIES")
    return pairs


def _row_format(cursor: Cursor) -> None:
    """Accepted where it says what an index table is anyway."""
    if not cursor.sees("ROW"):
        return
    refusal = cursor.refusal("an index table is Parquet, which has no other ROW FORMAT: leave it out")
    cursor.expect("ROW", "FORMAT")
    if not cursor.took("SERDE") or not _is_parquet(cursor.string()):
        raise refusal
    if cursor.took("WITH"):
        cursor.expect("SERDEPROPERTIES")
        properties(cursor)


def _stored(cursor: Cursor) -> None:
    """Accepted where it says what an index table is anyway."""
    if not cursor.sees("STORED"):
        return
    refusal = cursor.refusal("an index table is stored as Parquet and cannot be stored otherwise: leave it out")
    cursor.expect("STORED")
    if not cursor.took("AS"):
        raise refusal
    if cursor.took("INPUTFORMAT"):
        formats = [cursor.string()]
        cursor.expect("OUTPUTFORMAT")
        formats.append(cursor.string())
        if not all(map(_is_parquet, formats)):
            raise refusal
    elif cursor.name().upper() != "PARQUET":
        raise refusal


def _is_parquet(class_name: str) -> bool:
    return class_name.removeprefix("org.apache.hadoop.hive.ql.io.") in _PARQUET


def _with_pair(cursor: Cursor) -> tuple[str, str]:
    """One of openLooKeng's properties; key and value may stand in quotes of either kind or in none."""
    key = cursor.string(escapes=False) if cursor.token.kind == "string" else ".".join(cursor.path())
    cursor.expect("=")
    if cursor.token.kind == "string":
        return _checked(key.lower(), cursor.string(escapes=False))
    if cursor.token.kind not in ("word", "name", "number"):
        raise cursor.mismatch("a value")
    return _checked(key.lower(), cursor.take().text)


def _checked(key: str, value: str) -> tuple[str, str]:
    """A property, if openLooKeng and we take its value; those that only openLooKeng heeds are kept as they are."""
    match key:
        case "level" if value.upper() not in ("STRIPE", "UNDEFINED"):
            raise InvalidProperty(f"BITMAP does not support specified index level: {value!r}; it takes 'stripe'")
        case "autoload" if value.lower() not in ("true", "false"):
            raise InvalidProperty("Unrecognized value for key 'autoload', only 'true' or 'false' are allowed")
        case "bitmap.values_per_node" if not value.isdigit():
            raise InvalidProperty(f"bitmap.values_per_node takes a number, not {value!r}")
    return own_property(key) or key, value
