"""Hadoop path strings: `file:/w/a b`, `hdfs://nn:8020/x`, `s3a://bucket/x`, as Hadoop's `Path.toString()` writes them.

They are not percent-encoded, so a URL parser would misread them; they are split here instead.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from hive_bitmap.errors import Unsupported

_PATH = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)


class Parts(NamedTuple):
    """The scheme in lower case, the authority (bucket or name node), and the path; the first two may be ""."""

    scheme: str
    authority: str
    path: str


@lru_cache(maxsize=4096)
def parts(path: str) -> Parts:
    """Split a path; raise Unsupported if it is not absolute.

    >>> parts("s3a://my.bucket/a b/c=%2F")
    Parts(scheme='s3a', authority='my.bucket', path='/a b/c=%2F')
    """
    found = _PATH.fullmatch(path)
    if found is None or not found["path"]:
        raise Unsupported(f"not an absolute Hadoop path: {path!r}")
    return Parts((found["scheme"] or "").lower(), found["authority"] or "", found["path"])


def is_local(path: str) -> bool:
    """Return whether the path is in the local file system: its scheme is `file` or missing."""
    return parts(path).scheme in ("", "file")


def local_path(path: str) -> str:
    """Return a local Hadoop path as a path of the operating system: `/w/a b` for `file:/w/a b`."""
    return parts(path).path


def absolute(path: str) -> str:
    """Return a path of the operating system as an absolute path."""
    return os.path.abspath(path)


def parent(path: str) -> str:
    """Return the folder that contains a path."""
    return path.rpartition("/")[0]
