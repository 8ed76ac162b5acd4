"""The WHERE of an index is a condition on partition columns and nothing else: it is parsed, and never run as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.partition_conditions import either, parse, without
from hive_bitmap.core.predicates.condition_grammar import STORED
from hive_bitmap.errors import InvalidPredicate, Unsupported
from hive_bitmap.spark.building.publish import index_table
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [Column("p", "int"), Column("q r", "string")]
ATTACK = "reflect('java.lang.System', 'setProperty', 'hive_bitmap.ran', 'yes') IS NULL OR (SELECT count(*) FROM v) > 0"
ACCEPTED = {
    "p = 1": "`p` = 1",
    "P<=>-1.5 AND `q r` <> 'x'": "`P` <=> -1.5 AND `q r` <> 'x'",
    "p IN (1,2L) or not p is NOT null -- so": "`p` IN (1, 2L) OR NOT `p` IS NOT NULL",
    "p NOT BETWEEN 1 AND 3 /* x */ AND (p == NULL)": "`p` NOT BETWEEN 1 AND 3 AND (`p` == NULL)",
    "(p = 1) IS NOT TRUE AND NOT (p = 2) IS FALSE": "(`p` = 1) IS NOT TRUE AND NOT (`p` = 2) IS FALSE",
    "`q r` = CAST(X'69742773' AS STRING)": "`q r` = CAST(X'69742773' AS STRING)",
    "p = CAST('5' AS decimal(10, 2)) OR `q r` = date '2020-01-01'": (
        "`p` = CAST('5' AS DECIMAL(10, 2)) OR `q r` = DATE '2020-01-01'"
    ),
}
REFUSED = [
    ATTACK,
    "",
    "p",
    "1 = 1",
    "p = p",
    "p = 1 + 1",
    "p + 1 = 2",
    "p = f(1)",
    "f(p) = 1",
    "p = current_user()",
    "p IN (SELECT 1)",
    "p = (SELECT 1)",
    "EXISTS (SELECT 1)",
    "p = 1; DROP TABLE t",
    "p = 1)",
    "(p = 1",
    "p = 1 AND",
    "p LIKE 'x%'",
    "p RLIKE 'x'",
    "p = 'it\\'s'",
    "p = 'a' 'b'",
    'p = "x"',
    "p = r'x'",
    "p = CAST(p AS INT)",
    "p = CAST('1' AS STRUCT<a: INT>)",
    "CAST(p AS INT) = 1",
    "k = 1",
    "t.p = 1",
    "p.x = 1",
    "__number = 1",
    "p = :x",
    "p = ?",
    "p = {x}",
    "p = ${x}",
    "p = INTERVAL '1' DAY",
    "p = 1 COLLATE x",
    "p = 'x' COLLATE UTF8_LCASE",
    "p IS DISTINCT FROM 1",
    "p = 1 AS x",
    "p = CASE WHEN TRUE THEN 1 END",
    "p = '\udc80'",
    "(" * (STORED.most_depth + 2) + "p = 1" + ")" * (STORED.most_depth + 2),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_understood_is_written_anew(text: str) -> None:
    assert " OR ".join(parse(text, COLUMNS)) == ACCEPTED[text]
    assert " OR ".join(parse(ACCEPTED[text], COLUMNS)) == ACCEPTED[text]


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidPredicate):
        parse(text, COLUMNS)


def test_a_condition_that_is_cut_again_and_again_stays_as_deep_as_it_was() -> None:
    text = "p = 1 OR p = 2"
    for number in range(STORED.most_depth + 10):
        text = without(text, f"p = {number} OR p = 7", COLUMNS)
    assert parse(text, COLUMNS) == [text] and text.startswith("(`p` = 1 OR `p` = 2) AND (`p` = 0 OR")


def test_a_condition_that_becomes_too_deep_is_not_written() -> None:
    text = "p = 1"
    with pytest.raises(InvalidPredicate, match="nested deeper than 150 parentheses"):
        for number in range(STORED.most_depth + 2):
            text = without(either(text, f"p > {number}", COLUMNS), f"p = {number}", COLUMNS)
    assert parse(text, COLUMNS)


@pytest.fixture
def attacked(spark: SparkSession, database: str) -> str:
    """A partitioned table with an index, and an index table that somebody made with code as its WHERE."""
    spark.sql("CREATE TABLE v AS SELECT 1 AS k")
    spark.sql("CREATE TABLE pt (k INT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO pt SELECT CAST(id % 5 AS INT), CAST(id % 2 AS INT) FROM range(100)")
    hive_bitmap.build(spark, "pt", ["k"])
    _, [index] = catalog.table_and_indexes(spark, "pt")
    made = replace(index.definition, name="bbb", index_table=f"{database}__pt_bbb__", where=ATTACK)
    made = replace(made, root=f"{made.root}_bbb")
    alter_table.create(spark, index_table(made))
    catalog.clear_caches()
    return "pt"


@pytest.mark.contract
def test_code_in_the_where_of_an_index_does_not_run(spark: SparkSession, attacked: str) -> None:
    jvm: Any = spark._jvm
    problem = {one.definition.name: one.problem for one in hive_bitmap.show(spark, attacked)}["bbb"]
    assert "the WHERE of index bbb is not accepted" in problem and "drop the index and create it again" in problem
    with pytest.raises(Unsupported, match="the WHERE of index bbb is not accepted"):
        hive_bitmap.rebuild(spark, attacked, ["bbb"])
    with pytest.raises(Unsupported, match="is left alone, because tables"):  # the table of bbb claims the folder of k
        hive_bitmap.rebuild(spark, attacked)
    assert hive_bitmap.count(spark, attacked, "k = 3") == 20
    assert jvm.java.lang.System.getProperty("hive_bitmap.ran") is None
    assert hive_bitmap.drop(spark, attacked, "bbb")
    assert [one.definition.name for one in hive_bitmap.show(spark, attacked)] == ["k"]


def test_code_in_the_where_of_a_call_does_not_run(spark: SparkSession, attacked: str) -> None:
    jvm: Any = spark._jvm
    with pytest.raises(InvalidPredicate, match="which takes partition columns, compared with literals"):
        hive_bitmap.build(spark, attacked, ["k"], name="other", where=ATTACK)
    assert jvm.java.lang.System.getProperty("hive_bitmap.ran") is None
