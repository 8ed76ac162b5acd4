"""The table that is measured: nine columns, five of them indexed, and the questions that are asked of it.

Made from a fixed seed a file at a time, so that memory stays that of one file whatever the number of rows. Half of the
files lie in the order of `region`, as files do that arrive region by region.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

GENERATOR = 1  # a file made by another version of this module is made anew
SEED = 20240229
FEWEST_FILES = 10
FILE_ROWS = 1_000_000  # more rows make more files, not larger ones
ROW_GROUPS = 8
NOTE_LENGTH = 35
TABLE, PLAIN_TABLE = "bench", "bench_plain"  # the latter has no index

GENDERS = ("F", "M")
TYPES = {"FULL": 0.6, "PART": 0.25, "CONTRACT": 0.1, "INTERN": 0.035, "TEMP": 0.015}
AGES = np.arange(18, 70)
REGIONS = tuple(f"region-{number:02}" for number in range(50))
STORES, ZIPF_EXPONENT = 5_000, 1.05
KEYS = {"gender": len(GENDERS), "type": len(TYPES), "age": len(AGES), "region": len(REGIONS), "store": STORES}

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("gender", pa.string()),
        ("type", pa.string()),
        ("age", pa.int32()),
        ("region", pa.string()),
        ("store", pa.int32()),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)
SPARK_COLUMNS = (
    "id bigint, ts timestamp, gender string, type string, age int, region string, store int, amount double, note string"
)

_WITH_PART = f"({SPARK_COLUMNS}, part int)"
COPIES = {  # blocks are about as large as row groups of the table itself
    "orc": f"({SPARK_COLUMNS}) STORED AS ORC TBLPROPERTIES ('orc.stripe.size' = '8388608')",
    "partitioned": f"{_WITH_PART} USING parquet PARTITIONED BY (part) OPTIONS ('parquet.block.size' = '8388608')",
    "partitioned-orc": f"{_WITH_PART} USING orc PARTITIONED BY (part) OPTIONS ('orc.stripe.size' = '8388608')",
}


@dataclass(frozen=True)
class Question:
    """A predicate, and what about it matters; `count` and `fetch` say which of the two is measured.

    `drained`: its rows are so many that they are read to the end inside Spark, and not brought here.
    """

    name: str
    about: str
    predicate: str
    count: bool
    fetch: bool
    drained: bool = False


QUESTIONS = (
    Question("Q1", "three indexes, ~0.1 %", "gender = 'F' AND type = 'TEMP' AND age BETWEEN 20 AND 25", True, True),
    Question("Q2", "one rare store", "store = 4999", True, True),
    Question("Q3", "five rare stores", "store IN (4995, 4996, 4997, 4998, 4999)", False, True),
    Question("Q4", "one region, 2 %, clustered", "region = 'region-07'", False, True),
    Question("Q5", "half of the rows", "gender = 'F'", True, True, drained=True),
    Question("Q6", "OR over two indexes, ~0.8 %", "age >= 69 OR store = 4999", True, True),
    Question("range", "ten ages of 52", "age BETWEEN 30 AND 39", True, False),
)

GROUPINGS = (
    "SELECT age, count(*) FROM bench GROUP BY age",
    "SELECT store, count(*) AS n FROM bench GROUP BY store ORDER BY n DESC, store LIMIT 10",
    "SELECT type, count(*) FROM bench WHERE gender = 'F' GROUP BY type",
    "SELECT min(age), max(age), avg(age), count(DISTINCT store) FROM bench",
)

SUMS = "bench_sums"  # the same files, with indexes that hold aggregates
AGGREGATES = "count(*), sum(id), sum(store)"
SUMMED = (
    f"SELECT age, sum(id), avg(store), count(*) FROM {SUMS} GROUP BY age",
    f"SELECT region, sum(id) FROM {SUMS} WHERE region < 'region-25' GROUP BY region",
    f"SELECT store, sum(id), max(id) FROM {SUMS} GROUP BY store",
)

HOUR = "date_trunc('HOUR', ts) AS hour"  # a key that is an expression; a row a second, so some 3,600 rows each
HOURLY = (
    f"SELECT date_trunc('HOUR', ts), count(*) FROM {SUMS} GROUP BY 1",
    f"SELECT count(*) FROM {SUMS} WHERE ts >= TIMESTAMP '2023-11-20 00:00:00' AND ts < TIMESTAMP '2023-12-20 00:00:00'",
)

HELPLESS = {
    "no table has an index": f"SELECT note FROM {PLAIN_TABLE} WHERE gender = 'F'",
    "no index for the predicate": "SELECT note FROM bench WHERE amount > 100",
    "half of the rows": "SELECT note FROM bench WHERE gender = 'F'",
    "a join with a table of no index": (
        f"SELECT b.note FROM bench b JOIN {PLAIN_TABLE} p ON b.store = p.store WHERE p.note LIKE 'x%'"
    ),
}  # queries that no index can help


@dataclass(frozen=True)
class Data:
    """The files of the table; `size` in bytes."""

    rows: int
    folder: Path
    files: int
    blocks: int
    size: int


def prepare(folder: Path, rows: int, progress: Callable[[str], None]) -> Data:
    """The files, made unless they are there as this version makes them; `progress` hears how far it is."""
    marker = folder / "complete.json"
    wanted = {"generator": GENERATOR, "rows": rows}
    if not marker.is_file() or json.loads(marker.read_text()) != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "table").mkdir(parents=True)
        _write(folder / "table", rows, progress)
        marker.write_text(json.dumps(wanted))
    paths = sorted((folder / "table").glob("*.parquet"))
    blocks = sum(pq.read_metadata(path).num_row_groups for path in paths)
    return Data(rows, folder / "table", len(paths), blocks, sum(path.stat().st_size for path in paths))


def register(spark: SparkSession, folder: Path, table: str = TABLE) -> None:
    """Name the files of a folder in the metastore, as a Hive warehouse would."""
    where = folder.absolute().as_uri()
    spark.sql(f"CREATE EXTERNAL TABLE {table} ({SPARK_COLUMNS}) STORED AS PARQUET LOCATION '{where}'")


def copy(spark: SparkSession, kind: str) -> str:
    """The same rows as one of COPIES; returns the table's name."""
    table, how = f"{TABLE}_{kind.replace('-', '_')}", COPIES[kind]
    spark.sql(f"CREATE TABLE {table} {how}")
    part = f", CAST(id DIV {FILE_ROWS} AS int)" if "PARTITIONED BY" in how else ""
    spark.sql(f"INSERT INTO {table} SELECT *{part} FROM {TABLE}")
    return table


def _write(folder: Path, rows: int, progress: Callable[[str], None]) -> None:
    files = max(FEWEST_FILES, -(-rows // FILE_ROWS))
    cuts = [rows * file // files for file in range(files + 1)]
    for file, (start, end) in enumerate(pairwise(cuts)):
        table = _rows(file, start, end - start)
        group = max(1, -(-len(table) // ROW_GROUPS))
        pq.write_table(table, folder / f"part-{file:05}.parquet", row_group_size=group, store_schema=False)
        progress(f"file {file + 1} of {files}")


def _rows(file: int, start: int, count: int) -> pa.Table:
    random = np.random.default_rng([SEED, file])
    ids = np.arange(start, start + count)
    regions = random.integers(0, len(REGIONS), count)
    if file % 2:
        regions.sort()
    weights = 1.0 / np.arange(1, STORES + 1) ** ZIPF_EXPONENT
    fewer_when_old = np.linspace(4, 1, len(AGES))
    columns = {
        "id": ids,
        "ts": 1_700_000_000_000_000 + ids * 1_000_000 + random.integers(0, 1_000_000, count),
        "gender": _named(GENDERS, random.integers(0, 2, count)),
        "type": _named(tuple(TYPES), random.choice(len(TYPES), count, p=list(TYPES.values()))),
        "age": random.choice(AGES, count, p=fewer_when_old / fewer_when_old.sum()),
        "region": _named(REGIONS, regions),
        "store": random.choice(STORES, count, p=weights / weights.sum()),
        "amount": random.gamma(2.0, 20.0, count).round(2),
        "note": _notes(random, count),
    }
    return pa.table([_column(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _column(values: npt.NDArray[np.generic] | pa.Array, type: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values).cast(type)


def _named(names: tuple[str, ...], codes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(names).take(pa.array(codes))


def _notes(random: np.random.Generator, count: int) -> pa.Array:
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz  ,.-;", np.uint8)
    text = letters[random.integers(0, len(letters), count * NOTE_LENGTH, dtype=np.uint8)]
    ends = np.arange(count + 1, dtype=np.int32) * NOTE_LENGTH
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text))


def write_small_files(folder: Path, files: int, rows: int) -> None:
    """`files` files of `rows` rows each, as many appends leave them."""
    folder.mkdir(parents=True)
    for file in range(files):
        pq.write_table(_rows(file, file * rows, rows), folder / f"part-{file:05}.parquet", store_schema=False)


def append_small_file(folder: Path, rows: int) -> None:
    """One more file."""
    file = len(list(folder.glob("*.parquet")))
    pq.write_table(_rows(file, file * rows, rows), folder / f"part-{file:05}.parquet", store_schema=False)


def summary(data: Data) -> Mapping[str, object]:
    """What the raw figures say of the data."""
    return {"rows": data.rows, "files": data.files, "blocks": data.blocks, "bytes": data.size, "generator": GENERATOR}
