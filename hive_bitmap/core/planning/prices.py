"""The price in seconds of each way of reading: the bytes and rows that it reads, at measured unit costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from hive_bitmap.core.planning.reads import Reads
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
# Consecutive requests to a store, derived from the seconds that `bench.stores` takes with 0, 30 and 100 ms of latency.
SPARK_REQUESTS = 6  # of Spark for each file
RANGE_REQUESTS = 2  # of Spark for each further range of a file
CHECK_REQUESTS = 1  # to check that a file is unchanged
DIRECT_REQUESTS = 6  # of our own tasks for each file
DIRECT_AT_ONCE = 8  # files that a task of ours reads at the same time


@dataclass(frozen=True)
class Prices:
    """What reading takes, in seconds: files of a format, in a store, by as many tasks at a time as there are cores.

    `share` is the share of the files' bytes that the columns take which are read.
    """

    format: str
    cores: int
    store: Speed = LOCAL

    def is_too_small(self, size: float, files: int = 0, values_per_byte: float = 0.0, *, native: bool) -> bool:
        """Whether Spark reads everything in less time than reading through an index takes to start.

        For `native` reads, in which Spark's own reader gets the blocks, starting means looking them up.
        """
        start = SPARK_START + NATIVE_LOOKUP if native else DIRECT_START
        return self.scan(size, files, values_per_byte) < start + self.store.request

    def scan(self, size: float, files: int = 0, values_per_byte: float = 0.0) -> float:
        """Spark reads this many bytes in this many files."""
        return SPARK_START + self._by_spark(size, values_per_byte) + waiting_seconds(files, self.cores, self.store)

    def full_scan(self, read: Reads, share: float) -> float:
        """Spark reads all files."""
        return self.scan(share * read.total, read.files, read.values_per_byte)

    def engine(self, read: Reads, share: float) -> float:
        """Spark reads the files, or splits, that the index keeps; tasks of ours check the files that are left out."""
        seconds = self._by_spark(share * read.needed, read.values_per_byte)
        return DIRECT_START + self.store.request + seconds + waiting_seconds(read.opened, self.cores, self.store)

    def native(self, read: Reads, share: float) -> float:
        """Spark reads the selected blocks, and the files that are read whole."""
        requests = read.opened * (SPARK_REQUESTS + CHECK_REQUESTS) + max(read.ranges - read.opened, 0) * RANGE_REQUESTS
        seconds = self._by_spark(share * (read.blocks + read.whole), read.values_per_byte)
        seconds += _waits(read.opened, requests, self.cores, self.store)
        return SPARK_START + NATIVE_LOOKUP + self.store.request + seconds + read.ranges * NATIVE_RANGE / self.cores

    def native_files(self, read: Reads, share: float) -> float:
        """Spark reads all files with a selected block, whole."""
        seconds = self._by_spark(share * read.needed, read.values_per_byte)
        seconds += _waits(read.opened, read.opened * (SPARK_REQUESTS + CHECK_REQUESTS), self.cores, self.store)
        return SPARK_START + NATIVE_LOOKUP + self.store.request + seconds

    def direct(self, read: Reads, share: float) -> float:
        """Tasks of ours read the selected rows, and files whole where they must."""
        waits = self._direct_waits(read, self.cores) + self.store.request
        return DIRECT_START + waits + self._direct_work(read, share) / self.cores

    def driver(self, read: Reads, share: float) -> float:
        """The process that planned does what `direct` is the price of, without a job."""
        threads = min(self.cores, DRIVER_THREADS)
        return DRIVER_START + self._direct_waits(read, threads) + self._direct_work(read, share) / threads

    def direct_tasks(self, read: Reads, share: float) -> int:
        """How many tasks of ours the selected rows are work for, with the waits for a store."""
        work = self._direct_work(read, share) + self._direct_waits(read, 1)
        return max(ceil(work / TASK_SECONDS), 1)

    def _direct_work(self, read: Reads, share: float) -> float:
        """One core decodes the selected rows, and files whole where it must."""
        spark_byte = self._spark_byte(read.values_per_byte)
        by_value = read.values_per_byte * DIRECT_VALUE.get(self.format, 0.0)
        direct_byte = max(DIRECT_BYTE.get(self.format, spark_byte), by_value)
        by_byte = read.decoded * direct_byte + read.whole * spark_byte
        by_byte += (read.blocks + read.whole) * self.store.byte
        return share * by_byte + read.opened * DIRECT_FILE + read.rows * DIRECT_ROW

    def _direct_waits(self, read: Reads, cores: int) -> float:
        return -(-read.opened // (cores * DIRECT_AT_ONCE)) * DIRECT_REQUESTS * self.store.request

    def _by_spark(self, size: float, values_per_byte: float) -> float:
        return size * (self._spark_byte(values_per_byte) + self.store.byte) / self.cores

    def _spark_byte(self, values_per_byte: float) -> float:
        by_value = values_per_byte * SPARK_VALUE.get(self.format, SPARK_VALUE["parquet"])
        return max(SPARK_BYTE.get(self.format, SPARK_BYTE["parquet"]), by_value)


def waiting_seconds(files: int, cores: int, store: Speed) -> float:
    """Seconds that Spark waits for requests to a store when it reads this many files; transfer not included."""
    return _waits(files, files * SPARK_REQUESTS, cores, store)


def _waits(files: int, requests: int, cores: int, store: Speed) -> float:
    """Seconds of waiting for this many requests, spread over as many tasks as there are files or cores."""
    return requests * store.request / max(min(cores, files), 1)
