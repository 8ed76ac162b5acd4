"""Compute how much each strategy reads, and its price in seconds.

Prices are computed from the bytes and rows to read, with the measured cost of each unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.blocks import seeking_share
from hive_bitmap.core.planning.learnt_prices import FROZEN, Factors
from hive_bitmap.core.stores.speed import LOCAL, Speed

WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}  # bytes of a value
WIDTHS |= dict.fromkeys(("bigint", "double", "timestamp", "timestamp_ntz"), 8)
WIDE = 16  # bytes of a value of any other type
ORC_STRIDE = 10_000  # rows between two entries of a stripe's row index, by default
SPLIT_BYTES = 32 << 20  # fs.local.block.size; other file systems have splits four times as large
OPEN_BYTES, MOST_SPLIT_BYTES = 4 << 20, 128 << 20  # spark.sql.files.openCostInBytes, spark.sql.files.maxPartitionBytes
# The following prices are in seconds, or in seconds per byte, value, row or file. They were measured on one core of a
# small machine; `bench` prints the expected seconds beside its times. Choices depend only on ratios of prices.
SPARK_START = 0.06
SPARK_FILE = 4.5e-3  # to open a file and read its footer
SPARK_BYTE = {"parquet": 3.5e-9, "orc": 6.0e-9}
SPARK_VALUE = {"parquet": 3.0e-8, "orc": 3.0e-8}  # to decode and filter a value; for small values, more than SPARK_BYTE
NATIVE_LOOKUP = 0.02  # to find the blocks in planning
NATIVE_RANGE = 1.0e-3  # to open a file for one of its ranges
DIRECT_START, DIRECT_ROW = 0.09, 1.0e-6
DRIVER_THREADS = 2  # threads that read rows in the process that planned a query
DRIVER_START = 0.04  # to start reading rows in that process; Spark's job only passes them on
DIRECT_BYTE = {"parquet": 1.5e-9, "orc": 2.5e-9}
DIRECT_VALUE = {"parquet": 2.0e-9, "orc": 1.1e-8}  # to decode a value, see SPARK_VALUE
DIRECT_FILE = 5.0e-3  # to open a file for its selected rows
DIRECT_COLUMN = 6.0e-4  # to open a column of such a file
TASK_SECONDS = 0.1  # least work for one of our tasks: a task with less work costs more than it saves
CLEARLY_CHEAPER = 0.9  # a strategy must cost less than this share of a full scan
# Consecutive requests to a store, derived from the seconds that `bench.stores` takes with 0, 30 and 100 ms of latency.
SPARK_REQUESTS = 6  # Spark's requests for each file
RANGE_REQUESTS = 2  # Spark's requests for each further range of a file
CHECK_REQUESTS = 1  # requests to check that a file is unchanged
DIRECT_REQUESTS = 6  # our tasks' requests for each file
DIRECT_AT_ONCE = 8  # files that one of our tasks reads at the same time


@dataclass(frozen=True, kw_only=True)
class Reads:
    """How much of a table is read.

    Figures are in bytes of the table's files, unless a comment says otherwise.
    """

    total: int  # all files
    whole: int  # files that are read whole
    decoded: int  # files that are read whole, and the decoded part of the selected blocks
    needed: int  # files that are read whole, and files (or, with `splits`, splits) that have a selected block
    rows: int  # the number of selected rows
    rows_of_blocks: int  # the number of all rows of the selected blocks
    blocks: int  # selected blocks
    ranges: int  # the number of runs of adjacent selected blocks
    files: int = 0  # the number of all files
    opened: int = 0  # the number of files that are read in part or whole
    values: int = 0  # the number of values in all blocks, in all columns; 0: not known
    stored: int = 0  # all blocks
    width: int = 0  # the number of columns of the table; 0: not known

    @property
    def values_per_byte(self) -> float:
        """The average number of values in a byte of the blocks.

        The values of all columns count. The result is 0 if the number is not known.
        """
        return self.values / max(self.stored, 1)

    def until(self, limit: int | None, *, narrowed: bool = False) -> Reads:
        """Estimate how much Spark reads until it has `limit` selected rows.

        Without a limit, Spark reads everything. Runs of selected blocks alternate with gaps of other blocks. A full
        scan reads the first gap, and then a share of the blocks in proportion to the limit; a `narrowed` scan reads no
        gaps.
        """
        if limit is None:
            return self
        gap = 0 if narrowed else max(self.stored - self.blocks, 0) / (self.ranges + 1)
        share = min(gap / max(self.stored, 1) + limit / max(self.rows, 1), 1.0)
        part = self.times(share)
        return replace(
            part,
            files=max(part.files, min(self.files, 1)),
            opened=max(part.opened, min(self.opened, 1)),
            ranges=max(part.ranges, min(self.ranges, 1)),
        )

    def times(self, factor: float) -> Reads:
        """Return the reads with each figure multiplied by `factor`.

        `width` is not multiplied. The factor may be a share of the blocks, or it may scale a sample to the whole table.
        """
        scaled = Reads(**{name: round(factor * figure) for name, figure in asdict(self).items()})
        return replace(scaled, width=self.width)


def reads(format: str, files: pa.Table, blocks: pa.Table, *, splits: bool, columns: int = 0) -> Reads:
    """Compute how much is read of these files and blocks.

    `files` has FILES_SCHEMA, `blocks` has BLOCKS_SCHEMA. With `splits`, Spark can skip splits. `columns` is the number
    of columns of the table; 0 if not known.
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
        width=columns,
    )


def _ranges(file: npt.NDArray[np.int32], selected: npt.NDArray[np.bool_]) -> int:
    """Count the runs of adjacent selected blocks; a run ends with its file.

    For each block, `file` has the position of its file, and `selected` says whether the block is selected.
    """
    if not len(selected):
        return 0
    starts = selected.copy()
    starts[1:] &= ~(selected[:-1] & (file[1:] == file[:-1]))
    return int(starts.sum())


def share_of_bytes(needed: Sequence[Column], columns: Sequence[Column]) -> float:
    """Estimate the share of a file's bytes that the `needed` columns take."""
    return sum(map(_width, needed)) / max(sum(map(_width, columns)), 1)


def decoded_bytes(format: str, blocks: pa.Table) -> int:
    """Estimate how many bytes of the selected blocks are decoded.

    If few rows of an ORC stripe are selected, only a share of the stripe counts (`seeking_share`).
    """
    rows, selected, length = (blocks[name].to_numpy() for name in ("rows", "selected", "length"))
    share = seeking_share(selected, rows, ORC_STRIDE) if format == "orc" else 1.0
    return int(np.sum(length * share, where=selected > 0))


def _width(column: Column) -> int:
    return WIDTHS.get(column.type, WIDE)


def _file_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """Return the bytes of the files that Spark reads.

    Spark reads the files of the selected `blocks`, and the files that must be read whole. `sizes` has the bytes of each
    file, and `scanned` flags the files that must be read whole.
    """
    needed = scanned.copy()
    needed[blocks["file"].to_numpy()] = True
    return sizes[needed].sum()


def _split_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """Estimate the bytes of the splits and files that Spark reads.

    Spark reads the splits of the selected `blocks`, and some whole files. `sizes` has the bytes of each file, and
    `scanned` flags the files that are read whole.
    """
    places = np.stack([blocks["file"].to_numpy(), blocks["offset"].to_numpy() // SPLIT_BYTES])
    touched = np.bincount(np.unique(places, axis=1)[0], minlength=len(sizes))
    return np.where(scanned, sizes, np.minimum(sizes, touched * SPLIT_BYTES)).sum()


@dataclass(frozen=True)
class Prices:
    """Prices in seconds of reading files of a format from a store.

    There are as many concurrent tasks as cores. In all methods, `share` is the share of the files' bytes that the
    columns to read take. Prices are multiplied by learnt factors: the factor of Spark's readers, or the factor of our
    readers.
    """

    format: str
    cores: int
    store: Speed = LOCAL
    factors: Factors = FROZEN

    def is_too_small(self, size: float, files: int = 0, values_per_byte: float = 0.0, *, native: bool) -> bool:
        """Return whether a scan is so small that an index cannot speed it up.

        The scan reads `size` bytes of `files` files. It is too small if Spark's own scan would end before a read
        through an index could begin. `values_per_byte` is the average number of values in a byte. With `native`,
        Spark's own reader would read the selected blocks, after they are looked up; otherwise our tasks would read the
        selected rows.
        """
        own = self.factors.own.factor
        start = self.factors.spark.factor * SPARK_START + own * NATIVE_LOOKUP if native else own * DIRECT_START
        return self.scan(size, files, values_per_byte) < start + self.store.request

    def scan(self, size: float, files: int = 0, values_per_byte: float = 0.0) -> float:
        """Return the price of a scan by Spark.

        The scan reads `size` bytes of `files` files, with `values_per_byte` values in a byte on average. The price is
        in seconds.
        """
        seconds = SPARK_START + self._by_spark(size, values_per_byte) + self._opening(files)
        return self.factors.spark.factor * (seconds + waiting_seconds(files, self.cores, self.store))

    def pays_first(self, small: float, size: float, files: int) -> bool:
        """Return whether reading the keys of a join first may save time.

        A job reads the keys, from `small` bytes of the small side. With the keys, a read of few rows may replace
        Spark's scan of the large side: `size` bytes of `files` files.
        """
        first = replace(self, format="parquet").scan(small, 1) + self.factors.own.factor * DRIVER_START
        return first < CLEARLY_CHEAPER * self.scan(size, files)

    def full_scan(self, read: Reads, share: float) -> float:
        """Return the price in seconds of a full scan by Spark.

        `share` is the share of the files' bytes that the columns take.
        """
        return self.scan(share * read.total, read.files, read.values_per_byte)

    def engine(self, read: Reads, share: float) -> float:
        """Return the price in seconds of Spark's scan of the selected files or splits.

        This price is for files that only Spark can read. It includes our tasks, which check that the files are
        unchanged. `share` is the share of the files' bytes that the columns take.
        """
        seconds = self._by_spark(share * read.needed, read.values_per_byte) + self._opening(read.opened)
        seconds += DIRECT_START + self.store.request + waiting_seconds(read.opened, self.cores, self.store)
        return self.factors.spark.factor * seconds

    def native(self, read: Reads, share: float) -> float:
        """Return the price in seconds of Spark's scan of the selected blocks.

        The files that must be read whole are included.
        """
        requests = read.opened * (SPARK_REQUESTS + CHECK_REQUESTS) + max(read.ranges - read.opened, 0) * RANGE_REQUESTS
        seconds = self._by_spark(share * (read.blocks + read.whole), read.values_per_byte)
        seconds += _waits(read.opened, requests, self.cores, self.store) + self._opening(read.opened)
        return self._native(seconds + read.ranges * NATIVE_RANGE / self.cores)

    def native_files(self, read: Reads, share: float) -> float:
        """Return the price in seconds of Spark's scan of files with selected blocks.

        The files that must be read whole are included.
        """
        seconds = self._by_spark(share * read.needed, read.values_per_byte)
        seconds += _waits(read.opened, read.opened * (SPARK_REQUESTS + CHECK_REQUESTS), self.cores, self.store)
        return self._native(seconds + self._opening(read.opened))

    def direct(self, read: Reads, share: float) -> float:
        """Return the price in seconds of reading the selected rows in our tasks.

        The files that must be read whole are included.
        """
        waits = self._direct_waits(read, self.cores) + self.store.request
        return self.factors.own.factor * (DIRECT_START + waits + self._direct_work(read, share) / self.cores)

    def driver(self, read: Reads, share: float) -> float:
        """Return the price in seconds of reading the rows in the planning process."""
        threads = min(self.cores, DRIVER_THREADS)
        seconds = DRIVER_START + self._direct_waits(read, threads) + self._direct_work(read, share) / threads
        return self.factors.own.factor * seconds

    def direct_tasks(self, read: Reads, share: float) -> int:
        """Return how many of our tasks are needed to read the selected rows.

        The time in which tasks wait for the store is part of their work.
        """
        work = self._direct_work(read, share) + self._direct_waits(read, 1)
        return max(ceil(work / TASK_SECONDS), 1)

    def _native(self, seconds: float) -> float:
        """Return the price in seconds of a read by Spark's own reader.

        `seconds` is the time of the read itself. The start of a job and the lookup of the blocks are added.
        """
        lookup = self.factors.own.factor * NATIVE_LOOKUP + self.store.request
        return self.factors.spark.factor * (SPARK_START + seconds) + lookup

    def _opening(self, files: int) -> float:
        """Return the seconds that Spark takes to open files.

        Each file is opened by one task.
        """
        return files * SPARK_FILE / max(min(self.cores, files), 1)

    def _direct_work(self, read: Reads, share: float) -> float:
        """Return the seconds of work for one core to read the selected rows in our tasks.

        Opening, transfer, decoding and files that are read whole are included; waiting for the store is not. `share` is
        the share of the bytes that the needed columns have.
        """
        spark_byte = self._spark_byte(read.values_per_byte)
        by_value = read.values_per_byte * DIRECT_VALUE.get(self.format, 0.0)
        direct_byte = max(DIRECT_BYTE.get(self.format, spark_byte), by_value)
        by_byte = read.decoded * direct_byte + read.whole * spark_byte
        by_byte += (read.blocks + read.whole) * self.store.byte
        opening = read.opened * (DIRECT_FILE + share * read.width * DIRECT_COLUMN)
        return share * by_byte + opening + read.rows * DIRECT_ROW

    def _direct_waits(self, read: Reads, cores: int) -> float:
        return -(-read.opened // (cores * DIRECT_AT_ONCE)) * DIRECT_REQUESTS * self.store.request

    def _by_spark(self, size: float, values_per_byte: float) -> float:
        return size * (self._spark_byte(values_per_byte) + self.store.byte) / self.cores

    def _spark_byte(self, values_per_byte: float) -> float:
        by_value = values_per_byte * SPARK_VALUE.get(self.format, SPARK_VALUE["parquet"])
        return max(SPARK_BYTE.get(self.format, SPARK_BYTE["parquet"]), by_value)


def waiting_seconds(files: int, cores: int, store: Speed) -> float:
    """Return the seconds that Spark waits for a store while it reads files.

    Spark reads `files` files. At most `cores` tasks run at a time. The time to transfer data is not included.
    """
    return _waits(files, files * SPARK_REQUESTS, cores, store)


def _waits(files: int, requests: int, cores: int, store: Speed) -> float:
    """Return the seconds that concurrent tasks wait for requests to a store.

    All files together take `requests` requests. Each file has one task, and at most `cores` tasks run at a time.
    """
    return requests * store.request / max(min(cores, files), 1)
