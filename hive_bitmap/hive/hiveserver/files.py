r"""List folders and read text files through a server.

In Hive, the command `dfs` lists folders and reads files; in Spark, file data sources do so. `dfs` splits its arguments
at blanks, even within quotes, and reads paths as globs. So a special character is written as a character class with a
hexadecimal escape, like `[\x20]`: a glob that only this character matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import NotPermitted, ServerError, Unsupported
from hive_bitmap.hive.hiveserver.connection import Server

_PLAIN = re.compile(r"[A-Za-z0-9_./=:,%+@~-]")
_FORMAT = "%F|%b|%Y|%n"  # kind, bytes, ms since 1970, name


@dataclass(frozen=True)
class Entry:
    """A file or folder in a folder.

    `size` is in bytes, `mtime_ms` in milliseconds since 1970.
    """

    name: str
    is_folder: bool
    size: int
    mtime_ms: int


def entries(server: Server, folder: str) -> list[Entry] | None:
    """List the files and folders in a folder, sorted by name.

    Return None if the folder does not exist. Spark's Thrift Server lists only visible files, and includes the files of
    subfolders. Raises ServerError. Raises Unsupported if the list has a file of a subfolder, if a name cannot be
    parsed, or if Spark would read the path of the folder as a pattern.
    """
    if server.is_spark:
        return _spark_entries(server, folder)
    listed = _stat(server, f"{glob(folder)}/*")
    if not isinstance(listed, ServerError):
        return listed
    if not isinstance(_stat(server, glob(folder)), ServerError):
        return []
    parent, _, name = folder.rpartition("/")
    around = _stat(server, f"{glob(parent)}/*")
    if isinstance(around, ServerError):
        raise ServerError(f"the folder {folder} cannot be listed: {listed}") from listed
    if any(entry.name == name for entry in around):
        raise ServerError(f"the folder {folder} exists, but cannot be listed: {listed}") from listed
    return None


def lines(server: Server, path: str) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed; raises ServerError."""
    text = f"SELECT value FROM text.{_spark_path(path)}" if server.is_spark else f"dfs -text {glob(path)}"
    return (row[0] or "" for row in server.rows(text))


def glob(path: str) -> str:
    r"""Convert a path to an argument of `dfs` that matches only this path.

    >>> glob("file:/w/a b/é")
    'file:/w/a[\\x20]b/é'
    """
    return "".join(char if _PLAIN.match(char) or ord(char) > 127 else f"[\\x{ord(char):02x}]" for char in path)


def _stat(server: Server, pattern: str) -> list[Entry] | ServerError:
    """List the matches of a glob, sorted by name, or return the server's error.

    Raises NotPermitted.
    """
    try:
        listed = [_entry(str(row[0])) for row in server.rows(f"dfs -stat {_FORMAT} {pattern}")]
    except NotPermitted:
        raise
    except ServerError as e:  # nothing matches, or listing is not allowed; the server does not distinguish them
        return e
    return sorted(listed, key=lambda entry: entry.name)


def _entry(line: str) -> Entry:
    kind, *fields = line.split("|", 3)
    if len(fields) != 3 or not fields[0].isdigit() or not fields[1].isdigit():
        raise Unsupported(f"a folder contains a name that cannot be listed, near {line!r}")
    return Entry(fields[2], kind == "directory", int(fields[0]), int(fields[1]))


def _spark_entries(server: Server, folder: str) -> list[Entry] | None:
    text = f"SELECT path, length, unix_millis(modificationTime) FROM binaryFile.{_spark_path(folder)}"
    try:
        listed = server.all(text)
    except ServerError as e:
        if "PATH_NOT_FOUND" in str(e):
            return None
        raise
    for path, _, _ in listed:
        if path.rpartition("/")[0] != folder:
            raise Unsupported(f"not all readers read {path}: move it away, or its rows could be missed")
    return sorted(
        (Entry(path.rpartition("/")[2], False, *fields) for path, *fields in listed), key=lambda entry: entry.name
    )


def _spark_path(path: str) -> str:
    if odd := re.search(r"[{}\[\]*?\\]", path):
        raise Unsupported(
            f"Spark's Thrift Server reads {odd.group()!r} in the path {path!r} as a pattern: use HiveServer2"
        )
    return quote(path)
