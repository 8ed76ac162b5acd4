"""`USING hive_bitmap`: the rows of the view are Spark's own WHERE, however often and together with what it is read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from hive_bitmap.sql import driver_link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of two partitions, one of which has a file that no index knows."""
    name, folder = f"sourced_{uuid4().hex[:6]}", tmp_path_factory.mktemp("sourced")
    spark.sql(
        f"CREATE EXTERNAL TABLE {name} (a int, s string) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{folder}'"
    )
    for p in (1, 2):
        write(folder / f"p={p}" / "0.parquet", p)
    spark.sql(f"MSCK REPAIR TABLE {name}")
    hive_bitmap.build(spark, name, ["a", "s"])
    write(folder / "p=2" / "1.parquet", 3)
    spark.catalog.refreshTable(name)
    hive_bitmap.register(spark)
    yield name
    hive_bitmap.drop_table(spark, name)


def write(path: Path, first: int) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    ids = range(first, first + 60)
    rows = pa.table(
        {"a": pa.array([None if i % 13 == 0 else i % 10 for i in ids], pa.int32()), "s": [f"x{i % 4}" for i in ids]}
    )
    if path.suffix == ".orc":
        orc.write_table(rows, path)
    else:
        pq.write_table(rows, path, row_group_size=20)


def view(spark: SparkSession, table: str, predicate: str) -> str:
    name = f"v_{uuid4().hex[:8]}"
    text = predicate.replace("'", "\\'")
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING hive_bitmap OPTIONS (table '{table}', predicate '{text}')")
    return name


def rows(spark: SparkSession, query: str) -> list[str]:
    return sorted(map(repr, spark.sql(query).collect()))


def test_the_rows_are_those_of_where(spark: SparkSession, table: str) -> None:
    for predicate in ("a = 1 OR s = 'x2'", "NOT (a > 3) AND p = 2", "a IS NULL", "s LIKE 'x%' AND a IN (1, 2, NULL)"):
        name = view(spark, table, predicate)
        assert spark.table(name).schema == spark.table(table).schema
        assert rows(spark, f"SELECT * FROM {name}") == rows(spark, f"SELECT * FROM {table} WHERE {predicate}") != []


def test_filters_of_one_scan_never_narrow_another(spark: SparkSession, table: str) -> None:
    """What goes wrong in Spark 4.1 to 4.3 with a source that takes pushed filters."""
    all_of_it, text = view(spark, table, "a >= 0"), f"(SELECT * FROM {table} WHERE a >= 0)"
    frame = spark.table(all_of_it)
    counts = [frame.where("a = 1").count(), frame.count(), frame.where("a = 1").union(frame).count()]
    one, every = spark.sql(f"SELECT * FROM {text} WHERE a = 1").count(), spark.sql(f"SELECT * FROM {text}").count()
    assert counts == [one, every, one + every]
    assert frame.where("a = 1").union(frame.where("a = 2")).distinct().count() > 0
    for query in (
        "SELECT * FROM {} WHERE a = 1 UNION ALL SELECT * FROM {} WHERE a = 2",
        "SELECT * FROM {} WHERE a = 1 UNION ALL SELECT * FROM {}",
        "SELECT * FROM {} WHERE a = (SELECT max(a) FROM {} WHERE a IN (4, 5))",
        "SELECT x.a, y.s, count(*) FROM {} x JOIN {} y ON x.a = y.a AND y.s = 'x1' WHERE x.p = 1 GROUP BY 1, 2",
        "SELECT count(*) FROM {} WHERE a = 3",
        "SELECT count(*) FROM {}",
    ):
        times = query.count("{}")
        assert rows(spark, query.format(*[all_of_it] * times)) == rows(spark, query.format(*[text] * times)), query


def test_orc_and_whole_tables_without_partitions(spark: SparkSession, database: str, tmp_path: Path) -> None:
    write(tmp_path / "files" / "0.orc", 0)
    spark.sql(f"CREATE EXTERNAL TABLE plain (a int, s string) STORED AS ORC LOCATION '{tmp_path}/files'")
    hive_bitmap.build(spark, "plain", ["a"])
    name = view(spark, "plain", "a < 4")
    expected = rows(spark, "SELECT * FROM plain WHERE a < 4")
    assert rows(spark, f"SELECT * FROM {name}") == rows(spark, f"SELECT * FROM {name}") == expected
    write(tmp_path / "files" / "1.orc", 5)
    with pytest.raises(Exception, match="CREATE OR REPLACE the view"):
        rows(spark, f"SELECT * FROM {name}")
    spark.catalog.refreshTable("plain")
    again = view(spark, "plain", "a < 4")
    assert rows(spark, f"SELECT * FROM {again}") == rows(spark, "SELECT * FROM plain WHERE a < 4") != expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table 'T', predicate 'length(s) = 2'", "only Spark can evaluate"),
        ("table 'T', predicate 'p = 1'", "cannot be read through its indexes"),
        ("table 'T', predicate 'nowhere = 1'", "nowhere"),
        ("table 'not_there', predicate 'a = 1'", "not_there"),
        ("table 'T'", "takes the options table and predicate"),
        ("table 'T', predicate 'a = 1', more 'x'", "takes the options table and predicate"),
    ],
)
def test_what_cannot_be_read_says_why(spark: SparkSession, table: str, options: str, said: str) -> None:
    name = f"v_{uuid4().hex[:8]}"
    with pytest.raises(Exception, match=said):
        spark.sql(f"CREATE TEMPORARY VIEW {name} USING hive_bitmap OPTIONS ({options.replace('T', table)})")
        spark.table(name).collect()


def test_only_who_knows_the_secret_is_answered() -> None:
    address, secret = driver_link.serve(lambda *question: question[::-1])
    assert driver_link.ask(address, secret, 1, 2) == (2, 1)
    with pytest.raises(Unsupported, match="does not answer"):
        driver_link.ask(address, b"another", 1, 2)
    assert driver_link.ask(address, secret, "still there") == ("still there",)


def test_silent_callers_keep_nobody_waiting() -> None:
    """Anybody on the machine can connect to the port, and say nothing or speak slowly, as often as he likes."""
    address, secret = driver_link.serve(lambda *question: question)
    silent = [socket.create_connection(address) for _ in range(3 * driver_link.MOST_UNPROVEN)]
    try:
        for caller in silent[-3:]:
            caller.sendall(b"\x00")
        assert driver_link.ask(address, secret, "plan") == ("plan",)
        for caller in silent[: driver_link.MOST_UNPROVEN]:  # those that wait longest are not kept
            caller.settimeout(60)
            while caller.recv(100):
                pass
        assert driver_link.ask(address, secret, "again") == ("again",)
    finally:
        for caller in silent:
            caller.close()
