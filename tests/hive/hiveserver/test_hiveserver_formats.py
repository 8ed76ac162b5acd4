"""Tables whose rows a SerDe reads, asked through HiveServer2: counts and result files against Hive's own full scans."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap import cli
from hive_bitmap.errors import Unsupported
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import register
from hive_bitmap.hive.hiveserver.server_queries import count, write_offsets
from hive_bitmap.hive.hiveserver.states import show
from tests.hive.hive2.hive2_tables import Reader
from tests.servers.hiveserver import HiveServer, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.hive, pytest.mark.turn(3)]
ROWS, FILES = 20_000, 2
COLUMNS = "id int, k int, s string, note string"
SERDE = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2."
TABLES = {  # a file of most of them has 4.7 MB or more, so that it is two blocks
    "text": f"({COLUMNS}) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
    "gzip": f"({COLUMNS}) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
    "csv": f"(id string, k string, s string, note string) {SERDE}OpenCSVSerde' STORED AS TEXTFILE",
    "regex": f"({COLUMNS}) {SERDE}RegexSerDe' WITH SERDEPROPERTIES ('input.regex'='([^|]*)[|]([^|]*)[|]([^|]*)[|](.*)')"
    " STORED AS TEXTFILE",
    "avro": f"({COLUMNS}) STORED AS AVRO",
    "rcfile": f"({COLUMNS}) STORED AS RCFILE",
    "sequencefile": f"({COLUMNS}) STORED AS SEQUENCEFILE",
    "blocks": f"({COLUMNS}) STORED AS SEQUENCEFILE",
    "parts": f"({COLUMNS}) PARTITIONED BY (p int) STORED AS TEXTFILE",
}
COMPRESSION = {
    "gzip": {"mapreduce.output.fileoutputformat.compress.codec": "org.apache.hadoop.io.compress.GzipCodec"},
    "blocks": {
        "mapreduce.output.fileoutputformat.compress.type": "BLOCK",
        "mapreduce.output.fileoutputformat.compress.codec": "org.apache.hadoop.io.compress.DefaultCodec",
        "io.seqfile.compress.blocksize": "40000",
    },
}
# k lies together, s is scattered; the rare one is in one row
SOURCE = f"""
    SELECT CAST(id AS int) AS id, IF(id % 7 = 0, NULL, CAST(id DIV {ROWS // 50} AS int)) AS k,
        IF(id = 12345, 'rare', IF(id % 13 = 0, NULL, concat('s', id % 5))) AS s, repeat(md5(string(id)), 15) AS note
    FROM range({ROWS})
"""
PREDICATES = ["k = 11", "s = 'rare'", "k >= 48 AND s <> 's1'", "k IS NULL AND s = 's2' OR k = 3", "k = 99"]
OF_TEXT = ["s = 'rare'", "s = 's3' AND k = '7'", "NOT s < 's4'"]  # where every column is a string
FILE_BYTES, MIN_SPLIT = 4_900_000, 400_000
SERVERS = {
    "hive2": [table for table in TABLES if table != "avro"],
    "hive4": list(TABLES),
}  # Hive 2.3 needs a newer Avro


def of(server: str, *values: str) -> Any:
    """A parameter set of a test that runs with the users of that server."""
    return pytest.param(server, *values, marks=pytest.mark.xdist_group(server))


def predicates(name: str) -> list[str]:
    return OF_TEXT if name == "csv" else PREDICATES


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The tables and their indexes in Spark, and the folder of their files."""
    name, folder = f"t_{uuid4().hex[:12]}", tmp_path_factory.mktemp("formats")
    spark.sql(f"CREATE DATABASE {name} LOCATION '{folder}/indexes'")
    try:
        for table, how in TABLES.items():
            spark.sql(ddl(name, table, how, folder))
            write(spark, f"{name}.{table}", table)
            hive_bitmap.build(
                spark, f"{name}.{table}", ["k", "s", "id"] if table == "parts" else ["k", "s"], compression="snappy"
            )
        yield name, folder
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE")


def ddl(database: str, table: str, how: str, folder: Path) -> str:
    place = "text" if table == "regex" else table  # which writes nothing
    return f"CREATE EXTERNAL TABLE {database}.{table} {how} LOCATION 'file:{folder}/{place}'"


def write(spark: SparkSession, full_name: str, table: str) -> None:
    if table == "regex":
        return
    settings = COMPRESSION.get(table, {})
    for key, value in {**settings, "hive.exec.compress.output": str(bool(settings)).lower()}.items():
        spark.conf.set(key, value)
    rows = spark.sql(SOURCE).coalesce(1)
    for number in range(FILES):
        half = rows.where(f"id DIV {ROWS // FILES} = {number}")
        half.createOrReplaceTempView("half")
        part = f"PARTITION (p={number})" if table == "parts" else ""
        spark.sql(f"INSERT INTO {full_name} {part} SELECT * FROM half")
    for key in (*settings, "hive.exec.compress.output"):
        spark.conf.unset(key)


@contextlib.contextmanager
def known_to(
    running: HiveServer, tables: Sequence[str], spark: SparkSession, made: tuple[str, Path]
) -> Iterator[Server]:
    """A connection to a server, which knows these tables and their indexes meanwhile."""
    name, folder = made
    with contextlib.closing(running.connect()) as connection:
        asked = Server(connection, "the server")
        asked.all(f"CREATE DATABASE {name}")
        try:
            for table in tables:
                asked.all(ddl(name, table, TABLES[table], folder))
                if table == "parts":
                    asked.all(f"ALTER TABLE {name}.parts ADD PARTITION (p=0) PARTITION (p=1)")
                for index in hive_bitmap.show(spark, f"{name}.{table}"):
                    register(asked, index.definition.root)
            yield asked
        finally:
            asked.all(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="module")
def of_hive2(hive2: HiveServer, spark: SparkSession, database: tuple[str, Path]) -> Iterator[Server]:
    with known_to(hive2, SERVERS["hive2"], spark, database) as asked:
        yield asked


@pytest.fixture(scope="module")
def of_hive4(hive4: HiveServer, spark: SparkSession, database: tuple[str, Path]) -> Iterator[Server]:
    with known_to(hive4, SERVERS["hive4"], spark, database) as asked:
        yield asked


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The connection to the server of that name: one for all tests, which a fixture with parameters would not be."""
    asked: Server = request.getfixturevalue(f"of_{request.param}")
    return asked


@pytest.mark.parametrize(
    ("server", "table"), [of(name, table) for name in SERVERS for table in SERVERS[name]], indirect=["server"]
)
def test_counts_are_those_of_a_full_scan(server: Server, database: tuple[str, Path], table: str) -> None:
    name = f"{database[0]}.{table}"
    sums = ", ".join(f"sum(IF({predicate}, 1, 0))" for predicate in predicates(table))
    [expected] = server.all(f"SELECT {sums} FROM {name}")
    assert [count(server, name, predicate) for predicate in predicates(table)] == list(expected)
    assert count(server, name, None) == ROWS
    assert {(each.fresh, each.rows, each.problem) for each in show(server, name)} == {(FILES, ROWS, "")}


@pytest.mark.parametrize(("server", "table"), [of("hive2", table) for table in SERVERS["hive2"]], indirect=["server"])
def test_hive_2_loses_no_row(
    hive2: HiveServer, server: Server, database: tuple[str, Path], tmp_path: Path, table: str
) -> None:
    """At splits as small as was said, or that are kept from being smaller; nor are all of them read."""
    name, out = f"{database[0]}.{table}", tmp_path / "result"
    readers = [Reader(hive2, size) for size in (MIN_SPLIT, 1000)]
    run(readers[1].connection, f"SET mapreduce.input.fileinputformat.split.minsize={MIN_SPLIT + 7}")
    for number, predicate in enumerate(predicates(table)[:3]):
        query = f"SELECT id, k, s FROM {name} WHERE {predicate}"
        with contextlib.closing(hive2.connect()) as plain:
            expected = Counter(run(plain, query))
        write_offsets(server, name, predicate, str(out), min_split=MIN_SPLIT)
        found = [reader.rows(query, out) for reader in readers[: 2 - number % 2]]
        assert expected and all(rows == expected for rows, _ in found), predicate
        if predicate == "k = 11" and table != "gzip":  # it lies in one of four blocks
            assert found[0][1] < FILES * FILE_BYTES / MIN_SPLIT / 2


@pytest.mark.parametrize("server", [of(name) for name in SERVERS], indirect=True)
def test_what_cannot_be_told_is_refused(
    server: Server, database: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = f"{database[0]}.text", str(tmp_path / "result")
    with pytest.raises(Unsupported, match=r"where the lines or sync marks of .* are: pass min_split=N"):
        write_offsets(server, name, "k = 11", out)
    write_offsets(server, f"{database[0]}.gzip", "k = 11", out)
    assert cli.main(["offsets", name, "k = 11", out, "--min-split", "5"]) == 2
    assert "--min-split needs --hiveserver2 and OUT" in " ".join(capsys.readouterr().err.split())
    server.all("SET hive.lazysimple.extended_boolean_literal=true")
    try:
        with pytest.raises(Unsupported, match=r"read differently from how it was indexed: hive.lazysimple.* is true"):
            count(server, name, None)
    finally:
        server.all("SET hive.lazysimple.extended_boolean_literal=false")
    server.all("SET mapreduce.input.fileinputformat.input.dir.recursive=true")
    codecs = "org.apache.hadoop.io.compress.GzipCodec, org.apache.hadoop.io.compress.DefaultCodec"
    server.all(f"SET io.compression.codecs={codecs}")
    assert count(server, name, None) == ROWS
    server.all(f"ALTER TABLE {name} SET SERDEPROPERTIES ('field.delim'='#')")
    try:
        with pytest.raises(Unsupported, match=r"the table's columns, or how they are read, changed since"):
            count(server, name, "k = 11")
    finally:
        server.all(f"ALTER TABLE {name} SET SERDEPROPERTIES ('field.delim'='|')")
    assert count(server, name, None) == ROWS
    parts = f"{database[0]}.parts"
    server.all(f"USE {database[0]}")  # Hive 2 looks for the partition there
    server.all("ALTER TABLE parts PARTITION (p=0) SET SERDEPROPERTIES ('field.delim'='#')")
    server.all("USE default")
    with pytest.raises(Unsupported, match=r"partition \('0',\) of table .* has other read properties"):
        count(server, parts, "k = 11")
    assert count(server, parts, "p = 1 AND id >= 0") == ROWS // FILES
