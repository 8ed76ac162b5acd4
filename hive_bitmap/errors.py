"""The errors of hive_bitmap.

A message is one sentence: what was requested, what exists, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the existing name that is most similar to a name.

    Case is ignored. Returns "" if none is similar.

    >>> nearest("Encodng", ["encoding", "comment"]), nearest("prop1", ["encoding", "comment"])
    ('encoding', '')
    """
    spelled = {spelling.lower(): spelling for spelling in names}
    close = get_close_matches(name.lower(), spelled, n=1, cutoff=0.7)
    return spelled[close[0]] if close else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a "did you mean" question for an unknown name.

    It is part of an error message; "" if no existing name is similar.
    """
    meant = nearest(name, names)
    return f"; did you mean {meant!r}?" if meant else ""


class HiveBitmapError(Exception):
    """Any error that hive_bitmap raises on purpose.

    `condition` is the nearest error class of Spark, and `sqlstate` its SQLSTATE; None if no class is near enough.
    Clients of SQL distinguish errors by these.
    """

    condition: ClassVar[str | None] = None
    sqlstate: ClassVar[str | None] = None


class NotFound(HiveBitmapError):
    """A table, column, partition, index or file that does not exist.

    The message lists those that do.
    """

    condition = "INDEX_NOT_FOUND"
    sqlstate = "42704"

    @classmethod
    def of(cls, kind: str, name: str, names: Iterable[str], where: str = "") -> NotFound:
        """Create the error for `name`, with the `names` that exist.

        Its class is that of its kind.

        >>> str(NotFound.of("column", "agee", ["age", "id"], "table db.t"))
        "no column 'agee' in table db.t; known: age, id; did you mean 'age'?"
        """
        place, names = f" in {where}" if where else "", list(names)
        error = _NOT_FOUND.get(kind, cls)
        return error(f"no {kind} {name!r}{place}; known: {', '.join(names) or 'none'}{suggestion(name, names)}")


class ColumnNotFound(NotFound):
    """A column that does not exist."""

    condition = "COLUMN_NOT_FOUND"
    sqlstate = "42703"


class TableNotFound(NotFound):
    """A table or view that does not exist."""

    condition = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class DatabaseNotFound(NotFound):
    """A database that does not exist."""

    condition = "SCHEMA_NOT_FOUND"
    sqlstate = "42704"


class PartitionNotFound(NotFound):
    """A partition that a table or an index does not have."""

    condition = "PARTITIONS_NOT_FOUND"
    sqlstate = "428FT"


_NOT_FOUND = {
    "column": ColumnNotFound,
    "partition column": ColumnNotFound,
    "table": TableNotFound,
    "database": DatabaseNotFound,
}


class MissingPackage(HiveBitmapError, ImportError):
    """A Python package that is missing or too old.

    The message says what to install, and where.
    """


class AlreadyExists(HiveBitmapError):
    """An index or table of a name that is already taken."""

    condition = "INDEX_ALREADY_EXISTS"
    sqlstate = "42710"


class Unsupported(HiveBitmapError):
    """A table, type or property that cannot be indexed.

    The message says why.
    """

    condition = "UNSUPPORTED_FEATURE"
    sqlstate = "0A000"


class InvalidProperty(HiveBitmapError):
    """An unknown property, or an invalid value of a property.

    The message lists the valid ones.
    """

    condition = "INVALID_PROPERTY_VALUE"
    sqlstate = "42602"


class InvalidPredicate(HiveBitmapError):
    """A predicate that is not valid SQL.

    The message says where and why.
    """

    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"

    @classmethod
    def at(cls, text: str, offset: int, reason: str) -> InvalidPredicate:
        """Create the error for a position in the text.

        The message gives it as line and column, counted from 1.
        """
        before = text[:offset]
        column = offset - (before.rfind("\n") + 1) + 1
        return cls(f"line {before.count(chr(10)) + 1}, column {column}: {reason}, in {text!r}")


class InvalidStatement(HiveBitmapError):
    """A statement that neither dialect can parse.

    The message gives line and column, the text there, and what was expected.
    """

    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"


class Undecodable(HiveBitmapError):
    """A base file that we might read differently than the engine.

    It stays unindexed for this reason.
    """


class CorruptBitmap(HiveBitmapError):
    """A stored bitmap that does not fit its block."""


class CorruptIndex(HiveBitmapError):
    """A shard or manifest that is missing, truncated or damaged.

    Its base files are read completely.
    """


class DroppedIndex(CorruptIndex):
    """A generation that was removed, with its index or by a rebuild.

    Its base files are read completely.
    """


class BuildFailed(HiveBitmapError):
    """A build that could not finish.

    The published generation is unchanged.
    """


class FileChanged(HiveBitmapError):
    """A base file that changed between planning and reading.

    It was replaced or deleted; plan the query again.
    """


class StoreError(HiveBitmapError):
    """A store that cannot be reached, denies access, or fails.

    Queries then fall back to plain Spark.
    """


class ServerError(HiveBitmapError):
    """A server that cannot be reached, or rejects a statement.

    It may also deny access or not answer; the message says why.
    """


class NotPermitted(ServerError):
    """A statement that the server does not permit this user to run.

    The message says which.
    """
