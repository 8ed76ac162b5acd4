"""What can go wrong, told in one sentence each: what was asked, what is there, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one, whatever the case; empty where none is.

    >>> nearest("Encodng", ["encoding", "comment"]), nearest("prop1", ["encoding", "comment"])
    ('encoding', '')
    """
    spelled = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), spelled, n=1, cutoff=0.7)
    return spelled[close[0]] if close else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: a question; empty where no known name is like it."""
    meant = nearest(name, known)
    return f"; did you mean {meant!r}?" if meant else ""


class HiveBitmapError(Exception):
    """Any error that hive_bitmap raises on purpose."""


class NotFound(HiveBitmapError):
    """A table, column, partition or index that does not exist; the message names those that do."""

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str], where: str = "") -> NotFound:
        """The error for `name`, with what exists in its place, and what of that is probably meant.

        >>> str(NotFound.of("column", "agee", ["age", "id"], "table db.t"))
        "no column 'agee' in table db.t; known: age, id; did you mean 'age'?"
        """
        place, known = f" in {where}" if where else "", list(known)
        return cls(f"no {kind} {name!r}{place}; known: {', '.join(known) or 'none'}{suggestion(name, known)}")


class MissingPackage(HiveBitmapError, ImportError):
    """A Python package that is not installed, or too old; the message says what to install, and where."""


class AlreadyExists(HiveBitmapError):
    """An index or table of that name is there already."""


class Unsupported(HiveBitmapError):
    """A table, type or property that cannot be indexed; the message says why."""


class InvalidProperty(HiveBitmapError):
    """An unknown property, or a value that it does not take; the message lists what it takes."""


class InvalidPredicate(HiveBitmapError):
    """A predicate that is not SQL; the message tells the position and the reason."""

    @classmethod
    def at(cls, text: str, offset: int, reason: str) -> InvalidPredicate:
        """The error that tells where in the text (line and column from 1) and why."""
        before = text[:offset]
        column = offset - (before.rfind("\n") + 1) + 1
        return cls(f"line {before.count(chr(10)) + 1}, column {column}: {reason}, in {text!r}")


class InvalidStatement(HiveBitmapError):
    """A statement that neither dialect has; the message tells line, column, what stands there and what may."""


class Undecodable(HiveBitmapError):
    """A base file whose values might not be read as the engine reads them: it stays unindexed, for this reason."""


class CorruptBitmap(HiveBitmapError):
    """A stored bitmap that does not fit its block."""


class CorruptIndex(HiveBitmapError):
    """A shard or manifest that is missing, truncated or damaged: its base files are read whole."""


class BuildFailed(HiveBitmapError):
    """A build that could not finish; what was published before it is untouched."""


class FileChanged(HiveBitmapError):
    """A base file was replaced or vanished between planning and reading: plan again."""


class StoreError(HiveBitmapError):
    """A store of files that cannot be reached, does not let us in, or fails: queries are left to Spark alone."""


class ServerError(HiveBitmapError):
    """A server that cannot be reached, lets us not in, refuses a statement or gives no answer; the message says why."""


class NotPermitted(ServerError):
    """A statement that the server lets others run; the message says which."""
