"""Where only Spark may read a table, no task of ours reads it, and nothing tells how many rows there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.explaining.explain import to_json
from hive_bitmap.errors import NotPermitted
from hive_bitmap.spark.metastore import jvm_settings, session_settings
from tests.asking import indexed, require_alike, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "hive_bitmap.engine_reads_only"
ONLY = {SETTING: "true"}
READERS: dict[str, Callable[[SparkSession, Path], Any]] = {
    "CREATE INDEX": lambda spark, _: hive_bitmap.build(spark, "t", ["s"], name="other"),
    "CREATE INDEX of SQL": lambda spark, _: hive_bitmap.sql(spark, "CREATE INDEX other ON TABLE t (s) AS 'BITMAP'"),
    "a rebuild": lambda spark, _: hive_bitmap.rebuild(spark, "t"),
    "an estimate": lambda spark, _: hive_bitmap.estimate(spark, "t", ["s"]),
    "verify": lambda spark, _: hive_bitmap.verify(spark, "t"),
    "the list of blocks": lambda spark, folder: hive_bitmap.write_offsets(spark, "t", "k = 3", str(folder / "out")),
    "a count of keys": lambda spark, _: hive_bitmap.show(spark, "t", keys=True),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, shared_database: str) -> SparkSession:
    """A session with a table t of 20,000 rows in two files, of which one has no row with k = 3."""
    spark.sql(f"CREATE TABLE {shared_database}.t (k INT, s STRING) USING parquet")
    for first in (0, 10):
        of_file = f"SELECT CAST(id % 5 + {first} AS INT), concat('ssn', id % 50) FROM range(0, 10000, 1, 1)"
        spark.sql(f"INSERT INTO {shared_database}.t {of_file}")
    hive_bitmap.build(spark, f"{shared_database}.t", ["k"])
    return spark


@pytest.mark.parametrize("what", contract(READERS, "CREATE INDEX", "a rebuild"))
def test_what_reads_files_itself_is_refused_before_it_begins(table: SparkSession, tmp_path: Path, what: str) -> None:
    tables = table.catalog.listTables()
    with under(table, ONLY), pytest.raises(NotPermitted) as refused:
        READERS[what](table, tmp_path)
    assert str(refused.value).startswith(what.removesuffix(" of SQL") + " reads the files of table ")
    assert f"because {SETTING} is true: use a session that may read the whole table" in str(refused.value)
    assert table.catalog.listTables() == tables and list(tmp_path.iterdir()) == []


def numbers(value: Any) -> Iterator[Any]:
    """The numbers in a value of JSON, those of texts included."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, str):
        yield from (word for word in value.replace(",", " ").replace("%", " % ").split() if word[0].isdigit())
    elif value is not None and not isinstance(value, bool):
        yield value


@pytest.mark.contract
def test_a_plan_tells_what_is_done_and_no_figure(table: SparkSession) -> None:
    for count in (False, True):
        open_plan = hive_bitmap.plan(table, "t", "k = 3", count=count)
        assert open_plan.rows_selected == 2000 and "2,000" in str(open_plan)
        with under(table, ONLY):
            plan = hive_bitmap.plan(table, "t", "k = 3", count=count)
        told = to_json(plan)
        del told["predicate"]
        assert list(numbers(told)) == [0], told  # the bytes of bitmaps that were decoded are not told either
        assert plan.candidates is None and plan.files.num_rows == plan.blocks.num_rows == 0
        assert "2,000" not in str(plan) and "10,000" not in str(plan)
        assert [use.name for use in plan.indexes] == ["k"]


@pytest.mark.parametrize("strategy", ["files", "blocks"])
def test_explain_tells_what_spark_itself_is_told_and_no_rows(table: SparkSession, strategy: str) -> None:
    """Which files and blocks Spark reads stands in its own plan, too."""
    text = "SELECT * FROM t WHERE k = 3"
    require_alike(table, text, strategy, engine_reads_only="true")
    with indexed(table, strategy, engine_reads_only="true"):
        [relation] = hive_bitmap.explain(text, table).relations
        assert (relation.action, relation.strategy, relation.files_selected) == ("narrowed", strategy, 1)
        assert relation.plan is not None and not relation.plan.looked_up and relation.costs == {}
        said = json.dumps([str(relation), str(relation.plan), relation.detail])
    assert "2,000" not in said and "2000" not in said and "%" not in said


@pytest.mark.contract
def test_show_tells_no_rows(table: SparkSession) -> None:
    assert hive_bitmap.show(table, "t")[0].base_rows == 20_000
    with under(table, ONLY):
        [status] = hive_bitmap.show(table, "t")
    assert (status.base_rows, status.index_rows, status.fresh) == (None, None, 2)
    assert {(one.base_rows, one.index_rows) for one in status.partitions} == {(None, None)}


@pytest.fixture
def server(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Return a function that sets what the server of the session was started with."""
    conf: Any = spark.sparkContext._conf
    names: list[str] = []

    def start_with(name: str, value: str) -> None:
        conf.set(name, value)
        names.append(name)
        jvm_settings._of_server.cache_clear()

    yield start_with
    for name in names:
        conf._jconf.remove(name)
    jvm_settings._of_server.cache_clear()


@pytest.mark.parametrize("prefix", [pytest.param("spark.", marks=pytest.mark.contract), ""])
@pytest.mark.parametrize("override", [SETTING, f"spark.{SETTING}"])
def test_no_session_overrides_the_server(
    table: SparkSession, server: Callable[[str, str], None], prefix: str, override: str
) -> None:
    server(f"{prefix}{SETTING}", "true")
    with under(table, {override: "false"}):
        with pytest.raises(NotPermitted):
            hive_bitmap.rebuild(table, "t")
        assert not hive_bitmap.plan(table, "t", "k = 3", count=True).looked_up
        assert session_settings.settings(table)[SETTING] == "true"
        with indexed(table, "index only"):
            [relation] = hive_bitmap.explain("SELECT count(*) FROM t WHERE k = 3", table).relations
            assert relation.action != "answered"
