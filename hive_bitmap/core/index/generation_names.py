"""Name the folders of generations, and recognise them by their paths.

A generation is the folder of a segment (`generation`). Its name has the time when its build began, and eight hex
digits, which are also in the names of the shards that the build writes.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timezone
from urllib.parse import quote

from hive_bitmap.core.index.definition import Definition

EMPTY_FOLDER = "empty"  # folder of empty slots, in the root of an index
_NAME = re.compile(r"generation-\d{8}T\d{6}-[0-9a-f]{8}")


def empty_folder(root: str) -> str:
    """Return the empty folder of an index.

    A slot that has no segment points at this folder (`segments.slots`).
    """
    return f"{root}/{EMPTY_FOLDER}"


def new_name() -> str:
    """Return a folder name that no other build uses."""
    return f"generation-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def partition_folder(root: str, names: Iterable[str], values: Iterable[str | None]) -> str:
    """Return the folder of a partition under `root`.

    The partition is given by the names and the values of its columns; the value None is NULL.
    """
    parts = [
        f"{quote(name, safe=' ')}={'__NULL__' if value is None else quote(value, safe=' ')}"
        for name, value in zip(names, values, strict=True)
    ]
    return "/".join([root, *parts])


def is_generation(path: str) -> bool:
    """Return whether a path ends in the name of a generation."""
    return _begun(path) is not None


def belongs_to(folder: str, definition: Definition) -> bool:
    """Return whether a folder is a generation of this index, by its path.

    A generation must be below the root of the index.
    """
    return is_generation(folder) and folder.startswith(f"{definition.root}/") and ".." not in folder.split("/")


def build_time(folder: str) -> float:
    """Return when the build of a generation began, in seconds since 1970.

    The time comes from the name of the generation. Raise ValueError if `folder` has another name.
    """
    begun = _begun(folder)
    if begun is None:
        raise ValueError(f"{folder} is not a generation")
    return begun.timestamp()


def _begun(path: str) -> datetime | None:
    """Return the time in a generation's name; None for other names."""
    name = path.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        return None
    try:
        return datetime.strptime(name.split("-")[1], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:  # such as a 13th month
        return None


def build_token(folder: str) -> str:
    """Return the eight hex digits in the name of a generation.

    The names of the shards that the generation's build writes have the same digits.
    """
    return folder.rpartition("-")[2]
