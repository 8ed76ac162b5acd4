"""What tells that a base file is the one that was indexed: size, modification time, footer, and the store's tag.

Size and time alone are not enough: a file can be rewritten twice within the resolution of the store's clock. A
fingerprint is therefore only taken once that resolution has passed since the file was last changed (git's rule for racy
entries), and holds a CRC-32 of the file's tail, where Parquet and ORC keep their footers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from hive_bitmap import stores
from hive_bitmap.errors import Undecodable
from hive_bitmap.stores import FileStatus

FINE_RESOLUTION = 0.05  # seconds; a local kernel stamps files once a tick, at most 10 ms apart
COARSE_RESOLUTION = 2.0  # seconds; FAT, HFS+, NFS, and stores that tell nothing finer than a second


@dataclass(frozen=True)
class Fingerprint:
    """One base file as it was indexed. `etag` is empty where the store has none; times are milliseconds since 1970."""

    path: str
    size: int
    mtime_ms: int
    etag: str
    tail_crc32: int

    @property
    def status(self) -> FileStatus:
        """What the store said of the file."""
        return FileStatus(self.path, self.size, self.mtime_ms, self.etag)

    @property
    def tagged(self) -> bool:
        """Whether the store can be asked for this very file, so that it need not be looked at before and after."""
        return bool(self.etag) and stores.has_tags(self.path)

    def matches(self, status: FileStatus) -> bool:
        """Whether a listing shows the same file; a store without tags leaves size and time to decide."""
        same_tag = self.etag == status.etag or not self.etag or not status.etag
        return self.size == status.size and self.mtime_ms == status.mtime_ms and same_tag

    def confirmed(self) -> bool:
        """Whether the file is this one now, at the price of reading its tail where the store has no tags."""
        try:
            if self.etag:
                return self.matches(stores.status(self.path))
            status, crc = stores.look(self.path)
            return self.matches(status) and crc == self.tail_crc32
        except FileNotFoundError:
            return False


def take(path: str) -> Fingerprint:
    """The fingerprint of a file, taken when no later change can look the same.

    Waits up to the store's resolution after the file's last change; raises FileNotFoundError, and Undecodable for a
    file that was changed later than this machine's clock says it is now.
    """
    status, crc = stores.look(path)
    wait = status.changed_ms / 1000 + _resolution(status) - time.time()
    if wait > COARSE_RESOLUTION:
        raise Undecodable("changed at a time that lies ahead of this machine's clock")
    if wait > 0:
        time.sleep(wait)
        status, crc = stores.look(path)
    return Fingerprint(path, status.size, status.mtime_ms, status.etag, crc)


def _resolution(status: FileStatus) -> float:
    """A store that keeps parts of a second and a tag of each change is fine; anything else is taken to be coarse."""
    return FINE_RESOLUTION if status.etag and status.changed_ms % 1000 else COARSE_RESOLUTION
