"""Hadoop path strings: `file:/w/a b`, `hdfs://nn:8020/x`, `s3a://bucket/x`, as Hadoop's `Path.toString()` writes them.

Nothing in them is percent-encoded, so they are cut by hand and never by a URL parser.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from hive_bitmap.errors import Unsupported

_PATH = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)


class Parts(NamedTuple):
    """Scheme in lower case and authority (bucket, name node), each "" where there is none, and the path."""

    scheme: str
    authority: str
    path: str


@lru_cache(maxsize=4096)
def parts(path: str) -> Parts:
    """The parts of a path. Raises Unsupported for one that is not absolute.

    >>> parts("s3a://my.bucket/a b/c=%2F")
    Parts(scheme='s3a', authority='my.bucket', path='/a b/c=%2F')
    """
    found = _PATH.fullmatch(path)
    if found is None or not found["path"]:
        raise Unsupported(f"not an absolute Hadoop path: {path!r}")
    return Parts((found["scheme"] or "").lower(), found["authority"] or "", found["path"])


def is_local(path: str) -> bool:
    """Whether the path lies in the local file system: scheme `file`, or none."""
    return parts(path).scheme in ("", "file")


def local_path(path: str) -> str:
    """The operating system's name of a local Hadoop path: `file:/w/a b` is `/w/a b`."""
    return parts(path).path


def absolute(path: str) -> str:
    """A path of the operating system as an absolute one."""
    return os.path.abspath(path)


def parent(path: str) -> str:
    """The folder that a path lies in."""
    return path.rpartition("/")[0]
