"""Parse index statements of Hive's and openLooKeng's dialects; all other statements are left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hive_bitmap.core.table_info import NULL_PARTITION
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.spark.sql.clauses import create_index, index_properties
from hive_bitmap.spark.sql.cursor import Cursor
from hive_bitmap.spark.sql.script import first_words
from hive_bitmap.spark.sql.statements import (
    DropDatabase,
    DropIndex,
    DropTable,
    RebuildIndex,
    RefreshIndex,
    RenameIndex,
    SetProperties,
    ShowIndexes,
    Spec,
    Statement,
    TableName,
)
from hive_bitmap.spark.sql.where import where

DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def parse(text: str, is_indexable: Callable[[TableName], bool] = TableName.is_own) -> Statement | None:
    """Parse an index statement; None for any other statement, which is for Spark to parse.

    `is_indexable` says whether a table may have indexes; by default, tables of the session's own catalog may.

    DROP TABLE, and DROP DATABASE with CASCADE, count as index statements, since they drop indexes. Raises
    InvalidStatement, with line and column, for a statement that is not well formed; Unsupported, InvalidProperty or
    NotFound for an index type or property that does not exist here.

    >>> parse("DROP INDEX IF EXISTS i ON sales")
    DropIndex(name='i', table=TableName(name='sales', database='', catalog=''), if_exists=True, where=None)
    >>> parse("SELECT 1")
    """
    begun = partial(_cursor_after, text, is_indexable)
    match first_words(text, 3):
        case ["CREATE", "INDEX", *_]:
            return create_index(begun("CREATE", "INDEX"))
        case ["ALTER", "INDEX", *_]:
            return _alter(begun("ALTER", "INDEX"))
        case ["DROP", "INDEX", *_]:
            return _drop(begun("DROP", "INDEX"))
        case ["UPDATE", "INDEX", *_]:
            return _update(begun("UPDATE", "INDEX"))
        case ["REFRESH", "INDEX", *_]:
            return _refresh(begun("REFRESH", "INDEX"))
        case ["SHOW", "INDEX" | "INDEXES", *_] | ["SHOW", "FORMATTED", "INDEX" | "INDEXES"]:
            return _show(begun("SHOW"))
        case ["DROP", "TABLE", *_]:
            return _drop_table(begun)
        case ["DROP", word, *_] if word in DATABASE_WORDS:
            return _drop_database(begun, word)
        case _:
            return None


def _cursor_after(text: str, is_indexable: Callable[[TableName], bool], *words: str) -> Cursor:
    cursor = Cursor(text, is_indexable)
    cursor.expect(*words)
    return cursor


def _alter(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name().lower()
    table = _on_table(cursor)
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        new_name = cursor.name().lower()
        cursor.end()
        return RenameIndex(name, new_name, table, if_exists)
    if table is None:
        raise cursor.mismatch("ON", "RENAME TO")
    partition = _partition(cursor) if cursor.accept("PARTITION") else ()
    if cursor.accept("REBUILD"):
        cursor.end()
        return RebuildIndex(name, table, partition, if_exists)
    if not cursor.accept("SET", "IDXPROPERTIES"):
        raise cursor.mismatch("PARTITION", "REBUILD", "SET IDXPROPERTIES", "RENAME TO")
    pairs = index_properties(cursor)
    cursor.end()
    return SetProperties(name, table, pairs, if_exists)  # as in Hive, PARTITION makes no difference here


def _drop(cursor: Cursor) -> Statement | None:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name().lower()
    table = _on_table(cursor)
    if table is not None and cursor.is_foreign(table):
        return None
    condition = where(cursor) if cursor.accept("WHERE") else None
    cursor.end(*([] if table else ["ON"]), "WHERE")
    return DropIndex(name, table, if_exists, condition)


def _update(cursor: Cursor) -> Statement | None:
    """Parse what follows UPDATE INDEX; None if it is Spark's UPDATE of a table named INDEX, which has SET behind the
    table's name or its alias.
    """
    if cursor.token.key in (".", "SET", "AS"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name().lower()
    if cursor.next_is("SET"):
        return None
    table = _on_table(cursor)
    cursor.end(*([] if table else ["ON"]))
    return RebuildIndex(name, table, if_exists=if_exists)


def _refresh(cursor: Cursor) -> Statement | None:
    """Parse what follows REFRESH INDEX; None for Spark's REFRESH of a path named INDEX, or a table without indexes."""
    if cursor.token.kind == "end":
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name().lower()
    table = _on_table(cursor)
    if table is None:
        raise cursor.mismatch("ON")
    if cursor.is_foreign(table):
        return None
    cursor.end()
    return RefreshIndex(name, table, if_exists)


def _show(cursor: Cursor) -> ShowIndexes:
    formatted = cursor.accept("FORMATTED")
    cursor.advance()  # INDEX or INDEXES
    if not cursor.next_is("ON") and not formatted:
        cursor.accept("IF", "EXISTS")  # makes no difference: an unknown name shows nothing, as in openLooKeng
        name = cursor.name().lower() if cursor.token.kind != "end" else None
        cursor.end()
        return ShowIndexes(name=name)
    cursor.expect("ON")
    table = cursor.table()
    if cursor.accept("FROM") or cursor.accept("IN"):
        if table.database:
            raise cursor.error(f"the database stands in {table} already")
        table = TableName(table.name, cursor.name())
    cursor.end(*([] if table.database else ["FROM"]))
    return ShowIndexes(table)


def _drop_table(begun: Callable[..., Cursor]) -> DropTable | None:
    """Parse DROP TABLE; None if it has another form, which Spark then executes or refuses."""
    try:
        cursor = begun("DROP", "TABLE")
        if_exists = cursor.accept("IF", "EXISTS")
        table = cursor.table()
        purge = cursor.accept("PURGE")
        cursor.end()
    except InvalidStatement:
        return None
    return None if cursor.is_foreign(table) else DropTable(table, if_exists, purge)


def _drop_database(begun: Callable[..., Cursor], word: str) -> DropDatabase | None:
    """Parse DROP DATABASE .. CASCADE; None for other forms: without CASCADE Spark drops only empty databases."""
    try:
        cursor = begun("DROP", word)
        if_exists = cursor.accept("IF", "EXISTS")
        *catalog, name = cursor.path()
        cursor.expect("CASCADE")
        cursor.end()
    except InvalidStatement:
        return None
    database = DropDatabase(name, ".".join(catalog), if_exists)
    return None if TableName("", catalog=database.catalog).foreign else database


def _on_table(cursor: Cursor) -> TableName | None:
    if not cursor.accept("ON"):
        return None
    cursor.accept("TABLE")
    return cursor.table()


def _partition(cursor: Cursor) -> Spec:
    """Parse Hive's `(p=1, q='x')`."""

    def pair() -> tuple[str, str | None]:
        column = cursor.name()
        cursor.expect("=")
        return column, _value(cursor)

    return cursor.items(pair)


def _value(cursor: Cursor) -> str | None:
    """Parse a partition value and return it as text; None for NULL, also if written as the name of Hive's folder."""
    if cursor.token.key == "DATE":
        cursor.advance()
    sign = "-" if cursor.accept("-") else ""
    token = cursor.token
    if token.kind == "number":
        return sign + cursor.advance().text
    if not sign and cursor.accept("NULL"):
        return None
    if not sign and token.key in ("TRUE", "FALSE"):
        return cursor.advance().text.lower()
    if sign or token.kind != "string":
        raise cursor.mismatch("a value")
    value = cursor.string()
    return None if value == NULL_PARTITION else value
