"""Aggregates in the rows of an index through its life: builds, refreshes, merges, moves, damage, changed columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import manifest
from hive_bitmap.core.index.definition import from_table, to_properties
from hive_bitmap.core.indexing.shard_compaction import shard_rows
from hive_bitmap.errors import InvalidProperty, NotPermitted, Unsupported
from hive_bitmap.spark.maintaining.attach import attach
from hive_bitmap.spark.metastore import permission
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import drop_table, external_table, rename_table, repair, require_verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGGREGATES = "count(*), sum(amount), min(n)"
COLUMNS = (Column("k", "int"), Column("amount", "decimal(10,2)"), Column("n", "bigint"))
ROWS = 40


def write(path: Path, start: int = 0, leave_out: str = "") -> None:
    """Write a file of k (0 to 4), amount (every seventh is NULL) and n, in blocks of 15 rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = range(start, start + ROWS)
    amounts = [None if n % 7 == 0 else Decimal(n * 101).scaleb(-2) for n in numbers]
    table = pa.table(
        {
            "k": pa.array([n % 5 for n in numbers], pa.int32()),
            "amount": pa.array(amounts, pa.decimal128(10, 2)),
            "n": pa.array([-n for n in numbers], pa.int64()),
        }
    )
    pq.write_table(table.drop_columns([leave_out] if leave_out else []), path, row_group_size=15)


@pytest.fixture
def plain(memory: SparkSession, tmp_path: Path) -> Path:
    """The folder of table t, three files."""
    folder = tmp_path / "t"
    for number in range(3):
        write(folder / f"{number}.parquet", 1000 * number)
    external_table(memory, "t", folder, COLUMNS)
    return folder


def stored(spark: SparkSession, table: str = "t") -> pa.Table:
    """All rows of the only index of a table."""
    catalog.clear_caches()
    [index] = catalog.table_and_indexes(spark, table)[1]
    return pa.concat_tables(list(_shards(spark, index)))


def _shards(spark: SparkSession, index: catalog.Index) -> Iterator[pa.Table]:
    for folder in catalog.segments(spark, index):
        published = manifest.read(folder)
        for name, size in published.sizes.items():
            yield shard_rows(index.definition, published.shard_path(name), size)


def totals(rows: pa.Table) -> dict[int, tuple[Any, ...]]:
    """By key: rows, and sum, count, least and greatest of amount, and count and least of n."""
    found: dict[int, tuple[Any, ...]] = {}
    for row in rows.to_pylist():
        of_key = found.setdefault(row["k"], (0, Decimal(0), 0, [], [], 0, []))
        found[row["k"]] = (
            of_key[0] + row["_count_of_all"],
            of_key[1] + (row["_sum_of_amount"] or 0),
            of_key[2] + row["_count_of_amount"],
            [*of_key[3], row["_min_of_amount"]],
            [*of_key[4], row["_max_of_amount"]],
            of_key[5] + row["_count_of_n"],
            [*of_key[6], row["_min_of_n"]],
        )
    least = {
        key: (*row[:3], min(filter(None, row[3])), max(filter(None, row[4])), row[5], min(row[6]))
        for key, row in found.items()
    }
    return dict(sorted(least.items()))


def expected(*starts: int) -> dict[int, tuple[Any, ...]]:
    numbers = [n for start in starts for n in range(start, start + ROWS)]
    by_key = {}
    for key in range(5):
        held = [n for n in numbers if n % 5 == key]
        amounts = [Decimal(n * 101).scaleb(-2) for n in held if n % 7]
        least = (len(held), sum(amounts), len(amounts), min(amounts), max(amounts), len(held), min(-n for n in held))
        by_key[key] = least
    return by_key


def test_builds_refreshes_and_merges_keep_the_aggregates(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"], aggregates=AGGREGATES)
    assert totals(stored(memory)) == expected(0, 1000, 2000)
    require_verified(memory, "t")
    write(plain / "1.parquet", 5000)
    write(plain / "3.parquet", 3000)
    hive_bitmap.refresh(memory, "t")
    assert totals(stored(memory)) == expected(0, 5000, 2000, 3000)
    [report] = hive_bitmap.rebuild(memory, "t", compact=True)
    assert report.files_read == 0 and report.shards == 1
    rows = stored(memory)
    assert totals(rows) == expected(0, 5000, 2000, 3000)
    hive_bitmap.set_properties(memory, "t", "k", {"encoding": "roaring"})
    hive_bitmap.rebuild(memory, "t")
    assert totals(stored(memory)) == expected(0, 5000, 2000, 3000)
    require_verified(memory, "t")


def test_the_bitmaps_are_those_of_an_index_without_aggregates(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    without = stored(memory)
    hive_bitmap.drop(memory, "t", "k")
    hive_bitmap.build(memory, "t", ["k"], aggregates=AGGREGATES)
    assert stored(memory).select(without.column_names) == without


def test_partitions_stay_behind_the_aggregates(memory: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / "t" / f"p={number}" / "0.parquet", 1000 * number)
    external_table(memory, "t", tmp_path / "t", COLUMNS, (Column("p", "int"),))
    repair(memory, "t")
    hive_bitmap.build(memory, "t", ["k"], aggregates="count(*), max(n)")
    [index] = catalog.table_and_indexes(memory, "t")[1]
    names = [column.name for column in index.table.columns]
    assert names[-4:] == ["_count_of_all", "_count_of_n", "_max_of_n", "p"]
    [segment] = catalog.segments(memory, index)
    [shard] = Path(segment.removeprefix("file:")).glob("*.parquet")
    assert pq.read_schema(shard).names == names
    require_verified(memory, "t")


def test_a_changed_column_loses_its_aggregates_and_nothing_else(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"], aggregates=AGGREGATES)
    drop_table(memory, "t")
    external_table(memory, "t", plain, (COLUMNS[0], Column("amount", "decimal(12,2)"), COLUMNS[2]))
    write(plain / "3.parquet", 3000)
    hive_bitmap.refresh(memory, "t")
    rows = stored(memory)
    is_new = [path.endswith("/3.parquet") for path in rows["_bucketname"].to_pylist()]
    new, old = rows.filter(pa.array(is_new)), rows.filter(pa.array([not new for new in is_new]))
    assert totals(old) == expected(0, 1000, 2000)
    assert all(new[f"_{function}_of_amount"].null_count == new.num_rows for function in ("sum", "count", "min", "max"))
    assert [sum(new[name].to_pylist()) for name in ("_count_of_all", "_count_of_n")] == [ROWS, ROWS]
    assert hive_bitmap.show(memory, "t")[0].problem == ""
    require_verified(memory, "t")


def test_a_column_that_cannot_be_read_leaves_its_file_indexed(memory: SparkSession, plain: Path) -> None:
    write(plain / "3.parquet", 3000, leave_out="amount")
    table = pq.read_table(plain / "3.parquet")
    odd = table.append_column("amount", pa.array(["12"] * table.num_rows))  # Spark reads no text as a decimal
    pq.write_table(odd, plain / "3.parquet")
    [report] = hive_bitmap.build(memory, "t", ["k"], aggregates="sum(amount)")
    assert report.unindexed == ()
    unknown = stored(memory).filter(pa.compute.is_null(stored(memory)["_count_of_amount"]))
    assert {path.rpartition("/")[2] for path in unknown["_bucketname"].to_pylist()} == {"3.parquet"}
    assert unknown["_sum_of_amount"].null_count == unknown.num_rows == 5
    require_verified(memory, "t")


def test_damaged_aggregates_are_found_and_mended(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"], aggregates=AGGREGATES)
    [index] = catalog.table_and_indexes(memory, "t")[1]
    [segment] = catalog.segments(memory, index)
    [shard] = Path(segment.removeprefix("file:")).glob("*.parquet")
    footer = pq.read_metadata(shard)
    chunks = [footer.row_group(0).column(number) for number in range(footer.num_columns)]
    [sums] = [chunk for chunk in chunks if chunk.path_in_schema == "_sum_of_amount"]
    content = bytearray(shard.read_bytes())
    content[sums.data_page_offset + sums.total_compressed_size // 2] ^= 1
    shard.write_bytes(content)
    [verified] = hive_bitmap.verify(memory, "t")
    assert any("cannot be read" in problem for problem in verified.problems)
    hive_bitmap.rebuild(memory, "t", full=True)
    assert totals(stored(memory)) == expected(0, 1000, 2000)
    require_verified(memory, "t")


def test_a_renamed_table_takes_its_aggregates_along(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"], aggregates=AGGREGATES)
    rename_table(memory, "t", "u")
    attach(memory, "u", "t")
    assert totals(stored(memory, "u")) == expected(0, 1000, 2000)
    require_verified(memory, "u")


def test_they_are_shown_and_cannot_be_changed(memory: SparkSession, plain: Path) -> None:
    [report] = hive_bitmap.build(memory, "t", ["k"], aggregates="n")
    listed = ["sum(n)", "count(n)", "min(n)", "max(n)"]
    assert hive_bitmap.show(memory, "t")[0].definition == report.definition
    assert [str(aggregate) for aggregate in report.definition.aggregates] == listed
    with pytest.raises(InvalidProperty, match="the aggregates of index k cannot change"):
        hive_bitmap.set_properties(memory, "t", "k", {"AGGREGATES": "count(*)"})
    [index] = catalog.table_and_indexes(memory, "t")[1]
    assert index.table.properties["hive_bitmap.features"] == "aggregates"
    unknown = {**to_properties(index.definition), "hive_bitmap.features": "aggregates,keys"}
    assert from_table(replace(index.table, properties=unknown)) is None


def test_nothing_is_built_of_what_is_refused(memory: SparkSession, plain: Path) -> None:
    with pytest.raises(Unsupported, match="is a key of the index"):
        hive_bitmap.build(memory, "t", ["k", "n"], aggregates="sum(n)")
    assert hive_bitmap.show(memory, "t") == []
    assert not list(plain.parent.rglob("generation-*"))


def test_aggregated_columns_need_permission(memory: SparkSession, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[tuple[str, ...]] = []

    def hides(spark: SparkSession, base: object, columns: list[str]) -> str:
        hidden.append(tuple(columns))
        return "a rule masks amount" if "amount" in columns else ""

    monkeypatch.setattr(permission, "why_raw_values_hidden", hides)
    with pytest.raises(NotPermitted, match="masks amount"):
        hive_bitmap.build(memory, "t", ["k"], aggregates="sum(amount)")
    hive_bitmap.build(memory, "t", ["k"], aggregates="sum(n)")
    hive_bitmap.rebuild(memory, "t")
    hive_bitmap.verify(memory, "t")
    assert hidden == [("amount", "k"), ("k", "n"), ("k", "n"), ("k", "n")]
