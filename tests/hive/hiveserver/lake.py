"""A table and a partitioned one with indexes of every kind, built by Spark, for servers that share files alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

import hive_bitmap
from hive_bitmap.core.index.generation import definition_of
from hive_bitmap.core.table_info import index_table_name
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import create_table, register
from hive_bitmap.hive.hiveserver.tables import describe
from tests.servers.hiveserver import HiveServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES, BLOCK = 3000, 3, 300
COLUMNS = "id bigint, k int, s string, v varchar(9), d decimal(10,2), dt date, b boolean, f double"
PARTITIONED = (
    "CREATE EXTERNAL TABLE {} (id bigint, k int) PARTITIONED BY (m int, r string) STORED AS PARQUET LOCATION '{}'"
)
PLAIN = f"CREATE EXTERNAL TABLE {{}} ({COLUMNS}) STORED AS PARQUET LOCATION '{{}}'"
TEXTS = ["", "a", "a b", "ab", "b", "é", "x" * 300, "100%", None]
INDEXES = {  # on t: columns, type, encoding, compression, aggregates
    "k": (["k"], "BITMAP", "gap", "snappy", "count(*), d, count(s)"),
    "s": (["s"], "BITMAP", "roaring", "gzip", ""),
    "dv": (["d", "v"], "BITMAP", "plain", "snappy", ""),
    "dt": (["dt"], "BITMAP", "ewah", "snappy", ""),
    "bf": (["b", "f"], "BITMAP", "gap", "snappy", ""),
    "id": (["id"], "AGGREGATE", "gap", "snappy", "sum(d), dt, k"),
}
PARTITIONS = [(m, r) for m in (1, 2) for r in ("x", "a b")]


@dataclass(frozen=True)
class Lake:
    """Tables `t` and `p` of a database; `base` has their files, `roots` the folders of the indexes."""

    spark: SparkSession
    database: str
    base: Path
    roots: tuple[str, ...]

    @property
    def rows(self) -> pa.Table:
        """The rows of `t` with their `path` and `block`, the number of the row group."""
        tables = []
        for path in sorted((self.base / "t").glob("*.parquet")):
            file = pq.ParquetFile(path)
            for block in range(file.num_row_groups):
                table = file.read_row_group(block)
                start = file.metadata.row_group(block).column(0)
                where = {"path": f"file:{path}", "block": start.data_page_offset}
                for name, value in where.items():
                    table = table.append_column(name, pa.array([value] * table.num_rows))
                tables.append(table)
        return pa.concat_tables(tables)

    @contextlib.contextmanager
    def known_to(self, server: HiveServer) -> Iterator[Server]:
        """The server with these tables and indexes in a database of the same name, until the block ends."""
        with contextlib.closing(server.connect()) as connection:
            asked = Server(connection, "the server")
            asked.all(f"CREATE DATABASE {self.database}")
            try:
                asked.all(PLAIN.format(f"{self.database}.t", self.base / "t"))
                asked.all(PARTITIONED.format(f"{self.database}.p", self.base / "p"))
                asked.all(f"MSCK REPAIR TABLE {self.database}.p")
                for root in self.roots:
                    if asked.is_spark:
                        self._create(asked, root)
                    else:
                        register(asked, root)
                yield asked
            finally:
                asked.all(f"DROP DATABASE {self.database} CASCADE")

    def _create(self, server: Server, root: str) -> None:
        """What `register` does, for a server that shows no folders."""
        [segment] = Path(root.removeprefix("file:")).glob("generation-*")
        folder = f"{root}/{segment.name}"
        said = definition_of(folder)
        assert said is not None
        definition = replace(said, index_table=index_table_name(said.database, said.table, said.name))
        create_table(server, describe(server, definition.full_table), definition, [folder])


@contextlib.contextmanager
def lake(spark: SparkSession, folder: Path) -> Iterator[Lake]:
    """Make the tables and their indexes below a folder, in a database of their own, which ends with the block."""
    database, base = f"t_{uuid4().hex[:12]}", folder / "base 100%"
    for number in range(FILES):
        write_file(base / "t" / f"part {number}.parquet", number)
    for number, (m, r) in enumerate(PARTITIONS):
        ids = pa.array(range(number, ROWS, len(PARTITIONS)))
        keys = pa.array([i % 7 for i in ids.to_pylist()], pa.int32())
        path = base / "p" / f"m={m}" / f"r={r}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": ids, "k": keys}), path, row_group_size=BLOCK)
    spark.sql(f"CREATE DATABASE {database} LOCATION '{folder / 'indexes'}'")
    try:
        spark.sql(PLAIN.format(f"{database}.t", base / "t"))
        spark.sql(PARTITIONED.format(f"{database}.p", base / "p"))
        spark.sql(f"MSCK REPAIR TABLE {database}.p")
        reports = [
            hive_bitmap.build(
                spark,
                f"{database}.t",
                [columns],
                name=name,
                type=type,
                encoding=encoding,
                compression=how,
                aggregates=aggregates,
            )[0]
            for name, (columns, type, encoding, how, aggregates) in INDEXES.items()
        ]
        reports += hive_bitmap.build(spark, f"{database}.p", ["k"], compression="snappy")
        yield Lake(spark, database, base, tuple(report.definition.root for report in reports))
    finally:
        spark.sql(f"DROP DATABASE {database} CASCADE")


def write_file(path: Path, number: int) -> None:
    """The file of that number, of FILES."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = range(number, ROWS, FILES)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([None if i % 13 == 0 else i % 17 * 1000 - 8000 for i in ids], pa.int32()),
            "s": pa.array([TEXTS[i % len(TEXTS)] for i in ids], pa.string()),
            "v": pa.array([None if i % 5 == 0 else f"v{i % 4}" for i in ids], pa.string()),
            "d": pa.array([None if i % 19 == 0 else Decimal(i % 23 - 11) / 4 for i in ids], pa.decimal128(10, 2)),
            "dt": pa.array(
                [None if i % 11 == 0 else date(2020, 2, 20) + timedelta(i // 100) for i in ids], pa.date32()
            ),
            "b": pa.array([None if i % 6 == 0 else i % 6 < 3 for i in ids], pa.bool_()),
            "f": pa.array([None if i % 4 == 0 else i % 4 / 2 for i in ids], pa.float64()),
        }
    )
    pq.write_table(table, path, row_group_size=BLOCK)
