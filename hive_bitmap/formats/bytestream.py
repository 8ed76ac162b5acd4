"""Reading the headers of Hadoop's and Avro's container files: numbers of varying length, names, sync marks."""

from __future__ import annotations

import struct

import pyarrow as pa

from hive_bitmap.errors import Undecodable

WINDOW_BYTES = 1 << 20
SYNC_BYTES = 16


class ByteStream:
    """A file read forwards from `start` to `end` through a window; all methods raise Undecodable at its end."""

    def __init__(self, source: pa.NativeFile, start: int, end: int) -> None:
        self.source, self.end = source, end
        self.window, self.base, self.place = b"", start, 0

    @property
    def position(self) -> int:
        """The byte of the file that is read next."""
        return self.base + self.place

    def at_end(self) -> bool:
        """Whether all is read."""
        return self.position >= self.end

    def seek(self, position: int) -> None:
        """Go on at another byte."""
        if self.base <= position <= self.base + len(self.window):
            self.place = position - self.base
        else:
            self.window, self.base, self.place = b"", position, 0

    def skip(self, count: int) -> None:
        """Go on so many bytes further."""
        if count < 0 or self.position + count > self.end:
            raise Undecodable(f"the file is damaged or cut off at byte {self.position}")
        self.seek(self.position + count)

    def read(self, count: int) -> bytes:
        """So many bytes."""
        if self.place + count > len(self.window):
            self._fill(count)
        found = self.window[self.place : self.place + count]
        self.place += count
        return found

    def big_int(self) -> int:
        """A Java int: four bytes, the highest first."""
        found: int = struct.unpack(">i", self.read(4))[0]
        return found

    def hadoop_int(self) -> int:
        """A number as Hadoop's WritableUtils writes it."""
        first = struct.unpack("b", self.read(1))[0]
        if first >= -112:
            return int(first)
        negative = first < -120
        value = int.from_bytes(self.read(-119 - first - 1 if negative else -111 - first - 1), "big")
        return ~value if negative else value

    def hadoop_text(self) -> str:
        """A string as Hadoop's Text writes it."""
        return self.read(self.hadoop_int()).decode(errors="replace")

    def hadoop_metadata(self) -> None:
        """Pass over the metadata of a SequenceFile or RCFile."""
        for _ in range(2 * self.big_int()):
            self.hadoop_text()

    def avro_long(self) -> int:
        """A number as Avro writes it: seven bits a byte, the lowest first, the sign in the last bit."""
        value = shift = 0
        while True:
            byte = self.read(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise Undecodable(f"no number at byte {self.position}")

    def avro_bytes(self) -> bytes:
        """A string of bytes, or of text, as Avro writes it."""
        return self.read(self.avro_long())

    def _fill(self, count: int) -> None:
        position = self.position
        if count < 0 or position + count > self.end:
            raise Undecodable(f"the file is damaged or cut off at byte {position}")
        self.window = self.source.read_at(min(max(count, WINDOW_BYTES), self.end - position), position)
        self.base, self.place = position, 0
        if len(self.window) < count:
            raise Undecodable(f"the file is cut off at byte {position}")
