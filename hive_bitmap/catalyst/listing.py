"""The files that Spark reads for a scan, as `Listing.java` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hive_bitmap.formats import storage
from hive_bitmap.formats.storage import FileStatus
from hive_bitmap.index.catalog import Values

_ESCAPED = re.compile(r"\\(.)")
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r"}
Partition = tuple[Values, tuple[FileStatus, ...]]


@dataclass(frozen=True)
class Listing:
    """Partitions with their values, as Spark shows them, and files; `files` are numbered through all of them."""

    partitions: tuple[Partition, ...]

    @property
    def with_bytes(self) -> tuple[Partition, ...]:
        """The partitions without the files that hold no byte, which no index names."""
        return tuple((values, tuple(file for file in files if file.size)) for values, files in self.partitions)

    @cached_property
    def files(self) -> tuple[FileStatus, ...]:
        return tuple(file for _, files in self.partitions for file in files)


def parse(text: str) -> Listing:
    r"""A listing from its lines.

    >>> parse("P\t=1\nF\t10\t99\tfile:/w/a").files[0].path
    'file:/w/a'
    """
    partitions: list[tuple[Values, list[FileStatus]]] = []
    for line in text.split("\n"):
        kind, *fields = line.split("\t")
        if kind == "P":
            partitions.append((tuple(_text(field[1:]) if field else None for field in fields), []))
        elif kind == "F":
            size, modified, path = fields
            partitions[-1][1].append(FileStatus(_text(path), int(size), int(modified), ""))
    return Listing(tuple((values, tuple(files)) for values, files in partitions))


def as_now(listing: Listing, list_folder: Callable[[str], list[FileStatus]] = storage.list_folder) -> Listing | None:
    """The same files as they are at this moment; None where one is gone."""
    found: dict[str, FileStatus] = {}
    for folder in {file.path.rpartition("/")[0] for file in listing.files}:
        try:
            found.update({status.path: status for status in list_folder(folder)})
        except FileNotFoundError:
            return None
    if any(file.path not in found for file in listing.files):
        return None
    return Listing(
        tuple((values, tuple(found[file.path] for file in files)) for values, files in listing.partitions)
    )


def _text(escaped: str) -> str:
    return _ESCAPED.sub(lambda found: _CHARACTERS.get(found[1], found[1]), escaped)
