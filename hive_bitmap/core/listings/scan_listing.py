"""Parse the listing of the files that Spark reads for a scan.

`Listing.java` sends the listing as text. This module also fetches the deleted rows of the listed files.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from hive_bitmap.core import stores
from hive_bitmap.core.memory_budget import TEXT_BYTES, Cache, bytes_of_texts
from hive_bitmap.core.selecting.lookup_units import DeletedRows, Place
from hive_bitmap.core.stores import IMMUTABLE, WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import Table, Values

FILE_BYTES = 300  # memory of a FileStatus and of the references to it, without its path
PARTITION_BYTES = 400
_ESCAPED = re.compile(r"\\(.)")
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r"}
_OF_LOG = "log"  # the last field of a file that is listed by a log and has no deleted rows
Partition = tuple[Values, tuple[FileStatus, ...]]
_deleted: Cache[tuple[str, str], DeletedRows] = Cache("deleted rows", lambda deleted: deleted.rows.nbytes)


@dataclass(frozen=True)
class ScanListing:
    """The partitions that Spark reads, with their files.

    The values of a partition are texts, or None for NULL. `deletes` maps the path of each file with deleted rows to a
    version of the deletes, or to "" if only Spark's reader can find the deleted rows. Spark's reader skips deleted
    rows, but an index still has them, so a count by an index must subtract them. With `of_log`, the files are listed by
    the table's log, and are never written again.
    """

    partitions: tuple[Partition, ...]
    deletes: Mapping[str, str] = field(default_factory=dict)
    of_log: bool = False

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory."""
        files = sum(len(file.path) for file in self.files) + FILE_BYTES * len(self.files)
        values = sum(len(text or "") + TEXT_BYTES for values, _ in self.partitions for text in values)
        return files + values + bytes_of_texts(self.deletes) + PARTITION_BYTES * len(self.partitions)

    @cached_property
    def without_empty(self) -> tuple[Partition, ...]:
        """The partitions with their nonempty files; indexes have no empty files."""
        return tuple((values, tuple(file for file in files if file.size)) for values, files in self.partitions)

    @cached_property
    def countable(self) -> tuple[Partition, ...]:
        """The partitions for a count by an index.

        The status of a file with deleted rows also has the version of its deletes. If only Spark can find the deleted
        rows of a file, the status has the etag WITH_DELETES. No index has this etag, so such a file is never counted by
        an index.
        """
        if not self.deletes:
            return self.without_empty
        return tuple((values, tuple(map(self._countable, files))) for values, files in self.without_empty)

    def _countable(self, file: FileStatus) -> FileStatus:
        deletes = self.deletes.get(file.path)
        if deletes is None:
            return file
        return replace(file, deletes=deletes) if deletes else replace(file, etag=WITH_DELETES)

    @cached_property
    def summable(self) -> tuple[Partition, ...]:
        """The partitions to use for sums of partial aggregates.

        Partial aggregates include deleted rows. So each file with deleted rows gets the etag WITH_DELETES: no index has
        this etag, so such a file is not summed from an index.
        """
        if not self.deletes:
            return self.without_empty
        return tuple(
            (values, tuple(replace(f, etag=WITH_DELETES) if f.path in self.deletes else f for f in files))
            for values, files in self.without_empty
        )

    def table(self, base: Table) -> Table:
        """Return the table `base`, partitioned like this listing.

        If the table's log lists files with partition values, the result is a partitioned table; otherwise it is `base`.
        """
        return base.by_partitions() if self.of_log and any(values for values, _ in self.partitions) else base

    @cached_property
    def files(self) -> tuple[FileStatus, ...]:
        """The files of all partitions, in the order of the partitions."""
        return tuple(file for _, files in self.partitions for file in files)

    @cached_property
    def numbers(self) -> Mapping[Place, int]:
        """The position in `files` of each file, by partition and path.

        If two partitions share a folder, a file has a position for each partition.
        """
        places = (Place(number, file.path) for number, (_, files) in enumerate(self.partitions) for file in files)
        return {place: number for number, place in enumerate(places)}


def parse(text: str) -> ScanListing:
    r"""Read a listing from the text described in `Listing.text` of Java.

    >>> parse("P\t=1\nF\t10\t99\tfile:/w/a").files[0].path
    'file:/w/a'
    """
    partitions: list[tuple[Values, list[FileStatus]]] = []
    deletes, of_log = dict[str, str](), False
    for line in text.split("\n"):
        kind, *fields = line.split("\t")
        if kind == "P":
            partitions.append((tuple(_text(field[1:]) if field else None for field in fields), []))
        elif kind == "F":
            size, modified, path, *log_fields = int(fields[0]), int(fields[1]), _text(fields[2]), *fields[3:]
            if log_fields:
                of_log = True
                deletes |= {path: _text(log_fields[1])} if log_fields != [_OF_LOG] else {}
                partitions[-1][1].append(FileStatus(path, size, modified, IMMUTABLE))
                continue
            # A store with tags shows fractions of a second only in listings, so fingerprints have whole seconds.
            rounded = modified - modified % 1000 if stores.has_tags(path) else modified
            partitions[-1][1].append(FileStatus(path, size, rounded, ""))
    listed = tuple((values, tuple(files)) for values, files in partitions)
    return ScanListing(listed, deletes, of_log)


def as_now(listing: ScanListing) -> ScanListing | None:
    """Return a listing of the same files with their current sizes and times.

    Return None if a file no longer exists. Files in a log never change, so a listing of a log is returned unchanged:
    the planned files are read even if the current log lists other files.
    """
    if listing.of_log:
        return listing
    current = stores.statuses([file.path for file in listing.files])
    present = [file for file in current if file is not None]
    if len(present) < len(current):
        return None
    files = iter(present)
    return ScanListing(tuple((values, tuple(islice(files, len(planned)))) for values, planned in listing.partitions))


def deleted_rows(
    ask: Callable[[str], str], listing: ScanListing, versions: Mapping[str, str]
) -> dict[str, DeletedRows]:
    """Return the deleted rows of listed files, by path.

    `versions` maps the path of each file with deleted rows to the version of its deletes (see `ScanListing.deletes`).
    All these files are in `listing`. `ask` takes the positions of files in `listing.files` as a JSON array, and returns
    the text described in `DeletedRows.text` of Java. A file is missing from the result if Spark cannot read its
    deletes, or if the deleted rows of the requested files would take too much memory.
    """
    deleted = {path: rows for path, version in versions.items() if (rows := _deleted.get((path, version))) is not None}
    missing = [path for path in versions if path not in deleted]
    if not missing:
        return deleted
    number = {place.path: number for place, number in listing.numbers.items()}  # a log has a file once
    numbers = json.dumps([number[path] for path in missing])
    for path, text in zip(missing, json.loads(ask(numbers)), strict=True):
        if text is not None:
            positions = np.frombuffer(base64.b64decode(text), "<i4").astype(np.int64)
            deleted[path] = DeletedRows(versions[path], positions)
            _deleted.put((path, versions[path]), deleted[path])
    return deleted


def _text(escaped: str) -> str:
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), escaped)
