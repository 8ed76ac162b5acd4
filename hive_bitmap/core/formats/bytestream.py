"""Read variable-length numbers, strings and metadata in container files of Hadoop and Avro."""

from __future__ import annotations

import struct

import pyarrow as pa

from hive_bitmap.errors import Undecodable

WINDOW_BYTES = 1 << 20
SYNC_BYTES = 16
_MOST_SHIFT = 63  # most bits of a number before its last byte


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at this position, and the position after it.

    A number has seven bits in each byte, the lowest bits first. Raises IndexError at the end of the data, and
    Undecodable for a number of more than ten bytes.

    >>> unsigned(bytes([5, 0x96, 1]), 1)
    (150, 3)
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise Undecodable(f"no valid number at byte {at}")


def signed(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag-encoded number at this position, and the position after it.

    See `unsigned`.

    >>> signed(bytes([5, 6]), 0), signed(bytes([5, 6]), 1)
    ((-3, 1), (3, 2))
    """
    zigzag, at = unsigned(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


class ByteStream:
    """A buffered forward reader of a range of a file.

    The range is from byte `start` to before byte `end`. Methods raise Undecodable instead of reading beyond `end`.
    """

    def __init__(self, source: pa.NativeFile, start: int, end: int) -> None:
        self.source, self.end = source, end
        self.window, self.base, self.place = b"", start, 0

    @property
    def position(self) -> int:
        """The position in the file of the next byte to read."""
        return self.base + self.place

    def at_end(self) -> bool:
        """Return whether everything up to `end` has been read."""
        return self.position >= self.end

    def seek(self, position: int) -> None:
        """Continue reading at this position in the file."""
        if self.base <= position <= self.base + len(self.window):
            self.place = position - self.base
        else:
            self.window, self.base, self.place = b"", position, 0

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        if count < 0 or self.position + count > self.end:
            raise Undecodable(f"the file is damaged or cut off at byte {self.position}")
        self.seek(self.position + count)

    def read(self, count: int) -> bytes:
        """Read `count` bytes."""
        if count < 0 or self.place + count > len(self.window):
            self._fill(count)
        content = self.window[self.place : self.place + count]
        self.place += count
        return content

    def big_int(self) -> int:
        """Read a Java int: 4 bytes, big-endian."""
        number: int = struct.unpack(">i", self.read(4))[0]
        return number

    def hadoop_int(self) -> int:
        """Read a variable-length number of Hadoop.

        `WritableUtils.writeVLong` writes this format.
        """
        first = struct.unpack("b", self.read(1))[0]
        if first >= -112:
            return int(first)
        negative = first < -120
        value = int.from_bytes(self.read(-119 - first - 1 if negative else -111 - first - 1), "big")
        return ~value if negative else value

    def hadoop_text(self) -> str:
        """Read a string in the format of Hadoop's `Text`."""
        return self.read(self.hadoop_int()).decode(errors="replace")

    def hadoop_metadata(self) -> None:
        """Skip the metadata of a SequenceFile or RCFile."""
        for _ in range(2 * self.big_int()):
            self.hadoop_text()

    def avro_long(self) -> int:
        """Read an Avro long.

        An Avro long is a zigzag-encoded number with seven bits in each byte, the lowest bits first.
        """
        value = shift = 0
        while True:
            byte = self.read(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > _MOST_SHIFT:
                raise Undecodable(f"no valid number at byte {self.position}")

    def avro_bytes(self) -> bytes:
        """Read Avro bytes or an Avro string, as bytes."""
        return self.read(self.avro_long())

    def _fill(self, count: int) -> None:
        position = self.position
        if count < 0 or position + count > self.end:
            raise Undecodable(f"the file is damaged or cut off at byte {position}")
        self.window = self.source.read_at(min(max(count, WINDOW_BYTES), self.end - position), position)
        self.base, self.place = position, 0
        if len(self.window) < count:
            raise Undecodable(f"the file is cut off at byte {position}")
