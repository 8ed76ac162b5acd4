"""Names of tables in statements: whose catalog they are in, and how Spark is told of them."""

from __future__ import annotations

import pytest

from hive_bitmap.core.grammar.statements import TableName
from hive_bitmap.core.table_info import name_parts
from hive_bitmap.errors import Unsupported


@pytest.mark.parametrize(
    ("table", "shown", "sql", "foreign"),
    [
        (TableName("t"), "t", "`t`", False),
        (TableName("t", "db"), "db.t", "`db`.`t`", False),
        (TableName("t", "db", "spark_catalog"), "spark_catalog.db.t", "`spark_catalog`.`db`.`t`", False),
        (TableName("t", "db", "HIVE"), "HIVE.db.t", "`spark_catalog`.`db`.`t`", False),  # openLooKeng's name of it
        (TableName("t", "db", "Lake"), "Lake.db.t", "`Lake`.`db`.`t`", True),
        (TableName("t`x", "a.b"), "a.b.t`x", "`a.b`.`t``x`", False),
    ],
)
def test_names(table: TableName, shown: str, sql: str, foreign: bool) -> None:
    assert (str(table), table.sql_name, table.foreign) == (shown, sql, foreign)
    assert name_parts(sql)[1:] == (table.database, table.name)


def test_a_name_that_holds_a_variable_is_never_written() -> None:
    with pytest.raises(Unsupported, match=r"contains \$\{"):
        TableName("${env:HOME}").sql_name  # noqa: B018 - it raises
