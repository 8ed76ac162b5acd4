"""What each way of reading costs: the bytes and rows that it reads, at unit costs that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.formats.orc_rows import decoded_share
from hive_bitmap.stores.speed import LOCAL, Speed

# Measured on one core of a small machine; only their ratios matter. Seconds, seconds a byte, seconds a row.
SPARK_START = 0.10
SPARK_BYTE = {"parquet": 5.5e-9, "orc": 1.2e-8}
NATIVE_LOOKUP = 0.02  # what planning takes that finds blocks; a range of a file is opened by itself
NATIVE_RANGE = 2.0e-3
DIRECT_START, DIRECT_ROW = 0.18, 2.0e-6
DIRECT_BYTE = {"parquet": 2.0e-9, "orc": 5.0e-9}
CLEARLY_CHEAPER = 0.9  # of a full scan's price, else the full scan is taken
WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}  # bytes of a value
WIDTHS |= dict.fromkeys(("bigint", "double", "timestamp", "timestamp_ntz"), 8)
WIDE = 16  # of other types
ORC_STRIDE = 10_000  # rows between two entries of a stripe's row index, unless the writer was told otherwise
# Requests of a store that wait for each other, from the seconds that `bench.stores` takes with 0, 30 and 100 ms before
# each: of Spark for a file, and for each further range of one that it is told; for seeing that a file is still the
# same; and of our own tasks for a file, of which these read so many side by side.
SPARK_REQUESTS, RANGE_REQUESTS, CHECK_REQUESTS, DIRECT_REQUESTS = 6, 2, 1, 6
DIRECT_AT_ONCE = 8
SPLIT_BYTES = 32 << 20  # of a file in the local file system; those of others are four times as large


@dataclass(frozen=True)
class Reads:
    """How much is read of a table, in bytes of its files where nothing else is said."""

    total: int  # all files
    whole: int  # files that are read whole
    decoded: int  # these, and what is decoded of selected blocks
    needed: int  # files, or splits, of which Spark needs anything
    rows: int  # how many rows are selected
    blocks: int  # selected blocks
    ranges: int  # how many ranges selected blocks make, neighbours being read together
    files: int = 0  # how many there are
    opened: int = 0  # how many files are opened

    def times(self, factor: float) -> Reads:
        """What is read of a table of which this is a sample."""
        return Reads(*(round(factor * one) for one in astuple(self)))


def reads(format: str, files: pa.Table, blocks: pa.Table, *, splits: bool) -> Reads:
    """What is read of these `files` and `blocks`, of a plan's schemas; of `splits` where the engine can skip them."""
    sizes, scanned = files["size"].to_numpy(), files["scanned"].to_numpy(zero_copy_only=False)
    whole, selected = int(sizes[scanned].sum()), blocks["selected"].to_numpy()
    needed = _split_bytes if splits else _file_bytes
    return Reads(
        int(sizes.sum()),
        whole,
        decoded_bytes(format, blocks) + whole,
        int(needed(sizes, scanned, blocks.filter(pa.array(selected > 0)))),
        int(selected.sum()),
        int(blocks["length"].to_numpy()[selected > 0].sum()),
        _ranges(blocks["file"].to_numpy(), selected > 0),
        files.num_rows,
        int(scanned.sum()) + len(np.unique(blocks["file"].to_numpy()[selected > 0])),
    )


def _ranges(file: npt.NDArray[np.int32], selected: npt.NDArray[np.bool_]) -> int:
    """How many runs of selected blocks there are, which end with their file."""
    if not len(selected):
        return 0
    starts = selected.copy()
    starts[1:] &= ~(selected[:-1] & (file[1:] == file[:-1]))
    return int(starts.sum())


def too_small(
    format: str, bytes_total: int, cores: int, *, native: bool, files: int = 0, store: Speed = LOCAL
) -> bool:
    """Whether reading everything takes Spark less than it takes to start reading through an index.

    Where Spark's own reader is told the blocks (`native`), that is the time in which they are looked up.
    """
    if native:
        return scan_seconds(format, bytes_total, cores, files, store) < SPARK_START + NATIVE_LOOKUP + store.request
    return scan_seconds(format, bytes_total, cores, files, store) < DIRECT_START + store.request


def scan_seconds(format: str, bytes_total: float, cores: int, files: int = 0, store: Speed = LOCAL) -> float:
    """What Spark takes to read all of these bytes, in so many files."""
    return SPARK_START + _spark_seconds(format, bytes_total, cores, store) + waiting_seconds(files, cores, store)


def waiting_seconds(files: int, cores: int, store: Speed) -> float:
    """What Spark waits for a store that it reads so many files of, their bytes aside."""
    return _waits(files, files * SPARK_REQUESTS, cores, store)


def engine_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """What Spark takes to read a share of the bytes that it needs, the rest left out by the index."""
    seconds = _spark_seconds(format, share * read.needed, cores, store) + waiting_seconds(read.opened, cores, store)
    return DIRECT_START + store.request + seconds  # tasks list what is left out


def native_seconds(format: str, read: Reads, ranges: int, share: float, cores: int, store: Speed = LOCAL) -> float:
    """What Spark takes to read selected blocks, in so many ranges, and the files that are read whole."""
    requests = read.opened * (SPARK_REQUESTS + CHECK_REQUESTS) + max(ranges - read.opened, 0) * RANGE_REQUESTS
    seconds = _spark_seconds(format, share * (read.blocks + read.whole), cores, store)
    seconds += _waits(read.opened, requests, cores, store)
    return SPARK_START + NATIVE_LOOKUP + store.request + seconds + ranges * NATIVE_RANGE / cores


def native_file_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """What Spark takes to read the files of which anything is needed, whole."""
    seconds = _spark_seconds(format, share * read.needed, cores, store)
    seconds += _waits(read.opened, read.opened * (SPARK_REQUESTS + CHECK_REQUESTS), cores, store)
    return SPARK_START + NATIVE_LOOKUP + store.request + seconds


def direct_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """What tasks take that read the selected rows themselves, and a share of the bytes."""
    spark_byte = _spark_byte(format)
    by_byte = read.decoded * DIRECT_BYTE.get(format, spark_byte) + read.whole * spark_byte
    by_byte += (read.blocks + read.whole) * store.byte
    rounds = -(-read.opened // (cores * DIRECT_AT_ONCE))
    waits = (1 + rounds * DIRECT_REQUESTS) * store.request
    return DIRECT_START + waits + (share * by_byte + read.rows * DIRECT_ROW) / cores


def _spark_seconds(format: str, bytes_read: float, cores: int, store: Speed) -> float:
    return bytes_read * (_spark_byte(format) + store.byte) / cores


def _waits(files: int, requests: int, cores: int, store: Speed) -> float:
    """Seconds of waiting for requests of so many files, each of which is one task's."""
    return requests * store.request / max(min(cores, files), 1)


def _spark_byte(format: str) -> float:
    return SPARK_BYTE.get(format, SPARK_BYTE["parquet"])


def share_of_bytes(needed: Sequence[Column], columns: Sequence[Column]) -> float:
    """Roughly, what of the bytes of a file some of its columns take."""
    return sum(map(_width, needed)) / max(sum(map(_width, columns)), 1)


def decoded_bytes(format: str, blocks: pa.Table) -> int:
    """Of the selected blocks, what is decoded; of an ORC stripe with few rows, what it takes to go to each of them."""
    rows, selected, length = (blocks[name].to_numpy() for name in ("rows", "selected", "length"))
    share = decoded_share(selected, rows, ORC_STRIDE) if format == "orc" else 1.0
    return int(np.sum(length * share, where=selected > 0))


def _width(column: Column) -> int:
    return WIDTHS.get(column.type, WIDE)


def _file_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """Bytes of the files of which anything is read: these blocks, or all."""
    needed = scanned.copy()
    needed[blocks["file"].to_numpy()] = True
    return sizes[needed].sum()


def _split_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """About the bytes of the splits of which anything is read."""
    places = np.stack([blocks["file"].to_numpy(), blocks["offset"].to_numpy() // SPLIT_BYTES])
    touched = np.bincount(np.unique(places, axis=1)[0], minlength=len(sizes))
    return np.where(scanned, sizes, np.minimum(sizes, touched * SPLIT_BYTES)).sum()
