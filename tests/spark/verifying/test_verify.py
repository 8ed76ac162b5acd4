"""verify finds what is wrong in an index, and nothing where nothing is; the oracle is what the test itself damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.index.manifest import SHARDS
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.building.build import build, rebuild
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.verifying.verify import Verification, verify
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

ROWS = 3000
FLIPS = 12


def make_base(spark: SparkSession, name: str, format: str = "parquet") -> None:
    """A table of two files, each with several blocks, of keys that are few, many, NULL, NaN and of most types."""
    numbers = np.random.default_rng(5).integers(0, 12, ROWS)
    data = pa.table(
        {
            "few": pa.array(numbers, pa.int32(), mask=numbers == 3),
            "id": pa.array(np.random.default_rng(6).permutation(ROWS)),
            "text": pa.array([f"k{n}" for n in numbers]),
            "real": pa.array(np.where(numbers == 1, np.nan, numbers / 4)),
            "exact": pa.array([Decimal(int(n)) for n in numbers], pa.decimal128(7, 2)),
            "day": pa.array(numbers.astype("datetime64[D]")),
            "at": pa.array(numbers.astype("datetime64[s]").astype("datetime64[us]"), pa.timestamp("us", tz="UTC")),
            "flag": pa.array(numbers > 5),
        }
    )
    frame = spark.createDataFrame(data).repartition(2, "id")
    options = {"parquet.block.size": "8192", "orc.stripe.size": "8192", "orc.stripe.row.count": "500"}
    frame.write.options(**options).format(format).saveAsTable(name)


def folder_of(spark: SparkSession, table: str, index: str) -> Path:
    """The only segment of an index."""
    base, indexes = catalog.table_and_indexes(spark, table)
    [folder] = catalog.segments(spark, catalog.named(base, indexes, index))
    return Path(local_path(folder))


def base_files(spark: SparkSession, table: str) -> list[Path]:
    return sorted(Path(local_path(catalog.table_and_indexes(spark, table)[0].location)).glob("part-*"))


def shard_of(folder: Path) -> Path:
    (found,) = folder.glob("part-*.parquet")
    return found


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_fresh_index_is_right_in_every_encoding(spark: SparkSession, database: str, format: str) -> None:
    make_base(spark, "t", format)
    columns = ["few", "id", "text", "real", "exact", "day", "at", "flag", ["few", "text"]]
    build(spark, "t", columns)
    for encoding in ("plain", "ewah", "roaring"):
        build(spark, "t", ["few"], name=encoding, encoding=encoding)
    build(spark, "t", ["few"], name="compact", type="COMPACT")
    found = verify(spark, "t")
    assert len(found) == len(columns) + 4
    for each in found:
        assert each.ok, each
        assert (each.files, each.rows, each.stale, each.unindexed, each.gone) == (2, ROWS, 0, 0, 0)
        assert each.shards == 1 and each.blocks > 2


def set_cell(name: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    """A change of one value of the column `name`."""

    def change(rows: pa.Table) -> pa.Table:
        values = rows[name].to_pylist()
        values[row] = value
        column = pa.array(values, rows.schema.field(name).type)
        return rows.set_column(rows.column_names.index(name), name, column)

    return change


def flip_a_bit(rows: pa.Table) -> pa.Table:
    bitmap = bytearray(rows["_bitmaps"][4].as_py())
    bitmap[3] ^= 16
    return set_cell("_bitmaps", 4, bytes(bitmap))(rows)


def without(row: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: pa.concat_tables([rows.slice(0, row), rows.slice(row + 1)])


def again(row: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: pa.concat_tables([rows, rows.slice(row, 1)])


def nowhere(rows: pa.Table) -> pa.Table:
    return set_cell("_bucketname", 2, "file:/w/elsewhere")(rows)


def neighbours(rows: pa.Table) -> pa.Table:
    counts = rows["_cardinality"].to_pylist()
    return rows.set_column(rows.num_columns - 1, "_cardinality", pa.array(counts[1:] + counts[:1], pa.int32()))


WRONG_ROWS: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "a flipped bit": ("plain", flip_a_bit, "is in"),
    "a missing row": ("gap", without(3), "has no row"),
    "a repeated row": ("gap", again(3), "has 2 rows instead of one"),
    "a key that is nowhere": ("gap", set_cell("few", 3, 99), "but the block does not hold it"),
    "a key of another row": ("roaring", set_cell("few", 3, 1), "is in the bitmap of another key"),
    "NULL for a key": ("ewah", set_cell("few", 3, None), "few=None"),
    "a wrong offset": ("gap", set_cell("_offset", 3, 5), "has no block of this shard"),
    "no offset": ("gap", set_cell("_offset", 3, None), "has no block of this shard"),
    "a file that is not listed": ("gap", nowhere, "has no block of this shard"),
    "a gap length too many": ("gap", set_cell("_gap_lengths", 1, [1] * 999), "gap length"),
    "no bitmap": ("ewah", set_cell("_bitmaps", 1, None), "NULL"),
    "words that end early": ("ewah", set_cell("_bitmaps", 1, [1, 2, 4]), "bitmap 0 of"),
    "no roaring at all": ("roaring", set_cell("_bitmaps", 1, b"abc"), "shortest header"),
    "a wrong cardinality": ("gap", set_cell("_cardinality", 3, 9_999), "has cardinality 9999, but"),
    "no cardinality": ("roaring", set_cell("_cardinality", 3, None), "has cardinality None, but"),
    "cardinalities of their neighbours": ("ewah", neighbours, "has cardinality"),
    "an offset too few": ("compact", set_cell("_offsets", 3, []), "has no row"),
    "an offset too many": ("compact", set_cell("_offsets", 3, [4, 7, 11]), "has no block of this shard"),
    "a column too few": ("gap", lambda rows: rows.drop_columns(["_gap_lengths"]), "has columns"),
}


@pytest.fixture(scope="module")
def indexed(spark: SparkSession) -> Iterator[str]:
    """A table with an index on `few` in every encoding and as COMPACT, named for it."""
    name = f"t_{uuid4().hex[:12]}"
    spark.sql(f"CREATE DATABASE {name}")
    make_base(spark, f"{name}.t")
    for encoding in ("plain", "gap", "ewah", "roaring"):
        build(spark, f"{name}.t", ["few"], name=encoding, encoding=encoding)
    build(spark, f"{name}.t", ["few"], name="compact", type="COMPACT")
    yield f"{name}.t"
    spark.sql(f"DROP DATABASE {name} CASCADE")


def verify_damaged(spark: SparkSession, table: str, index: str, damage: Callable[[Path], None]) -> Verification:
    """What verify says of an index whose folder was damaged; the folder is as it was afterwards."""
    folder = folder_of(spark, table, index)
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    try:
        damage(folder)
        (found,) = verify(spark, table, [index])
        return found
    finally:
        shutil.rmtree(folder)
        kept.rename(folder)


def beside(path: Path) -> Path:
    """The file of the cardinalities of a shard."""
    return Path(cardinalities_path(str(path)))


def read_back(path: Path) -> pa.Table:
    """The rows of a shard; the last column is their cardinalities, if it has any."""
    rows = pq.read_table(path)
    return rows.append_column("_cardinality", pq.read_table(beside(path))[0]) if beside(path).exists() else rows


def write_back(path: Path, rows: pa.Table) -> None:
    """Rows for a shard, as a faulty build would have published them: whole files, manifest that fits, no checksums."""
    counted = "_cardinality" in rows.column_names
    pq.write_table(rows.drop_columns(["_cardinality"]) if counted else rows, path, store_schema=False)
    if counted:
        pq.write_table(rows.select(["_cardinality"]), beside(path), store_schema=False)
    relist(path)


def relist(path: Path) -> None:
    """A manifest that goes with the files of its one shard as they are, and no checksums."""
    sizes = path.stat().st_size, beside(path).stat().st_size if beside(path).exists() else 0
    row = (path.name, sizes[0], pq.read_metadata(path).num_rows, sizes[1])
    listed = pa.Table.from_pylist([dict(zip(SHARDS.names, row, strict=True))], SHARDS)
    pq.write_table(listed, path.parent / "_manifest" / "shards.parquet")
    (path.parent / "_manifest" / "checksums").unlink(missing_ok=True)


@pytest.mark.parametrize("what", contract(list(WRONG_ROWS), "a flipped bit", "a missing row"))
def test_wrong_rows_are_found(spark: SparkSession, indexed: str, what: str) -> None:
    index, change, words = WRONG_ROWS[what]
    shard = shard_of(folder_of(spark, indexed, index))
    rows = read_back(shard)
    found = verify_damaged(spark, indexed, index, lambda folder: write_back(folder / shard.name, change(rows)))
    assert not found.ok
    assert any(words in problem for problem in found.problems), found.problems


def test_rows_written_back_unchanged_are_right(spark: SparkSession, indexed: str) -> None:
    shard = shard_of(folder_of(spark, indexed, "gap"))
    rows = read_back(shard)
    assert verify_damaged(spark, indexed, "gap", lambda folder: write_back(folder / shard.name, rows)).ok


def test_all_problems_are_counted_and_the_first_are_told(spark: SparkSession, indexed: str) -> None:
    shard = shard_of(folder_of(spark, indexed, "gap"))
    rows = read_back(shard)
    found = verify_damaged(spark, indexed, "gap", lambda folder: write_back(folder / shard.name, rows.slice(0, 0)))
    assert found.problem_count == rows.num_rows
    assert len(found.problems) == 20


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip_in(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def change_manifest(folder: Path, column: str) -> None:
    """Another first number in a list of the first file, with no checksums that would tell."""
    path = folder / "_manifest" / "files.parquet"
    files = pq.read_table(path)
    lists = files[column].to_pylist()
    lists[0][0] += 8
    changed = pa.array(lists, files.schema.field(column).type)
    pq.write_table(files.set_column(files.column_names.index(column), column, changed), path)
    (folder / "_manifest" / "checksums").unlink()


def forget_a_file(folder: Path) -> None:
    path = folder / "_manifest" / "files.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    (folder / "_manifest" / "checksums").unlink()


def too_few(folder: Path) -> None:
    """A file of cardinalities that lacks the last, listed as it is."""
    path = beside(shard_of(folder))
    pq.write_table(pq.read_table(path).slice(1), path)
    relist(shard_of(folder))


def under_another_name(folder: Path) -> None:
    """A checksum that nothing is compared with."""
    path = folder / "_manifest" / "checksums"
    path.write_text(path.read_text().replace(".cardinalities", ".cardinalitier"))


def unchecked(folder: Path) -> None:
    """A flipped bit in the last byte of the values, with no checksums that would tell."""
    path = beside(shard_of(folder))
    pq.write_table(pq.read_table(path), path, use_dictionary=False, compression="none")
    column = pq.read_metadata(path).row_group(0).column(0)
    flip_in(path, column.data_page_offset + column.total_compressed_size - 4)
    relist(shard_of(folder))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no shard": (lambda folder: shard_of(folder).unlink(), "cannot be read"),
    "a shard that is cut": (lambda folder: cut_short(shard_of(folder)), "bytes instead of"),
    "a bit of a page": (lambda folder: flip_in(shard_of(folder), 60), "checksum"),
    "a bit of a footer": (lambda folder: flip_in(shard_of(folder), -40), "checksum"),
    "no cardinalities": (lambda folder: beside(shard_of(folder)).unlink(), ".cardinalities cannot be read"),
    "cut cardinalities": (lambda folder: cut_short(beside(shard_of(folder))), "bytes instead of"),
    "a bit of a cardinality": (lambda folder: flip_in(beside(shard_of(folder)), 30), "cardinalities cannot be read"),
    "a bit of a cardinality, unchecked": (unchecked, "has cardinality"),
    "cardinalities too few": (too_few, "rows of its shard"),
    "a checksum of nothing": (under_another_name, "that the manifest does not name"),
    "no manifest": (lambda folder: shutil.rmtree(folder / "_manifest"), "manifest"),
    "a bit of the manifest": (lambda folder: flip_in(folder / "_manifest" / "files.parquet", 70), "checksum"),
    "other offsets": (lambda folder: change_manifest(folder, "offsets"), "offset ["),
    "other lengths": (lambda folder: change_manifest(folder, "lengths"), "length ["),
    "other rows": (lambda folder: change_manifest(folder, "rows"), "rows ["),
    "a file that the manifest forgot": (forget_a_file, "has no block of this shard"),
    "a foreign file": (lambda folder: shutil.copy(shard_of(folder), folder / "part-x.parquet"), "not in the manifest"),
}


@pytest.mark.parametrize("what", list(DAMAGES))
def test_damage_is_told_and_no_crash(spark: SparkSession, indexed: str, what: str) -> None:
    damage, words = DAMAGES[what]
    found = verify_damaged(spark, indexed, "gap", lambda folder: damage(folder) and None)
    assert not found.ok
    assert any(words in problem for problem in found.problems), found.problems


@pytest.mark.contract
def test_any_flipped_bit_is_found(spark: SparkSession, indexed: str) -> None:
    """One bit in one of the files that are read of a generation, of each of five indexes at a time."""
    folders = [folder_of(spark, indexed, each.definition.name) for each in verify(spark, indexed)]
    random = np.random.default_rng(11)
    for _ in range(FLIPS):
        flipped = []
        for folder in folders:
            files = [shard_of(folder), *sorted((folder / "_manifest").iterdir())]
            path = files[random.integers(len(files))]
            content = path.read_bytes()
            at, bit = int(random.integers(len(content))), 1 << int(random.integers(8))
            path.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
            flipped.append((path, content, at, bit))
        found = verify(spark, indexed)
        for path, content, _, _ in flipped:
            path.write_bytes(content)
        blind = [flip for flip, each in zip(flipped, found, strict=True) if each.ok]
        assert not blind, [(path.name, at, bit) for path, _, at, bit in blind]
    assert all(each.ok for each in verify(spark, indexed))


def test_files_that_changed_came_or_went_are_counted(spark: SparkSession, database: str) -> None:
    make_base(spark, "t")
    build(spark, "t", ["few", "id"])
    first, second = base_files(spark, "t")
    shutil.copy(first, first.with_name("part-new.parquet"))
    pq.write_table(pq.read_table(first).slice(1), first)
    second.unlink()
    for found in verify(spark, "t"):
        assert found.ok, found.problems
        assert (found.files, found.stale, found.unindexed, found.gone) == (0, 1, 1, 1)


def test_partitions_are_compared_one_by_one(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE p (k int) PARTITIONED BY (day string) STORED AS PARQUET")
    spark.sql("INSERT INTO p SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'a'), (1, 'b')")
    build(spark, "p", ["k"])
    spark.sql("INSERT INTO p VALUES (3, 'c')")
    spark.sql("ALTER TABLE p DROP PARTITION (day = 'b')")
    (found,) = verify(spark, "p")
    assert found.ok, found.problems
    assert (found.shards, found.files, found.rows) == (1, 1, 2)
    assert (found.stale, found.unindexed, found.gone) == (0, 1, 1)
    rebuild(spark, "p")
    (found,) = verify(spark, "p", ["K"])
    assert (found.ok, found.files, found.rows, found.unindexed, found.gone) == (True, 2, 3, 0, 0)


def test_empty_deferred_unknown_and_columns_that_went(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE e (k int, s string) USING parquet")
    assert verify(spark, "e") == []
    build(spark, "e", ["k"])
    spark.sql("INSERT INTO e VALUES (1, 'a')")
    build(spark, "e", ["s"], deferred=True)
    k, s = verify(spark, "e")
    assert (k.ok, k.files, k.unindexed) == (True, 0, 1)
    assert (s.ok, s.files, s.unindexed) == (True, 0, 1)
    with pytest.raises(NotFound, match="no index 'z'"):
        verify(spark, "e", ["z"])
    with pytest.raises(NotFound, match="no table 'nil'"):
        verify(spark, "nil")


def test_statistics_that_leave_keys_out_are_found(spark: SparkSession, indexed: str) -> None:
    """The pages say 11 where the statistics, which lookups believe, say 10: then key 11 would not be found."""
    shard = shard_of(folder_of(spark, indexed, "gap"))
    rows = pq.read_table(shard)

    def lie(folder: Path) -> None:
        path = folder / shard.name
        pq.write_table(rows, path, use_dictionary=False, compression="none", store_schema=False)
        start = pq.read_metadata(path).serialized_size + 8
        content = path.read_bytes()
        eleven, ten = (number.to_bytes(4, "little") for number in (11, 10))
        footer = content[-start:]
        assert eleven in footer
        path.write_bytes(content[:-start] + footer.replace(eleven, ten))
        relist(path)

    found = verify_damaged(spark, indexed, "gap", lie)
    (problem,) = found.problems
    assert problem.endswith("has keys of few outside the statistics of their row group")
