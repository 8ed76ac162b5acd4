"""The properties `auto_refresh` and `refresh_interval`: how they are given, changed, shown and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.errors import InvalidProperty
from tests.asking import under

AUTO_UPDATE = "hive.optimize.index.autoupdate"


@pytest.fixture
def table(spark: SparkSession, database: str) -> Iterator[SparkSession]:
    spark.sql("CREATE TABLE t (k int, s string) STORED AS PARQUET")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    return spark


def definition(spark: SparkSession, name: str = "k") -> Definition:
    [found] = [one.definition for one in hive_bitmap.show(spark, "t") if one.definition.name == name]
    return found


def followed(spark: SparkSession, name: str = "k") -> tuple[bool, str]:
    found = definition(spark, name)
    return found.auto_refresh, found.refresh_interval


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX k ON TABLE t (k) AS 'BITMAP' "
        "IDXPROPERTIES ('AUTO_REFRESH' = 'TRUE', 'refresh_interval' = '5 Minutes')",
        "CREATE INDEX k USING bitmap ON t (k) WITH (auto_refresh = true, \"refresh_interval\" = '5 minutes')",
    ],
)
def test_statements(table: SparkSession, statement: str) -> None:
    hive_bitmap.sql(table, statement)
    assert followed(table) == (True, "5 minutes")
    [row] = table.sql("SHOW INDEX k").collect()
    assert "auto_refresh=true,refresh_interval=5 minutes" in row["Index Properties"]
    hive_bitmap.sql(table, "ALTER INDEX k ON t SET IDXPROPERTIES ('auto_refresh' = 'false')")
    assert followed(table) == (False, "5 minutes")
    hive_bitmap.set_properties(table, "t", "k", {"refresh_interval": "30 seconds"})
    assert followed(table) == (False, "30 seconds")
    [index_table] = [one.name for one in table.catalog.listTables() if one.name != "t" and not one.isTemporary]
    stored = {row.key for row in table.sql(f"SHOW TBLPROPERTIES {index_table}").collect()}
    assert not stored & {
        "hive_bitmap.auto_refresh",
        "hive_bitmap.refresh_interval",
    }  # as in an index of an early version


@pytest.mark.contract
def test_the_default_is_hives_setting(table: SparkSession) -> None:
    hive_bitmap.build(table, "t", ["k"])
    assert followed(table) == (False, "30 seconds")
    with under(table, {AUTO_UPDATE: "true"}):
        hive_bitmap.build(table, "t", ["s"])
        hive_bitmap.build(table, "t", [["k", "s"]], name="not", auto_refresh=False)
        hive_bitmap.build(table, "t", ["s"], name="compact", type="COMPACT")
        hive_bitmap.build(table, "t", ["s"], name="later", deferred=True)
    follows = {one.definition.name: one.definition.auto_refresh for one in hive_bitmap.show(table, "t")}
    assert follows == {"k": False, "s": True, "not": False, "compact": False, "later": False}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"auto_refresh": True, "type": "COMPACT"},
            "index k is COMPACT, which readers expect to change only when it is rebuilt",
            marks=pytest.mark.contract,
        ),
        ({"auto_refresh": True, "deferred": True}, "cannot follow its table from the start"),
        ({"refresh_interval": "soon"}, "'soon' is not a length of time"),
        ({"refresh_interval": "0 s"}, "refresh_interval is '0 s'; it must be at least 1 second"),
        ({"properties": {"auto_refresh": "true"}}, "pass it as the argument auto_refresh"),
        ({"properties": {"auto_refrsh": "true"}}, "did you mean 'auto_refresh'"),
    ],
)
def test_what_is_refused_leaves_nothing(table: SparkSession, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProperty, match=message):
        hive_bitmap.build(table, "t", ["k"], **arguments)
    assert hive_bitmap.show(table, "t") == []
    assert [one.name for one in table.catalog.listTables() if not one.isTemporary] == ["t"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"auto_refresh": "maybe"}, "unknown value of auto_refresh 'maybe'; known: true, false"),
        ({"refresh_interval": "never"}, "'never' is not a length of time"),
    ],
)
def test_wrong_changes(table: SparkSession, properties: dict[str, str], message: str) -> None:
    hive_bitmap.build(table, "t", ["k"])
    with pytest.raises(InvalidProperty, match=message):
        hive_bitmap.set_properties(table, "t", "k", properties)
    assert followed(table) == (False, "30 seconds")


def test_a_compact_index_cannot_be_changed_to_follow(table: SparkSession) -> None:
    hive_bitmap.build(table, "t", ["k"], type="COMPACT")
    with pytest.raises(InvalidProperty, match="auto_refresh is for BITMAP"):
        hive_bitmap.set_properties(table, "t", "k", {"auto_refresh": "true"})


def test_show_in_json(table: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    from hive_bitmap.cli import main

    hive_bitmap.build(table, "t", ["k"], auto_refresh=True)
    table.sql("INSERT INTO t VALUES (2, 'b')")
    capsys.readouterr()
    assert main(["show", "t", "--format", "json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    assert (record["auto_refresh"], record["refresh_interval"], record["last_refresh"]) == (True, "30 seconds", None)
    assert record["unindexed"] == 1 and record["unindexed_bytes"] > 0 and record["lag_seconds"] >= 0
