"""Tables whose files Spark reads in another order than it lists them: of several sizes, some of them several splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import hive_bitmap

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Of 300 KB at most, so that a file may be several splits; its blocks are smaller.
SETTINGS = {"spark.sql.files.maxPartitionBytes": "300000", "spark.sql.files.openCostInBytes": "1000"}
BLOCKS = {"parquet.block.size": "80000", "parquet.page.row.count.limit": "100", "orc.stripe.size": "80000"}


class SplitTable:
    """A table `t` over `folder`, to which files are added; `id` numbers its rows."""

    def __init__(self, spark: SparkSession, folder: Path, format: str, *, partitioned: bool) -> None:
        self._spark, self._folder, self._format, self._partitioned = spark, folder, format, partitioned
        self._numbers = self._firsts()

    def _firsts(self) -> Iterator[int]:
        yield from range(0, 1 << 40, 1 << 20)

    def add(self, *sizes: int) -> None:
        """Add a file of so many rows for each of the sizes (to each of two partitions in turn)."""
        for number, rows in enumerate(sizes):
            first = next(self._numbers)
            found = self._spark.range(first, first + rows, 1, 1).selectExpr(*split_columns())
            folder = self._folder / f"p={number % 2}" if self._partitioned else self._folder
            found.write.options(**BLOCKS).mode("append").format(self._format).save(str(folder))

    def create(self, *sizes: int) -> None:
        """Make the table of so many files, and index `k` and `s`."""
        self.add(*sizes)
        columns = "id BIGINT, k INT, s STRING, pad STRING" + (", p INT" if self._partitioned else "")
        parted = "PARTITIONED BY (p)" if self._partitioned else ""
        self._spark.sql(f"CREATE TABLE t ({columns}) USING {self._format} {parted} LOCATION '{self._folder.as_uri()}'")
        if self._partitioned:
            self._spark.sql("MSCK REPAIR TABLE t")
        hive_bitmap.build(self._spark, "t", [["k"], ["s"]])

    def grow(self, *sizes: int) -> None:
        """Add files that no index knows."""
        self.add(*sizes)
        self._spark.sql("REFRESH TABLE t")


def split_columns() -> Sequence[str]:
    """The columns of a file, as Spark's expressions over `id`."""
    return [
        "id",
        "CAST(pmod(hash(id), 40) AS INT) AS k",
        "CAST(pmod(hash(id, 1), 9) AS STRING) AS s",
        "sha2(CAST(id AS STRING), 512) AS pad",
    ]
