"""What servers print of tables, partitions and index tables, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import POINTER, SEGMENT, Definition, stored_columns, to_properties
from hive_bitmap.core.table_info import NULL_PARTITION, Partition, Table, Values
from hive_bitmap.errors import NotFound, ServerError
from hive_bitmap.hive.hiveserver.tables import (
    describe,
    index_tables,
    indexes,
    partition,
    partition_spec,
    partitions,
    why_unusable,
)
from hive_bitmap.spark.metastore.jvm_settings import TRUSTED_OWNERS, TRUSTED_ROOTS
from tests.hive.hiveserver.described import Row, formatted, hive, lake, spark

ORC, SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
P, Q = Column("p", "int"), Column("q", "string")
K = Column("k", "int")
BASE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    provider="hive",
    columns=(K, Column("s", "struct<a:int,b:array<string>>")),
    location="file:/w/t",
    input_format=ORC,
    serde=SERDE,
    properties={"numRows": "3", "comment": "a table"},
    options={"serialization.format": "1"},
    owner="ann",
)
BY_TWO = replace(BASE, partition_columns=(P, Q))


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (BASE, "db.t"),
        (BASE, "DB.`T`"),
        (BY_TWO, "db.t"),
        (replace(BASE, kind="EXTERNAL", location="s3a://b/w t/x"), "db.t"),
        (replace(BASE, database="default"), "t"),
        (replace(BASE, name="a.b"), "db.`a.b`"),
        (replace(BASE, columns=(Column("location:", "int"), Column("owner", "int"))), "db.t"),
        (replace(BASE, columns=(), properties={}, options={}, owner="", serde="", input_format=""), "db.t"),
        (replace(BASE, properties={"spark.sql.sources.provider": "parquet"}, provider="parquet"), "db.t"),
        (replace(BASE, properties={"Location:": "file:/else", "# Storage Information": "x"}), "db.t"),
    ],
)
def test_a_table_as_hive_describes_it(table: Table, name: str) -> None:
    assert describe(hive(lake(table)), name) == table


@settings(max_examples=100)
@given(st.dictionaries(st.text("ab.:", min_size=1), st.text().map(str.strip), max_size=4))
def test_properties_of_any_text(properties: dict[str, str]) -> None:
    table = replace(BASE, properties=properties)
    assert describe(hive(lake(table)), "db.t").properties == properties


@pytest.mark.parametrize(
    ("printed", "value"),
    [(r"a\tb", "a\tb"), (r"\u00E9", "é"), (r"\/w", "/w"), (r"C:\dir", r"C:\dir"), ('a"b', 'a"b'), ("", ""), (None, "")],
)
def test_escapes_of_java(printed: str | None, value: str) -> None:
    rows = [*formatted(replace(BASE, options={})), ("", "a", printed)]
    assert describe(hive({"DESCRIBE FORMATTED `db`.`t`": rows}), "db.t").options == {"a": value}


@pytest.mark.parametrize(
    ("printed", "location"),
    [
        ("file:/w/t", "file:/w/t"),
        ("file:///w/t/", "file:/w/t"),
        ("hdfs://nn:8020/w/t", "hdfs://nn:8020/w/t"),
        ("s3a://b/file:///x", "s3a://b/file:///x"),
        ("", ""),
    ],
)
def test_the_location_of_a_table(printed: str, location: str) -> None:
    assert describe(hive(lake(replace(BASE, location=printed))), "db.t").location == location


def test_a_view_is_one() -> None:
    kind = ("Table Type:         ", "VIRTUAL_VIEW", None)
    rows = [kind if row[0] == kind[0] else row for row in formatted(BASE)]
    assert describe(hive({"DESCRIBE FORMATTED `db`.`t`": rows}), "db.t").kind == "VIEW"


def test_a_table_as_spark_describes_it() -> None:
    rows: list[Row] = [
        *((column.name, column.type, None) for column in (*BY_TWO.columns, P, Q)),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        *((column.name, column.type, None) for column in (P, Q)),
        ("", "", ""),
        ("# Detailed Table Information", "", ""),
        ("Catalog", "spark_catalog", ""),
        ("Owner", "ann", ""),
        ("Type", "MANAGED", ""),
        ("Provider", "hive", ""),
        ("Table Properties", "[comment=not these]", ""),
        ("Location", "file:/w/t", ""),
        ("Serde Library", SERDE, ""),
        ("InputFormat", ORC, ""),
        ("Partition Provider", "Catalog", ""),
    ]
    properties = list(BY_TWO.properties.items())
    serving = spark({"DESCRIBE FORMATTED `db`.`t`": rows, "SHOW TBLPROPERTIES `db`.`t`": properties})
    assert describe(serving, "db.t") == replace(BY_TWO, options={})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("db.trip", "no table 'trip' in database db; known: t, trips; did you mean 'trips'?"),
        ("defualt.t", "no database 'defualt'; known: default, db; did you mean 'default'?"),
        ("t", "no table 't' in database default; known: none"),
        ("a.b.c.d", "'a.b.c.d' is not a table name: use table or database.table"),
    ],
)
def test_what_is_not_there(name: str, said: str) -> None:
    with pytest.raises(NotFound) as raised:
        describe(hive({**lake(BASE, replace(BASE, name="trips")), "SHOW TABLES IN `default`": []}), name)
    assert str(raised.value) == said


def test_a_table_that_is_there_and_cannot_be_described() -> None:
    answers = lake(BASE)
    del answers["DESCRIBE FORMATTED `db`.`t`"]
    with pytest.raises(ServerError, match=r"^HS2 rejected: .*DESCRIBE FORMATTED `db`.`t`$"):
        describe(hive(answers), "db.t")


@pytest.mark.parametrize(
    ("names", "pointer", "found"),
    [
        ([], "", []),
        (["t", "db__t_i__", "db__t_j__"], "", ["db.db__t_i__", "db.db__t_j__"]),
        (["db__t_i", "xdb__t_i__", "db__tt_i__", "other__t_i__"], "", []),
        (["db__t_i__", "mine"], "mine", ["db.db__t_i__", "db.mine"]),
        (["db__t_i__"], "db__t_i__,b,a,", ["db.db__t_i__", "db.a", "db.b"]),
        (["db__t_i__"], "idx.a,db.db__t_i__,b", ["db.db__t_i__", "db.b", "idx.a"]),
    ],
)
@pytest.mark.parametrize("serving", [hive, spark])
def test_names_of_index_tables(names: Sequence[str], pointer: str, found: Sequence[str], serving: Any) -> None:
    base = replace(BASE, properties={POINTER: pointer} if pointer else {})
    rows = [(name,) if serving is hive else ("db", name, False) for name in names]
    assert [".".join(name) for name in index_tables(serving({"SHOW TABLES IN `db`": rows}), base)] == found


def definition(name: str, **fields: Any) -> Definition:
    given = {"name": name, "database": "db", "table": "t", "columns": (K,), "root": f"file:/w/{name}"}
    return Definition(**{**given, "index_table": f"db__t_{name}__", **fields})


def index_table(of: Definition, **fields: Any) -> Table:
    made = Table(
        database=of.index_table_database,
        name=of.index_table,
        kind="EXTERNAL",
        provider="hive",
        columns=(*of.columns, *stored_columns(of)),
        partition_columns=(SEGMENT,),
        location=of.root,
        owner="ann",
        properties=to_properties(of),
    )
    return replace(made, **fields)


def test_indexes_are_in_the_order_of_their_names() -> None:
    wanted = [
        definition("a", index_table="mine"),
        definition("i", comment='it\'s "é"\n'),
        definition("x", index_database="idx"),
        definition("z"),
    ]
    tables = [index_table(one) for one in wanted]
    base = replace(BASE, properties={POINTER: "idx.db__t_x__,idx.gone,mine"})
    edited = index_table(definition("e"), columns=(K,))  # lacks the columns that its definition has
    strange = index_table(definition("s", table="other"), name="db__t_s__")
    serving = hive(lake(base, tables[3], edited, strange, *tables[2::-1]))
    assert indexes(serving, base) == list(zip(tables, wanted, [""] * 4, strict=True))


@pytest.mark.parametrize(
    ("fields", "settings", "why"),
    [
        ({}, (), ""),
        ({"owner": "eve"}, (f"{TRUSTED_OWNERS}=bob, eve",), ""),
        ({"owner": "eve"}, (f"{TRUSTED_ROOTS}=file:/w",), ""),
        ({"owner": "eve"}, (), "index i is not trusted, because index table db.db__t_i__ belongs to eve and "),
        ({"owner": "eve"}, (f"{TRUSTED_OWNERS}=<undefined>",), "index i is not trusted, "),
        ({"owner": "eve"}, (f"{TRUSTED_OWNERS} is undefined",), "index i is not trusted, "),
    ],
)
def test_whom_an_index_is_believed(fields: dict[str, Any], settings: tuple[str, ...], why: str) -> None:
    serving = hive(lake(BASE, index_table(definition("i"), **fields)), settings)
    [(_, _, said)] = indexes(serving, BASE)
    assert said.startswith(why) and bool(said) == bool(why)


@pytest.mark.parametrize(
    ("base", "of", "why"),
    [
        (BASE, definition("i"), ""),
        (BASE, definition("i", columns=(Column("K", "int"),)), ""),  # a table that Spark made; Hive has lower case
        (BASE, definition("i", enabled=False), "index i is not enabled: set its property enabled to true"),
        (
            replace(BASE, columns=(Column("k", "bigint"),)),
            definition("i"),
            "index i is on k int, but in table db.t it is bigint: drop the index and create it again",
        ),
        (BY_TWO, definition("i"), "table db.t is partitioned by p, q now: drop the index and create it again"),
    ],
)
def test_indexes_that_cannot_be_used(base: Table, of: Definition, why: str) -> None:
    assert why_unusable(base, of) == why
    [(_, _, said)] = indexes(hive(lake(base, index_table(of))), base)
    assert said == why


@pytest.mark.parametrize(
    ("paths", "values"),
    [
        ([], []),
        (["p=1/q=x", "p=02/q="], [("1", "x"), ("02", "")]),
        (["p=1/q=a%2Fb%3Dc%25"], [("1", "a/b=c%")]),
        (["p=1/q=a=b"], [("1", "a=b")]),
        ([f"p={NULL_PARTITION}/q=é"], [(None, "é")]),
    ],
)
def test_values_of_partitions(paths: Sequence[str], values: Sequence[Values]) -> None:
    serving = hive({"SHOW PARTITIONS `db`.`t`": [(path,) for path in paths]})
    assert partitions(serving, BY_TWO) == values


@pytest.mark.parametrize(
    ("values", "by_hive", "by_spark"),
    [
        (("1", "x"), "(`p`='1', `q`='x')", "(`p`='1', `q`='x')"),
        (("1", None), f"(`p`='1', `q`='{NULL_PARTITION}')", f"(`p`='1', `q`='{NULL_PARTITION}')"),
        (("1", "it's"), r"(`p`='1', `q`='it\'s')", "(`p`='1', `q`=X'69742773')"),
        (("1", "\\"), r"(`p`='1', `q`='\\')", "(`p`='1', `q`=X'5c')"),
    ],
)
def test_how_a_partition_is_named(values: Values, by_hive: str, by_spark: str) -> None:
    assert partition_spec(hive({}), BY_TWO, values) == by_hive
    assert partition_spec(spark({}), BY_TWO, values) == by_spark
    with pytest.raises(ValueError, match="zip"):
        partition_spec(hive({}), BY_TWO, values[:1])


def test_a_partition_as_hive_describes_it() -> None:
    serving = hive(lake(BY_TWO, partitions={"t": {("1", "it's"): "file:///elsewhere/x"}}))
    assert partition(serving, BY_TWO, ("1", "it's")) == Partition(
        values=("1", "it's"),
        location="file:/elsewhere/x",
        input_format=ORC,
        serde=SERDE,
        properties=(("numFiles", "1"), ("serialization.format", "1")),
    )
    with pytest.raises(ServerError):
        partition(serving, BY_TWO, ("2", "x"))


def test_a_partition_as_spark_describes_it() -> None:
    rows: list[Row] = [
        ("k", "int", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "int", None),
        ("", "", ""),
        ("# Detailed Partition Information", "", ""),
        ("Database", "db", ""),
        ("Location", "file:/w/t/p=1/q=x", ""),
        ("", "", ""),
        ("# Storage Information", "", ""),
        ("Location", "file:/w/t", ""),  # of the table
    ]
    serving = spark({"DESCRIBE FORMATTED `db`.`t` PARTITION (`p`='1', `q`='x')": rows})
    assert partition(serving, BY_TWO, ("1", "x")) == Partition(values=("1", "x"), location="file:/w/t/p=1/q=x")
