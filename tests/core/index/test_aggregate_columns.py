"""The aggregates of an index: how they are written, which columns they make, and what is refused before a build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hive_bitmap.core.columns import Column, KeyExpression, KeyText
from hive_bitmap.core.index.aggregate_columns import Measure, texts
from hive_bitmap.core.index.definition import Definition, define, from_properties, stored_columns, to_properties
from hive_bitmap.core.index.schema_drift import problem
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.errors import HiveBitmapError, InvalidProperty, NotFound, Unsupported

TYPES = {
    "k": "int",
    "amount": "decimal(10,2)",
    "n": "bigint",
    "price": "double",
    "share": "float",
    "day": "date",
    "at": "timestamp",
    "a b": "smallint",
    "name": "string",
    "tags": "array<string>",
    "all": "int",
    "_sum_of_n": "int",
}
TABLE = Table(
    database="db",
    name="t",
    kind="EXTERNAL",
    columns=tuple(Column(name, type) for name, type in TYPES.items()),
    partition_columns=(Column("_max_of_day", "int"), Column("p", "int")),
)


def defined(aggregates: str, table: Table = TABLE, keys: tuple[str, ...] = ("k",), **options: str) -> Definition:
    return define(table, keys, aggregates=aggregates, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("", ""),
        ("count(*)", "count(*)"),
        ("COUNT(*), Sum(AMOUNT)", "count(*), sum(amount), count(amount), min(amount), max(amount)"),
        ("min(n), n, count( * )", "count(*), sum(n), count(n), min(n), max(n)"),
        ("max(n),max(amount)", "count(amount), max(amount), count(n), max(n)"),
        ("count(price), count(tags), count(name)", "count(price), count(name), count(tags)"),
        ("`a b`, count(at)", "count(at), sum(`a b`), count(`a b`), min(`a b`), max(`a b`)"),
        ("min(day)", "count(day), min(day)"),
        ("count(K), min(day)", "count(*), count(day), min(day)"),  # as in Hive's examples
    ],
)
def test_a_list_of_aggregates(written: str, stored: str) -> None:
    definition = defined(written)
    assert texts(definition.aggregates) == stored
    assert texts(defined(stored).aggregates) == stored
    assert ("hive_bitmap.features" in to_properties(definition)) == bool(stored)


def test_the_columns_of_an_index_table() -> None:
    stored = stored_columns(
        defined("count(*), amount, sum(`a b`), day", replace(TABLE, partition_columns=TABLE.columns[:0]))
    )
    assert [(column.name, column.type) for column in stored] == [
        ("_bucketname", "string"),
        ("_offset", "bigint"),
        ("_bitmaps", "binary"),
        ("_gap_lengths", "array<int>"),
        ("_count_of_all", "bigint"),
        ("_sum_of_amount", "decimal(38,2)"),
        ("_count_of_amount", "bigint"),
        ("_min_of_amount", "decimal(10,2)"),
        ("_max_of_amount", "decimal(10,2)"),
        ("_count_of_day", "bigint"),
        ("_min_of_day", "date"),
        ("_max_of_day", "date"),
        ("_sum_of_a b", "decimal(38,0)"),
        ("_count_of_a b", "bigint"),
        ("_min_of_a b", "smallint"),
        ("_max_of_a b", "smallint"),
    ]


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("sum(price)", Unsupported, "'price' of table db.t is double, .*use a decimal .*such as decimal\\(18,2\\)"),
        ("min(share)", Unsupported, "'share' of table db.t is float, .*such as decimal\\(9,2\\)"),
        ("price", Unsupported, "such as decimal"),
        ("sum(day)", Unsupported, "is date: sum works on tinyint, smallint, int, bigint, decimal"),
        ("max(at)", Unsupported, "is timestamp, of which an index stores only count"),
        ("name", Unsupported, "is string, of which an index stores only count"),
        ("sum(p)", Unsupported, "'p' partitions table db.t"),
        ("sum(K)", Unsupported, "'k' is a key of the index"),
        ("sum(amuont)", NotFound, "did you mean 'amount'"),
        ("count(all)", Unsupported, "is count"),
        ("max(day)", Unsupported, "column _max_of_day of the index table, which already has such a column"),
        ("avg(n)", InvalidProperty, "unknown aggregate 'avg'; known: count, max, min, sum: sum and count"),
        ("summ(n)", InvalidProperty, "did you mean 'sum'"),
        ("sum(*)", InvalidProperty, "expected functions of columns"),
        (
            "sum(n * k)",
            InvalidProperty,
            r"of an expression, which needs a name: sum\(n \* k\) AS name",
        ),
        ("count(distinct n)", InvalidProperty, "expected"),
        ("sum(n) sum(n)", InvalidProperty, "expected"),
        ("sum(n),", InvalidProperty, "expected"),
        ("sum(`n)", InvalidProperty, "expected"),
        ("1", InvalidProperty, "expected"),
    ],
)
def test_what_is_refused(written: str, error: type[HiveBitmapError], message: str) -> None:
    with pytest.raises(error, match=message):
        defined(written)


def test_a_key_may_have_the_name_of_an_aggregate() -> None:
    with pytest.raises(Unsupported, match="_sum_of_n of the index table, which already has such a column"):
        defined("sum(n)", keys=("_sum_of_n",))
    assert defined("sum(amount)", keys=("_sum_of_n",)).aggregates


def test_compact_indexes_and_columns_from_elsewhere_are_refused() -> None:
    with pytest.raises(Unsupported, match="is COMPACT, which has no aggregates: use AGGREGATE, or BITMAP"):
        defined("count(*)", type="COMPACT")
    by_log = replace(TABLE, lake=Lake("iceberg", ("n",)))
    with pytest.raises(Unsupported, match="'n' partitions iceberg table"):
        defined("n", by_log)
    with_default = replace(TABLE, columns=(*TABLE.columns, Column("d", "int", default=True)))
    with pytest.raises(Unsupported, match=r"'d' of table .* has a default value"):
        defined("d", with_default)
    with pytest.raises(InvalidProperty, match="pass it as the argument aggregates"):
        define(TABLE, ["k"], properties={"Aggregates": "count(*)"})


REVENUE = KeyExpression(
    alias="revenue",
    type="decimal(21,2)",
    sql="amount * n",
    canonical="(amount * n)",
    columns=(Column("amount", "decimal(10,2)"), Column("n", "bigint")),
    settings=(("spark.sql.ansi.enabled", "true"),),
    spark="4.3",
)
ALL_OF_IT = ("sum", "count", "min", "max")


def of_expressions(aggregates: str, *expressions: KeyExpression, table: Table = TABLE) -> Definition:
    measured = {KeyText(expression.sql, expression.alias): expression for expression in expressions}
    return define(table, ["k"], aggregates=aggregates, measured=measured)


def test_aggregates_of_an_expression() -> None:
    definition = of_expressions("sum(amount * n) AS Revenue, min(day), count(*)", REVENUE)
    assert texts(definition.aggregates) == (
        "count(*), count(day), min(day), sum(amount * n) AS revenue, count(amount * n) AS revenue, "
        "min(amount * n) AS revenue, max(amount * n) AS revenue"
    )
    assert [(column.name, column.type) for column in stored_columns(definition)][-6:-2] == [
        ("_sum_of_revenue", "decimal(38,2)"),
        ("_count_of_revenue", "bigint"),
        ("_min_of_revenue", "decimal(21,2)"),
        ("_max_of_revenue", "decimal(21,2)"),
    ]
    assert {column.name for column in definition.read_columns(TABLE)} == {"k", "day", "amount", "n"}
    properties = to_properties(definition)
    assert properties["hive_bitmap.features"] == "aggregates,aggregated_expressions"
    read = from_properties(properties)
    assert read is not None and replace(read, index_table=definition.index_table) == definition
    less = of_expressions("max(amount * n) AS revenue", REVENUE)
    assert [a.function for a in less.aggregates] == ["count", "max"]


def test_an_expression_is_held_by_its_meaning_and_not_by_its_name() -> None:
    definition = of_expressions("sum(amount * n) AS revenue", REVENUE)
    other = replace(REVENUE, alias="r", sql="Amount*n", columns=REVENUE.columns[::-1])
    asked = Measure(column=other.name, functions=ALL_OF_IT, expression=other)
    assert asked.held(definition.aggregates, TABLE.columns) == definition.aggregates
    assert str(asked) == "sum(Amount*n)" and asked.columns == ("n", "amount")
    for changed in (
        replace(REVENUE, settings=(("spark.sql.ansi.enabled", "false"),)),
        replace(REVENUE, canonical="(n * amount)"),
        replace(REVENUE, type="decimal(22,2)"),
    ):
        asked = Measure(column=changed.name, functions=ALL_OF_IT, expression=changed)
        assert asked.held(definition.aggregates, TABLE.columns) == ()
    named = (*TABLE.columns, Column("revenue", "decimal(21,2)"))
    assert Measure(column="revenue", functions=ALL_OF_IT).held(definition.aggregates, named) == ()
    gone = replace(TABLE, columns=tuple(column for column in TABLE.columns if column.name != "n"))
    asked = Measure(column=REVENUE.name, functions=ALL_OF_IT, expression=REVENUE)
    assert asked.held(definition.aggregates, gone.columns) == ()
    assert {column.name for column in definition.read_columns(gone)} == {"k", "amount"}
    assert problem(gone, definition) == ""
    assert "reserved" in problem(replace(TABLE, columns=(*TABLE.columns, Column(REVENUE.name, "int"))), definition)


@pytest.mark.parametrize(
    ("written", "expressions", "message"),
    [
        ("sum(amount * n) AS name", (replace(REVENUE, alias="name"),), "'name' is already a column"),
        ("sum(amount * n) AS k", (replace(REVENUE, alias="k"),), "'k' is already a column"),
        ("sum(amount * n) AS p", (replace(REVENUE, alias="p"),), "'p' is already a column"),
        ("sum(amount * n) AS revenue", (), "only a build aggregates expressions"),
    ],
)
def test_names_of_expressions_that_are_refused(
    written: str, expressions: tuple[KeyExpression, ...], message: str
) -> None:
    with pytest.raises(Unsupported, match=message):
        of_expressions(written, *expressions)


def test_columns_that_partition_a_lake_table_are_refused() -> None:
    of_expressions("sum(amount * n) AS revenue", REVENUE, table=replace(TABLE, lake=Lake(kind="delta")))
    partitioned = replace(TABLE, lake=Lake(kind="iceberg", partitioned_by=("n",)))
    with pytest.raises(Unsupported, match="'n' partitions iceberg table"):
        of_expressions("sum(amount * n) AS revenue", REVENUE, table=partitioned)


@pytest.mark.parametrize(
    "change", [{"type": "int"}, {"default": True}, {"file_name": "col-1"}, {"field_id": 3}], ids=str
)
def test_a_changed_column_takes_the_aggregates_of_an_expression_away(change: dict[str, Any]) -> None:
    aggregates = of_expressions("sum(amount * n) AS revenue", REVENUE).aggregates
    asked = Measure(column=REVENUE.name, functions=ALL_OF_IT, expression=REVENUE)
    assert asked.held(aggregates, TABLE.columns)
    columns = [replace(column, **change) if column.name == "n" else column for column in TABLE.columns]
    assert asked.held(aggregates, columns) == ()
