"""The sums that queries ask for: which index would hold them, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import define
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.advising import asked_sums as asking
from hive_bitmap.spark.advising.asked_sums import AskedSums, asked_sums
from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Shape, Sums, Tally
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUM, EXTREMES = ("count", "max", "min", "sum"), ("count", "max", "min")
BY_COUNTRY = Shape("d", "t", (), None, sums=Sums(("country",), (("amount", SUM),)))


def test_sums_by_the_same_columns_are_one_index() -> None:
    tested = replace(
        BY_COUNTRY,
        tests=(ColumnTest("status", Kind.EQUALITY, 1), ColumnTest("p", Kind.RANGE, 1)),
        sums=Sums(("country",), (("amount", SUM), ("status", EXTREMES))),
    )
    counted = Shape("d", "t", (), (("country",),))
    by_both = Shape(
        "d", "t", (), None, sums=Sums(("country", "status", "p"), (("day", EXTREMES), ("amount", ("count",))))
    )
    nothing = replace(BY_COUNTRY, sums=Sums((), (("amount", SUM),)))
    many = replace(BY_COUNTRY, sums=Sums(tuple("abcd"), (("amount", SUM),)))
    tallies = {
        shape: Tally(queries=2, bytes=size)
        for size, shape in enumerate([BY_COUNTRY, tested, counted, by_both, nothing, many])
    }
    assert asked_sums(tallies, {"p"}) == [
        AskedSums(
            columns=frozenset({"country", "status"}),
            functions={"amount": frozenset(SUM), "day": frozenset(EXTREMES)},
            queries=4,
            bytes=4,
        ),
        AskedSums(columns=frozenset({"country"}), functions={"amount": frozenset(SUM)}, queries=2, bytes=0),
    ]
    assert asked_sums({BY_COUNTRY: Tally(served=9)}, ()) == []


def test_what_an_index_holds_is_not_asked_for() -> None:
    columns = ("country string", "status int", "Amount decimal(9,2)", "day date", "name string")
    table = Table(
        database="d",
        name="t",
        kind="MANAGED",
        columns=tuple(Column(*text.split()) for text in columns),
        location="file:/w/t",
    )
    asked = AskedSums(
        columns=frozenset({"country"}),
        functions={"amount": frozenset(SUM), "day": frozenset(EXTREMES), "name": frozenset({"count"})},
        queries=1,
        bytes=0,
    )
    assert asked.text(table) == "sum(Amount), max(day), min(day), count(name)"
    for type, held, is_held in (
        ("AGGREGATE", asked.text(table), True),
        ("BITMAP", "amount, day, count(name)", True),
        ("BITMAP", "amount", False),
        ("AGGREGATE", "", False),
    ):
        index = define(table, ["country", "status"], type=type, aggregates=held)
        assert asking._is_held(asked, table, [index]) == is_held
    assert not asking._is_held(asked, table, [define(table, ["status"], aggregates="amount, day, count(name)")])
    for taken, name in (((), "country"), (["country"], "country_sums"), (["country", "country_sums"], "country_sums1")):
        assert asking._definition(asked, table, taken).name == name


@pytest.mark.turn(2)
def test_the_index_of_a_note_answers_the_queries(spark: SparkSession, database: str) -> None:
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT id % 5 AS k, CAST(id % 7 AS int) AS s, CAST(id AS decimal(9,2)) AS x, "
        "id FROM range(20000)"
    )
    query = "SELECT k, sum(x), avg(x), max(id) FROM t WHERE s = 3 GROUP BY k"
    with indexed(spark):
        for text in (query, "SELECT id, sum(x) FROM t GROUP BY id"):
            spark.sql(text).collect()
        found = hive_bitmap.advise(spark, table="t")
    notes = [note for note in found.notes if " asked for " in note]
    [worth, useless] = sorted(notes, key=lambda note: " by (id)" in note)
    assert f"{database}.t: 1 query of " in worth and "asked for sum(x), max(id) by (k, s), which" in worth
    assert useless.endswith("as many rows as the table, so its sums save little")
    statement = worth.partition(" would answer: ")[2].partition("; takes ")[0]
    hive_bitmap.sql(spark, statement)
    with indexed(spark, "index only"):
        [relation] = hive_bitmap.explain(query, spark).relations
    assert relation.action == "answered"
    with indexed(spark):
        spark.sql(query).collect()
        assert statement not in str(hive_bitmap.advise(spark, table="t"))
