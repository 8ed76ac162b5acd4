"""Define the errors of hive_bitmap.

A message is one sentence: what is wrong, what exists instead, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the most similar name, ignoring case; "" if no name is similar.

    >>> nearest("Encodng", ["encoding", "comment"]), nearest("prop1", ["encoding", "comment"])
    ('encoding', '')
    """
    spelled = {candidate.lower(): candidate for candidate in names}
    close = get_close_matches(name.lower(), spelled, n=1, cutoff=0.7)
    return spelled[close[0]] if close else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a "did you mean" question for an unknown name.

    Return "" if no name is similar.
    """
    similar = nearest(name, names)
    return f"; did you mean {similar!r}?" if similar else ""


class HiveBitmapError(Exception):
    """Base class of all errors that hive_bitmap raises on purpose.

    `condition` is the name of Spark's most similar error class, and `sqlstate` is the SQLSTATE of this class. SQL
    clients identify errors by these names. If no class of Spark is similar, both are None.
    """

    condition: ClassVar[str | None] = None
    sqlstate: ClassVar[str | None] = None


class NotFound(HiveBitmapError):
    """A table, column, partition, index or file does not exist.

    The message of an error that `of` creates lists the existing names.
    """

    condition = "INDEX_NOT_FOUND"
    sqlstate = "42704"

    @classmethod
    def of(cls, kind: str, name: str, existing: Iterable[str], where: str = "") -> NotFound:
        """Create the error for a missing name; its message lists the existing names.

        `kind` says what is missing, for example `column`, and `where` in which object it is missing; if `where` is "",
        the message names no object. For a column, table or database, the result is an instance of the subclass for this
        kind, such as ColumnNotFound.

        >>> str(NotFound.of("column", "agee", ["age", "id"], "table db.t"))
        "no column 'agee' in table db.t; known: age, id; did you mean 'age'?"
        """
        place, existing = f" in {where}" if where else "", list(existing)
        error = _NOT_FOUND.get(kind, cls)
        return error(f"no {kind} {name!r}{place}; known: {', '.join(existing) or 'none'}{suggestion(name, existing)}")


class ColumnNotFound(NotFound):
    """A column does not exist."""

    condition = "COLUMN_NOT_FOUND"
    sqlstate = "42703"


class TableNotFound(NotFound):
    """A table or view does not exist."""

    condition = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class DatabaseNotFound(NotFound):
    """A database does not exist."""

    condition = "SCHEMA_NOT_FOUND"
    sqlstate = "42704"


class PartitionNotFound(NotFound):
    """A partition does not exist in a table or an index."""

    condition = "PARTITIONS_NOT_FOUND"
    sqlstate = "428FT"


_NOT_FOUND = {
    "column": ColumnNotFound,
    "partition column": ColumnNotFound,
    "table": TableNotFound,
    "database": DatabaseNotFound,
}


class MissingPackage(HiveBitmapError, ImportError):
    """A Python package is not installed, or is too old.

    The message says what to install, and where.
    """


class AlreadyExists(HiveBitmapError):
    """The name of an index or table is already taken."""

    condition = "INDEX_ALREADY_EXISTS"
    sqlstate = "42710"


class Unsupported(HiveBitmapError):
    """A table, column, statement or option is not supported; the message says why."""

    condition = "UNSUPPORTED_FEATURE"
    sqlstate = "0A000"


class InvalidProperty(HiveBitmapError):
    """A property is unknown or has an invalid value.

    The message says what is valid.
    """

    condition = "INVALID_PROPERTY_VALUE"
    sqlstate = "42602"


class InvalidPredicate(HiveBitmapError):
    """A predicate is not valid SQL; the message says where and why."""

    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"

    @classmethod
    def at(cls, text: str, offset: int, reason: str) -> InvalidPredicate:
        """Create the error for an offset in the text.

        The message has the line and column, counted from 1.
        """
        before = text[:offset]
        column = offset - (before.rfind("\n") + 1) + 1
        return cls(f"line {before.count(chr(10)) + 1}, column {column}: {reason}, in {text!r}")


class InvalidStatement(HiveBitmapError):
    """An index statement is malformed in both dialects.

    The message has the line and column, the text at this position, and what was expected.
    """

    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"


class Undecodable(HiveBitmapError):
    """A base file or column cannot be decoded with certainty as Spark does.

    The file or column is then not indexed.
    """


class CorruptBitmap(HiveBitmapError):
    """A stored bitmap is malformed, or does not fit its block."""


class CorruptIndex(HiveBitmapError):
    """A shard or manifest is missing, truncated or damaged.

    Queries then read the base files whole.
    """


class DroppedIndex(CorruptIndex):
    """A generation was deleted during a query, because its index was dropped or rebuilt.

    The query then reads the base files of the generation whole.
    """


class BuildFailed(HiveBitmapError):
    """A build could not finish; the published index is unchanged."""


class FileChanged(HiveBitmapError):
    """A base file was replaced or deleted after planning.

    The query must be planned again.
    """


class StoreError(HiveBitmapError):
    """A store cannot be reached, denies access, or fails.

    Queries then fall back to plain Spark.
    """


class ServerError(HiveBitmapError):
    """A server is unreachable, denies access, rejects a statement or does not answer.

    The message says why.
    """


class NotPermitted(ServerError):
    """The server does not permit this user to run a statement.

    The message names the statement.
    """
