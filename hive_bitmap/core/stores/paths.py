"""Split and normalize Hadoop path strings.

Hadoop's `Path.toString()` writes such strings: `file:/w/a b`, `hdfs://nn:8020/x`, `s3a://bucket/x`. Hadoop paths are
not percent-encoded, so a URL parser would misread them.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from hive_bitmap.errors import Unsupported

_ALIASES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss", "wasb": "wasbs"}  # schemes of the same store
_PATH = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)


class Parts(NamedTuple):
    """The parts of a Hadoop path.

    `scheme` is in lower case. `authority` is a bucket, container or name node. Both may be "".
    """

    scheme: str
    authority: str
    path: str


def parts(path: str) -> Parts:
    """Split a path; raise Unsupported if the path is not absolute.

    >>> parts("s3a://my.bucket/a b/c=%2F")
    Parts(scheme='s3a', authority='my.bucket', path='/a b/c=%2F')
    """
    if path.startswith("file:/") and path[6:7] != "/":  # the usual local path, which takes half the time here
        return Parts("file", "", path[5:])
    match = _PATH.fullmatch(path)
    if match is None or not match["path"]:
        raise Unsupported(f"not an absolute Hadoop path: {path!r}")
    return Parts((match["scheme"] or "").lower(), match["authority"] or "", match["path"])


def is_local(path: str) -> bool:
    """Return whether the scheme of a path is `file` or missing.

    Raises Unsupported if the path is not absolute.
    """
    return parts(path).scheme in ("", "file")


def local_path(path: str) -> str:
    """Convert a local Hadoop path to a path of the operating system.

    For example, `file:/w/a b` becomes `/w/a b`.
    """
    return parts(path).path


def absolute(path: str) -> str:
    """Return a path of the operating system as an absolute path."""
    return os.path.abspath(path)


def normal(path: str) -> str:
    """Return a path as Hadoop writes it, without `.`, `..` and doubled slashes.

    Raises Unsupported for a local path with a host.

    >>> normal("S3A://b//x/./y/../z/"), normal("file://localhost/w/../x"), normal("/")
    ('s3a://b/x/z', 'file:/x', 'file:/')
    """
    scheme, authority, inner = parts(path)
    clean = posixpath.normpath("/" + inner.lstrip("/"))
    if scheme in ("", "file"):
        if authority not in ("", "localhost"):
            raise Unsupported(f"{path} names a host: folders of the local file system have none")
        return f"file:{clean}"
    return f"{scheme}:{f'//{authority}' if authority else ''}{clean}"


def canonical(path: str) -> str:
    """Return a path that is the same for all spellings of one folder.

    Links on the local file system are resolved.

    >>> canonical("s3n://b/x") == canonical("s3a://b/x"), canonical("hdfs://NN:8020/x") == canonical("hdfs://nn/x")
    (True, True)
    >>> canonical("s3a://b"), canonical("file:")
    ('s3a://b/', 'file:/')
    """
    match = _PATH.fullmatch(path)
    scheme, authority, inner = parts(f"{path}/" if match is not None and not match["path"] else path)
    if scheme in ("", "file"):
        return f"file:{os.path.realpath(inner)}"
    host = authority.lower().removesuffix(":8020") if scheme == "hdfs" else authority.lower()
    return normal(f"{_ALIASES.get(scheme, scheme)}://{host}{inner}")


def with_parents(path: str) -> Iterator[str]:
    """Yield a path and its parents, the innermost first.

    The top of the file system or store is left out.

    >>> list(with_parents("s3a://b/x/y")), list(with_parents("file:/x"))
    (['s3a://b/x/y', 's3a://b/x'], ['file:/x'])
    """
    top = len(path) - len(parts(path).path)
    while path[top:].strip("/"):
        yield path
        path = parent(path)


def parent(path: str) -> str:
    """Return the folder that contains a path."""
    return path.rpartition("/")[0]
