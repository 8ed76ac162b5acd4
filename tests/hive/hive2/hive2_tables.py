"""Tables that Hive 2 and Spark share: the same files, written by either, as external tables of both."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.servers.hiveserver import HiveServer, JobFailed, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
ROWS = 30_000
COLUMNS = "id int, k int, s string"
PARTS = ["a b", "50%", "ü=日"]
# A value of k has 600 ids in a row, so it lies in few blocks of each file; s has a rare value in two files.
SOURCE = """
    SELECT CAST(id AS int) AS id, IF(id % 7 = 0 AND id < 6000, NULL, CAST(id DIV 600 AS int)) AS k,
        CASE WHEN id % 11000 = 10000 THEN 'rare' WHEN id % 13 = 0 THEN NULL ELSE concat('s', id % 5) END AS s,
        element_at(array('a b', '50%', 'ü=日'), CAST(1 + id % 3 AS int)) AS p
    FROM range({rows})
"""
THROUGH_INDEX = {
    "hive.fetch.task.conversion": "none",  # else Hive reads small tables by itself, past the input format
    "hive.input.format": "org.apache.hadoop.hive.ql.index.HiveIndexedInputFormat",
    "hive.exec.orc.split.strategy": "ETL",
    "fs.file.impl.disable.cache": "true",  # so that the block size of local files can be set
}


class Kind(NamedTuple):
    """How a table is stored, and who wrote its files in how many turns."""

    stored: str
    writer: str
    turns: int
    properties: str = "'none'='none'"
    settings: Mapping[str, str] = MappingProxyType({})


ORC = "'orc.stripe.size'='8192', 'orc.compress'='ZLIB'"
BLOCKS = {
    "hive.exec.compress.output": "true",
    "mapreduce.output.fileoutputformat.compress.type": "BLOCK",
    "mapreduce.output.fileoutputformat.compress.codec": "org.apache.hadoop.io.compress.DefaultCodec",
    "io.seqfile.compress.blocksize": "4000",
}
KINDS = {
    "Parquet by Hive": Kind("PARQUET", "hive", 2, "'parquet.block.size'='16384'"),
    "Parquet by Spark": Kind("PARQUET", "spark", 2, "'parquet.block.size'='16384'"),
    "ORC by Hive": Kind("ORC", "hive", 1, ORC),
    "ORC by Spark": Kind("ORC", "spark", 2, f"{ORC}, 'orc.stripe.row.count'='500'"),
    "text by Hive": Kind("TEXTFILE", "hive", 2),
    "RCFile by Hive": Kind("RCFILE", "hive", 2, settings={"hive.io.rcfile.record.buffer.size": "4096"}),
    "SequenceFile by Hive": Kind("SEQUENCEFILE", "hive", 2),
    "SequenceFile of blocks by Hive": Kind("SEQUENCEFILE", "hive", 2, settings=BLOCKS),
}


class Base(NamedTuple):
    """A table, or a database, of one name in Hive and in Spark, and the folder of its files."""

    name: str
    folder: Path


@contextlib.contextmanager
def shared_database(spark: SparkSession, server: HiveServer, folder: Path) -> Iterator[Base]:
    """A database on either side, without tables but for `source` in Hive's, which has all rows."""
    spark.sql(SOURCE.format(rows=ROWS)).coalesce(1).write.option("compression", "none").parquet(f"{folder}/source")
    with server.new_database() as name, contextlib.closing(server.connect(name)) as connection:
        make = f"CREATE EXTERNAL TABLE source ({COLUMNS}, p string) STORED AS PARQUET LOCATION 'file:{folder}/source'"
        run(connection, make)
        spark.sql(f"CREATE DATABASE {name}")
        yield Base(name, folder)
        spark.sql(f"DROP DATABASE {name} CASCADE")


def make_table(spark: SparkSession, server: HiveServer, database: Base, name: str) -> Base:
    """The table of a kind, partitioned by p."""
    kind, table = KINDS[name], name.lower().replace(" ", "_")
    base = Base(f"{database.name}.{table}", database.folder / table)
    tail = f"({COLUMNS}) PARTITIONED BY (p string) STORED AS {kind.stored} LOCATION 'file:{base.folder}'"
    make = f"{base.name} {tail} TBLPROPERTIES ({kind.properties})"
    conf = {"hive.exec.dynamic.partition.mode": "nonstrict", **kind.settings}
    with contextlib.closing(server.connect(database.name, **conf)) as connection:
        run(connection, f"CREATE EXTERNAL TABLE {make}")
        spark.sql(f"CREATE TABLE {make}")
        step = ROWS // kind.turns
        for start in range(0, ROWS, step):
            where = f"WHERE id >= {start} AND id < {start + step}"
            if kind.writer == "hive":
                run(connection, f"INSERT INTO {base.name} PARTITION (p) SELECT id, k, s, p FROM source {where}")
            else:
                rows = f"SELECT * FROM parquet.`{database.folder}/source` {where}"
                spark.sql(f"INSERT INTO {base.name} PARTITION (p) {rows}")
        known = " ".join(f"PARTITION (p='{part}')" for part in PARTS)
        run(connection, f"ALTER TABLE {base.name} ADD IF NOT EXISTS {known}")
        spark.sql(f"ALTER TABLE {base.name} ADD IF NOT EXISTS {known}")
    return base


class Reader:
    """A session of Hive that reads through result files, in splits of a size."""

    def __init__(self, server: HiveServer, split: int) -> None:
        sizes = dict.fromkeys(["fs.local.block.size", "mapreduce.input.fileinputformat.split.maxsize"], str(split))
        self.connection = server.connect(**THROUGH_INDEX, **sizes)
        self.log = server.warehouse.parent / "log"

    def rows(self, query: str, result: Path, *, tries: int = 2) -> tuple[Counter[tuple[Any, ...]], int]:
        """The rows of a query, and how many splits it read for them."""
        run(self.connection, f"SET hive.index.blockfilter.file={result}")
        before = self.log.stat().st_size
        try:
            rows = Counter(run(self.connection, query, tries=1))
        except JobFailed as e:
            if tries == 1:
                raise
            log.warning("tried again: %s", e)
            return self.rows(query, result, tries=tries - 1)
        with self.log.open("rb") as said:
            said.seek(before)
            kept = re.findall(rb"new input splits: (\d+)", said.read())
        assert kept or not result.read_bytes(), "the reader did not use the result file"
        return rows, sum(map(int, kept))
