"""DROP TABLE and DROP DATABASE: Spark drops first, and may refuse; only then do the indexes go."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.core.grammar.statements import Statement
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.building.publish import IndexToDrop
from hive_bitmap.spark.catalyst import index_statements
from hive_bitmap.spark.registry import catalog
from tests.asking import under
from tests.contract import contract
from tests.spark.maintaining.life import flat_table, generations, live, require_right

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(2)

Run = Callable[["SparkSession", str], "DataFrame"]


def in_plain_spark(spark: SparkSession, text: str) -> DataFrame:
    hive_bitmap.enable(spark)
    return spark.sql(text)


@pytest.fixture(params=[in_plain_spark, hive_bitmap.sql], ids=["plain", "ours"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


@pytest.mark.contract
def test_indexes_stay_if_spark_refuses(spark: SparkSession, database: str, tmp_path: Path, run: Run) -> None:
    """It knows no catalog `hive`, as openLooKeng names the session's own, and never drops the database `default`."""
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    before = live(spark, flat)
    if run is in_plain_spark:
        for text in (f"DROP TABLE hive.{database}.flat", f"DROP DATABASE hive.{database} CASCADE"):
            with pytest.raises(PySparkException):
                run(spark, text)
    spark.catalog.setCurrentDatabase("default")
    default = flat_table(spark, tmp_path / "d")
    try:
        hive_bitmap.build(spark, default, ["k"], location=str(tmp_path / "root"))
        with pytest.raises(PySparkException):
            run(spark, "DROP DATABASE default CASCADE")
        assert hive_bitmap.show(spark, default)[0].problem == ""
    finally:
        hive_bitmap.drop_table(spark, default)
    spark.catalog.setCurrentDatabase(database)
    assert live(spark, flat) == before and hive_bitmap.show(spark, flat)[0].problem == ""
    require_right(spark, flat)


@pytest.mark.contract
def test_a_table_goes_with_its_indexes(spark: SparkSession, database: str, tmp_path: Path, run: Run) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k", "id"])
    hive_bitmap.build(spark, flat, [["k", "id"]], index_table="other", location=str(tmp_path / "root"))
    run(spark, f"CREATE VIEW {database}.v AS SELECT * FROM flat")
    run(spark, f"DROP VIEW {database}.v")
    run(spark, "DROP TABLE IF EXISTS nope")
    assert len(hive_bitmap.show(spark, flat)) == 3
    run(spark, "DROP TABLE flat PURGE")
    assert (
        not [table for table in spark.catalog.listTables() if not table.isTemporary]
        and generations(spark, database) == []
    )
    assert not (tmp_path / "root").exists() and len(list((tmp_path / "t").iterdir())) == 2


def named_by_a_variable(spark: SparkSession) -> None:
    with under(spark, {"suffix": "at"}):
        spark.sql("DROP TABLE fl${suffix}")


def with_the_older_command(spark: SparkSession) -> None:
    with under(spark, {"spark.sql.legacy.useV1Command": "true"}):
        spark.sql("DROP TABLE flat")


def in_a_script(spark: SparkSession, text: str) -> None:
    with under(spark, {"spark.sql.scripting.enabled": "true"}):  # which is no default of Spark 4.0
        spark.sql(f"BEGIN {text}; END")


FORMS: dict[str, Callable[[SparkSession], object]] = {
    "identifier": lambda spark: spark.sql("DROP TABLE IDENTIFIER('fl' || 'at')"),
    "parameter": lambda spark: spark.sql("DROP TABLE IF EXISTS IDENTIFIER(:t) PURGE", args={"t": "flat"}),
    "variable": named_by_a_variable,
    "script": lambda spark: in_a_script(spark, "DROP TABLE flat"),
    "immediate": lambda spark: spark.sql("EXECUTE IMMEDIATE 'DROP TABLE flat'"),
    "ours": lambda spark: hive_bitmap.sql(spark, "DROP TABLE IDENTIFIER('flat')"),
    "older": with_the_older_command,
}


@pytest.mark.parametrize("drop", contract(FORMS.values(), FORMS["identifier"]), ids=FORMS)
def test_it_does_not_matter_how_a_table_is_named(
    spark: SparkSession, database: str, tmp_path: Path, drop: Callable[[SparkSession], object]
) -> None:
    hive_bitmap.build(spark, flat_table(spark, tmp_path / "t"), ["k"], location=str(tmp_path / "root"))
    hive_bitmap.enable(spark)
    spark.range(1).createOrReplaceTempView("flat")
    drop(spark)
    assert tables(spark) == [("flat", False), (f"{database}__flat_k__", False)]
    assert (tmp_path / "root").exists()  # the view of that name is gone
    drop(spark)
    assert tables(spark) == [] and not (tmp_path / "root").exists()


def tables(spark: SparkSession) -> list[tuple[str, bool]]:
    """The tables of the database, and whether each is temporary; other tests may have left temporary views."""
    found = [(table.name, table.isTemporary) for table in spark.catalog.listTables()]
    return [(name, temporary) for name, temporary in found if name == "flat" or not temporary]


def test_an_index_table_is_not_dropped_as_a_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    hive_bitmap.build(spark, flat_table(spark, tmp_path / "t"), ["k"], index_table="other")
    hive_bitmap.enable(spark)
    for text in ("DROP TABLE other", "DROP TABLE IDENTIFIER('other')"):
        for run in (in_plain_spark, in_a_script):
            with pytest.raises(PySparkException, match="drop it with DROP INDEX"):
                run(spark, text)
    assert hive_bitmap.show(spark, "flat")[0].problem == ""


def test_names_of_index_statements_and_databases(spark: SparkSession, database: str, tmp_path: Path) -> None:
    name = f"{database}_v"
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    flat_table(spark, tmp_path / "t")
    hive_bitmap.enable(spark)
    with under(spark, {"what": "flat"}):
        spark.sql(f"CREATE INDEX i ON TABLE ${{what}} (k) AS 'BITMAP' LOCATION '{tmp_path}/root'")
    assert [status.definition.name for status in hive_bitmap.show(spark, "flat")] == ["i"]
    spark.catalog.setCurrentDatabase(database)
    spark.sql("DROP DATABASE IDENTIFIER(:d) CASCADE", args={"d": name})
    assert not (tmp_path / "root").exists()


def test_a_database_goes_with_the_files_of_its_indexes(
    spark: SparkSession, database: str, tmp_path: Path, run: Run
) -> None:
    """Its index tables are gone before the files are deleted, which lie where Spark does not look."""
    name = f"{database}_b"
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"], location=str(tmp_path / "root"))
    (tmp_path / "root" / "note").write_text("mine")
    spark.catalog.setCurrentDatabase(database)
    with pytest.raises(PySparkException):
        run(spark, f"DROP DATABASE {name} RESTRICT")
    assert hive_bitmap.show(spark, f"{name}.flat")[0].problem == ""
    run(spark, f"DROP DATABASE {name} CASCADE")
    assert not spark.catalog.databaseExists(name)
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["note"]


def test_indexes_that_cannot_be_dropped_do_not_fail_the_statement(
    spark: SparkSession, database: str, tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    [index] = catalog.table_and_indexes(spark, flat)[1]
    root = Path(local_path(index.definition.root))
    shutil.move(root, tmp_path / "away")
    root.write_text("a file")
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        run(spark, "DROP TABLE flat")
    assert not spark.catalog.tableExists("flat") and root.read_text() == "a file"
    assert "index k is dropped, but folder" in caplog.text and "stays" in caplog.text
    root.unlink()
    shutil.move(tmp_path / "away", root)
    reports = hive_bitmap.clean(spark, grace_seconds=0)
    assert [one.why for one in reports] in ([], [f"index k on {database}.flat was dropped"])


@pytest.fixture
def beside_unreadable(spark: SparkSession, database: str, tmp_path: Path) -> Iterator[str]:
    """A database with an indexed table, whose index table has a name of its own, and a table that only Hive reads."""
    name = f"{database}_u"
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"], index_table="other", location=str(tmp_path / "root"))
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")  # else Spark's client of the metastore takes no statement of Hive's
    try:
        client: Any = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
        client.runSqlHive(f"CREATE TABLE {name}.unreadable (u uniontype<int,string>)")
    finally:
        system.clearProperty("spark.testing")
    spark.catalog.setCurrentDatabase(database)
    yield name
    hive_bitmap.disable(spark)
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def test_a_table_that_spark_cannot_read_hides_no_index(
    spark: SparkSession, beside_unreadable: str, tmp_path: Path
) -> None:
    in_plain_spark(spark, f"DROP DATABASE {beside_unreadable} CASCADE")
    assert not spark.catalog.databaseExists(beside_unreadable)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("text", ["DROP TABLE {}.flat", "DROP DATABASE {} CASCADE"])
def test_spark_drops_what_python_cannot_be_asked_about(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Its indexes stay then, and are found later as those of a table that others have dropped."""
    name = f"{database}_f"
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    hive_bitmap.build(spark, flat_table(spark, tmp_path / "t"), ["k"], location=str(tmp_path / "root"))
    spark.catalog.setCurrentDatabase(database)
    with monkeypatch.context() as broken:
        broken.setattr(index_statements, "indexes_to_drop", fail)
        in_plain_spark(spark, text.format(name))
    assert not spark.catalog.tableExists(f"{name}.flat") and (tmp_path / "root").exists()
    if spark.catalog.databaseExists(name):
        assert [status.definition.name for status in hive_bitmap.show(spark, f"{name}.flat")] == ["k"]
        assert hive_bitmap.drop(spark, f"{name}.flat", "k") and not (tmp_path / "root").exists()
        spark.sql(f"DROP DATABASE {name}")


def fail(spark: SparkSession, statement: Statement) -> list[IndexToDrop]:
    raise Unsupported("the metastore does not say it")
