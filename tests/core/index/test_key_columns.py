"""Columns that cannot be keys are all named at once."""

from __future__ import annotations

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.key_columns import require_keys
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.errors import ColumnNotFound, HiveBitmapError, Unsupported

COLUMNS = (Column("k", "int"), Column("tags", "array<string>"), Column("c", "char(3)"), Column("d", "string"))
TABLE = Table(database="db", name="t", kind="MANAGED", columns=COLUMNS, partition_columns=(Column("day", "date"),))
LAKE = Table(database="db", name="t", kind="MANAGED", columns=COLUMNS, lake=Lake("delta", ("d",)))


@pytest.mark.parametrize("columns", [["k"], ["K", "c", "d"], []])
def test_columns_that_can_be_keys(columns: list[str]) -> None:
    require_keys(TABLE, columns)


@pytest.mark.parametrize(
    ("table", "columns", "kind", "said"),
    [
        (
            TABLE,
            ["tags", "k", "Day"],
            Unsupported,
            ["column 'tags' of table db.t is array<string>: ", "column 'Day' part"],
        ),
        (
            TABLE,
            ["nope", "day", "no", "nope"],
            Unsupported,
            ["column 'day' part", "no column 'nope'", "no column 'no'"],
        ),
        (
            TABLE,
            ["no", "k", "nope"],
            ColumnNotFound,
            ["no column 'no' in table db.t", "no column 'nope' in table db.t"],
        ),
        (
            LAKE,
            ["c", "d"],
            Unsupported,
            ["column 'c' of delta table db.t is char(3)", "column 'd' partitions delta table"],
        ),
    ],
)
def test_all_others_are_named(table: Table, columns: list[str], kind: type[HiveBitmapError], said: list[str]) -> None:
    with pytest.raises(HiveBitmapError) as raised:
        require_keys(table, columns)
    assert type(raised.value) is kind
    found = str(raised.value).split("; ")
    found = [one for one in found if not one.startswith(("known:", "did you mean"))]
    assert [one.startswith(begin) for one, begin in zip(found, said, strict=True)] == [True] * len(said), found
