"""The price in seconds of each way of reading.

It is computed from the bytes and rows that are read, at measured unit costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from hive_bitmap.core.planning.reads import Reads
from hive_bitmap.core.stores.speed import LOCAL, Speed

# In seconds, or seconds per byte, value, row or file, measured on one core of a small machine; `bench` prints the
# expected seconds beside its times. Choices depend on ratios alone.
SPARK_START = 0.06
SPARK_BYTE = {"parquet": 2.75e-9, "orc": 6.0e-9}
SPARK_VALUE = {"parquet": 6.5e-9, "orc": 2.5e-8}  # to decode a value: small values cost more than their bytes
NATIVE_LOOKUP = 0.01  # to find the blocks in planning
NATIVE_RANGE = 1.0e-3  # to open a file for one range of it
DIRECT_START, DIRECT_ROW = 0.09, 1.0e-6
DRIVER_THREADS = 2  # with which the process that planned a query reads
DRIVER_START = 0.04  # to read in the process that planned, which runs a job only to hand on the rows
DIRECT_BYTE = {"parquet": 1.0e-9, "orc": 2.5e-9}
DIRECT_VALUE = {"parquet": 2.0e-9, "orc": 1.1e-8}  # as SPARK_VALUE
DIRECT_FILE = 5.0e-3  # to open a file for its selected rows
TASK_SECONDS = 0.1  # the least work of one of our tasks: a smaller one costs more than it saves
CLEARLY_CHEAPER = 0.9  # a strategy must cost less than this share of a full scan
# Consecutive requests to a store, derived from the seconds that `bench.stores` takes with 0, 30 and 100 ms of latency.
SPARK_REQUESTS = 6  # of Spark for each file
RANGE_REQUESTS = 2  # of Spark for each further range of a file
CHECK_REQUESTS = 1  # to check that a file is unchanged
DIRECT_REQUESTS = 6  # of our tasks for each file
DIRECT_AT_ONCE = 8  # files that one of our tasks reads at the same time


@dataclass(frozen=True)
class Prices:
    """Prices in seconds of reading files of a format from a store.

    As many tasks read at a time as there are cores. `share` is the share of the files' bytes that the columns to read
    take.
    """

    format: str
    cores: int
    store: Speed = LOCAL

    def is_too_small(self, size: float, files: int = 0, values_per_byte: float = 0.0, *, native: bool) -> bool:
        """Return whether Spark reads everything before an index could start.

        That is in less time than reading through an index takes to start. For `native` reads, in which Spark's own
        reader gets the blocks, starting means looking them up.
        """
        start = SPARK_START + NATIVE_LOOKUP if native else DIRECT_START
        return self.scan(size, files, values_per_byte) < start + self.store.request

    def scan(self, size: float, files: int = 0, values_per_byte: float = 0.0) -> float:
        """Price Spark reading so many bytes in so many files."""
        return SPARK_START + self._by_spark(size, values_per_byte) + waiting_seconds(files, self.cores, self.store)

    def full_scan(self, read: Reads, share: float) -> float:
        """Price Spark reading all files."""
        return self.scan(share * read.total, read.files, read.values_per_byte)

    def engine(self, read: Reads, share: float) -> float:
        """Price Spark reading the files, or splits, that the index selects.

        Our tasks check the files that are left out.
        """
        seconds = self._by_spark(share * read.needed, read.values_per_byte)
        return DIRECT_START + self.store.request + seconds + waiting_seconds(read.opened, self.cores, self.store)

    def native(self, read: Reads, share: float) -> float:
        """Price Spark reading the selected blocks.

        It also reads the files that must be read whole.
        """
        requests = read.opened * (SPARK_REQUESTS + CHECK_REQUESTS) + max(read.ranges - read.opened, 0) * RANGE_REQUESTS
        seconds = self._by_spark(share * (read.blocks + read.whole), read.values_per_byte)
        seconds += _waits(read.opened, requests, self.cores, self.store)
        return SPARK_START + NATIVE_LOOKUP + self.store.request + seconds + read.ranges * NATIVE_RANGE / self.cores

    def native_files(self, read: Reads, share: float) -> float:
        """Price Spark reading all files with a selected block, whole."""
        seconds = self._by_spark(share * read.needed, read.values_per_byte)
        seconds += _waits(read.opened, read.opened * (SPARK_REQUESTS + CHECK_REQUESTS), self.cores, self.store)
        return SPARK_START + NATIVE_LOOKUP + self.store.request + seconds

    def direct(self, read: Reads, share: float) -> float:
        """Price our tasks reading the selected rows.

        They read files whole where they must.
        """
        waits = self._direct_waits(read, self.cores) + self.store.request
        return DIRECT_START + waits + self._direct_work(read, share) / self.cores

    def driver(self, read: Reads, share: float) -> float:
        """Price the process that planned reading the selected rows.

        It does the work of `direct`, without a job.
        """
        threads = min(self.cores, DRIVER_THREADS)
        return DRIVER_START + self._direct_waits(read, threads) + self._direct_work(read, share) / threads

    def direct_tasks(self, read: Reads, share: float) -> int:
        """Return how many of our tasks the selected rows occupy.

        Their work includes the waits for a store.
        """
        work = self._direct_work(read, share) + self._direct_waits(read, 1)
        return max(ceil(work / TASK_SECONDS), 1)

    def _direct_work(self, read: Reads, share: float) -> float:
        """Price one core decoding the selected rows.

        It decodes files whole where it must.
        """
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
    """Return the seconds that Spark waits for requests to a store.

    It reads so many files; transfer is not included.
    """
    return _waits(files, files * SPARK_REQUESTS, cores, store)


def _waits(files: int, requests: int, cores: int, store: Speed) -> float:
    """Return the seconds of waiting for so many requests.

    They are spread over as many tasks as there are files or cores.
    """
    return requests * store.request / max(min(cores, files), 1)
