"""Tables of Hive's row formats: through an index or not, the answer is Spark's, and no split with a match is lost.

The oracle is a full scan; for offsets, the genuine input formats that Spark reads these tables with, at splits so small
that a block reaches over many of them.
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import metastore
from tests.asking import require_alike_always
from tests.contract import contract
from tests.servers import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

COLUMNS = {
    "n": "cast(id % 13 AS int)",
    "s": "CASE WHEN id % 11 = 0 THEN NULL WHEN id % 7 = 0 THEN '' ELSE concat('é,|\\\\', id % 5, '\t\"') END",
    "d": "cast(id % 9 AS decimal(7,2)) / 4",
    "x": "cast(id % 6 AS double) / 3 - 1",
    "day": "date_add(date'1960-02-01', cast(id * 37 % 30000 AS int))",
    "flag": "nullif(id % 4, 0) > 2",
    "at": "timestamp_seconds(id * 100003 % 100000000)",
    "id": "id",
}
INDEXED = ["n", "s", ["d", "x", "flag"], ["day", "at", "id"]]
PREDICATES = [
    "n = 3",
    "n = 3 AND s IS NULL OR flag",
    "day < '1961-01-01' AND d >= 1",
    "x = -1 AND at > timestamp'1970-06-01'",
]
TABLES = {
    "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\\\' STORED AS TEXTFILE",
    "avro": "STORED AS AVRO",
    "rcfile": "STORED AS RCFILE",
    "rcfile of text": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.columnar.ColumnarSerDe' STORED AS RCFILE",
    "sequencefile": "STORED AS SEQUENCEFILE",
    "sequencefile by block": "STORED AS SEQUENCEFILE",
}
COMPRESSED = ("sequencefile by block", "rcfile of text")
COMPRESSION = {"hive__exec__compress__output": "true", "mapreduce__output__fileoutputformat__compress__type": "BLOCK"}
COARSE = ("rcfile", *COMPRESSED)  # their files are one unit each, as small as they are here


@contextmanager
def hadoop(spark: SparkSession, **values: object) -> Iterator[None]:
    """Settings of Hadoop in this session, with `__` for a dot in the name."""
    names = {name.replace("__", "."): str(value) for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def small_splits(spark: SparkSession, size: int) -> AbstractContextManager[None]:
    """Splits of so many bytes, which Hadoop takes from the local file system."""
    return hadoop(spark, fs__local__block__size=size, fs__file__impl__disable__cache="true")


def right(spark: SparkSession, table: str, *predicates: str) -> None:
    """Require that rows and counts are Spark's."""
    for predicate in predicates:
        expected = spark.table(table).where(predicate)
        rows = sorted(map(repr, expected.collect()))
        for strategy in (None, "blocks") if "blocks" in hive_bitmap.plan(spark, table, predicate).costs else (None,):
            found = hive_bitmap.scan(spark, table, predicate, strategy=strategy)
            assert found.schema == expected.schema
            assert sorted(map(repr, found.collect())) == rows, predicate
        assert hive_bitmap.count(spark, table, predicate) == len(rows), predicate


def same(spark: SparkSession, *queries: str) -> None:
    """Require that queries are answered as Spark answers them."""
    for query in queries:
        require_alike_always(spark, query)


def verified(spark: SparkSession, table: str) -> None:
    for found in hive_bitmap.verify(spark, table):
        assert found.ok and not found.stale + found.unindexed, found


def offsets_of(spark: SparkSession, table: str, predicate: str, path: Path) -> dict[str, list[int]]:
    hive_bitmap.write_offsets(spark, table, predicate, str(path), utf8=True)
    lines = [line.split("\x01") for line in path.read_text().splitlines()]
    return {name: [int(number) for number in numbers.split("\x02")] for name, numbers in lines}


def lost(spark: SparkSession, table: str, predicate: str, offsets: dict[str, list[int]]) -> tuple[list[object], int]:
    """The splits with matching rows that Hive would not read through these offsets; how many it would not, of all."""
    split = "input_file_name() AS f, input_file_block_start() AS b, input_file_block_length() AS l"
    rows = f"SELECT {split}, cast({predicate} AS int) AS m FROM {table}"
    every = spark.sql(f"SELECT f, b, l, sum(m) FROM ({rows}) GROUP BY f, b, l").collect()
    unread = [one for one in every if not any(one[1] <= o <= one[1] + one[2] for o in offsets.get(one[0], []))]
    return [one for one in unread if one[3]], len(unread)


def files_of(spark: SparkSession, table: str) -> list[Path]:
    return sorted(Path(local_path(metastore.describe(spark, table).location)).rglob("part-*"))


@pytest.mark.parametrize("kind", contract(TABLES, "text"))
def test_formats(spark: SparkSession, database: str, tmp_path: Path, kind: str) -> None:
    typed = spark.range(1).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items())).schema
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in typed)
    parted = kind == "text"
    spark.sql(f"CREATE TABLE t ({ddl}) {'PARTITIONED BY (p string)' if parted else ''} {TABLES[kind]}")
    rows = ", ".join([*COLUMNS.values(), *(["concat('p q%', id % 2)"] if parted else [])])
    with hadoop(spark, **(COMPRESSION if kind in COMPRESSED else {})):
        spark.sql(f"INSERT INTO t SELECT /*+ REPARTITION(2) */ {rows} FROM range(6000)")
    with small_splits(spark, 50_000):
        reports = hive_bitmap.build(spark, "t", INDEXED)
    assert {(report.base_rows, report.unindexed) for report in reports} == {(6000, ())}
    right(spark, "t", *PREDICATES)
    same(spark, "SELECT n, count(*), max(day) FROM t WHERE flag GROUP BY n", "SELECT count(DISTINCT s) FROM t")
    assert hive_bitmap.plan(spark, "t", "n = 3", count=True).strategy == "index only"
    verified(spark, "t")
    left_out = 0
    for predicate, size in (("id < 40", 20_000), ("n = 3 AND s IS NULL", 5_000 if parted else 70_000)):
        offsets = offsets_of(spark, "t", predicate, tmp_path / "offsets")
        with small_splits(spark, size):
            missed, unread = lost(spark, "t", predicate, offsets)
            right(spark, "t", predicate)
        assert missed == [], predicate
        left_out += unread
    assert left_out or kind in COARSE


ODD_LINES = b"""1,a\\,b,2.5
 7 ,NA,1
+7,,1.239
1.9,x\\\\,\r
99999999999,tail\\,1e1
x,\\NA,-0.004
NA
,,,more,fields

true,"q",12345678\r3,c,0.5
\xc3\xa9,\xc3\xa9 ,5
-2147483648,last,7"""


def test_odd_text(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """What a SerDe makes of such lines is Spark's to say: numbers that are none, missing fields, escapes, ends."""
    folder = tmp_path / "it's a%20b é"
    folder.mkdir()
    (folder / "plain").write_bytes(ODD_LINES)
    (folder / "zipped.gz").write_bytes(gzip.compress(ODD_LINES) + gzip.compress(b"\n5,five,5"))
    (folder / "deflated.deflate").write_bytes(zlib.compress(b"1,one,1\n\n"))
    (folder / "other.bz2").write_bytes(bz2.compress(b"6,six,6\n"))
    (folder / "_hidden").write_bytes(b"8,eight,8\n")
    (folder / "empty").write_bytes(b"")
    serde = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' NULL DEFINED AS 'NA'"
    spark.sql(f'CREATE EXTERNAL TABLE t (n int, s string, d decimal(6,2)) {serde} LOCATION "{folder}"')
    [report, _] = hive_bitmap.build(spark, "t", ["n", ["s", "d"]])
    assert [(name.rpartition("/")[2], "use gzip or deflate" in why) for name, why in report.unindexed] == [
        ("other.bz2", True)
    ]
    assert report.base_rows == 2 * len(ODD_LINES.splitlines()) + 3
    predicates = ("n IS NULL", "n = 7 OR s = 'a,b'", "d > 1.2 AND NOT n < 0", "s = ''", "s IS NULL", "n = 6")
    right(spark, "t", *predicates)
    (folder / "other.bz2").unlink()
    same(spark, "SELECT n, count(*) FROM t GROUP BY n", "SELECT s, d, count(*) FROM t GROUP BY s, d")
    assert hive_bitmap.plan(spark, "t", "n = 1", count=True).strategy == "index only"
    verified(spark, "t")
    offsets = offsets_of(spark, "t", "n = 1 OR s = 'five'", tmp_path / "offsets")
    assert offsets == {
        f"file:{folder}/plain": [0, ODD_LINES.index(b"1.9")],
        f"file:{folder}/zipped.gz": [0],
        f"file:{folder}/deflated.deflate": [0],
    }


OTHER_SERDES = {
    "org.apache.hive.hcatalog.data.JsonSerDe": (
        '{"N": 1, "s": "é\\n"}',
        '{"s": null, "n": -7, "more": [1, {"a": 2}]}',
        '{"s": "1", "n": null}',
    ),
    "org.apache.hadoop.hive.serde2.OpenCSVSerde": ('1,"é, ""x"""', "-7", ""),
    "org.apache.hadoop.hive.serde2.RegexSerDe": ("1 é", "no match", "x yy"),
}


@pytest.mark.hive
@pytest.mark.parametrize("serde", OTHER_SERDES)
def test_other_serdes(spark: SparkSession, database: str, tmp_path: Path, serde: str) -> None:
    (tmp_path / "f").write_text("\n".join(OTHER_SERDES[serde] * 9) + "\n")
    if "Json" in serde:
        try:
            [jar] = jars.resolve("json", ["org.apache.hive.hcatalog:hive-hcatalog-core:2.3.10"]).iterdir()
        except jars.Unavailable as e:
            pytest.skip(str(e))
        spark.sql(f"ADD JAR '{jar}'")
    types = "n int, s string" if "Json" in serde else "n string, s string"
    how = f"ROW FORMAT SERDE '{serde}'" + (
        " WITH SERDEPROPERTIES ('input.regex'='(.) (.+)')" if "Regex" in serde else ""
    )
    spark.sql(f"CREATE EXTERNAL TABLE t ({types}) {how} LOCATION '{tmp_path}'")
    [report, _] = hive_bitmap.build(spark, "t", ["n", "s"])
    assert (report.base_rows, report.unindexed) == (27, ())
    right(spark, "t", "n = '1'", "n IS NULL", "s IS NULL OR n = '-7'")
    same(spark, "SELECT n, s, count(*) FROM t GROUP BY n, s")
    verified(spark, "t")


def test_changes(spark: SparkSession, database: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "a").write_text("1|x,1\n2|y,2\n")
    (folder / "b").write_text("3|z,3\n")
    serde = "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE"
    spark.sql(f"CREATE EXTERNAL TABLE t (n string, s string) {serde} LOCATION '{folder}'")
    hive_bitmap.build(spark, "t", ["n"])

    def counted(*values: str) -> None:
        for value in values:
            right(spark, "t", f"n = '{value}'")

    (folder / "a").write_text("1|x,1\n3|y,2\n")
    (folder / "c").write_text("3\n")
    counted("1", "2", "3")
    [report] = hive_bitmap.rebuild(spark, "t")
    assert (report.files_read, report.base_files, report.unindexed) == (2, 3, ())
    counted("1", "2", "3")
    verified(spark, "t")
    frame = hive_bitmap.scan(spark, "t", "n = '1'", strategy="blocks")
    frame._jdf.queryExecution().executedPlan()
    (folder / "b").write_text("1|z,3\n")
    assert sorted(map(tuple, frame.collect())) == [("1", "x,1"), ("1", "z,3")]  # as Spark lists the files then
    hive_bitmap.rebuild(spark, "t")
    spark.sql("ALTER TABLE t SET SERDEPROPERTIES ('field.delim'=',', 'serialization.format'=',')")
    counted("1", "1|x", "3|y")
    [found] = hive_bitmap.verify(spark, "t")
    assert (found.ok, found.files, found.stale) == (True, 0, 3)
    assert (hive_bitmap.show(spark, "t")[0].fresh, hive_bitmap.show(spark, "t")[0].stale) == (0, 3)
    [report] = hive_bitmap.rebuild(spark, "t")
    assert report.files_read == 3
    counted("1", "1|x", "3|y")
    assert hive_bitmap.count(spark, "t", "n = '1|x'", strategy="index only") == 1
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('serialization.null.format'='3')")
    counted("3", "1|x")
    [estimate] = hive_bitmap.estimate(spark, "t", ["s"])
    assert (estimate.blocks_sampled, estimate.blocks_total) == (3, 3)
    (folder / "sub").mkdir()
    with pytest.raises(Unsupported, match="contains the folder 'sub'"):
        hive_bitmap.rebuild(spark, "t")
    assert "contains the folder" in hive_bitmap.plan(spark, "t", "n = '1'", count=True).reason


@pytest.mark.contract
def test_splits_without_a_match_are_not_read(spark: SparkSession, database: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{number // 1000},{number:090}\n" for number in range(120_000)))
    spark.sql(
        f"CREATE EXTERNAL TABLE t (n int, s string) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' LOCATION '{tmp_path}'"
    )
    hive_bitmap.build(spark, "t", ["n"])
    with small_splits(spark, 1 << 20):
        for predicate, most in (("n = 70", 6), ("n IN (0, 119)", 10), ("n = 500", 0)):
            frame = hive_bitmap.scan(spark, "t", predicate, ["s"], strategy="blocks")
            assert frame.rdd.getNumPartitions() <= most + 1 < spark.table("t").rdd.getNumPartitions() + 1
            assert frame.collect() == spark.table("t").where(predicate).select("s").collect()
        assert hive_bitmap.plan(spark, "t", "n = 70").costs.keys() >= {"blocks", "full scan"}
        query = "SELECT count(*), max(s) FROM t WHERE n = 70 AND s > '0'"
        spark.conf.set("hive_bitmap.strategy", "blocks")
        try:
            same(spark, query)
        finally:
            spark.conf.unset("hive_bitmap.strategy")


@pytest.mark.parametrize("again", [False, True])
def test_partitions_that_share_a_folder(spark: SparkSession, database: str, again: bool) -> None:
    """A split of a file is read if any of its partitions wants it, whether the index knows both or one."""
    spark.sql("CREATE TABLE x (k int, s string) PARTITIONED BY (p string) STORED AS TEXTFILE")
    spark.sql("INSERT INTO x PARTITION (p='a') SELECT id % 5, 'x' FROM range(0, 20, 1, 1)")
    hive_bitmap.build(spark, "x", ["k"])
    [shared] = metastore.partitions(spark, metastore.describe(spark, "x"))
    spark.sql(f"ALTER TABLE x ADD PARTITION (p='b') LOCATION '{shared.location}'")
    if again:
        hive_bitmap.rebuild(spark, "x")
    for predicate in ("k = 99 OR p = 'b'", "k = 99 AND p = 'a' OR k = 3 AND p = 'b'", "k = 3 AND p = 'a' OR k = 99"):
        found = hive_bitmap.scan(spark, "x", predicate, strategy="blocks")
        assert sorted(found.collect()) == sorted(spark.table("x").where(predicate).collect()), predicate


REFUSED = {
    "STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count'='1')": "Hive skips lines that Spark reads as rows",
    "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazybinary.LazyBinarySerDe'": "text read by .*BinarySerDe, which",
    "USING csv": "is USING csv; with USING, only parquet and orc are supported",
}


@pytest.mark.parametrize("how", contract(REFUSED, "USING csv"))
def test_what_hive_and_spark_may_see_apart_is_refused(spark: SparkSession, database: str, how: str) -> None:
    spark.sql(f"CREATE TABLE t (n int) {how}")
    with pytest.raises(Unsupported, match=REFUSED[how]):
        hive_bitmap.build(spark, "t", ["n"])


def test_partitions_and_sessions_that_read_otherwise(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (n int) PARTITIONED BY (p int) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    hive_bitmap.build(spark, "t", ["n"])
    with hadoop(spark, textinputformat__record__delimiter="2"):
        right(spark, "t", "n = 1")
        assert "textinputformat.record.delimiter is 2" in hive_bitmap.plan(spark, "t", "n = 1", count=True).reason
        with pytest.raises(Unsupported, match=r"through this session, but textinputformat.record.delimiter is 2"):
            hive_bitmap.rebuild(spark, "t", full=True)
    spark.sql("CACHE TABLE t")
    with pytest.raises(Unsupported, match="the table is cached"):
        hive_bitmap.rebuild(spark, "t", full=True)
    spark.sql("UNCACHE TABLE t")
    spark.sql("ALTER TABLE t PARTITION (p = 2) SET SERDEPROPERTIES ('field.delim'='2')")
    right(spark, "t", "n = 1", "n IS NULL")
    with pytest.raises(Unsupported, match=r"partition \('2',\) of table .* has other read properties"):
        hive_bitmap.rebuild(spark, "t")
