"""Where an index lies without a LOCATION: in its database's folder, unless a table reads that, however it is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap.core.index import roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog, locations
from tests import asking
from tests.contract import contract
from tests.spark.maintaining.life import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTSIDE = r"would lie in .*, in the folder of table .*: give a LOCATION outside that folder"
ROWS = "SELECT CAST(id % 7 AS INT), 'x' FROM range(100)"

NAMES = ("a b", "a%20b", "100%25", "p+q", "50%", "ü日é", "a%2Fb", "it's", "#;&=,")


@pytest.fixture
def lake(spark: SparkSession, database: str, tmp_path: Path) -> Iterator[str]:
    """A database in `lake/db`, whose table u lies elsewhere."""
    name = f"lake_{uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}/lake/db'")
    spark.sql(f"CREATE TABLE {name}.u (a INT, b STRING) USING parquet LOCATION '{tmp_path}/elsewhere/u'")
    spark.sql(f"INSERT INTO {name}.u {ROWS}")
    yield name
    for table in spark.catalog.listTables(name):
        if not table.isTemporary:  # views of the whole session are listed, too
            spark.sql(f"DROP TABLE {name}.{table.name}")


AROUND = {
    "a text table, which fails at a folder": "{lake}.raw (a INT, b STRING) STORED AS TEXTFILE LOCATION '{tmp}/lake/db'",
    "a table that is read with its sub-folders": (
        "{lake}.raw (a INT, b STRING) USING parquet OPTIONS (recursiveFileLookup 'true') LOCATION '{tmp}/lake'"
    ),
    "a partitioned table": (
        "{lake}.raw (a INT, b STRING) USING parquet PARTITIONED BY (b) LOCATION 'file://{tmp}/lake/./db/'"
    ),
    "a table of another database": "{database}.raw (a INT, b STRING) USING parquet LOCATION '{tmp}/lake'",
}


@pytest.mark.parametrize("around", contract(AROUND, "a text table, which fails at a folder"))
def test_nothing_is_put_into_the_folder_of_a_table(
    spark: SparkSession, database: str, tmp_path: Path, lake: str, around: str
) -> None:
    spark.sql("CREATE TABLE " + AROUND[around].format(lake=lake, database=database, tmp=tmp_path))
    raw = f"{database if 'another' in around else lake}.raw"
    spark.sql(f"INSERT INTO {raw} {ROWS}")
    before = sorted(tmp_path.rglob("*"))
    for table in (f"{lake}.u", raw) if lake in raw else (f"{lake}.u",):
        why = (
            (Unsupported, "recursiveFileLookup")
            if "sub-folders" in around and table == raw
            else (InvalidProperty, OUTSIDE)
        )
        with pytest.raises(why[0], match=why[1]):
            hive_bitmap.build(spark, table, ["a"])
    assert sorted(tmp_path.rglob("*")) == before
    hive_bitmap.build(spark, f"{lake}.u", ["a"], location=str(tmp_path / "index"))
    spark.catalog.refreshTable(raw)
    assert spark.table(raw).count() == 100 and hive_bitmap.count(spark, f"{lake}.u", "a = 3") == 14
    hive_bitmap.drop(spark, f"{lake}.u", "a")
    spark.sql(f"DROP TABLE {raw}")
    hive_bitmap.build(spark, f"{lake}.u", ["a"])  # at once: what is remembered of a table is not believed against it


def test_what_is_staged_for_an_estimate_is_not_put_there_either(
    spark: SparkSession, database: str, tmp_path: Path, lake: str
) -> None:
    spark.sql(f"CREATE TABLE {lake}.raw (a INT, b STRING) STORED AS TEXTFILE LOCATION '{tmp_path}/lake/db'")
    spark.sql(f"INSERT INTO {lake}.raw {ROWS}")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidProperty, match=OUTSIDE):
        hive_bitmap.estimate(spark, f"{lake}.raw", ["a"])
    assert sorted(tmp_path.rglob("*")) == before


def test_nor_into_that_of_a_partition(spark: SparkSession, database: str, tmp_path: Path, lake: str) -> None:
    write(tmp_path / "lake" / "p=1")
    spark.sql(
        f"CREATE TABLE {lake}.parted (k INT, id BIGINT) PARTITIONED BY (p INT) STORED AS PARQUET "
        f"LOCATION '{tmp_path}/elsewhere/parted'"
    )
    spark.sql(f"ALTER TABLE {lake}.parted ADD PARTITION (p=1) LOCATION '{tmp_path}/lake'")
    with pytest.raises(InvalidProperty, match=r"is in the folder of a partition of table .*: give another one"):
        hive_bitmap.build(spark, f"{lake}.parted", ["k"])
    assert not list(tmp_path.rglob(roots.MARKER))


def test_nor_into_that_of_an_index(spark: SparkSession, database: str, tmp_path: Path, lake: str) -> None:
    other = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}/lake", id=roots.new_id())
    roots.claim(other, "another metastore")
    with pytest.raises(AlreadyExists, match=r"belongs to index i on db\.t or lies in its folder"):
        hive_bitmap.build(spark, f"{lake}.u", ["a"])


def test_tables_are_looked_at_once(
    spark: SparkSession, database: str, tmp_path: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second index asks of other databases nothing, and of its own where all tables are now."""
    monkeypatch.setattr(locations, "APART_SECONDS", 3600.0)  # another test may have looked at them long before
    hive_bitmap.build(spark, f"{lake}.u", ["a"])
    asked: list[tuple[str, tuple[str, ...]]] = []
    describe = metastore.describe_many

    def noted(session: SparkSession, database: str, names: list[str]) -> object:
        asked.append((database, tuple(names)))
        return describe(session, database, names)

    spark.sql(f"CREATE TABLE {lake}.later (a INT) USING parquet LOCATION '{tmp_path}/elsewhere/later'")
    monkeypatch.setattr(metastore, "describe_many", noted)
    definition = Definition(name="j", database=lake, table="u", columns=(), index_table=f"{lake}__u_j__")
    root = locations.with_root(spark, definition, None).root
    assert Path(local_path(root)).parent == tmp_path / "lake" / "db"
    [(of, names)] = [(of, names) for of, names in asked if names]
    assert of == lake and set(names) == {"later", "u", f"{lake}__u_a__"}
    spark.sql(f"ALTER TABLE {lake}.later SET LOCATION '{tmp_path}/lake'")
    with pytest.raises(InvalidProperty, match=OUTSIDE):
        locations.with_root(spark, definition, None)


@pytest.mark.parametrize("name", contract(NAMES, "a%20b"))
def test_a_folder_of_any_name_keeps_its_tables_and_indexes(
    spark: SparkSession, database: str, tmp_path: Path, name: str
) -> None:
    spark.sql(f'CREATE DATABASE {database}_o LOCATION "{tmp_path}/{name}"')
    spark.catalog.setCurrentDatabase(f"{database}_o")
    assert locations.default_folder(spark, f"{database}_o") == f"file:{tmp_path}/{name}"
    spark.sql("CREATE TABLE t (a INT, b STRING) USING parquet")
    spark.sql(f"INSERT INTO t {ROWS}")
    hive_bitmap.build(spark, "t", ["a"])
    [index] = catalog.table_and_indexes(spark, "t")[1]
    assert Path(local_path(index.definition.root)).parent == tmp_path / name
    assert [path.name for path in tmp_path.iterdir()] == [name]
    for query in ("SELECT count(*) FROM t WHERE a = 3", "SELECT * FROM t WHERE a = 3"):
        asking.require_alike(spark, query, "", "rows", "blocks", "index only")
    assert asking.told(spark, "SELECT count(*) FROM t WHERE a = 3", "index only") == [("t", "answered")]
    spark.sql(f"INSERT INTO t {ROWS}")
    assert hive_bitmap.rebuild(spark, "t")[0].files_read >= 1 and hive_bitmap.verify(spark, "t")[0].problems == ()
    hive_bitmap.rebuild(spark, "t", full=True)
    assert {left.kept for left in hive_bitmap.clean(spark, grace_seconds=0)} == {""}
    hive_bitmap.drop(spark, "t", "a")
    assert [path.name for path in (tmp_path / name).iterdir()] == ["t"]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_so_does_an_external_warehouse(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    spark.conf.set("spark.hadoop.metastore.warehouse.external.dir", f"{scheme}{tmp_path}/a%20b")
    try:
        assert locations.default_folder(spark, database) == f"file:{tmp_path}/a%20b"
    finally:
        spark.conf.unset("spark.hadoop.metastore.warehouse.external.dir")


def test_a_location_is_no_uri() -> None:
    """As in Spark's CREATE TABLE: what is escaped stays so."""
    assert locations.root_at("/w/a%20b/./c") == locations.root_at("file:///w//a%20b/c") == "file:/w/a%20b/c"
