"""The files that Spark reads for a scan, from the text in which `Listing.java` sends them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hive_bitmap.core import stores
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.selecting.lookup_units import Place
from hive_bitmap.core.stores import IMMUTABLE, WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import Values

_ESCAPED = re.compile(r"\\(.)")
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r"}
_OF_LOG = "log"  # the last field of a file that a log lists, unless rows of it are deleted
Partition = tuple[Values, tuple[FileStatus, ...]]


@dataclass(frozen=True)
class ScanListing:
    """The partitions that Spark reads, each with its values as text and its files.

    `with_deletes` are the paths of files of which rows are deleted that an index still has. Spark's reader leaves them
    out; who counts by an index must not count these files. With `of_log` the log of the table lists the files, which
    are never written again.
    """

    partitions: tuple[Partition, ...]
    with_deletes: frozenset[str] = frozenset()
    of_log: bool = False

    @property
    def with_bytes(self) -> tuple[Partition, ...]:
        """The partitions without empty files, which no index names."""
        return tuple((values, tuple(file for file in files if file.size)) for values, files in self.partitions)

    @cached_property
    def countable(self) -> tuple[Partition, ...]:
        """The same, in which no index knows the files of which rows are deleted."""
        if not self.with_deletes:
            return self.with_bytes
        return tuple(
            (
                values,
                tuple(replace(file, etag=WITH_DELETES) if file.path in self.with_deletes else file for file in files),
            )
            for values, files in self.with_bytes
        )

    @cached_property
    def files(self) -> tuple[FileStatus, ...]:
        """The files of all partitions, in the order of their numbers."""
        return tuple(file for _, files in self.partitions for file in files)

    @cached_property
    def numbers(self) -> Mapping[Place, int]:
        """The number of each file, by its place. A file of two partitions that share a folder has a number in each."""
        places = (Place(number, file.path) for number, (_, files) in enumerate(self.partitions) for file in files)
        return {place: number for number, place in enumerate(places)}


def parse(text: str) -> ScanListing:
    r"""Read a listing from the text described in `Listing.text` of Java.

    >>> parse("P\t=1\nF\t10\t99\tfile:/w/a").files[0].path
    'file:/w/a'
    """
    partitions: list[tuple[Values, list[FileStatus]]] = []
    with_deletes, of_log = set(), False
    for line in text.split("\n"):
        kind, *fields = line.split("\t")
        if kind == "P":
            partitions.append((tuple(_text(field[1:]) if field else None for field in fields), []))
        elif kind == "F":
            size, modified, path, *of = int(fields[0]), int(fields[1]), _text(fields[2]), *fields[3:]
            if of:
                of_log = True
                with_deletes |= {path} if of != [_OF_LOG] else set()
                partitions[-1][1].append(FileStatus(path, size, modified, IMMUTABLE))
                continue
            # a store with tags tells parts of a second in listings only, so fingerprints have whole seconds
            rounded = modified - modified % 1000 if stores.has_tags(path) else modified
            partitions[-1][1].append(FileStatus(path, size, rounded, ""))
    listed = tuple((values, tuple(files)) for values, files in partitions)
    return ScanListing(listed, frozenset(with_deletes), of_log)


def _files(folder: str) -> list[FileStatus]:
    return stores.listing(folder).files


def as_now(listing: ScanListing, list_folder: Callable[[str], list[FileStatus]] = _files) -> ScanListing | None:
    """List the folders again and return the same files as they are now; None if one of them is gone.

    Files of a log are as they were, and what was planned is to be read, whatever the log has now.
    """
    if listing.of_log:
        return listing
    folders = {file.path.rpartition("/")[0] for file in listing.files}
    threads = max(map(stores.parallel, folders), default=1)
    try:
        found = {file.path: file for listed in map_parallel(list_folder, folders, threads) for file in listed}
    except FileNotFoundError:
        return None
    if any(file.path not in found for file in listing.files):
        return None
    return ScanListing(
        tuple((values, tuple(found[file.path] for file in files)) for values, files in listing.partitions)
    )


def _text(escaped: str) -> str:
    return _ESCAPED.sub(lambda found: _CHARACTERS.get(found[1], found[1]), escaped)
