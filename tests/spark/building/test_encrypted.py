"""Files with an encrypted column beside plain ones: unindexed whichever column is the key, and read by Spark alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.formats.orc_tail import ORC_ENCRYPTED
from hive_bitmap.core.formats.parquet_footer import PARQUET_COLUMN_ENCRYPTED, PARQUET_FOOTER_ENCRYPTED
from hive_bitmap.errors import Unsupported
from hive_bitmap.hive.hive2.export import export
from tests.asking import FORCED, require_alike
from tests.core.formats import encrypted
from tests.spark.building import encrypted_orc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_000
PLAIN = pa.table({"k": pa.array([n % 50 for n in range(ROWS)], pa.int32()), "s": [f"s{n % 3}" for n in range(ROWS)]})
QUERIES = (
    "SELECT k FROM t WHERE k = 3",
    "SELECT k + 1 FROM t WHERE k = 49 OR k IS NULL",
    "SELECT count(*) FROM t WHERE k = 3",
    "SELECT k, count(*) FROM t WHERE k < 3 GROUP BY k",
)
WAYS = ("", *FORCED)


@pytest.fixture(params=["parquet", "orc"])
def table(spark: SparkSession, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A table of one plain file, and its format and folder."""
    folder = tmp_path / "t"
    folder.mkdir()
    if request.param == "orc":
        orc.write_table(PLAIN, folder / "a.orc", stripe_size=1, batch_size=64)
    else:
        pq.write_table(PLAIN, folder / "a.parquet", row_group_size=100)
    spark.sql(f"CREATE TABLE t (k int, s string) USING {request.param} LOCATION '{folder}'")
    return request.param, folder


def add(spark: SparkSession, format: str, folder: Path) -> tuple[str, str]:
    """Add a file whose column s is encrypted; return its path, and why it stays unindexed."""
    path = folder / f"b.{format}"
    if format == "orc":
        encrypted_orc.write(spark, path)
    else:
        encrypted.write(path, PLAIN.slice(0, 200), "column")
    spark.catalog.refreshTable("t")
    return f"file:{path}", ORC_ENCRYPTED if format == "orc" else PARQUET_COLUMN_ENCRYPTED


def require_spark_reads(spark: SparkSession, format: str) -> None:
    for query in QUERIES:
        require_alike(spark, query, *WAYS)
    if format == "orc":  # of Parquet, Spark reads no encrypted column without its key
        require_alike(spark, "SELECT * FROM t WHERE k = 3", *WAYS)


def test_a_build_goes_on_with_the_other_files(spark: SparkSession, table: tuple[str, Path]) -> None:
    path, why = add(spark, *table)
    for column in ("k", "s"):
        [report] = hive_bitmap.build(spark, "t", [column])
        assert report.unindexed == ((path, why),) and report.base_rows == ROWS
    require_spark_reads(spark, table[0])
    [first, _] = hive_bitmap.show(spark, "t")
    assert (first.unindexed, first.stale) == (1, 0)
    assert all(one.ok and one.rows == ROWS for one in hive_bitmap.verify(spark, "t"))


@pytest.mark.contract
def test_a_file_that_comes_later(spark: SparkSession, table: tuple[str, Path], tmp_path: Path) -> None:
    hive_bitmap.build(spark, "t", ["k", "s"])
    hive_bitmap.build(spark, "t", ["k"], name="e", encoding="ewah")
    path, why = add(spark, *table)
    require_spark_reads(spark, table[0])
    [estimate] = hive_bitmap.estimate(spark, "t", ["k"])
    assert estimate.rows == ROWS
    with pytest.raises(Unsupported) as raised:
        hive_bitmap.write_offsets(spark, "t", "k = 3", str(tmp_path / "offsets"))
    assert str(raised.value) == f"the blocks of {path} are unknown: {why}"
    assert hive_bitmap.count(spark, "t", "k = 3") == spark.table("t").where("k = 3").count()
    candidates = hive_bitmap.plan(spark, "t", "k = 3").candidates
    assert candidates is not None and [file.status.path for file in candidates.whole_files] == [path]
    for report in hive_bitmap.rebuild(spark, "t"):
        assert report.unindexed == ((path, why),)
    for report in hive_bitmap.rebuild(spark, "t"):  # it is not tried again
        assert report.files_read == 0
    require_spark_reads(spark, table[0])
    with pytest.raises(Unsupported, match="could not be indexed, and Hive would miss its rows"):
        export(spark, "t", "e", str(tmp_path / "hive"))


@pytest.mark.parametrize("kind", encrypted.KINDS)
def test_each_kind_of_parquet_encryption(spark: SparkSession, database: str, tmp_path: Path, kind: str) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet")
    encrypted.write(tmp_path / "b.parquet", PLAIN, kind)
    spark.sql(f"CREATE TABLE t (k int, s string) USING parquet LOCATION '{tmp_path}'")
    [report] = hive_bitmap.build(spark, "t", ["k"])
    why = PARQUET_COLUMN_ENCRYPTED if kind == "column" else PARQUET_FOOTER_ENCRYPTED
    assert report.unindexed == ((f"file:{tmp_path}/b.parquet", why),)


def test_undecodable_pages_are_not_read_for_another_index(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """A file that one index of a build cannot decode is Spark's also for the queries that the other one serves."""
    pq.write_table(PLAIN, tmp_path / "a.parquet")
    odd = pa.table({"k": PLAIN["k"], "s": pa.array([b"\xff"] * ROWS, pa.binary())})
    pq.write_table(odd, tmp_path / "b.parquet")
    spark.sql(f"CREATE TABLE t (k int, s string) USING parquet LOCATION '{tmp_path}'")
    by_k, by_s = hive_bitmap.build(spark, "t", ["k", "s"])
    assert by_k.unindexed == ()
    assert by_s.unindexed == ((f"file:{tmp_path}/b.parquet", "some of its keys are not valid UTF-8 text"),)
    query = "SELECT s FROM t WHERE k = 3"
    require_alike(spark, query, *WAYS)
    candidates = hive_bitmap.plan(spark, "t", "k = 3").candidates
    assert candidates is not None
    by_file = {
        path: only for one in candidates.lookups for path, only in zip(one.unit.paths, one.spark_only, strict=True)
    }
    assert by_file == {f"file:{tmp_path}/a.parquet": frozenset(), f"file:{tmp_path}/b.parquet": frozenset({"s"})}


@pytest.mark.parametrize(
    "declared",
    [
        "USING orc OPTIONS (orc.encrypt 'pii:s', orc.mask 'nullify:s')",
        "STORED AS ORC TBLPROPERTIES ('orc.encrypt' = 'pii:s')",
        "STORED AS PARQUET TBLPROPERTIES ('parquet.encryption.footer.key' = 'f')",
    ],
)
def test_a_table_whose_options_would_make_its_index_useless(spark: SparkSession, database: str, declared: str) -> None:
    spark.sql(f"CREATE TABLE t (k int, s string) {declared}")
    for act in (lambda: hive_bitmap.build(spark, "t", ["k"]), lambda: hive_bitmap.estimate(spark, "t", ["k"])):
        with pytest.raises(
            Unsupported, match=r"^table option '(orc|parquet).encrypt.*' may change what is read, so no"
        ):
            act()
    assert hive_bitmap.show(spark, "t") == []
