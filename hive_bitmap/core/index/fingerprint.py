"""Take and compare fingerprints, which show whether base files have changed.

A fingerprint has a size, a modification time, a checksum of the tail, and an etag. Size and time alone are not enough:
a file can be rewritten twice within the resolution of the store's clock. Therefore a fingerprint holds a CRC-32 of the
end of the file, where Parquet and ORC keep their footers. A fingerprint is taken only when the time since the last
change of the file exceeds the resolution of the clock. Git's document technical/racy-git describes the problem.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.errors import Undecodable

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
FINE_RESOLUTION = 0.05  # seconds; a local kernel's timestamps advance with its ticks, at most 10 ms apart
COARSE_RESOLUTION = 2.0  # seconds; for FAT, HFS+, NFS, and stores with times in whole seconds


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """The fingerprint of one base file.

    `etag` is empty if the store has no etags. `mtime_ms` is in milliseconds since 1970. A file with the etag IMMUTABLE
    is identified by its path, and by the size and time in the log of its table. The fingerprint of such a file has no
    CRC, and the file is not read again for a comparison.
    """

    path: str
    size: int
    mtime_ms: int
    etag: str
    tail_crc32: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Fingerprint:
        """Return the fingerprint in a row of a manifest."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    @property
    def status(self) -> FileStatus:
        """The file as the store listed it."""
        return FileStatus(self.path, self.size, self.mtime_ms, self.etag)

    @property
    def tagged(self) -> bool:
        """Whether a read can require that the file still has this etag.

        A read with this requirement fails if the file has changed, so no other check before or after the read is
        needed.
        """
        return bool(self.etag) and self.etag != IMMUTABLE and stores.has_tags(self.path)

    def matches(self, status: FileStatus) -> bool:
        """Return whether a listed file is unchanged since the fingerprint was taken.

        `status` is from a listing. If the listing has no etags, size and time decide. A fingerprint without an etag
        does not match a file with an etag.
        """
        same_tag = self.etag == status.etag or not status.etag
        return self.size == status.size and self.mtime_ms == status.mtime_ms and same_tag

    def confirmed(self) -> bool:
        """Return whether the file is unchanged in the store.

        A missing file counts as changed. A file with the etag IMMUTABLE is not checked. If the fingerprint has no etag,
        the checksum of the file's tail is compared, too.
        """
        if self.etag == IMMUTABLE:
            return True
        try:
            if self.etag:
                return self.matches(stores.status(self.path))
            status, crc = stores.status_and_crc(self.path)
            return self.matches(status) and crc == self.tail_crc32
        except FileNotFoundError:
            return False


def matching(indexed: pa.Table, sizes: Longs, times: Longs, tags: pa.Array) -> Flags:
    """Return for each listed file whether it is unchanged since it was indexed (`Fingerprint.matches`).

    `indexed` has a row for each file, with the columns size, mtime_ms and etag of a manifest. `sizes`, `times` and
    `tags` have the sizes, times and etags of the same files in the listing.
    """
    same: Flags = (indexed["size"].to_numpy() == sizes) & (indexed["mtime_ms"].to_numpy() == times)
    alike = pc.or_(pc.equal(indexed["etag"], tags), pc.equal(tags, ""))
    return same & alike.to_numpy().astype(bool)


def listed_states(fingerprints: Sequence[Fingerprint]) -> dict[str, FileStatus]:
    """List the folders of files that have a tag, if this saves requests.

    Return the status of each listed file, by path. Without a listing, each file takes a request. A listing saves
    requests if a folder has several files, or if there are so many folders that they may be listed together.
    """
    counts = Counter(fingerprint.path.rpartition("/")[0] for fingerprint in fingerprints if fingerprint.tagged)
    folders = [folder for folder, files in counts.items() if files > 1 or len(counts) >= stores.MANY_FOLDERS]
    return {file.path: file for listing in stores.listings(folders) if listing is not None for file in listing.files}


def is_unchanged(fingerprint: Fingerprint, listed: Mapping[str, FileStatus]) -> bool:
    """Return whether a file is unchanged since its fingerprint was taken.

    `listed` maps paths to statuses. A file that is not in `listed` is compared with the store.
    """
    status = listed.get(fingerprint.path)
    return fingerprint.confirmed() if status is None else fingerprint.matches(status)


def are_unchanged(fingerprints: Sequence[Fingerprint]) -> bool:
    """Return whether all files are unchanged since their fingerprints were taken.

    Raises StoreError if a store fails.
    """
    listed = listed_states(fingerprints)
    return all(map_parallel(lambda fingerprint: is_unchanged(fingerprint, listed), fingerprints))


def immutable(listed: FileStatus) -> Fingerprint:
    """Return the fingerprint of a base file that is never written again.

    `listed` is the status of the file according to the log of its table.
    """
    return Fingerprint(path=listed.path, size=listed.size, mtime_ms=listed.mtime_ms, etag=listed.etag, tail_crc32=0)


def take(path: str) -> Fingerprint:
    """Take the fingerprint of a file.

    Any later change of the file gives another fingerprint. To ensure this, the function waits until the last change is
    older than the resolution of the store's clock. Raises FileNotFoundError, and Undecodable for a file whose last
    change is in the future according to this machine's clock.
    """
    status, crc = stores.status_and_crc(path)
    wait = status.changed_ms / 1000 + _resolution(status) - time.time()
    if wait > COARSE_RESOLUTION:
        raise Undecodable("changed at a time that lies ahead of this machine's clock")
    if wait > 0:
        time.sleep(wait)
        status, crc = stores.status_and_crc(path)
    return Fingerprint(path=path, size=status.size, mtime_ms=status.mtime_ms, etag=status.etag, tail_crc32=crc)


def take_all(paths: Iterable[str]) -> dict[str, Fingerprint]:
    """Take the fingerprints of files, by path.

    Files for which `take` raises an error are left out.
    """
    return {taken.path: taken for taken in map_parallel(_if_possible, paths) if taken is not None}


def _if_possible(path: str) -> Fingerprint | None:
    try:
        return take(path)
    except (FileNotFoundError, Undecodable):
        return None


def _resolution(status: FileStatus) -> float:
    """Return the resolution of the store's clock in seconds, FINE_RESOLUTION or COARSE_RESOLUTION."""
    return FINE_RESOLUTION if status.etag and status.changed_ms % 1000 else COARSE_RESOLUTION
