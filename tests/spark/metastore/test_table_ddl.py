"""Which partitions a batch of changes adds, moves and drops, and the statements that say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import table_ddl
from hive_bitmap.spark.metastore.table_ddl import (
    AT_ONCE,
    adding,
    batches,
    creating,
    dropping_database,
    dropping_table,
    moving,
    renaming,
    setting,
)

P, Q = Column("p", "int"), Column("q `x`", "string")
TABLE = Table(
    database="db", name="t", kind="EXTERNAL", partition_columns=(P,), properties={"old": "1", "it's": "2", "kept": ""}
)
OF_TWO = Table(database="d b", name="t", kind="EXTERNAL", partition_columns=(P, Q), catalog="lake")


@pytest.mark.parametrize(
    ("table", "new", "said"),
    [
        (
            TABLE,
            {("1",): "file:/w/a", (None,): "file:/w/it's"},
            "ALTER TABLE spark_catalog.`db`.`t` ADD IF NOT EXISTS "
            "PARTITION (`p`='1') LOCATION 'file:/w/a' PARTITION (`p`=NULL) LOCATION 'file:/w/it\\'s'",
        ),
        (
            OF_TWO,
            {("01", "it's"): "s3a://b/x"},
            "ALTER TABLE `lake`.`d b`.`t` ADD IF NOT EXISTS "
            "PARTITION (`p`='01', `q ``x```=X'69742773') LOCATION 's3a://b/x'",
        ),
    ],
)
def test_partitions_that_are_added(table: Table, new: Mapping[Values, str], said: str) -> None:
    assert adding(table, new) == said.replace("IF NOT EXISTS ", "")
    assert adding(table, new, if_not_exists=True) == said


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (0, []),
        (1, [1]),
        (AT_ONCE, [AT_ONCE]),
        (AT_ONCE + 1, [AT_ONCE, 1]),
        (3 * AT_ONCE + 1, [AT_ONCE, AT_ONCE, AT_ONCE, 1]),
    ],
)
def test_many_partitions_are_added_in_batches(count: int, sizes: Sequence[int]) -> None:
    values: list[Values] = [(str(number),) for number in range(count)]
    found = list(batches(dict.fromkeys(values, "file:/w")))
    assert [len(batch) for batch in found] == sizes
    assert [value for batch in found for value in batch] == values


def test_values_of_another_number_than_the_columns_are_no_partition() -> None:
    with pytest.raises(ValueError, match="zip"):
        adding(TABLE, {("1", "2"): "file:/w"})


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
    with pytest.raises(Unsupported, match="contains"):
        list(setting(Table(database="db", name="${t}", kind="EXTERNAL"), {"a": "1"}))


def test_a_table_without_partitions_is_moved() -> None:
    assert list(moving(replace(TABLE, partition_columns=()), {(): "file:/w/it's"})) == [
        "ALTER TABLE spark_catalog.`db`.`t` SET LOCATION 'file:/w/it\\'s'"
    ]


def test_partitions_that_are_moved() -> None:
    assert list(moving(TABLE, {("1",): "file:/a", (None,): "file:/b"})) == [
        "ALTER TABLE spark_catalog.`db`.`t` PARTITION (`p`='1') SET LOCATION 'file:/a'",
        "ALTER TABLE spark_catalog.`db`.`t` PARTITION (`p`=NULL) SET LOCATION 'file:/b'",
    ]


K = Column("k `", "int")
MADE = Table(
    database="db",
    name="i",
    kind="EXTERNAL",
    provider="hive",
    columns=(K,),
    location="file:/w/i",
    properties={"a": "it's"},
)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            MADE,
            "CREATE EXTERNAL TABLE spark_catalog.`db`.`i` (`k ``` int) STORED AS PARQUET LOCATION 'file:/w/i' "
            "TBLPROPERTIES ('a'='it\\'s')",
        ),
        (
            replace(MADE, partition_columns=(P,), properties={"a": "1", "comment": "it's"}),
            "CREATE EXTERNAL TABLE spark_catalog.`db`.`i` (`k ``` int) STORED AS PARQUET PARTITIONED BY (`p` int) "
            "COMMENT 'it\\'s' LOCATION 'file:/w/i' TBLPROPERTIES ('a'='1')",
        ),
        (
            replace(MADE, partition_columns=(P,), provider="parquet", properties={}),
            "CREATE TABLE spark_catalog.`db`.`i` (`k ``` int, `p` int) USING parquet PARTITIONED BY (`p`) "
            "LOCATION 'file:/w/i'",
        ),
    ],
)
def test_tables_that_are_created(table: Table, said: str) -> None:
    assert creating(table) == said


def test_tables_and_databases_that_are_dropped_or_renamed() -> None:
    assert dropping_table("db.t", if_exists=False, purge=True) == "/* hive_bitmap */ DROP TABLE db.t PURGE"
    assert dropping_table("`t`", if_exists=True, purge=False) == "/* hive_bitmap */ DROP TABLE IF EXISTS `t`"
    assert dropping_database("d b", if_exists=True) == (
        "/* hive_bitmap */ DROP DATABASE IF EXISTS spark_catalog.`d b` CASCADE"
    )
    assert renaming(TABLE, "new `") == "ALTER TABLE spark_catalog.`db`.`t` RENAME TO `db`.`new ```"


ROOT = Path(table_ddl.__file__).parents[1]
CHANGES = re.compile(r"\s*(/\*.*\*/\s*)?(CREATE\s+((EXTERNAL\s+)?(TABLE|DATABASE)|$)|(ALTER|DROP)\s+(TABLE|DATABASE))")
OTHERS = {ROOT / "archive_making.py"}  # a program that runs statements of users


def test_no_other_module_has_the_text_of_statements_that_change_tables() -> None:
    found = {}
    for path in ROOT.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
        said = [text for text in texts if isinstance(text, str) and CHANGES.match(text)]
        if said and path not in OTHERS:
            found[path.stem] = said
    assert found.keys() == {"table_ddl"}
    assert len(found["table_ddl"]) >= 8
