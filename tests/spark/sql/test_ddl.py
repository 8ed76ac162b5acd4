"""The DDL in ddl/ is what a build registers, and its recipes answer what full scans do, on each server they name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.core.bitmaps import ewah, selection
from hive_bitmap.core.grammar.script import split
from hive_bitmap.spark.metastore import metastore
from tests.servers.hiveserver import HiveServer, run

DDL = Path(__file__).parents[3] / "ddl"
KINDS = ["plain", "gap", "ewah", "roaring", "compact"]
COLUMNS = "carrier string, tailnum string, distance int"
ROWS = 20_000
# AA has runs of more than 8 rows. Some blocks have UA, and N1 or N2, but never in one row.
FLIGHTS = """SELECT /*+ COALESCE(1) */
    CASE WHEN id % 1000 < 60 THEN 'AA' WHEN id % 97 = 0 THEN NULL
        ELSE element_at(array('UA', 'DL', 'AA'), id % 3 + 1) END,
    CASE WHEN id % 15000 < 3000 AND id % 40 = 1 THEN 'N1' WHEN id % 3000 = 30 THEN 'N2' WHEN id % 11 = 0 THEN NULL
        ELSE concat('N', 3 + id % 9, repeat('x', {wide})) END,
    id, 1 + id DIV {half} FROM (SELECT CAST(id AS int) AS id FROM range({first}, {last}))"""
SMALL_ROW_GROUPS = (
    "'parquet.block.size'='8192', 'parquet.block.size.row.check.min'='100', 'parquet.compression'='SNAPPY'"
)
WANTED = "carrier = 'UA' AND tailnum = 'N1'"


def statements(name: str) -> list[str]:
    "The statements of a script, comments before them left out."
    return [part.text for part in split((DDL / name).read_text())]


@dataclass(frozen=True)
class Flights:
    """The tables of the recipes in a database of Spark's, the files that the indexes know, and one that came later."""

    database: str
    indexed: tuple[Path, ...]
    late: Path

    def rows(self, wanted: Callable[[pa.Table], Any]) -> dict[tuple[str, int], list[int]]:
        "The blocks of indexed files with rows that are wanted, and which they are, as Arrow reads them."
        found = {}
        for path in self.indexed:
            with pq.ParquetFile(path) as file:
                for number in range(file.num_row_groups):
                    rows = np.flatnonzero(wanted(file.read_row_group(number))).tolist()
                    offset = file.metadata.row_group(number).column(0).data_page_offset
                    found[(f"file:{path}", offset)] = rows
        return {block: rows for block, rows in found.items() if rows}


def has(rows: pa.Table, column: str, *keys: str) -> Any:
    "Of which rows the column is one of the keys."
    return np.isin(np.array(rows[column].to_pylist(), object).astype(str), keys)


def has_both(rows: pa.Table) -> Any:
    "Of which rows the recipes with two indexes ask."
    return has(rows, "carrier", "UA") & has(rows, "tailnum", "N1", "N2")


@pytest.fixture(scope="module")
def flights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flights]:
    """Of each partition one file is indexed; the index tables are `<database>__flights_<column>_<encoding>__`."""
    folder, database = tmp_path_factory.mktemp("flights") / "a b+c%41é", f"t_{uuid4().hex[:12]}"
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {database}")
    spark.catalog.setCurrentDatabase(database)
    for table, stored, rows, wide in [("flights", "PARQUET", ROWS, 0), ("flights_text", "TEXTFILE", 300_000, 30)]:
        spark.sql(
            f"CREATE TABLE {table} ({COLUMNS}) PARTITIONED BY (month int) STORED AS {stored}"
            f" LOCATION '{folder / table}' TBLPROPERTIES ({SMALL_ROW_GROUPS})"
        )
        spark.sql(f"INSERT INTO {table} {FLIGHTS.format(first=0, last=rows, half=rows // 2, wide=wide)}")
    for name in ("carrier_gap", "tailnum_gap", "tailnum_plain", "carrier_ewah", "tailnum_ewah"):
        column, encoding = name.split("_")
        hive_bitmap.build(spark, "flights", [column], name=name, encoding=encoding, compression="snappy")
    hive_bitmap.build(spark, "flights_text", ["tailnum"], compression="snappy")
    of_text = spark.table(f"{database}__flights_text_tailnum__")
    assert of_text.select("_bucketname", "_offset").distinct().count() == 4  # blocks of both files
    indexed = tuple(sorted((folder / "flights").glob("month=*/*.parquet")))
    spark.sql(f"INSERT INTO flights {FLIGHTS.format(first=30_000, last=30_100, half=60_000, wide=0)}")
    [late] = set((folder / "flights").glob("month=*/*.parquet")) - set(indexed)
    yield Flights(database, indexed, late)
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {database} CASCADE")


def answers(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return ordered(tuple(row) for row in spark.sql(sql).collect())


def ordered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=repr)


def counted(blocks: dict[tuple[str, int], list[int]]) -> list[tuple[Any, ...]]:
    "Path and offset of each block, and how many rows it has."
    return ordered((*block, len(rows)) for block, rows in blocks.items())


def columns(spark: SparkSession, table: str) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in spark.table(table).schema.fields]


@pytest.mark.parametrize("kind", KINDS)
def test_script_makes_the_table_that_a_build_registers(
    spark: SparkSession, database: str, kind: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE flights ({COLUMNS}) PARTITIONED BY (month int) STORED AS ORC")
    spark.sql("INSERT INTO flights VALUES ('UA', 'N1', 100, 1), (NULL, 'N2', 200, 2)")
    type, encoding = ("COMPACT", "gap") if kind == "compact" else ("BITMAP", kind)
    (report,) = hive_bitmap.build(spark, "flights", ["carrier"], type=type, encoding=encoding)
    (statement,) = [text for text in statements("index_tables.sql") if f"_{kind}__" in text]
    spark.sql(statement.replace("${indexes}", str(tmp_path)))
    scripted = f"default__flights_carrier_{kind}__"
    assert columns(spark, scripted) == columns(spark, report.definition.index_table)
    by_hand, built = (metastore.describe(spark, name) for name in (scripted, report.definition.index_table))
    assert (by_hand.provider, by_hand.input_format) == (built.provider, built.input_format)
    assert (by_hand.kind, by_hand.partition_columns) == (built.kind, built.partition_columns)


def test_script_names_every_kind() -> None:
    assert len(statements("index_tables.sql")) == len(KINDS)


def wanted_of_spark(spark: SparkSession, flights: Flights) -> list[list[tuple[Any, ...]]]:
    "What the recipes for Spark have to answer."
    not_n1 = flights.rows(lambda rows: has(rows, "carrier", "AA") & ~has(rows, "tailnum", "N1"))
    return [
        answers(
            spark,
            f"SELECT carrier, count(DISTINCT month), count(*) FROM flights WHERE distance < {ROWS} GROUP BY carrier",
        ),
        counted(flights.rows(has_both)),
        ordered((*block, row) for block, rows in not_n1.items() for row in rows),
        answers(spark, f"SELECT * FROM flights WHERE {WANTED}"),
        [(f"file:{flights.late}",)],
    ]


def test_recipes_of_spark(spark: SparkSession, flights: Flights) -> None:
    for statement in statements("functions.sql"):
        spark.sql(statement)
    for column in ("carrier", "tailnum"):
        spark.table(f"{flights.database}__flights_{column}_gap__").createOrReplaceTempView(
            f"default__flights_{column}__"
        )
    found = [answers(spark, statement) for statement in statements("recipes_spark.sql")]
    for column in ("carrier", "tailnum"):
        spark.catalog.dropTempView(f"default__flights_{column}__")
    assert found == wanted_of_spark(spark, flights)


@contextlib.contextmanager
def attached(
    spark: SparkSession, flights: Flights, server: HiveServer, database: str, **encodings: str
) -> Iterator[Any]:
    "A connection to a server that has the tables of the recipes, over Spark's files: indexes in these encodings."
    indexes = {f"flights_{column}": f"flights_{column}_{encoding}" for column, encoding in encodings.items()}
    names = {f"default__{name}__": f"{flights.database}__{source}__" for name, source in indexes.items()}
    names |= {"default__flights_text_tailnum__": f"{flights.database}__flights_text_tailnum__"}
    names |= {name: name for name in ("flights", "flights_text")}
    with contextlib.closing(server.connect(database)) as connection:
        for name, source in names.items():
            table = metastore.describe(spark, source)
            made = ", ".join(f"`{column.name}` {column.type}" for column in table.columns)
            stored = "TEXTFILE" if "Text" in table.input_format else "PARQUET"
            [by] = table.partition_columns
            how = f"PARTITIONED BY ({by.name} {by.type}) STORED AS {stored} LOCATION '{table.location}'"
            run(connection, f"CREATE EXTERNAL TABLE {name} ({made}) {how}")
            for part in metastore.partitions(spark, table):
                at = f"PARTITION ({by.name}={part.values[0]}) LOCATION '{part.location}'"
                run(connection, f"ALTER TABLE {name} ADD {at}")
        yield connection


def check_index_tables(
    spark: SparkSession, flights: Flights, connection: Any, folder: Path, variable: str = "hivevar:indexes"
) -> None:
    "The script runs as it is, and makes the columns of the indexes that Spark built."
    run(connection, f"SET {variable}=file:{folder}")
    for statement in statements("index_tables.sql"):
        run(connection, statement)
    for encoding in ("gap", "ewah"):
        found = [(name, type) for name, type, _ in run(connection, f"DESCRIBE default__flights_carrier_{encoding}__")]
        assert found[: found.index(("hive_bitmap_segment", "int")) + 1] == columns(
            spark, f"{flights.database}__flights_carrier_{encoding}__"
        )


def check_recipes(spark: SparkSession, flights: Flights, connection: Any) -> None:
    early, both = f"FROM flights WHERE distance < {ROWS}", flights.rows(has_both)
    has_one = flights.rows(lambda rows: has(rows, "carrier", "UA"))
    has_other = flights.rows(lambda rows: has(rows, "tailnum", "N1", "N2"))
    assert set(both) < set(has_one) & set(has_other) < set(has_one)
    wanted = [
        answers(spark, f"SELECT carrier, count(DISTINCT month) {early} GROUP BY carrier"),
        answers(spark, f"SELECT tailnum, count(*) {early} GROUP BY tailnum"),
        [],  # two views
        [],
        answers(spark, f"SELECT carrier, count(*) {early} GROUP BY carrier"),
        counted(both),
        ordered(set(has_one) & set(has_other)),
        answers(spark, f"SELECT * FROM flights WHERE {WANTED}"),
        [(f"file:{flights.late}",)],
        answers(spark, f"SELECT * FROM flights_text WHERE {WANTED.partition(' AND ')[2]}"),
    ]
    for statement, rows in zip(statements("recipes_hive.sql"), wanted, strict=True):
        assert ordered(run(connection, statement)) == rows, statement
        if (unknown := "coalesce(known.has, 1)") in statement:  # these joins do find the files that are known
            known = [row for row in rows if row[2] < ROWS or rows is wanted[-1]]
            assert ordered(run(connection, statement.replace(unknown, "coalesce(known.has, 0)"))) == known


@pytest.mark.hive
@pytest.mark.xdist_group("hive4")
def test_scripts_on_hive_4(
    spark: SparkSession, flights: Flights, hive4: HiveServer, hive4_database: str, tmp_path: Path
) -> None:
    with attached(spark, flights, hive4, hive4_database, carrier="gap", tailnum="plain") as connection:
        check_index_tables(spark, flights, connection, tmp_path)
        check_recipes(spark, flights, connection)


@pytest.mark.hive
@pytest.mark.xdist_group("hive2")
def test_scripts_on_hive_2(
    spark: SparkSession, flights: Flights, hive2: HiveServer, hive2_database: str, tmp_path: Path
) -> None:
    with attached(spark, flights, hive2, hive2_database, carrier="gap", tailnum="plain") as connection:
        check_index_tables(spark, flights, connection, tmp_path)
        check_recipes(spark, flights, connection)


@pytest.mark.hive
@pytest.mark.xdist_group("thrift_server")
def test_scripts_on_the_thrift_server(
    spark: SparkSession, flights: Flights, thrift_server: HiveServer, thrift_server_database: str, tmp_path: Path
) -> None:
    """Functions that one session made persist for the next one."""
    with attached(spark, flights, thrift_server, thrift_server_database, carrier="gap", tailnum="gap") as connection:
        check_index_tables(spark, flights, connection, tmp_path, "indexes")
        for statement in statements("functions.sql"):
            run(connection, statement)
    with contextlib.closing(thrift_server.connect(thrift_server_database)) as connection:
        found = [ordered(run(connection, statement)) for statement in statements("recipes_spark.sql")]
    assert found == wanted_of_spark(spark, flights)


@pytest.mark.hive
@pytest.mark.xdist_group("hive2")
def test_ewah_recipes_on_hive_2(spark: SparkSession, flights: Flights, hive2: HiveServer, hive2_database: str) -> None:
    with attached(spark, flights, hive2, hive2_database, carrier="ewah", tailnum="ewah") as connection:
        both, either = (run(connection, statement) for statement in statements("recipes_hive2.sql"))
    assert ordered(both) == ordered(flights.rows(has_both))
    wanted = flights.rows(lambda rows: has(rows, "carrier", "UA") | has(rows, "tailnum", "N1"))
    assert {(path, offset): ewah_rows(words) for path, offset, words in either} == wanted


def ewah_rows(words: str) -> list[int]:
    "The rows of a bitmap as PyHive shows it."
    stored = pa.array([json.loads(words)], pa.list_(pa.int64()))
    where = selection.layout([json.loads(words)[0]])
    bits = selection.nothing(where)
    ewah.decode_into(bits, [stored], where.starts[:1], where.rows)
    return selection.rows(bits, where, 0).tolist()
