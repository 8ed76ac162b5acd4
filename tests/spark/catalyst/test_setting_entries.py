"""Settings that are misspelt, or have a value that they do not take, are refused where they are set, or warned of."""

from __future__ import annotations

import logging
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.strategy import STRATEGIES
from hive_bitmap.errors import InvalidProperty
from hive_bitmap.spark import jvm_bridge
from hive_bitmap.spark.catalyst.explanation import explain
from tests.asking import indexed
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = Path(__file__).parents[3] / "jvm/hive_bitmap/catalyst/python/SettingEntries.java"
WRONG = [
    ("strategy", "blcks", "it takes index only, rows, blocks, files, full scan; did you mean 'blocks'"),
    ("enabled", "flase", "'flase'; it takes true or false"),
    ("answer_bytes", "many", "it takes bytes"),
    ("planning_seconds", "soon", "it takes seconds"),
]


@pytest.mark.parametrize(("name", "value", "why"), contract(WRONG, "strategy"))
def test_a_wrong_value_is_refused(spark: SparkSession, name: str, value: str, why: str) -> None:
    with indexed(spark):
        with pytest.raises(PySparkException, match=re.escape(why)):
            spark.sql(f"SET hive_bitmap.{name}={value}")
        with pytest.raises(PySparkException, match=re.escape(why)):
            spark.conf.set(f"hive_bitmap.{name}", value)
        with pytest.raises(PySparkException, match=re.escape(why)):
            spark.sql(f"SET spark.hive_bitmap.{name}={value}")
        assert spark.conf.get(f"hive_bitmap.{name}", None) != value


def test_a_misspelt_name_is_refused_by_set_and_warned_of_otherwise(
    spark: SparkSession, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id AS k FROM range(10)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark):
        with pytest.raises(PySparkException, match=r"enbled; did you mean 'hive_bitmap\.enabled'"):
            spark.sql("SET hive_bitmap.enbled=false")
        spark.sql("SET hive_bitmap.stores.fs.s3a.endpoint=x")
        spark.sql("SET hive_bitmap.enbled")  # only asks
        spark.conf.set("hive_bitmap.strct", "true")
        try:
            with caplog.at_level(logging.WARNING, "hive_bitmap"):
                for _ in range(2):
                    assert spark.sql("SELECT count(*) FROM t WHERE k = 3").collect() == [(1,)]
        finally:
            spark.conf.unset("hive_bitmap.strct")
            spark.conf.unset("hive_bitmap.stores.fs.s3a.endpoint")
    told = [record.message for record in caplog.records if "strct" in record.message]
    assert told == ["hive_bitmap has no setting hive_bitmap.strct; did you mean 'hive_bitmap.strict'?"]


def test_the_configuration_of_a_new_session_is_checked(tmp_path: Path) -> None:
    for conf in ({"spark.hive_bitmap.enbled": "true"}, {"spark.hive_bitmap.strategy": "blcks"}):
        with pytest.raises(InvalidProperty, match="did you mean"):
            hive_bitmap.session(tmp_path, conf=conf)


def test_java_and_python_know_the_same_settings() -> None:
    resource = Path(settings.__file__).with_name("settings.json").read_bytes()
    with zipfile.ZipFile(jvm_bridge.JAR) as jar:
        assert jar.read("hive_bitmap/settings.json") == resource
    text = JAVA.read_text()
    assert all(f'"{strategy}"' in text for strategy in STRATEGIES)


def test_no_explanation_has_a_traceback(spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id AS k FROM range(10)")
    hive_bitmap.build(spark, "t", ["k"])

    def broken(conf: object) -> None:
        raise InvalidProperty("hive_bitmap.strategy is 'blcks'")

    with indexed(spark, strict="false"):
        monkeypatch.setattr(settings, "read", broken)
        found = explain("SELECT * FROM t WHERE k = 3", spark)
    assert [(one.reason, one.detail) for one in found.relations][:1] == [("error", "hive_bitmap.strategy is 'blcks'")]


@pytest.mark.contract
def test_an_explanation_is_of_one_planning(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 9 AS k FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark, "index only", planning_seconds="0.0001", strict="false"):
        frame = spark.sql("SELECT k, count(*) FROM t GROUP BY k")
        late = explain(frame, spark)
        assert "late" in {one.reason for one in late.relations} and "IndexAnswer" not in late.engine
        spark.conf.set("hive_bitmap.planning_seconds", "60")
        assert "IndexAnswer" in explain(frame, spark).engine


@pytest.mark.contract
def test_reasons_without_a_condition_and_of_files_that_are_not_indexed(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 9 AS k, id FROM range(0, 1000, 1, 2)")
    hive_bitmap.build(spark, "t", ["k"])
    hive_bitmap.set_properties(spark, "t", "k", {"enabled": "false"})
    with indexed(spark, "index only"):
        [unused] = explain("SELECT max(k) FROM t", spark).relations
        assert ("no index" in unused.detail and "disabled" in unused.detail.lower()) or "enabled" in unused.detail
        assert "predicate" not in unused.detail
    hive_bitmap.set_properties(spark, "t", "k", {"enabled": "true"})
    spark.sql("INSERT OVERWRITE t SELECT id % 9, id FROM range(0, 1000, 1, 2)")
    assert "files are not fresh in the index (new since the last build)" in hive_bitmap.plan(spark, "t", "k = 3").reason


def test_hints_name_the_table_of_a_folder_and_that_of_a_former_name(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE t USING parquet LOCATION '{tmp_path}/t' AS SELECT id % 9 AS k FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    [hint] = explain(spark.read.parquet(f"{tmp_path}/t").where("k = 3")).hints
    assert f"belongs to table {database}.t" in hint and f"spark.table('{database}.t')" in hint
    hive_bitmap.disable(spark)
    spark.sql("ALTER TABLE t RENAME TO u")
    [hint] = explain("SELECT * FROM u WHERE k = 3", spark).hints
    assert f"hive-bitmap attach {database}.u --from {database}.t" in hint
    assert f"hint: {database}.u" in str(explain("SELECT * FROM u WHERE k = 3", spark))
