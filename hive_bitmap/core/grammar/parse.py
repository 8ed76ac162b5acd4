"""Parse index statements of Hive's and openLooKeng's dialects.

All other statements are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hive_bitmap.core.grammar.clauses import create_index, index_properties
from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.script import first_words
from hive_bitmap.core.grammar.statements import (
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
from hive_bitmap.core.grammar.where import where
from hive_bitmap.core.table_info import NULL_PARTITION
from hive_bitmap.errors import InvalidStatement

DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def parse(text: str, is_indexable: Callable[[TableName], bool] = TableName.is_own) -> Statement | None:
    """Parse an index statement; return None for a statement that Spark parses.

    `is_indexable` says whether a table may have indexes; by default, tables of the session's own catalog may. The
    result is also None if CREATE INDEX, DROP INDEX, REFRESH INDEX or DROP TABLE names a table that may not have
    indexes.

    Index statements include DROP TABLE, and DROP DATABASE with CASCADE, because these statements drop indexes. Raises
    InvalidStatement, with line and column, for a malformed statement. Raises Unsupported or InvalidProperty for an
    index type or property that hive_bitmap does not have.

    >>> parse("DROP INDEX IF EXISTS i ON sales")
    DropIndex(name='i', table=TableName(name='sales', database='', catalog=''), if_exists=True, where=None)
    >>> parse("SELECT 1")
    """
    cursor_after = partial(_cursor_after, text, is_indexable)
    match first_words(text, 3):
        case ["CREATE", "INDEX", *_]:
            return create_index(cursor_after("CREATE", "INDEX"))
        case ["ALTER", "INDEX", *_]:
            return _alter(cursor_after("ALTER", "INDEX"))
        case ["DROP", "INDEX", *_]:
            return _drop(cursor_after("DROP", "INDEX"))
        case ["UPDATE", "INDEX", *_]:
            return _update(cursor_after("UPDATE", "INDEX"))
        case ["REFRESH", "INDEX", *_]:
            return _refresh(cursor_after("REFRESH", "INDEX"))
        case ["SHOW", "INDEX" | "INDEXES", *_] | ["SHOW", "FORMATTED", "INDEX" | "INDEXES"]:
            return _show(cursor_after("SHOW"))
        case ["DROP", "TABLE", *_]:
            return _drop_table(cursor_after)
        case ["DROP", word, *_] if word in DATABASE_WORDS:
            return _drop_database(cursor_after, word)
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
    """Parse what follows UPDATE INDEX.

    Return None if the statement is Spark's UPDATE of a table named INDEX. Spark's UPDATE has SET after the name or
    alias of the table.
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
    """Parse what follows REFRESH INDEX.

    Return None for Spark's REFRESH of a path named INDEX, and for a table without indexes.
    """
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
            raise cursor.error(f"the database is already given in {table}")
        table = TableName(table.name, cursor.name())
    cursor.end(*([] if table.database else ["FROM"]))
    return ShowIndexes(table)


def _drop_table(cursor_after: Callable[..., Cursor]) -> DropTable | None:
    """Parse a statement that begins with DROP TABLE.

    Return None if the table cannot have indexes, or if the rest is not `[IF EXISTS] table [PURGE]`. Spark then executes
    or rejects the statement. `cursor_after` takes the first words of the statement, and returns a cursor at the next
    word.
    """
    try:
        cursor = cursor_after("DROP", "TABLE")
        if_exists = cursor.accept("IF", "EXISTS")
        table = cursor.table()
        purge = cursor.accept("PURGE")
        cursor.end()
    except InvalidStatement:
        return None
    return None if cursor.is_foreign(table) else DropTable(table, if_exists, purge)


def _drop_database(cursor_after: Callable[..., Cursor], word: str) -> DropDatabase | None:
    """Parse a statement that begins with DROP DATABASE or DROP SCHEMA.

    Return None if the statement does not end with CASCADE, because Spark then drops only an empty database. Also return
    None for a malformed statement, and for a database in another catalog. `cursor_after` takes the first words of the
    statement, and returns a cursor at the next word. `word` is one of DATABASE_WORDS.
    """
    try:
        cursor = cursor_after("DROP", word)
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
    """Parse the partition values in Hive's form `(p=1, q='x')`."""

    def pair() -> tuple[str, str | None]:
        column = cursor.name()
        cursor.expect("=")
        return column, _value(cursor)

    return cursor.items(pair)


def _value(cursor: Cursor) -> str | None:
    """Parse a partition value and return it as text; None for NULL.

    The name that Hive gives to the folder of NULL also means NULL.
    """
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
