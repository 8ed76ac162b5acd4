"""From text to index statements, in Hive's words or openLooKeng's; whatever else there is belongs to Spark."""

from __future__ import annotations

from hive_bitmap.errors import InvalidStatement
from hive_bitmap.metastore.table_info import NULL_PARTITION
from hive_bitmap.sql.clauses import create_index, index_properties
from hive_bitmap.sql.cursor import Cursor
from hive_bitmap.sql.script import first_words
from hive_bitmap.sql.statements import (
    DropDatabase,
    DropIndex,
    DropTable,
    RebuildIndex,
    RenameIndex,
    SetProperties,
    ShowIndexes,
    Spec,
    Statement,
    TableName,
)
from hive_bitmap.sql.where import where

DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def parse(text: str) -> Statement | None:
    """The index statement that the text is; None if it is another one, which Spark is to read.

    Raises InvalidStatement, with line and column, for an index statement that is not well formed; Unsupported,
    InvalidProperty or NotFound for one that asks for what there is not.

    >>> parse("DROP INDEX IF EXISTS i ON sales")
    DropIndex(name='i', table=TableName(name='sales', database='', catalog=''), if_exists=True, where=None)
    >>> parse("SELECT 1")
    """
    match first_words(text, 3):
        case ["CREATE", "INDEX", *_]:
            return create_index(_behind(text, "CREATE", "INDEX"))
        case ["ALTER", "INDEX", *_]:
            return _alter(_behind(text, "ALTER", "INDEX"))
        case ["DROP", "INDEX", *_]:
            return _drop(_behind(text, "DROP", "INDEX"))
        case ["UPDATE", "INDEX", *_]:
            return _update(_behind(text, "UPDATE", "INDEX"))
        case ["SHOW", "INDEX" | "INDEXES", *_] | ["SHOW", "FORMATTED", "INDEX" | "INDEXES"]:
            return _show(_behind(text, "SHOW"))
        case ["DROP", "TABLE", *_]:
            return _drop_table(text)
        case ["DROP", word, *_] if word in DATABASE_WORDS:
            return _drop_database(text, word)
        case _:
            return None


def _behind(text: str, *words: str) -> Cursor:
    cursor = Cursor(text)
    cursor.expect(*words)
    return cursor


def _alter(cursor: Cursor) -> Statement:
    if_exists = cursor.took("IF", "EXISTS")
    name = cursor.name().lower()
    table = _on_table(cursor)
    if cursor.took("RENAME"):
        cursor.expect("TO")
        new_name = cursor.name().lower()
        cursor.end()
        return RenameIndex(name, new_name, table, if_exists)
    if table is None:
        raise cursor.mismatch("ON", "RENAME TO")
    partition = _partition(cursor) if cursor.took("PARTITION") else ()
    if cursor.took("REBUILD"):
        cursor.end()
        return RebuildIndex(name, table, partition, if_exists)
    if not cursor.took("SET", "IDXPROPERTIES"):
        raise cursor.mismatch("PARTITION", "REBUILD", "SET IDXPROPERTIES", "RENAME TO")
    pairs = index_properties(cursor)
    cursor.end()
    return SetProperties(name, table, pairs, if_exists)  # of one partition, as in Hive, is of the whole index


def _drop(cursor: Cursor) -> Statement | None:
    if_exists = cursor.took("IF", "EXISTS")
    name = cursor.name().lower()
    table = _on_table(cursor)
    if table is not None and table.foreign:
        return None
    condition = where(cursor) if cursor.took("WHERE") else None
    cursor.end(*([] if table else ["ON"]), "WHERE")
    return DropIndex(name, table, if_exists, condition)


def _update(cursor: Cursor) -> Statement | None:
    """Spark's UPDATE changes a table, whose name may be INDEX too: it has SET behind the name, or behind an alias."""
    if cursor.token.key in (".", "SET", "AS"):
        return None
    if_exists = cursor.took("IF", "EXISTS")
    name = cursor.name().lower()
    if cursor.sees("SET"):
        return None
    table = _on_table(cursor)
    cursor.end(*([] if table else ["ON"]))
    return RebuildIndex(name, table, if_exists=if_exists)


def _show(cursor: Cursor) -> ShowIndexes:
    formatted = cursor.took("FORMATTED")
    cursor.take()  # INDEX or INDEXES
    if not cursor.sees("ON") and not formatted:
        cursor.took("IF", "EXISTS")  # an unknown name shows nothing anyway, as there
        name = cursor.name().lower() if cursor.token.kind != "end" else None
        cursor.end()
        return ShowIndexes(name=name)
    cursor.expect("ON")
    table = cursor.table()
    if cursor.took("FROM") or cursor.took("IN"):
        if table.database:
            raise cursor.refusal(f"the database stands in {table} already")
        table = TableName(table.name, cursor.name())
    cursor.end(*([] if table.database else ["FROM"]))
    return ShowIndexes(table)


def _drop_table(text: str) -> DropTable | None:
    """A form that is not understood is left to Spark, which tells what is wrong with it or knows better."""
    try:
        cursor = _behind(text, "DROP", "TABLE")
        if_exists = cursor.took("IF", "EXISTS")
        table = cursor.table()
        purge = cursor.took("PURGE")
        cursor.end()
    except InvalidStatement:
        return None
    return None if table.foreign else DropTable(table, if_exists, purge)


def _drop_database(text: str, word: str) -> DropDatabase | None:
    """Without CASCADE Spark drops an empty database only, and that one has no index."""
    try:
        cursor = _behind(text, "DROP", word)
        if_exists = cursor.took("IF", "EXISTS")
        *catalog, name = cursor.path()
        cursor.expect("CASCADE")
        cursor.end()
    except InvalidStatement:
        return None
    database = DropDatabase(name, ".".join(catalog), if_exists)
    return None if TableName("", catalog=database.catalog).foreign else database


def _on_table(cursor: Cursor) -> TableName | None:
    if not cursor.took("ON"):
        return None
    cursor.took("TABLE")
    return cursor.table()


def _partition(cursor: Cursor) -> Spec:
    """Hive's `(p=1, q='x')`."""

    def pair() -> tuple[str, str | None]:
        column = cursor.name()
        cursor.expect("=")
        return column, _value(cursor)

    return cursor.items(pair)


def _value(cursor: Cursor) -> str | None:
    """A partition's value as text; NULL may be named as Hive names its folder."""
    if cursor.token.key == "DATE":
        cursor.take()
    sign = "-" if cursor.took("-") else ""
    token = cursor.token
    if token.kind == "number":
        return sign + cursor.take().text
    if not sign and cursor.took("NULL"):
        return None
    if not sign and token.key in ("TRUE", "FALSE"):
        return cursor.take().text.lower()
    if sign or token.kind != "string":
        raise cursor.mismatch("a value")
    value = cursor.string()
    return None if value == NULL_PARTITION else value
