"""What others read from real index tables and result files: plain Spark SQL, pyroaring, and Hive's own classes.

The oracle is the base table: its files, read by pyarrow, say which row of which block holds which key.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pyroaring
import pytest
from pyarrow import orc

from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.building.build import build
from hive_bitmap.spark.querying.offsets_file import write_offsets
from hive_bitmap.spark.registry import catalog
from tests.servers import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
Place = tuple[Any, str, int]  # key, file, offset of the block
COLUMNS = {
    "plain": ["_offset bigint", "_bitmaps binary"],
    "gap": ["_offset bigint", "_bitmaps binary", "_gap_lengths array<int>"],
    "ewah": ["_offset bigint", "_bitmaps array<bigint>"],
    "roaring": ["_offset bigint", "_bitmaps binary"],
    "compact": ["_offsets array<bigint>"],
}


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of two Parquet files with several row groups, indexed on k in every way and on s; its twin in ORC."""
    name = f"t_{uuid4().hex[:12]}"
    random = np.random.default_rng(11)
    keys = np.sort(random.integers(0, 9, ROWS) * (random.random(ROWS) < 0.8)) + (random.random(ROWS) < 0.1)
    data = pa.table(
        {
            "k": pa.array(keys, pa.int32(), mask=keys == 4),
            # of the largest keys only s0, so that some bitmaps share no row
            "s": pa.array([f"s{n}" for n in np.where(keys >= 8, 0, random.integers(0, 3, ROWS))]),
            "rare": pa.array(np.where(np.arange(ROWS) % 2600 == 7, 1, 0), pa.int32()),
            "filler": pa.array(random.random(ROWS)),
        }
    )
    spark.sql(f"CREATE DATABASE {name}")
    halves = [spark.createDataFrame(data.slice(start, ROWS // 2)).coalesce(1) for start in (0, ROWS // 2)]
    options = {"parquet.block.size": "8192", "orc.stripe.size": "8192", "orc.stripe.row.count": "500"}
    for format in ("parquet", "orc"):
        folder = tmp_path_factory.mktemp("base") / format
        for half in halves:  # each is one file, the same whatever ran before
            half.write.mode("append").options(**options).format(format).save(str(folder))
        columns = "k int, s string, rare int, filler double"
        spark.sql(f"CREATE TABLE {name}.{format} ({columns}) USING {format} LOCATION '{folder}'")
    for encoding in ("plain", "gap", "ewah", "roaring"):
        build(spark, f"{name}.parquet", ["k"], name=encoding, encoding=encoding)
    build(spark, f"{name}.parquet", ["k"], name="compact", type="COMPACT")
    build(spark, f"{name}.parquet", ["s"], name="s", encoding="ewah")
    for format in ("parquet", "orc"):
        build(spark, f"{name}.{format}", ["rare"])
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


def folder_of(spark: SparkSession, table: str, index: str | None = None) -> Path:
    """The folder of a table, or of the only segment of one of its indexes."""
    found, indexes = catalog.table_and_indexes(spark, table)
    if index is None:
        return Path(local_path(found.location))
    [folder] = catalog.segments(spark, catalog.named(found, indexes, index))
    return Path(local_path(folder))


def blocks_of(folder: Path) -> dict[tuple[str, int], pa.Table]:
    """The rows of each block by file and by the byte that readers know it by, as pyarrow and pyorc see them."""
    found = {}
    for path in sorted(folder.glob("part-*")):
        if path.suffix == ".parquet":
            parquet = pq.ParquetFile(path)
            for group in range(parquet.num_row_groups):
                offset = parquet.metadata.row_group(group).column(0).data_page_offset
                found[f"file:{path}", offset] = parquet.read_row_group(group)
        else:
            with path.open("rb") as opened:
                offsets = [stripe.bytes_offset for stripe in pyorc.Reader(opened).iter_stripes()]
            for stripe, offset in enumerate(offsets):
                found[f"file:{path}", offset] = pa.table(orc.ORCFile(str(path)).read_stripe(stripe))
    assert len(found) > len({path for path, _ in found}), "no file has several blocks"
    return found


def rows_of_keys(folder: Path, column: str) -> dict[Place, list[int]]:
    """The rows of each key in each block."""
    found: dict[Place, list[int]] = {}
    for (path, offset), rows in blocks_of(folder).items():
        for row, key in enumerate(rows[column].to_pylist()):
            found.setdefault((key, path, offset), []).append(row)
    return found


@pytest.mark.contract
def test_index_tables_have_the_columns_of_the_contract(spark: SparkSession, base: str) -> None:
    for index, columns in COLUMNS.items():
        shown = spark.sql(f"DESCRIBE {base}.{base}__parquet_{index}__").collect()
        found = [f"{row.col_name} {row.data_type}" for row in shown]
        wanted = ["k int", "_bucketname string", *columns, "hive_bitmap_segment int"]
        assert found[: len(wanted)] == wanted and found[len(wanted)] == "# Partition Information "


@pytest.mark.parametrize("reader", ["pyarrow", "spark"])
def test_pyroaring_reads_the_roaring_table(spark: SparkSession, base: str, reader: str) -> None:
    if reader == "pyarrow":
        (shard,) = folder_of(spark, f"{base}.parquet", "roaring").glob("part-*.parquet")
        rows = pq.read_table(shard).to_pylist()
    else:
        rows = [row.asDict() for row in spark.table(f"{base}.{base}__parquet_roaring__").collect()]
    read = {
        (row["k"], row["_bucketname"], row["_offset"]): list(pyroaring.BitMap.deserialize(bytes(row["_bitmaps"])))
        for row in rows
    }
    assert read == rows_of_keys(folder_of(spark, f"{base}.parquet"), "k")


@pytest.mark.contract
def test_plain_bitmaps_counted_in_sql_are_the_group_by(spark: SparkSession, base: str) -> None:
    bits = "aggregate(split(hex(_bitmaps), ''), 0L, (n, digit) -> n + bit_count(cast(conv(digit, 16, 10) AS int)))"
    counted = spark.sql(f"SELECT k, sum({bits}) FROM {base}.{base}__parquet_plain__ GROUP BY k").collect()
    grouped = spark.sql(f"SELECT k, count(*) FROM {base}.parquet GROUP BY k").collect()
    assert dict(map(tuple, counted)) == dict(map(tuple, grouped))


def test_plain_bitmaps_are_the_rows(spark: SparkSession, base: str) -> None:
    rows = spark.table(f"{base}.{base}__parquet_plain__").collect()
    read = {
        (row.k, row._bucketname, row._offset): np.flatnonzero(
            np.unpackbits(np.frombuffer(row._bitmaps, np.uint8), bitorder="little")
        ).tolist()
        for row in rows
    }
    assert read == rows_of_keys(folder_of(spark, f"{base}.parquet"), "k")


def test_gaps_decoded_in_sql_are_the_plain_bitmaps(spark: SparkSession, base: str) -> None:
    """Each byte as two hex digits; the i-th that is 00 or FF is repeated as often as the i-th gap length says."""
    decoded = f"""
        SELECT k, _bucketname, _offset, array_join(transform(bytes, (byte, i) -> repeat(byte, if(byte IN ('00', 'FF'),
            _gap_lengths[size(filter(slice(bytes, 1, i + 1), b -> b IN ('00', 'FF'))) - 1], 1))), '') AS digits
        FROM (
            SELECT *, transform(sequence(0, length(_bitmaps) - 1), i -> substring(hex(_bitmaps), 2 * i + 1, 2)) AS bytes
            FROM {base}.{base}__parquet_gap__)
    """
    plain = f"SELECT k, _bucketname, _offset, hex(_bitmaps) AS digits FROM {base}.{base}__parquet_plain__"
    assert Counter(map(tuple, spark.sql(decoded).collect())) == Counter(map(tuple, spark.sql(plain).collect()))


def test_offsets_of_the_compact_table_are_the_blocks(spark: SparkSession, base: str) -> None:
    query = f"SELECT k, _bucketname, explode(_offsets) FROM {base}.{base}__parquet_compact__"
    read = Counter(map(tuple, spark.sql(query).collect()))
    assert read == Counter(rows_of_keys(folder_of(spark, f"{base}.parquet"), "k").keys())


@pytest.fixture(scope="module")
def javaewah() -> Path:
    """JavaEWAH 0.3.2, which Hive 0.9 to 2.3 used."""
    try:
        return jars.resolve("javaewah", ["com.googlecode.javaewah:JavaEWAH:0.3.2"]) / "JavaEWAH-0.3.2.jar"
    except jars.Unavailable as e:
        pytest.skip(str(e))


def ewah_rows(numbers: list[int]) -> list[int]:
    """The rows of an EWAH array, read with Python's integers."""
    words, rows, base, at = [n & (2**64 - 1) for n in numbers[3 : 3 + numbers[1]]], [], 0, 0
    while at < len(words):
        marker = words[at]
        run, literals = marker >> 1 & (2**32 - 1), marker >> 33
        rows += range(base, base + 64 * run) if marker & 1 else []
        base += 64 * run
        for word in words[at + 1 : at + 1 + literals]:
            rows += [base + bit for bit in range(64) if word >> bit & 1]
            base += 64
        at += 1 + literals
    return rows


@pytest.mark.servers
def test_hives_ewah_functions_read_and_write_the_same_arrays(
    spark: SparkSession, base: str, javaewah: Path, tmp_path: Path
) -> None:
    table = f"{base}.parquet"
    by_k, by_s = (rows_of_keys(folder_of(spark, table), column) for column in ("k", "s"))
    flat = [(key, path, offset, row) for (key, path, offset), rows in by_k.items() for row in rows]
    columns = dict(zip(("k", "_bucketname", "_offset", "row"), zip(*flat, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    folders = [folder_of(spark, table, "ewah"), folder_of(spark, table, "s"), tmp_path / "rows.parquet"]
    command = [sys.executable, str(Path(__file__).with_name("hive_ewah.py")), str(tmp_path), str(javaewah)]
    told = subprocess.run([*command, *map(str, folders)], capture_output=True, text=True, timeout=600, check=False)
    assert told.returncode == 0, told.stderr[-3000:]

    pairs = json.loads((tmp_path / "pairs.json").read_text())
    assert len(pairs) > 20
    assert {pair["empty"] for pair in pairs} == {True, False}
    for pair in pairs:
        k, s = (set(rows[pair[key], pair["_bucketname"], pair["_offset"]]) for rows, key in ((by_k, "k"), (by_s, "s")))
        assert ewah_rows(pair["both"]) == sorted(k & s)
        assert ewah_rows(pair["either"]) == sorted(k | s)
        assert pair["empty"] == (not k & s)

    made = json.loads((tmp_path / "made.json").read_text())
    stored = spark.table(f"{base}.{base}__parquet_ewah__").collect()
    place = ("k", "_bucketname", "_offset")
    assert {tuple(row[c] for c in place): row["_bitmaps"] for row in made} == {
        tuple(row[c] for c in place): row["_bitmaps"] for row in stored
    }


def index_result(spark: SparkSession, path: Path) -> Any:
    """Hive 2.3's reader of a result file."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.mapred.JobConf(spark._jsc.hadoopConfiguration())
    paths = jvm.java.util.ArrayList()
    paths.add(f"file:{path}")
    return jvm.org.apache.hadoop.hive.ql.index.HiveIndexResult(paths, conf)


def split_of(spark: SparkSession, path: str, start: int, length: int) -> Any:
    jvm: Any = spark._jvm
    hosts = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0)
    return jvm.org.apache.hadoop.mapred.FileSplit(jvm.org.apache.hadoop.fs.Path(path), start, length, hosts)


@pytest.mark.parametrize("format", ["parquet", "orc"])
@pytest.mark.parametrize("predicate", ["rare = 1", "rare = 9", "rare IS NOT NULL"])
def test_hive_keeps_every_split_with_a_selected_row(
    spark: SparkSession, base: str, tmp_path: Path, format: str, predicate: str
) -> None:
    """A block belongs to the split in which its offset lies; Hive also keeps the split that ends at an offset."""
    wanted = {"rare = 1": {1}, "rare = 9": {9}, "rare IS NOT NULL": {0, 1}}[predicate]
    blocks = blocks_of(folder_of(spark, f"{base}.{format}"))
    selected = [place for place, rows in blocks.items() if wanted & set(rows["rare"].to_pylist())]
    assert (0 < len(selected) < len(blocks)) == (predicate == "rare = 1")
    write_offsets(spark, f"{base}.{format}", predicate, str(tmp_path / "result"))
    result = index_result(spark, tmp_path / "result")
    for path in {path for path, _ in blocks}:
        size = Path(local_path(path)).stat().st_size
        for length in (997, 4096, 20_000, size):
            for start in range(0, size, length):
                end = min(start + length, size)
                kept = result.contains(split_of(spark, path, start, end - start))
                offsets = [offset for other, offset in selected if other == path]
                assert kept == any(start <= offset <= end for offset in offsets), (path, start, end)
                assert kept or not any(start <= offset < end for offset in offsets)


def test_hive_keeps_all_of_a_file_that_changed(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (k int) STORED AS PARQUET")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    build(spark, "t", ["k"])
    spark.sql("INSERT INTO t VALUES (3)")
    write_offsets(spark, "t", "k = 3", str(tmp_path / "result"))
    result = index_result(spark, tmp_path / "result")
    kept = {}
    for path in folder_of(spark, "t").glob("part-*"):
        keys = pq.read_table(path)["k"].to_pylist()
        kept[tuple(keys)] = result.contains(split_of(spark, f"file:{path}", 0, path.stat().st_size))
    assert kept.pop((3,)) is True
    assert not any(kept.values())
