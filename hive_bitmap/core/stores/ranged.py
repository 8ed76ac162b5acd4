"""Read files by a few large range requests instead of many small ones."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable
from threading import Lock

AHEAD = 1 << 20  # least bytes of a request; their transfer takes about as long as the latency of a request
TAIL = 1 << 18  # bytes at the end of a file that the first request reads, because they hold the footer
MOST_BUFFERED = 64 << 20  # most buffered bytes of each open file

Read = Callable[[int, int], bytes]


class Ranged(io.RawIOBase):
    """A raw file of `size` bytes, read by range requests.

    `read(start, size)` makes a request. `tail` is the end of the file, which has been read already. A request reads at
    least `ahead` bytes, or all bytes up to the tail.
    """

    def __init__(self, size: int, read: Read, tail: bytes = b"", ahead: int = AHEAD) -> None:
        self._size, self._read, self._ahead, self._position = size, read, ahead, 0
        self._tail = tail
        self._pieces: dict[int, bytes] = {}  # buffered ranges by their starts, the oldest first
        self._lock = Lock()  # Arrow reads from several threads

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        available = max(self._size - self._position, 0)
        length = available if size is None or size < 0 else min(size, available)
        content = self.read_at(length, self._position)
        self._position += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def read_at(self, size: int, start: int) -> bytes:
        """Read `size` bytes from `start`, or fewer at the end of the file."""
        end, parts = min(start + size, self._size), []
        with self._lock:
            while start < end:
                part = self._buffered(start) or self._fetch(start, end)
                parts.append(part[: end - start])
                start += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self._pieces.clear()
        super().close()

    def _buffered(self, start: int) -> bytes:
        """Return the buffered bytes that begin at `start`.

        Return b"" if the byte at `start` is not buffered.
        """
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start :]
        starts = sorted(self._pieces)
        at = bisect_right(starts, start) - 1
        return self._pieces[starts[at]][start - starts[at] :] if at >= 0 else b""

    def _fetch(self, start: int, end: int) -> bytes:
        stop = min(max(end, start + self._ahead), self._size - len(self._tail))
        content = self._read(start, stop - start)
        self._pieces[start] = content
        while len(self._pieces) > 1 and sum(map(len, self._pieces.values())) > MOST_BUFFERED:
            del self._pieces[next(iter(self._pieces))]
        return content
