"""What a CREATE INDEX may do beside the indexes that there are, as tables of cases without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.grammar.statements import CreateIndex, TableName, Where
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import AlreadyExists, Unsupported
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.sql.create import is_name_free, require_partition_columns, same_content

K, N = Column("k", "string"), Column("n", "int")
DAY, HOUR = Column("Day", "date"), Column("hour", "int")
SALES = Table(database="db", name="sales", kind="MANAGED", columns=(K, N))
BY_DAY = Table(database="db", name="by_day", kind="MANAGED", columns=(K, N), partition_columns=(DAY, HOUR))


def statement(*columns: str, name: str = "new", **fields: Any) -> CreateIndex:
    return CreateIndex(name=name, table=TableName("sales", "db"), columns=columns, **fields)


def definition(*columns: Column, name: str = "old", **fields: Any) -> Definition:
    return Definition(**{"name": name, "database": "db", "table": "sales", "columns": columns, **fields})


@pytest.mark.parametrize(
    ("known", "wanted", "same"),
    [
        (definition(K), statement("k"), True),
        (definition(K), statement("K"), True),
        (definition(K, N), statement("n", "k"), True),  # an index has its table's order of columns
        (definition(K), statement("k", "k"), True),
        (definition(K), statement("n"), False),
        (definition(K, N), statement("k"), False),
        (definition(K), statement("k", "n"), False),
        (definition(K, type="COMPACT"), statement("k"), False),
        (definition(K, type="COMPACT"), statement("k", type="COMPACT"), True),
        (definition(K, table="other"), statement("k"), False),
        (definition(K, database="other"), statement("k"), False),
        (definition(K, catalog="lake"), statement("k"), False),
        (definition(K, encoding="ewah", enabled=False), statement("k"), True),  # neither is what it is on
    ],
)
def test_what_is_the_same_index(known: Definition, wanted: CreateIndex, same: bool) -> None:
    assert same_content(known, SALES, wanted) is same


@pytest.mark.parametrize(
    ("known", "wanted", "free"),
    [
        ([], statement("k"), True),
        ([definition(N)], statement("k"), True),
        ([definition(K, table="other")], statement("k"), True),
        ([definition(N, name="new")], statement("k"), False),
        ([definition(N, name="new", table="other")], statement("k"), False),  # a name is one of the database
        ([definition(K), definition(N, name="new")], statement("k"), False),  # whatever else there is
        ([definition(N), definition(K)], statement("k"), "index old has the same table, columns and type"),
    ],
)
def test_names_and_contents_in_a_database(known: list[Definition], wanted: CreateIndex, free: bool | str) -> None:
    existing = [Index(definition=one, table=SALES) for one in known]
    if isinstance(free, bool):
        assert is_name_free(existing, SALES, wanted) is free
        return
    with pytest.raises(AlreadyExists) as raised:
        is_name_free(existing, SALES, wanted)
    assert str(raised.value) == free


@pytest.mark.parametrize(
    ("base", "columns", "said"),
    [
        (BY_DAY, None, ""),
        (SALES, None, ""),
        (BY_DAY, ("day",), ""),
        (BY_DAY, ("HOUR", "Day", "hour"), ""),
        (BY_DAY, ("day", "k"), "'k', which does not partition table db.by_day; partition columns: day, hour"),
        (SALES, ("day",), "'day', which does not partition table db.sales; partition columns: none"),
    ],
)
def test_a_where_names_partition_columns_alone(base: Table, columns: tuple[str, ...] | None, said: str) -> None:
    where = None if columns is None else Where("true", columns)
    if not said:
        require_partition_columns(base, where)
        return
    with pytest.raises(Unsupported) as raised:
        require_partition_columns(base, where)
    assert str(raised.value) == f"WHERE tests column {said}"
