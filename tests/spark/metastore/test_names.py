"""Names of tables mean what they mean for `spark.table`: with other catalogs, and under temporary views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.core.table_info import Table, name_parts
from hive_bitmap.errors import InvalidProperty, NotFound, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore
from tests.asking import require_alike, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = re.escape("only tables of spark_catalog")


@dataclass(frozen=True)
class Names:
    """The database of the indexed table `t` with 200 rows of k = 3, and the current catalog, whose `app.t` has two."""

    database: str
    other: str


@pytest.fixture
def names(spark: SparkSession, database: str) -> Iterator[Names]:
    spark.sql("CREATE TABLE t (k INT, x STRING) USING parquet")
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS INT), 'ours' FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    other = f"other_{uuid4().hex}"  # a session keeps the catalogs that it has loaded
    settings = {
        f"spark.sql.catalog.{other}": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"spark.sql.catalog.{other}.url": f"jdbc:derby:memory:{other};create=true",
        f"spark.sql.catalog.{other}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        spark.sql(f"CREATE TABLE {other}.APP.t (k INT, x STRING)")
        spark.sql(f"INSERT INTO {other}.APP.t VALUES (3, 'theirs'), (3, 'theirs')")
        spark.sql(f"USE {other}.APP")
        yield Names(database, other)
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentDatabase(database)
        for key in settings:
            spark.conf.unset(key)


@pytest.mark.parametrize("written", [pytest.param("t", marks=pytest.mark.contract), "APP.t", "{other}.APP.t"])
def test_a_table_of_another_catalog_is_read_by_spark_and_has_no_indexes(
    spark: SparkSession, names: Names, written: str, tmp_path: Path
) -> None:
    name = written.format(other=names.other)
    assert hive_bitmap.count(spark, name, "k = 3") == spark.table(name).where("k = 3").count() == 2
    assert {row.x for row in hive_bitmap.scan(spark, name, "k = 3").collect()} == {"theirs"}
    plan = hive_bitmap.plan(spark, name, "k = 3")
    assert (plan.strategy, plan.code) == ("full scan", "unsupported")
    assert re.search(REFUSED, plan.reason)
    for refused in (
        lambda: hive_bitmap.build(spark, name, ["k"]),
        lambda: hive_bitmap.rebuild(spark, name),
        lambda: hive_bitmap.show(spark, name),
        lambda: hive_bitmap.drop(spark, name, "k"),
        lambda: hive_bitmap.drop(spark, name, "k", if_exists=True),
        lambda: hive_bitmap.clean(spark, name),
        lambda: hive_bitmap.verify(spark, name),
        lambda: hive_bitmap.estimate(spark, name, [["k"]]),
        lambda: hive_bitmap.write_offsets(spark, name, "k = 3", f"{tmp_path}/offsets"),
    ):
        with pytest.raises(Unsupported, match=REFUSED):
            refused()
    assert not list(tmp_path.iterdir())


def test_a_name_with_its_catalog_works_whichever_is_current(spark: SparkSession, names: Names) -> None:
    name = f"spark_catalog.{names.database}.t"
    home = metastore.database_folder(spark, names.database)
    for strategy in ("rows", "files", "full scan"):
        assert hive_bitmap.scan(spark, name, "k = 3", strategy=strategy).count() == 200
    assert hive_bitmap.count(spark, name, "k = 3") == 200
    hive_bitmap.build(spark, name, ["x"])
    hive_bitmap.rebuild(spark, name)
    assert [index.definition.name for index in hive_bitmap.show(spark, name)] == ["k", "x"]
    hive_bitmap.sql(spark, f"DROP INDEX x ON {name}")
    hive_bitmap.sql(spark, f"CREATE INDEX x ON TABLE {name} (x) AS 'BITMAP'")
    with pytest.raises(InvalidProperty, match=rf"is in the folder of table {names.database}\.t"):
        hive_bitmap.build(spark, name, ["x"], name="y", location=f"{home}/t/y")
    assert hive_bitmap.clean(spark, name) is not None
    assert all(found.ok for found in hive_bitmap.verify(spark, name))
    for strategy in ("", "rows", "blocks", "index only"):
        require_alike(spark, f"SELECT x FROM {name} WHERE k = 3", strategy)
        require_alike(spark, f"SELECT k, count(*) FROM {name} GROUP BY k", strategy)


def test_what_names_no_table_is_refused_while_another_catalog_is_current(spark: SparkSession, names: Names) -> None:
    with pytest.raises(Unsupported, match="the current catalog is"):
        hive_bitmap.clean(spark)


def test_what_spark_drops_elsewhere_drops_no_index_here(spark: SparkSession, names: Names) -> None:
    hive_bitmap.enable(spark)
    spark.sql("DROP TABLE t")
    spark.sql(f"CREATE TABLE {names.other}.APP.t (k INT)")
    spark.sql("USE spark_catalog.default")
    spark.sql(f"DROP TABLE {names.other}.APP.t")
    assert [index.definition.name for index in hive_bitmap.show(spark, f"{names.database}.t")] == ["k"]


def test_a_temporary_view_hides_the_table(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k INT) USING parquet")
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS INT) FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    try:
        with under(spark, {"spark.sql.caseSensitive": "true"}):
            spark.sql("CREATE TEMP VIEW T AS SELECT 3 AS k")
            assert hive_bitmap.count(spark, "T", "k = 3") == spark.table("T").where("k = 3").count() == 1
            assert hive_bitmap.count(spark, "t", "k = 3") == spark.table("t").where("k = 3").count() == 200
            spark.catalog.dropTempView("T")
        spark.sql("CREATE TEMP VIEW t AS SELECT 3 AS k")
        for name in ("t", "T", "`t`"):
            assert hive_bitmap.count(spark, name, "k = 3") == 1
            for one in metastore.METASTORES:
                assert one.describe(spark, database, ["t"], name.strip("`")) == [
                    Table(database=database, name="t", kind="TEMPORARY")
                ]
            with pytest.raises(Unsupported):
                hive_bitmap.build(spark, name, ["k"])
        assert hive_bitmap.count(spark, f"{database}.t", "k = 3") == 200
        assert [found.kind for found in SqlMetastore().describe(spark, database, ["t"], "")] == ["MANAGED"]
    finally:
        spark.catalog.dropTempView("T")
        spark.catalog.dropTempView("t")


def test_a_database_that_is_called_as_the_temporary_views_of_a_session(spark: SparkSession) -> None:
    """From Spark 4.2 on, `session.t` is the temporary view before it is a table."""
    spark.sql("CREATE DATABASE session")
    try:
        spark.sql("CREATE TABLE session.t (k INT) USING parquet")
        spark.sql("INSERT INTO session.t SELECT CAST(id % 5 AS INT) FROM range(1000)")
        hive_bitmap.build(spark, "session.t", ["k"])
        spark.sql("CREATE TEMP VIEW t AS SELECT 3 AS k")
        assert hive_bitmap.count(spark, "session.t", "k = 3") == spark.table("session.t").where("k = 3").count()
    finally:
        spark.catalog.dropTempView("t")
        spark.sql("DROP DATABASE session CASCADE")


NAMES = st.one_of(
    st.text("aB_1.`-/*\n é", max_size=9), st.from_regex(r"[a-z1`.]{1,4}\.[a-z0-9_`]{1,6}", fullmatch=True)
)


@example(text="1e1y._")
@example(text="1e1.1s")
@given(text=NAMES)
@settings(max_examples=400)
def test_names_have_the_parts_that_sparks_parser_finds(spark: SparkSession, text: str) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    try:
        wanted = list(parser.parseMultipartIdentifier(text).mkString("\0").split("\0"))
    except PySparkException:
        wanted = []
    try:
        parts = [part for part in name_parts(text) if part]
    except NotFound:
        parts = []
    assert parts == (wanted if len(wanted) <= 3 and all(wanted) else [])
