"""Which partitions a change adds, moves and drops, and the statements that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore.alter_table import AT_ONCE, adding, changes, dropping, setting

P, Q = Column("p", "int"), Column("q `x`", "string")
TABLE = Table(
    database="db", name="t", kind="EXTERNAL", partition_columns=(P,), properties={"old": "1", "it's": "2", "kept": ""}
)
OF_TWO = Table(database="d b", name="t", kind="EXTERNAL", partition_columns=(P, Q), catalog="lake")

PLACES = st.dictionaries(st.tuples(st.sampled_from("123456")), st.sampled_from("ab"))


@given(PLACES, PLACES, st.sets(st.tuples(st.sampled_from("123456"))))
def test_the_partitions_are_then_those_that_are_wanted(
    before: dict[Values, str], folders: dict[Values, str], gone: set[Values]
) -> None:
    new, moved, dropped = changes(before, folders, gone - folders.keys())
    assert not new.keys() & before.keys()
    assert all(before[values] != folder for values, folder in moved.items())  # each is a call of the metastore
    after = {**before, **new, **moved}
    for values in dropped:
        del after[values]
    wanted = {values: folder for values, folder in before.items() if values not in gone} | folders
    assert after == wanted


@pytest.mark.parametrize(
    ("table", "new", "said"),
    [
        (TABLE, {}, []),
        (
            TABLE,
            {("1",): "file:/w/a", (None,): "file:/w/it's"},
            [
                "ALTER TABLE spark_catalog.`db`.`t` ADD IF NOT EXISTS "
                "PARTITION (`p`='1') LOCATION 'file:/w/a' PARTITION (`p`=NULL) LOCATION 'file:/w/it\\'s'"
            ],
        ),
        (
            OF_TWO,
            {("01", "it's"): "s3a://b/x"},
            [
                "ALTER TABLE `lake`.`d b`.`t` ADD IF NOT EXISTS "
                "PARTITION (`p`='01', `q ``x```=X'69742773') LOCATION 's3a://b/x'"
            ],
        ),
    ],
)
def test_partitions_that_are_added(table: Table, new: Mapping[Values, str], said: Sequence[str]) -> None:
    assert list(adding(table, new)) == said


@pytest.mark.parametrize(
    ("table", "dropped", "said"),
    [
        (TABLE, [], []),
        (TABLE, [("1",), (None,)], ["ALTER TABLE spark_catalog.`db`.`t` DROP IF EXISTS "
                                    "PARTITION (`p`='1'), PARTITION (`p`=NULL)"]),
        (OF_TWO, [("1", "${a}")], ["ALTER TABLE `lake`.`d b`.`t` DROP IF EXISTS "
                                   "PARTITION (`p`='1', `q ``x```=X'247b617d')"]),
    ],
)  # fmt: skip
def test_partitions_that_are_dropped(table: Table, dropped: Sequence[Values], said: Sequence[str]) -> None:
    assert list(dropping(table, dropped)) == said


@pytest.mark.parametrize(
    ("count", "statements"), [(0, 0), (1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (3 * AT_ONCE, 3), (3 * AT_ONCE + 1, 4)]
)
def test_many_partitions_take_several_statements(count: int, statements: int) -> None:
    values: list[Values] = [(str(number),) for number in range(count)]
    added, dropped = list(adding(TABLE, dict.fromkeys(values, "file:/w"))), list(dropping(TABLE, values))
    assert len(added) == len(dropped) == statements
    for said in (added, dropped):
        found = [number for number in range(count) for one in said if f"PARTITION (`p`='{number}')" in one]
        assert found == list(range(count))
        assert all(one.count("PARTITION (") <= AT_ONCE for one in said)


def test_values_of_another_number_than_the_columns_are_no_partition() -> None:
    with pytest.raises(ValueError, match="zip"):
        list(dropping(OF_TWO, [("1",)]))
    with pytest.raises(ValueError, match="zip"):
        list(adding(TABLE, {("1", "2"): "file:/w"}))


@pytest.mark.parametrize(
    ("properties", "less", "said"),
    [
        ({}, [], []),
        ({}, ["none"], []),
        ({"a": "1", "b c": "it's"}, [], ["SET TBLPROPERTIES ('a'='1', 'b c'='it\\'s')"]),
        ({"a": "${env:HOME}"}, [], ["SET TBLPROPERTIES ('a'='$\\{env:HOME}')"]),
        ({"a": "\\"}, [], ["SET TBLPROPERTIES ('a'='\\\\')"]),
        ({}, ["old", "none", "it's"], ["UNSET TBLPROPERTIES IF EXISTS ('old', 'it\\'s')"]),
        ({"a": "1"}, ["old"], ["SET TBLPROPERTIES ('a'='1')", "UNSET TBLPROPERTIES IF EXISTS ('old')"]),
    ],
)
def test_properties(properties: Mapping[str, str], less: Sequence[str], said: Sequence[str]) -> None:
    assert list(setting(TABLE, properties, less)) == [f"ALTER TABLE spark_catalog.`db`.`t` {one}" for one in said]


def test_a_name_that_sql_would_fill_in_is_refused() -> None:
    with pytest.raises(Unsupported, match="holds"):
        list(setting(Table(database="db", name="${t}", kind="EXTERNAL"), {"a": "1"}))
