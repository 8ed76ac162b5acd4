"""Rebuilds read what is new and nothing else, keep, merge and drop the rest, and say what they would do."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import manifest
from hive_bitmap.core.segments import segment_plan
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Values
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.building.preview import PartitionPreview, preview
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import drop_partitions, external_table, repair, require_verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.building.build import BuildReport

ROWS = 60


def write(path: Path, start: int = 0) -> None:
    """A file of k (0 to 4), j (0 to 6) and id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = range(start, start + ROWS)
    columns = {"k": pa.array([n % 5 for n in ids], pa.int32()), "j": pa.array([n % 7 for n in ids], pa.int32())}
    pq.write_table(pa.table({**columns, "id": pa.array(ids, pa.int64())}), path, row_group_size=20)


COLUMNS = (Column("k", "int"), Column("j", "int"), Column("id", "bigint"))
PARTS = ("m=1/r=a", "m=1/r=b", "m=2/r=a")


@pytest.fixture
def plain(memory: SparkSession, tmp_path: Path) -> Path:
    """The folder of table t, three files."""
    folder = tmp_path / "t"
    for number in range(3):
        write(folder / f"{number}.parquet", 1000 * number)
    external_table(memory, "t", folder, COLUMNS)
    return folder


def partitioned(spark: SparkSession, folder: Path) -> Path:
    """Make table t, two files in each of the partitions (m, r) = (1, a), (1, b), (2, a); return its folder."""
    for part in PARTS:
        for number in range(2):
            write(folder / part / f"{number}.parquet", 1000 * number)
    external_table(spark, "t", folder, COLUMNS, (Column("m", "int"), Column("r", "string")))
    repair(spark, "t")
    return folder


@pytest.fixture
def by_month(memory: SparkSession, tmp_path: Path) -> Path:
    return partitioned(memory, tmp_path / "t")


@pytest.fixture
def by_month_of_spark(spark: SparkSession, database: str, tmp_path: Path) -> Path:
    return partitioned(spark, tmp_path / "t")


def folders(spark: SparkSession, name: str = "k") -> list[str]:
    base, indexes = catalog.table_and_indexes(spark, "t")
    return catalog.segments(spark, catalog.named(base, indexes, name))


def covered(spark: SparkSession, name: str = "k") -> dict[Values, int]:
    """How many files of each partition an index covers."""
    known = Covered.by([manifest.read(folder) for folder in folders(spark, name)])
    return {values: int((known.partition == number).sum()) for values, number in known.numbers.items()}


def shards(spark: SparkSession, name: str = "k") -> list[Path]:
    return sorted(path for folder in folders(spark, name) for path in Path(local_path(folder)).glob("part-*"))


def check(spark: SparkSession) -> None:
    """The indexes are verified, know every file, and hold no row too many or too few."""
    require_verified(spark, "t")
    for status in hive_bitmap.show(spark, "t"):
        assert (status.stale, status.unindexed, status.gone, status.problem) == (0, 0, 0, "")
        rows = [pq.read_table(path).select(["_bucketname"]) for path in shards(spark, status.definition.name)]
        assert sum(table.num_rows for table in rows) == status.index_rows
        assert len({name for table in rows for name in table["_bucketname"].to_pylist()}) == status.fresh


def check_answers(spark: SparkSession) -> None:
    """Queries are right through the indexes."""
    spark.catalog.refreshTable("t")
    for predicate in ("k = 3", "k = 3 AND j = 2", "j IN (1, 9)"):
        assert hive_bitmap.count(spark, "t", predicate) == spark.table("t").where(predicate).count()


@contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """The names of the files in a folder that any process opens meanwhile, as the kernel tells."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, os.fsencode(folder), 0x20) >= 0  # IN_OPEN
    found: set[str] = set()
    try:
        yield found
        content = os.read(watch, 1 << 20)
        while content:
            _, _, _, length = struct.unpack_from("iIII", content)
            found.add(content[16 : 16 + length].rstrip(b"\0").decode())
            content = content[16 + length :]
    except BlockingIOError:  # nothing was opened
        pass
    finally:
        os.close(watch)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are opened")
def test_only_new_and_changed_files_are_opened_whatever_is_merged_or_dropped(
    memory: SparkSession, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    write(plain / "3.parquet", 3000)
    hive_bitmap.rebuild(memory, "t")
    hive_bitmap.build(memory, "t", ["j"])
    (plain / "0.parquet").unlink()
    write(plain / "2.parquet", 5000)
    write(plain / "4.parquet", 6000)
    with opened(plain) as files:
        kept, new = hive_bitmap.rebuild(memory, "t", compact=True)[::-1]
    assert {name for name in files if name} == {"2.parquet", "4.parquet"}
    assert (kept.files_read, new.files_read, kept.base_files) == (2, 2, 4)
    check(memory)
    monkeypatch.setattr(segment_plan, "MANY_SHARDS", 1)
    (plain / "4.parquet").unlink()  # so that the segment is written again
    with opened(plain) as files:
        reports = hive_bitmap.rebuild(memory, "t")
    assert {name for name in files if name} == set() and {report.shards for report in reports} == {1}
    check(memory)


def test_a_shard_that_stays_is_not_copied_and_one_that_is_up_to_date_stays(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    before, [shard] = folders(memory), shards(memory)
    [report] = hive_bitmap.rebuild(memory, "t")
    assert folders(memory) == before and (report.files_read, report.shards_kept, report.base_rows) == (0, 1, 3 * ROWS)
    write(plain / "3.parquet")
    hive_bitmap.rebuild(memory, "t")
    assert before[0] in folders(memory) and len(folders(memory)) == 2
    (plain / "3.parquet").unlink()
    write(plain / "4.parquet")
    hive_bitmap.rebuild(memory, "t", compact=False)
    assert before[0] in folders(memory) and len(folders(memory)) == 2
    assert shard.stat().st_ino in {path.stat().st_ino for path in shards(memory)} and len(shards(memory)) == 2
    check(memory)
    hive_bitmap.rebuild(memory, "t", full=True)
    assert shard.stat().st_ino not in {path.stat().st_ino for path in shards(memory)} and len(shards(memory)) == 1
    check(memory)


def test_partitions_come_go_and_are_left_alone(memory: SparkSession, by_month: Path) -> None:
    hive_bitmap.build(memory, "t", ["k", "j"])
    before, [shard] = folders(memory), shards(memory)
    write(by_month / "m=1/r=b/9.parquet")
    write(by_month / "m=3/r=c/0.parquet")
    repair(memory, "t")
    drop_partitions(memory, "t", 2)
    reports = hive_bitmap.rebuild(memory, "t")
    assert [(report.files_read, report.partitions_dropped) for report in reports] == [(2, 1)] * 2
    assert covered(memory) == {("1", "a"): 2, ("1", "b"): 3, ("3", "c"): 1}
    assert not set(before) & set(folders(memory)) and shard not in shards(memory)
    check(memory)


def test_one_partition_or_those_of_a_partial_spec(memory: SparkSession, by_month: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    for part in ("m=1/r=a", "m=1/r=b", "m=2/r=a"):
        write(by_month / part / "9.parquet")
    [report] = hive_bitmap.rebuild(memory, "t", partition={"R": "b", "m": "1"})
    assert (report.files_read, report.base_files) == (1, 3)
    assert covered(memory) == {("1", "a"): 2, ("1", "b"): 3, ("2", "a"): 2}
    [report] = hive_bitmap.rebuild(memory, "t", partition={"r": "a"})
    assert (report.files_read, report.base_files) == (2, 6)
    check(memory)
    drop_partitions(memory, "t", 1)
    [report] = hive_bitmap.rebuild(memory, "t", partition={"m": "1", "r": "a"})
    assert report.partitions_dropped == 1 and sorted(covered(memory)) == [("1", "b"), ("2", "a")]
    for wrong in ({"m": "7"}, {"k": "1"}):
        with pytest.raises(NotFound):
            hive_bitmap.rebuild(memory, "t", partition=wrong)


@pytest.mark.contract
def test_an_index_covers_the_partitions_of_its_where(spark: SparkSession, by_month_of_spark: Path) -> None:
    hive_bitmap.build(spark, "t", ["k"], where="m < 2 AND r <> 'b'")
    hive_bitmap.build(spark, "t", ["j"], where="m = NULL")
    assert sorted(covered(spark)) == [("1", "a")] and covered(spark, "j") == {}
    write(by_month_of_spark / "m=0/r=a/0.parquet")
    write(by_month_of_spark / "m=3/r=a/0.parquet")
    repair(spark, "t")
    by_k = {report.definition.name: report for report in hive_bitmap.rebuild(spark, "t")}
    assert (by_k["k"].files_read, by_k["j"].files_read) == (1, 0)
    assert sorted(covered(spark)) == [("0", "a"), ("1", "a")]
    spark.catalog.refreshTable("t")
    assert hive_bitmap.count(spark, "t", "k = 3") == spark.table("t").where("k = 3").count()
    assert hive_bitmap.build(spark, "t", ["k"], if_not_exists=True) == []


def damage(what: str, path: Path) -> None:
    match what:
        case "manifest":
            (path.parent / "_manifest" / "files.parquet").write_bytes(b"PAR1")
        case "missing":
            path.unlink()
        case "cardinalities":
            next((path.parent / "_manifest").glob("*.cardinalities")).unlink()
        case "flipped":
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 4
            path.write_bytes(content)
        case "folder":
            for file in [*path.parent.rglob("*")]:
                if file.is_file():
                    file.unlink()


@pytest.mark.parametrize("what", ["manifest", "missing", "cardinalities", "flipped", "folder"])
def test_what_is_damaged_is_built_anew(memory: SparkSession, plain: Path, what: str) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    damage(what, shards(memory)[0])
    (plain / "0.parquet").unlink()  # so that the shard has to be read
    hive_bitmap.rebuild(memory, "t")
    check(memory)


def test_a_file_of_a_stranger_leaves_the_index_table(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    [shard] = shards(memory)
    shutil.copy(shard, shard.parent / "part-of-a-stranger.parquet")
    assert "files that no build wrote" in hive_bitmap.show(memory, "t")[0].problem
    hive_bitmap.rebuild(memory, "t")
    check(memory)


def everything_under(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_a_preview_says_what_the_rebuild_does_and_writes_nothing(
    memory: SparkSession, by_month: Path, tmp_path: Path
) -> None:
    hive_bitmap.build(memory, "t", ["k"], location=str(tmp_path / "i"))
    assert [(found.partitions, found.untouched) for found in preview(memory, "t")] == [((), 3)]
    write(by_month / "m=1/r=a/9.parquet")
    (by_month / "m=1/r=b/0.parquet").unlink()
    write(by_month / "m=3/r=a/0.parquet")
    repair(memory, "t")
    drop_partitions(memory, "t", 2)
    before, published = everything_under(tmp_path / "i"), folders(memory)
    size = (by_month / "m=1/r=a/9.parquet").stat().st_size
    [found] = preview(memory, "t")
    assert sorted(found.partitions, key=lambda one: one.name) == [
        PartitionPreview(name="m=1/r=a", what="refresh", files=1, bytes=size, why=(("new", 1),)),
        PartitionPreview(name="m=2/r=a", what="drop"),
        PartitionPreview(
            name="m=3/r=a",
            what="build",
            files=1,
            bytes=(by_month / "m=3/r=a/0.parquet").stat().st_size,
            why=(("new", 1),),
        ),
    ]
    assert (found.shards_kept, found.shards_rewritten) == (0, 1)
    assert str(found).startswith(f"k on {found.definition.full_table}: 2 files of ") and "2 new" in str(found)
    [everything] = preview(memory, "t", full=True, partition={"m": "1"})
    assert {one.what for one in everything.partitions} == {"build"} and everything.files == 4
    assert (everything_under(tmp_path / "i"), folders(memory)) == (before, published)
    [report] = hive_bitmap.rebuild(memory, "t")
    assert (report.files_read, report.bytes_read) == (found.files, found.bytes)
    assert [one.partitions for one in preview(memory, "t")] == [()]
    check(memory)


def everything_of(spark: SparkSession, table: str, folder: Path) -> tuple[list[Any], dict[Path, int]]:
    """Return what the metastore says of a table, and the times of its files."""
    described = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name NOT IN ('Statistics', 'Table Properties')")
    properties = spark.sql(f"SHOW TBLPROPERTIES {table}").where("key NOT LIKE 'transient%'")
    return [*described.collect(), *properties.collect()], everything_under(folder)


@pytest.mark.contract
def test_the_base_table_is_not_changed(spark: SparkSession, by_month_of_spark: Path, tmp_path: Path) -> None:
    """Except for one property, if an index table has a name of its own."""
    before = everything_of(spark, "t", by_month_of_spark)
    hive_bitmap.build(spark, "t", ["k"])
    hive_bitmap.rebuild(spark, "t", full=True)
    assert everything_of(spark, "t", by_month_of_spark) == before
    hive_bitmap.build(spark, "t", ["j"], index_table="of_j", location=str(tmp_path / "j"))
    (described, files), (of_before, files_before) = everything_of(spark, "t", by_month_of_spark), before
    assert [row for row in described if row not in of_before] == [("hive_bitmap.index_tables", "of_j")]
    assert files == files_before
    hive_bitmap.drop(spark, "t", "j")
    hive_bitmap.drop(spark, "t", "k")
    assert everything_of(spark, "t", by_month_of_spark) == before


def test_a_build_says_what_changed_while_it_ran(memory: SparkSession, plain: Path) -> None:
    def arrive(done: BuildProgress) -> None:
        write(plain / "late.parquet", 7000)
        (plain / "2.parquet").unlink(missing_ok=True)

    [report] = hive_bitmap.build(memory, "t", ["k"], progress=arrive)
    assert report.changed == 2
    assert read(hive_bitmap.rebuild(memory, "t")) == (1, 0)
    check(memory)


def read(reports: list[BuildReport]) -> tuple[int, int]:
    [report] = reports
    return report.files_read, report.changed


def test_a_deferred_index_is_built_by_its_first_rebuild(memory: SparkSession, plain: Path) -> None:
    assert read(hive_bitmap.build(memory, "t", ["k"], deferred=True)) == (0, 0)
    assert read(hive_bitmap.rebuild(memory, "t")) == (3, 0)
    check(memory)


def test_files_without_rows_are_known_too(memory: SparkSession, plain: Path) -> None:
    hive_bitmap.build(memory, "t", ["k"])
    schema = pq.read_schema(plain / "0.parquet")
    for path in plain.glob("*.parquet"):
        pq.write_table(schema.empty_table(), path)
    assert read(hive_bitmap.rebuild(memory, "t")) == (3, 0)
    assert [found.problems for found in hive_bitmap.verify(memory, "t")] == [()]
    [status] = hive_bitmap.show(memory, "t")
    assert (status.fresh, status.index_rows) == (3, 0)
    assert read(hive_bitmap.rebuild(memory, "t", compact=True)) == (0, 0)


def test_what_another_session_did_to_partitions_is_found_out_or_does_no_harm(
    spark: SparkSession, by_month_of_spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may remember for a while where the partitions of an index point: no answer is wrong meanwhile."""
    hive_bitmap.build(spark, "t", ["k"])
    check_answers(spark)
    before = folders(spark)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(catalog, "clear_caches", lambda: None)  # as if another process did what follows
        write(by_month_of_spark / "m=3/r=c" / "0.parquet", 5000)
        write(by_month_of_spark / "m=1/r=a" / "0.parquet", 7000)
        spark.sql("ALTER TABLE t ADD PARTITION (m = 3, r = 'c')")
        hive_bitmap.rebuild(spark, "t")
        check_answers(spark)
        shutil.rmtree(local_path(before[0]))  # that segment is superseded, and may go
        check_answers(spark)
        spark.sql("ALTER TABLE t DROP PARTITION (m = 2, r = 'a')")
        check_answers(spark)
    catalog.clear_caches()
    assert hive_bitmap.plan(spark, "t", "k = 1").files["state"].to_pylist() == ["fresh"] * 5
    check_answers(spark)


def test_an_index_that_another_makes_needless_is_told(
    memory: SparkSession, plain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hive_bitmap.build(memory, "t", ["k", ["k", "j"]])
    assert "same columns" not in caplog.text
    hive_bitmap.build(memory, "t", ["k"], name="compact", type="COMPACT")
    assert "same columns" not in caplog.text
    hive_bitmap.build(memory, "t", [["j", "k"]], name="again", encoding="roaring")
    assert "index again has the same columns as index k_j: queries need only one of them" in caplog.text
