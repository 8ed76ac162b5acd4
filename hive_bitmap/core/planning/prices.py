"""The price in seconds of each way of reading: the bytes and rows that it reads, at measured unit costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.orc_rows import decoded_share
from hive_bitmap.core.stores.speed import LOCAL, Speed

# Measured on one core of a small machine; `bench` prints what is expected beside its times. Choices depend on ratios
# alone. Seconds, and seconds per byte, value, row or file.
SPARK_START = 0.06
SPARK_BYTE = {"parquet": 2.75e-9, "orc": 6.0e-9}
SPARK_VALUE = {"parquet": 6.5e-9, "orc": 2.5e-8}  # to decode a value: small values cost more than their bytes
NATIVE_LOOKUP = 0.01  # to find the blocks in planning
NATIVE_RANGE = 1.0e-3  # to open a file for one range of it
DIRECT_START, DIRECT_ROW = 0.09, 1.0e-6
DRIVER_THREADS = 2  # that the process reads with which planned a query
DRIVER_START = 0.04  # of reading in the process that planned, which takes no job but to hand on the rows
DIRECT_BYTE = {"parquet": 1.0e-9, "orc": 2.5e-9}
DIRECT_VALUE = {"parquet": 2.0e-9, "orc": 1.1e-8}  # as SPARK_VALUE
DIRECT_FILE = 5.0e-3  # to open a file for its selected rows
TASK_SECONDS = 0.1  # of work that a task of ours has at least: a task of less costs more than it saves
CLEARLY_CHEAPER = 0.9  # a strategy that costs more than this share of a full scan is not taken
WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}  # bytes of a value
WIDTHS |= dict.fromkeys(("bigint", "double", "timestamp", "timestamp_ntz"), 8)
WIDE = 16  # bytes of a value of any other type
ORC_STRIDE = 10_000  # rows between two entries of a stripe's row index, unless the writer was told otherwise
# Consecutive requests to a store, derived from the seconds that `bench.stores` takes with 0, 30 and 100 ms of latency.
SPARK_REQUESTS = 6  # of Spark for each file
RANGE_REQUESTS = 2  # of Spark for each further range of a file
CHECK_REQUESTS = 1  # to check that a file is unchanged
DIRECT_REQUESTS = 6  # of our own tasks for each file
DIRECT_AT_ONCE = 8  # files that a task of ours reads at the same time
SPLIT_BYTES = 32 << 20  # fs.local.block.size; other file systems have splits four times as large


@dataclass(frozen=True, kw_only=True)
class Reads:
    """How much of a table is read, in bytes of its files unless a comment says otherwise."""

    total: int  # all files
    whole: int  # files that are read whole
    decoded: int  # files that are read whole, and the decoded part of the selected blocks
    needed: int  # files, or splits, with a selected block, and files that are read whole
    rows: int  # the number of selected rows
    rows_of_blocks: int  # the number of all rows of the selected blocks
    blocks: int  # selected blocks
    ranges: int  # the number of runs of adjacent selected blocks
    files: int = 0  # the number of all files
    opened: int = 0  # the number of files of which anything is read
    values: int = 0  # the number of values in all blocks, in all columns; 0: not known
    stored: int = 0  # all blocks

    @property
    def values_per_byte(self) -> float:
        """How many values a byte of the blocks holds, all columns together; 0: not known."""
        return self.values / max(self.stored, 1)

    def times(self, factor: float) -> Reads:
        """What is read of a table of which this is a sample."""
        return Reads(**{name: round(factor * figure) for name, figure in asdict(self).items()})


def reads(format: str, files: pa.Table, blocks: pa.Table, *, splits: bool, columns: int = 0) -> Reads:
    """What is read of these files and blocks (FILES_SCHEMA, BLOCKS_SCHEMA).

    `splits`: whether Spark can skip splits. `columns`: how many columns the table has; 0: not known.
    """
    sizes, scanned = files["size"].to_numpy(), files["scanned"].to_numpy(zero_copy_only=False)
    whole, selected = int(sizes[scanned].sum()), blocks["selected"].to_numpy()
    needed = _split_bytes if splits else _file_bytes
    return Reads(
        total=int(sizes.sum()),
        whole=whole,
        decoded=decoded_bytes(format, blocks) + whole,
        needed=int(needed(sizes, scanned, blocks.filter(pa.array(selected > 0)))),
        rows=int(selected.sum()),
        rows_of_blocks=int(blocks["rows"].to_numpy()[selected > 0].sum()),
        blocks=int(blocks["length"].to_numpy()[selected > 0].sum()),
        ranges=_ranges(blocks["file"].to_numpy(), selected > 0),
        files=files.num_rows,
        opened=int(scanned.sum()) + len(np.unique(blocks["file"].to_numpy()[selected > 0])),
        values=int(blocks["rows"].to_numpy().sum()) * columns,
        stored=int(blocks["length"].to_numpy().sum()),
    )


def _ranges(file: npt.NDArray[np.int32], selected: npt.NDArray[np.bool_]) -> int:
    """The number of runs of adjacent selected blocks; a run does not go beyond its file."""
    if not len(selected):
        return 0
    starts = selected.copy()
    starts[1:] &= ~(selected[:-1] & (file[1:] == file[:-1]))
    return int(starts.sum())


def too_small(format: str, bytes_total: int, cores: int, *, native: bool, files: int = 0, store: Speed = LOCAL) -> bool:
    """Whether Spark reads everything in less time than reading through an index takes to start.

    For `native` reads, in which Spark's own reader gets the blocks, starting means looking them up.
    """
    if native:
        return scan_seconds(format, bytes_total, cores, files, store) < SPARK_START + NATIVE_LOOKUP + store.request
    return scan_seconds(format, bytes_total, cores, files, store) < DIRECT_START + store.request


def scan_seconds(
    format: str, bytes_total: float, cores: int, files: int = 0, store: Speed = LOCAL, values_per_byte: float = 0.0
) -> float:
    """Seconds that Spark takes to read this many bytes in this many files."""
    seconds = _spark_seconds(format, bytes_total, cores, store, values_per_byte)
    return SPARK_START + seconds + waiting_seconds(files, cores, store)


def full_scan_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that Spark takes to read a share of the bytes of all files."""
    return scan_seconds(format, share * read.total, cores, read.files, store, read.values_per_byte)


def waiting_seconds(files: int, cores: int, store: Speed) -> float:
    """Seconds that Spark waits for requests to a store when it reads this many files; transfer not included."""
    return _waits(files, files * SPARK_REQUESTS, cores, store)


def engine_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that Spark takes to read a share of the bytes of the files or splits that the index keeps."""
    seconds = _spark_seconds(format, share * read.needed, cores, store, read.values_per_byte)
    seconds += waiting_seconds(read.opened, cores, store)
    return DIRECT_START + store.request + seconds  # tasks of ours check the files that are left out


def native_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that Spark takes to read the selected blocks, and the files that are read whole."""
    requests = read.opened * (SPARK_REQUESTS + CHECK_REQUESTS) + max(read.ranges - read.opened, 0) * RANGE_REQUESTS
    seconds = _spark_seconds(format, share * (read.blocks + read.whole), cores, store, read.values_per_byte)
    seconds += _waits(read.opened, requests, cores, store)
    return SPARK_START + NATIVE_LOOKUP + store.request + seconds + read.ranges * NATIVE_RANGE / cores


def native_file_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that Spark takes to read all files with a selected block, whole."""
    seconds = _spark_seconds(format, share * read.needed, cores, store, read.values_per_byte)
    seconds += _waits(read.opened, read.opened * (SPARK_REQUESTS + CHECK_REQUESTS), cores, store)
    return SPARK_START + NATIVE_LOOKUP + store.request + seconds


def direct_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that tasks of ours take to read the selected rows, and a share of the bytes."""
    waits = _direct_waits(read, cores, store) + store.request
    return DIRECT_START + waits + direct_work(format, read, share, store) / cores


def driver_seconds(format: str, read: Reads, share: float, cores: int, store: Speed = LOCAL) -> float:
    """Seconds that the process which planned takes to do what `direct_seconds` is the price of, without a job."""
    threads = min(cores, DRIVER_THREADS)
    return DRIVER_START + _direct_waits(read, threads, store) + direct_work(format, read, share, store) / threads


def direct_work(format: str, read: Reads, share: float, store: Speed) -> float:
    """Seconds of one core for the selected rows and a share of the bytes, without the waits for a store."""
    spark_byte = _spark_byte(format, read.values_per_byte)
    direct_byte = max(DIRECT_BYTE.get(format, spark_byte), read.values_per_byte * DIRECT_VALUE.get(format, 0.0))
    by_byte = read.decoded * direct_byte + read.whole * spark_byte
    by_byte += (read.blocks + read.whole) * store.byte
    return share * by_byte + read.opened * DIRECT_FILE + read.rows * DIRECT_ROW


def direct_tasks(format: str, read: Reads, share: float, store: Speed = LOCAL) -> int:
    """How many tasks of ours the selected rows and a share of the bytes are work for, with the waits for a store."""
    work = direct_work(format, read, share, store) + _direct_waits(read, 1, store)
    return max(ceil(work / TASK_SECONDS), 1)


def _direct_waits(read: Reads, cores: int, store: Speed) -> float:
    return -(-read.opened // (cores * DIRECT_AT_ONCE)) * DIRECT_REQUESTS * store.request


def _spark_seconds(format: str, bytes_read: float, cores: int, store: Speed, values_per_byte: float) -> float:
    return bytes_read * (_spark_byte(format, values_per_byte) + store.byte) / cores


def _waits(files: int, requests: int, cores: int, store: Speed) -> float:
    """Seconds of waiting for this many requests, spread over as many tasks as there are files or cores."""
    return requests * store.request / max(min(cores, files), 1)


def _spark_byte(format: str, values_per_byte: float) -> float:
    by_value = values_per_byte * SPARK_VALUE.get(format, SPARK_VALUE["parquet"])
    return max(SPARK_BYTE.get(format, SPARK_BYTE["parquet"]), by_value)


def share_of_bytes(needed: Sequence[Column], columns: Sequence[Column]) -> float:
    """Roughly, the share of a file's bytes that some of its columns take."""
    return sum(map(_width, needed)) / max(sum(map(_width, columns)), 1)


def decoded_bytes(format: str, blocks: pa.Table) -> int:
    """The bytes that are decoded of the selected blocks: of an ORC stripe, those around its selected rows."""
    rows, selected, length = (blocks[name].to_numpy() for name in ("rows", "selected", "length"))
    share = decoded_share(selected, rows, ORC_STRIDE) if format == "orc" else 1.0
    return int(np.sum(length * share, where=selected > 0))


def _width(column: Column) -> int:
    return WIDTHS.get(column.type, WIDE)


def _file_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """The bytes of the files that hold one of these blocks or are read whole."""
    needed = scanned.copy()
    needed[blocks["file"].to_numpy()] = True
    return sizes[needed].sum()


def _split_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """About how many bytes the splits have that hold one of these blocks, and the files that are read whole."""
    places = np.stack([blocks["file"].to_numpy(), blocks["offset"].to_numpy() // SPLIT_BYTES])
    touched = np.bincount(np.unique(places, axis=1)[0], minlength=len(sizes))
    return np.where(scanned, sizes, np.minimum(sizes, touched * SPLIT_BYTES)).sum()
