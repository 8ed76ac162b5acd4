"""Keys that are expressions in definitions: what is stored, what tells them apart, and which names are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.index.aggregate_columns import Measure
from hive_bitmap.core.index.definition import PREFIX, Definition, define, from_properties, to_properties
from hive_bitmap.core.index.schema_drift import problem, problem_of_spark
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.planning.index_choice import choose, choose_for_sums
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Implied, IsNull
from hive_bitmap.core.selecting.candidates import choose_indexes
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import HiveBitmapError, Unsupported

TS, K = Column("Ts", "timestamp"), Column("k", "int")
LOGS = Table(database="db", name="logs", kind="MANAGED", columns=(TS, K), partition_columns=(Column("day", "date"),))
HOUR = KeyExpression(
    alias="hour",
    type="timestamp",
    sql="date_trunc('HOUR', ts)",
    canonical="date_trunc('HOUR', Ts)",
    columns=(TS,),
    settings=(("spark.sql.session.timeZone", "UTC"),),
    spark="4.3",
)


def defined(*keys: str | KeyExpression, table: Table = LOGS) -> Definition:
    return replace(define(table, keys, name="i"), root="file:/i")


def test_a_definition_is_read_as_it_was_written() -> None:
    definition = defined(HOUR, "k")
    assert definition.columns == (K, Column("hour", "timestamp"))
    assert [field.name for field in key_fields(definition)] == ["k", "hour"]
    assert definition.key_texts == ("k", "date_trunc('HOUR', ts) AS hour")
    assert definition.source_columns == definition.read_columns(LOGS) == (K, TS)
    properties = to_properties(definition)
    assert properties["hive_bitmap.features"] == "expressions"
    read = from_properties(properties)
    assert read is not None and replace(read, index_table=definition.index_table) == definition
    both = defined(HOUR, table=replace(LOGS, columns=(TS, K)))
    assert to_properties(define(LOGS, [HOUR], name="i", aggregates="k"))["hive_bitmap.features"] == (
        "aggregates,expressions"
    )
    assert both.plain_columns == ()


@pytest.mark.parametrize("change", ["alias", "type", "columns", "a list", "no type"])
def test_a_definition_whose_parts_differ_is_none(change: str) -> None:
    properties = to_properties(defined(HOUR, "k"))
    [item] = json.loads(properties["hive_bitmap.expressions"])
    if change in ("alias", "type"):
        item[change] = "date"
    elif change == "columns":
        item["columns"] = [["ts"]]
    elif change == "no type":
        del item["type"]
    text = json.dumps([item, item] if change == "a list" else [item])
    del properties[PREFIX + "crc32"]
    assert from_properties(properties) is not None
    assert from_properties({**properties, "hive_bitmap.expressions": text}) is None


def test_sums_are_by_the_expression_and_not_by_its_name() -> None:
    amount = Column("amount", "int")
    table = replace(LOGS, columns=(*LOGS.columns, amount, Column("hour", "timestamp")))
    definition = define(replace(LOGS, columns=(*LOGS.columns, amount)), [HOUR], name="i", aggregates="sum(amount)")
    measure = Measure(column="amount", functions=("sum", "count", "min", "max"))
    [use] = choose_for_sums([(definition, "")], TRUE, [HOUR.name], [measure], table.columns).uses
    assert use.reason.startswith("serves date_trunc('HOUR', ts); holds sum(amount)")
    assert choose_for_sums([(definition, "")], TRUE, ["hour"], [measure], table.columns).unserved is not None
    assert (
        choose_for_sums([(definition, "")], Compare("hour", "=", 3), [], [measure], table.columns).unserved is not None
    )


def test_a_key_is_its_expression_and_not_its_name() -> None:
    """Other settings, types or expressions are other keys; another alias or case of the text is not."""
    assert replace(HOUR, alias="h", sql="DATE_TRUNC('HOUR', ts)").name == HOUR.name
    others = [
        replace(HOUR, settings=(("spark.sql.session.timeZone", "Asia/Tokyo"),)),
        replace(HOUR, canonical="date_trunc('HOUR', Us)"),
        replace(HOUR, columns=(Column("Ts", "timestamp_ntz"),)),
    ]
    assert len({HOUR.name, *(other.name for other in others)}) == 4
    with_column = replace(LOGS, columns=(*LOGS.columns, Column("hour", "int")))
    tested = Compare("hour", "=", 3)
    assert problem(with_column, defined(HOUR)) == ""
    assert choose_indexes([defined(HOUR)], tested) == {}
    assert choose_indexes([defined(HOUR)], Compare(HOUR.name, "=", 3)) == {HOUR.name: defined(HOUR)}
    choice = choose([(defined(HOUR), "")], tested)
    assert choice.unserved is not None
    assert [use.reason for use in choice.uses] == ["the predicate does not test date_trunc('HOUR', ts) AS hour"]
    [use] = choose([(defined(HOUR), "")], Compare(HOUR.name, "=", 3)).uses
    assert use.used and use.reason == "serves date_trunc('HOUR', ts)"


@pytest.mark.parametrize(
    ("alias", "why"),
    [
        ("K", "is already a column of table db.logs or of the index"),
        ("day", "is already a column of table db.logs or of the index"),
        ("_bucketname", "such a name has lower-case letters"),
        ("hive_bitmap_segment", "but not with hive_bitmap"),
        ("an hour", "such a name has lower-case letters"),
    ],
)
def test_names_that_are_refused(alias: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        defined(replace(HOUR, alias=alias))


def test_two_keys_of_one_name_are_refused_and_one_key_twice_is_one() -> None:
    with pytest.raises(Unsupported, match="already a column"):
        defined(HOUR, replace(HOUR, canonical="trunc(Ts, 'DD')"))
    assert defined(HOUR, HOUR) == defined(HOUR)


def test_columns_that_files_do_not_hold_are_refused() -> None:
    day = replace(HOUR, columns=(Column("day", "date"),))
    with pytest.raises(HiveBitmapError, match="partition"):
        defined(day)
    late = Column("late", "timestamp", default=True)
    with pytest.raises(Unsupported, match="default value"):
        defined(replace(HOUR, columns=(late,)), table=replace(LOGS, columns=(*LOGS.columns, late)))


def test_a_changed_column_or_another_spark_is_a_problem() -> None:
    retyped = replace(LOGS, columns=(Column("Ts", "date"), K))
    assert "is on Ts timestamp, but in table db.logs it is date" in problem(retyped, defined(HOUR))
    reserved = replace(LOGS, columns=(*LOGS.columns, Column(HOUR.name, "int")))
    assert "reserved" in problem(reserved, defined(HOUR))
    assert problem_of_spark(defined(HOUR), "4.3") == problem_of_spark(defined("k"), "4.1") == ""
    assert "as Spark 4.3 computes it, and this is Spark 4.1" in problem_of_spark(defined(HOUR), "4.1")


def test_an_index_says_that_a_key_only_follows_from_the_condition() -> None:
    definition = defined(HOUR, "k")
    implied = Implied(Compare(HOUR.name, ">=", 1))
    [use] = choose([(definition, "")], And((implied, Compare("x", "=", 1)))).uses
    assert use.reason == "serves date_trunc('HOUR', ts), which follows from the test of Ts"
    [use] = choose([(definition, "")], IsNull(HOUR.name, True)).uses
    assert use.reason == "serves date_trunc('HOUR', ts)"
    assert choose_for_sums([(definition, "")], implied, [], [Measure(column="x", functions=("sum",))]).unserved
