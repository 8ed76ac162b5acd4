"""Odd tables, names, values and settings: through an index or not, the answer is `spark.table(t).where(p)`."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import lit
from pyspark.sql.types import LongType, StructField, StructType

import hive_bitmap
from hive_bitmap.core.planning.strategy import STRATEGIES
from hive_bitmap.errors import (
    HiveBitmapError,
    InvalidPredicate,
    InvalidProperty,
    InvalidStatement,
    NotFound,
    Unsupported,
)
from hive_bitmap.spark.metastore import jvm_reader
from tests.asking import (
    FORCED,
    OFF,
    by_index,
    by_spark,
    difference,
    in_turn,
    require_alike,
    require_alike_always,
    under,
    used,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(4)

DIRECT = ("rows", "blocks")
SCANS = (*DIRECT, "files")


def agree(spark: SparkSession, table: str, *predicates: str | None, columns: Sequence[str] | None = None) -> set[str]:
    """Require that every strategy answers as Spark does; returns those that could answer what they were asked.

    The first predicate is asked in every way, each other one in some, in turn.
    """
    able, asked = set(STRATEGIES), [_where(spark, table, predicate, columns) for predicate in predicates]
    for number, (predicate, plain) in enumerate(zip(predicates, asked, strict=True)):
        assert hive_bitmap.scan(spark, table, predicate, columns).schema == plain.schema, predicate
        for strategy in in_turn(SCANS, str(predicate)) if number else SCANS:
            try:
                hive_bitmap.plan(spark, table, predicate, columns, strategy=strategy)
            except Unsupported:
                able.discard(strategy)
    for predicate, expected in zip(predicates, _rows_of_each(spark, asked), strict=True):
        if jvm_reader.available(spark):  # elsewhere the rule is not
            for forced in in_turn(FORCED, str(predicate)):
                ask = partial(_where, table=table, predicate=predicate, columns=columns)
                assert Counter(by_index(spark, ask, forced).rows) == expected, f"{forced}: {predicate}"
        try:
            counted = hive_bitmap.count(spark, table, predicate, strategy="index only")
            assert counted == expected.total(), f"count {predicate}"
        except Unsupported:
            able.discard("index only")
    return able


def _rows_of_each(spark: SparkSession, frames: Sequence[DataFrame]) -> list[Counter[str]]:
    """The rows of each frame as text: plain Spark reads all of them in one job."""
    numbered = [frame.select(lit(number), "*") for number, frame in enumerate(frames)]
    found: list[Counter[str]] = [Counter() for _ in frames]
    with under(spark, OFF):
        for number, *row in reduce(type(numbered[0]).union, numbered).collect():
            found[number][repr(tuple(row))] += 1
    return found


def _where(spark: SparkSession, table: str, predicate: str | None, columns: Sequence[str] | None) -> DataFrame:
    frame = spark.table(table) if predicate is None else spark.table(table).where(predicate)
    return frame if columns is None else frame.select(*columns)


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """The settings `spark.sql.<name>`, with `_` for a dot in the name."""
    names = {"spark.sql." + name.replace("_", "."): value for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


@pytest.mark.parametrize("how", ["USING parquet", "STORED AS ORC"])
def test_empty_tables_and_files(spark: SparkSession, database: str, how: str) -> None:
    spark.sql(f"CREATE TABLE none (k int) {how}")
    hive_bitmap.build(spark, "none", ["k"])
    agree(spark, "none", "k = 1", "k IS NULL", None)
    spark.sql("INSERT INTO none SELECT 1 WHERE 1 = 0")
    agree(spark, "none", "k = 1")
    spark.sql("INSERT INTO none VALUES (1)")
    agree(spark, "none", "k = 1", "k = 2", None)
    hive_bitmap.rebuild(spark, "none")
    agree(spark, "none", "k = 1", "k = 2", None)


def test_partitions_without_files_and_with_odd_values(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int, p string) USING parquet PARTITIONED BY (p)")
    hive_bitmap.build(spark, "t", ["k"])
    agree(spark, "t", "k = 1", "p = 'x'")
    spark.sql("ALTER TABLE t ADD PARTITION (p = 'x')")
    hive_bitmap.rebuild(spark, "t")
    agree(spark, "t", "k = 1", "p = 'x'")
    spark.sql("INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, ''), (4, 'a b%=/é'), (5, '*?[x]{y}'), (6, 'X')")
    agree(spark, "t", "k = 1")
    hive_bitmap.rebuild(spark, "t")
    agree(spark, "t", "k = 1", "p IS NULL", "p = '' OR k = 3", "p = 'a b%=/é'", "k = 5", "p LIKE 'a%' AND k = 4")
    agree(spark, "t", "p <=> NULL", "k = 3 OR p = 'x'", "upper(p) = 'X' AND k > 0", "p = 'X' AND k = 6", None)


def test_three_levels_of_partitions_of_many_types(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE h (k int) PARTITIONED BY (i int, s string, d date) STORED AS ORC")
    rows = "(1, 1, 'x', DATE'2020-01-01'), (2, 2, 'y z', DATE'2021-01-01'), (3, NULL, NULL, NULL)"
    spark.sql(f"INSERT INTO h VALUES {rows}")
    spark.sql("CREATE TABLE b (k int, b boolean, t timestamp, m decimal(5,2)) USING parquet PARTITIONED BY (b, t, m)")
    spark.sql("INSERT INTO b VALUES (1, true, TIMESTAMP'2020-01-01 00:00:00', 1.5), (2, false, NULL, 2.5)")
    for table in "hb":
        hive_bitmap.build(spark, table, ["k"])
    agree(spark, "h", "i = 1", "k > 1 AND i = 2", "d >= DATE'2020-06-01'", "s IS NULL AND k = 3", "i = '2' AND k = 2")
    agree(spark, "h", "year(d) = 2020 AND k = 1", "i <=> NULL OR k = 1", "NOT (i = 1 AND k = 1)")
    agree(spark, "b", "b", "NOT b AND k = 2", "t > TIMESTAMP'2019-02-01 00:00:00' AND k = 1", "m = 1.5 AND k = 1")


@pytest.mark.parametrize(
    ("format", "name"),
    [
        *(("parquet", name) for name in ("a b", "100%25", "é日本", "x*[y]?{z}", "p=1", "it's", "#;&+")),
        ("orc", "a b%20é"),
        ("orc", "x*[y]?{z}"),
    ],
)
def test_odd_locations(spark: SparkSession, database: str, tmp_path: Path, format: str, name: str) -> None:
    root = tmp_path / re.sub(r"[][*?{}]", "", name)  # Spark takes a location for a pattern, but not a file's name
    folder = root / "t"
    folder.mkdir(parents=True)
    rows = pa.table({"k": pa.array([1, 2, None] * 50, pa.int32()), "id": list(range(150))})
    for number in range(2):
        if format == "parquet":
            pq.write_table(rows, folder / f"{number} {name}.parquet", row_group_size=20)
        else:
            orc.write_table(rows, str(folder / f"{number} {name}.orc"))
    location = str(folder).replace("'", "\\'")
    spark.sql(f"CREATE TABLE t (k int, id bigint) USING {format} LOCATION '{location}'")
    hive_bitmap.build(spark, "t", ["k"], location=str(root / "index"))
    able = agree(spark, "t", "k = 1", "k IS NULL", "k = 9")
    assert "files" in able and (able & set(DIRECT))


def test_odd_column_names(spark: SparkSession, database: str) -> None:
    spark.sql(
        "CREATE TABLE t (`a b` int, `c.d` string, `É` int, `x``y` int, `UP` int, `select` int, s struct<a:int>,"
        " `s.a` int) USING parquet"
    )
    spark.sql("INSERT INTO t VALUES (1, 'x', 2, 3, 4, 5, struct(1), 7), (2, 'y', 3, 4, 5, 6, NULL, 8)")
    hive_bitmap.build(spark, "t", ["a b", "c.d", "É", "x`y", "UP", "select", "s.a"])
    agree(spark, "t", "`a b` = 1", "`c.d` = 'x'", "`É` = 2", "`é` = 2", "`x``y` = 3", "up = 4", "`select` = 5")
    agree(spark, "t", "s.a = 1", "`s.a` = 7", "t.s.a = 1", "`c.d` LIKE 'x%' AND `a b` < 5", "t.`s.a` = 8")
    found = hive_bitmap.scan(spark, "t", "`a b` = 1", ["c.d", "UP"], strategy="files")
    assert [tuple(row) for row in found.collect()] == [("x", 4)]


def test_columns_of_a_scan(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int, id int, m map<string,int>, a array<struct<x:int>>) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 10, map('q', 1), array(struct(1))), (2, 20, NULL, NULL)")
    hive_bitmap.build(spark, "t", ["k"])
    for columns in (["id"], ["id", "id"], ["ID", "K"], ["id", "k"], []):
        able = agree(spark, "t", "k = 1", "k = 3", columns=columns)
        assert {"rows", "files"} <= able, columns
    agree(spark, "t", "k = 1", "k = 1 AND m['q'] = 1", "k = 1 AND a[0].x = 1", columns=["m", "a"])
    for name in ("nope", "k.x", "*"):
        with pytest.raises((NotFound, InvalidPredicate), match=r"nope|k.x|\*"):
            hive_bitmap.scan(spark, "t", "k = 1", [name])
    for name in ("m", "a"):
        with pytest.raises(Unsupported, match="keys are"):
            hive_bitmap.build(spark, "t", [name])


def test_names_in_predicates(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE q (k int, id int) USING parquet")
    spark.sql("INSERT INTO q VALUES (1, 1), (2, 2), (3, 3)")
    hive_bitmap.build(spark, "q", ["k"])
    spark.sql("INSERT INTO q VALUES (1, 4), (2, 5), (3, 6)")
    agree(spark, "q", "q.k = 1", f"{database}.q.k = 1", f"spark_catalog.{database}.q.k = 1", "Q.K = 1", "k = 1 -- k")
    agree(spark, "q", "k = 1 AND _metadata.file_size > 0", "k = 1 AND input_file_name() LIKE '%part%'")
    agree(spark, "q", "k = 1 AND id IN (SELECT 4)", "k IN (SELECT max(k) FROM q)", "k = 1 /* k = 2 */", "(k) IN (1)")
    agree(spark, "q", "k = 1 AND EXISTS (SELECT 1 FROM q r WHERE r.k = q.k AND r.id = 4)", "k = 1 OR rand(1) < 2")
    for predicate in ("", " ", "k", "k = ", "k = 1 ORDER BY id", "k = 1;", "nope = 1", "sum(k) = 1"):
        for answer in (hive_bitmap.scan, hive_bitmap.count, hive_bitmap.plan):
            with pytest.raises(InvalidPredicate):
                answer(spark, "q", predicate)


def test_what_is_no_table_of_files_is_scanned_and_not_indexed(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int) USING parquet")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    spark.sql("CREATE TEMP VIEW tv AS SELECT * FROM t")
    spark.sql("CREATE TABLE csv (k int) USING csv")
    spark.sql("CREATE TABLE txt (k int) STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count'='1')")
    spark.sql("INSERT INTO csv VALUES (1)")
    spark.sql("INSERT INTO txt VALUES (1)")
    acid = "CLUSTERED BY (k) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    spark.sql(f"CREATE TABLE acid (k int) {acid}")
    try:
        for table in ("v", "tv", "csv", "txt", "acid"):
            with pytest.raises(Unsupported):
                hive_bitmap.build(spark, table, ["k"])
            assert agree(spark, table, "k = 1") >= {"full scan"}
            assert hive_bitmap.plan(spark, table, "k = 1").strategy == "full scan"
        hive_bitmap.build(spark, "t", ["k"])
        spark.sql("CREATE TEMP VIEW t AS SELECT 7 AS k")
        agree(spark, "t", "k = 7", "k = 1")
        agree(spark, f"{database}.t", "k = 7", "k = 1")
    finally:
        for view in ("tv", "t"):
            spark.catalog.dropTempView(view)
    for name in ("nope", "nowhere.nope"):
        for ask in (hive_bitmap.scan, hive_bitmap.count, hive_bitmap.plan):
            with pytest.raises(HiveBitmapError, match=r"nope|nowhere"):
                ask(spark, name, "k = 1")
        with pytest.raises(NotFound, match=r"nope|nowhere"):
            hive_bitmap.build(spark, name, ["k"])


def test_default_values_of_columns_that_old_files_lack(spark: SparkSession, database: str) -> None:
    for format in ("parquet", "orc"):
        spark.sql(f"CREATE TABLE d_{format} (id int) USING {format}")
        spark.sql(f"INSERT INTO d_{format} VALUES (1), (2)")
        spark.sql(f"ALTER TABLE d_{format} ADD COLUMNS (c int DEFAULT 5)")
        spark.sql(f"INSERT INTO d_{format} VALUES (3, 7), (4, 5)")
        with pytest.raises(Unsupported, match="default"):
            hive_bitmap.build(spark, f"d_{format}", ["c"])
        hive_bitmap.build(spark, f"d_{format}", ["id"])
        able = agree(spark, f"d_{format}", "id < 3", "id = 1 AND c = 5", "id > 0 AND c IS NULL")
        assert {"files", "blocks"} <= able and "rows" not in able


CHAR_SETTINGS: list[Mapping[str, str]] = [
    {},
    {"readSideCharPadding": "false"},
    {"legacy_charVarcharAsString": "true"},
    {"legacy_noCharPaddingForPredicate": "true"},
]


@pytest.mark.parametrize(("format", "values"), [("orc", {}), *(("parquet", each) for each in CHAR_SETTINGS)], ids=str)
def test_chars(spark: SparkSession, database: str, tmp_path: Path, format: str, values: Mapping[str, str]) -> None:
    rows = pa.table({"c": ["a", "a   ", "abcdef", None], "v": ["a", "ab ", None, "é"], "id": [1, 2, 3, 4]})
    folder = tmp_path / "t"
    folder.mkdir()
    if format == "parquet":
        pq.write_table(rows, folder / "a.parquet", row_group_size=2)
    else:
        orc.write_table(rows, str(folder / "a.orc"))
    spark.sql(f"CREATE TABLE t (c char(4), v varchar(5), id bigint) USING {format} LOCATION '{folder}'")
    hive_bitmap.build(spark, "t", ["c", "v"])
    with settings(spark, **values):
        agree(spark, "t", "c = 'a'", "c = 'a   '", "length(c) = 1", "length(c) = 4", "c = 'abcdef'", "c > 'abc'")
        agree(spark, "t", "c LIKE 'a'", "c IN ('a', 'zz')", "c <=> 'a'", "v = 'ab'", "v = 'ab '", "c IS NULL", None)


def test_time_zones_of_sessions(spark: SparkSession, database: str, tmp_path: Path) -> None:
    moments = [datetime(2020, 1, 1, 5, tzinfo=timezone.utc), datetime(2020, 7, 1, 12, tzinfo=timezone.utc), None]
    (tmp_path / "t").mkdir()
    rows = pa.table({"ts": pa.array(moments, pa.timestamp("us", tz="UTC")), "id": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "t" / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(rows, tmp_path / "t" / "micros.parquet")
    spark.sql(f"CREATE TABLE t (ts timestamp, id bigint) USING parquet LOCATION '{tmp_path}/t'")
    spark.sql("CREATE TABLE o (ts timestamp, id bigint) USING orc")
    spark.sql("INSERT INTO o SELECT * FROM t")
    predicates = ["ts = '2020-01-01 00:00:00'", "ts = TIMESTAMP'2020-07-01 12:00:00'", "hour(ts) = 0"]
    predicates += ["ts >= DATE'2020-01-01'", "CAST(ts AS STRING) LIKE '2020-07%'"]
    predicates += ["ts < current_timestamp()", "ts IS NULL", "ts = TIMESTAMP'2020-01-01T05:00:00Z'"]
    for table in "to":
        hive_bitmap.build(spark, table, ["ts"])
        for zone in ("America/New_York", "UTC", "Asia/Tokyo"):
            with settings(spark, session_timeZone=zone):
                agree(spark, table, *predicates)


def test_a_dialect_without_ansi(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int, s string) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, '1'), (2, 'x'), (0, NULL), (2147483647, '9')")
    hive_bitmap.build(spark, "t", ["k", "s"])
    with settings(spark, ansi_enabled="false"):
        agree(spark, "t", "10 / k = 5", "k = '1'", "k = 'x'", "k + 1 < 0", "CAST(k AS tinyint) = -1", "s = 1")
        agree(spark, "t", "k IN ('1', 'x')", "NOT s = 1", "k <> 0 AND 10 / k = 10")
    agree(spark, "t", "k <> 0 AND 10 / k = 10", "k = '1'", "try_divide(10, k) = 5")
    for predicate in ("10 / k = 5", "k = 'x'", "s + 1 = 2"):
        for strategy in ("rows", "files", "full scan", None):
            with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|CAST_INVALID"):
                hive_bitmap.scan(spark, "t", predicate, strategy=strategy).collect()


SETTINGS: list[Mapping[str, str]] = [
    {"caseSensitive": "true"},
    {"caseSensitive": "TRUE"},
    {"parser_escapedStringLiterals": "true"},
    {"parquet_enableVectorizedReader": "false"},
    {"hive_manageFilesourcePartitions": "false"},
    {"hive_convertMetastoreParquet": "false"},
    {"ansi_doubleQuotedIdentifiers": "true"},
    {"files_ignoreCorruptFiles": "true"},
    {"parquet_mergeSchema": "true"},
    {"parquet_fieldId_read_enabled": "true"},
]


@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_settings_of_sessions(spark: SparkSession, database: str, values: Mapping[str, str]) -> None:
    how = "STORED AS PARQUET" if "hive_convertMetastoreParquet" in values else "USING parquet"
    spark.sql(f"CREATE TABLE t (k int, S string) {how}")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'a\\\\b'), (NULL, '\"k\"')")
    hive_bitmap.build(spark, "t", ["k", "S"])
    spark.sql("INSERT INTO t VALUES (1, 'c')")
    with settings(spark, **values):
        spark.catalog.refreshTable("t")
        names = {field.lower(): field for field in spark.table("t").columns}
        agree(spark, "t", "k = 1", f"{names['s']} = 'a\\\\b'", f"{names['s']} LIKE 'a%'", "\"k\" = '1'", "k >= 1")


def test_field_ids_count_for_tables_that_have_them(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Delta's extension has all sessions read by field ids; then only a table whose columns have some is Spark's."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT int(id % 9) AS k, id FROM range(90)")
    ids = {"k": 2, "id": 1}
    fields = [StructField(name, LongType(), True, {"parquet.field.id": number}) for name, number in ids.items()]
    swapped = pa.schema([pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(3 - ids[name])}) for name in ids])
    spark.createDataFrame([], StructType(fields)).write.option("path", f"{tmp_path}/t").saveAsTable("u")
    pq.write_table(pa.table({"k": range(5), "id": range(100, 105)}, swapped), tmp_path / "t" / "part-0.parquet")
    hive_bitmap.build(spark, "u", ["k"])
    for value, first, way in (("false", 0, "rows"), ("true", 100, "full scan")):
        with settings(spark, parquet_fieldId_read_enabled=value):
            hive_bitmap.build(spark, "t", ["k"], name=f"under_{value}")
            spark.catalog.refreshTable("u")
            assert spark.table("u").agg({"k": "min"}).first() == (first,)
            for table, wanted in (("t", "rows"), ("u", way)):
                plan = hive_bitmap.plan(spark, table, "k = 3", strategy="rows")
                assert plan.strategy == wanted
                assert wanted == "rows" or re.search("columns of table .* have field ids", plan.reason)
                agree(spark, table, "k = 3", "k = 103", "k IN (1, 2)")


@pytest.mark.parametrize("escaped", ["false", "true"])
def test_quotes_and_backslashes_in_own_statements(
    spark: SparkSession, database: str, tmp_path: Path, escaped: str
) -> None:
    """Spark reads what the package sends as it is meant, whether or not it resolves escapes in literals."""
    odd, text = "it's a\\b", "it's a\\b\\"
    spark.sql("CREATE TABLE t (k int, id int) PARTITIONED BY (p string) STORED AS TEXTFILE")
    rows = spark.createDataFrame([(n, n, p) for n in range(20) for p in (odd, "x")], "k int, id int, p string")
    rows.coalesce(1).write.insertInto("t")
    build = partial(hive_bitmap.build, spark, "t", ["k"])
    with settings(spark, parser_escapedStringLiterals=escaped):
        build(name="one", comment=text, properties={text: text}, location=f"{tmp_path}/it's one")
        hive_bitmap.sql(spark, "CREATE INDEX two USING bitmap ON t (id) WHERE p = 'it''s a\\b'")
        hive_bitmap.rebuild(spark, "t", full=True)
        one, two = hive_bitmap.show(spark, "t")
        assert (one.definition.comment, dict(one.definition.properties)) == (text, {text: text})
        assert [partition.values for partition in two.partitions] == [(odd,)]
        assert (one.fresh, one.unindexed, len(one.partitions)) == (2, 0, 2)
        assert not [found.problems for found in hive_bitmap.verify(spark, "t") if found.problems]
        assert sorted(row.p for row in hive_bitmap.scan(spark, "t", "k = 3", strategy="blocks").collect()) == [odd, "x"]
        hive_bitmap.drop(spark, "t", "two")


def test_files_with_quotes_are_left_out(spark: SparkSession, database: str, tmp_path: Path) -> None:
    folder = f"{tmp_path}/it's here"
    spark.sql(f'CREATE TABLE t (k int, id bigint) USING parquet LOCATION "{folder}"')
    for first in (0, 5):
        spark.range(10).selectExpr(f"CAST(id % 5 + {first} AS int)", "id").coalesce(1).write.insertInto("t")
    hive_bitmap.build(spark, "t", ["k"])
    with settings(spark, parser_escapedStringLiterals="true", adaptive_enabled="false"):
        found = hive_bitmap.scan(spark, "t", "k = 3", strategy="files")
        assert sorted(row.id for row in found.collect()) == [3, 8]
        [told] = hive_bitmap.explain(found).relations
        assert (told.strategy, told.files_selected, told.files_total) == ("files", 1, 2)


def test_a_listing_that_the_session_remembers(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """A file that comes, or is replaced, behind the session's back and is indexed then: no strategy goes without it."""
    folder = tmp_path / "t"
    folder.mkdir()

    def write(name: str, count: int) -> None:
        rows = pa.table({"k": pa.array([1, 2] * count, pa.int32()), "id": list(range(2 * count))})
        pq.write_table(rows, folder / name)

    write("a.parquet", 5)
    spark.sql(f"CREATE TABLE t (k int, id bigint) USING parquet LOCATION '{folder}'")
    assert spark.table("t").where("k = 1").count() == 5
    write("b.parquet", 100)
    hive_bitmap.build(spark, "t", ["k"])
    for strategy in ("rows", "files", "full scan", None):
        assert hive_bitmap.scan(spark, "t", "k = 1", strategy=strategy).count() == 105, strategy
    write("b.parquet", 7)
    hive_bitmap.rebuild(spark, "t")
    for strategy in ("rows", "files", "full scan", None):
        assert hive_bitmap.scan(spark, "t", "k = 1", strategy=strategy).count() == 12, strategy


def test_a_table_made_anew_under_its_index(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Other columns of the same name, and columns in another order over files that name none."""
    (tmp_path / "t").mkdir()
    rows = pa.table({"_col0": pa.array([1, 2, 3], pa.int32()), "_col1": pa.array([3, 4, 5], pa.int32())})
    orc.write_table(rows, str(tmp_path / "t" / "a.orc"))
    for columns in ("a int, b int", "b int, a int", "a int", "a bigint, b string", "x int, a int, b int"):
        spark.sql("DROP TABLE IF EXISTS t")
        spark.sql(f"CREATE TABLE t ({columns}) USING orc LOCATION '{tmp_path}/t'")
        if columns == "a int, b int":
            hive_bitmap.build(spark, "t", ["a"])
        try:
            spark.table("t").collect()
        except Exception:  # noqa: BLE001 - what Spark cannot read is nobody's answer
            continue
        agree(spark, "t", "a = 3", "a = 1", "a IS NULL", None)


@pytest.mark.parametrize(("format", "strategy"), [("parquet", "rows"), ("orc", "blocks")])
def test_a_table_that_another_session_altered(spark: SparkSession, database: str, format: str, strategy: str) -> None:
    """A session goes on seeing a table as it was; of one that has another index since, it is made to look again."""
    other = spark.newSession()
    name = f"{database}.t"
    changes = {
        "as it was": [f"CREATE TABLE {name} (k int, id int) USING {format}", f"INSERT INTO {name} VALUES (1, 2)"],
        "a column more": [f"ALTER TABLE {name} ADD COLUMN c string", f"INSERT INTO {name} VALUES (1, 3, 'x')"],
        "made anew": [
            f"DROP TABLE {name}",
            f"CREATE TABLE {name} (k int, c decimal(9,2), id bigint) USING {format}",
            f"INSERT INTO {name} VALUES (1, 2.5, 3), (2, 1.5, 4)",
        ],
    }
    for how, statements in changes.items():
        for statement in statements:
            other.sql(statement)
        hive_bitmap.build(other, name, ["k"], if_not_exists=True)
        hive_bitmap.rebuild(other, name, full=True)
        found = hive_bitmap.scan(spark, name, "k = 1", strategy=strategy)
        expected = other.table(name).where("k = 1")
        assert found.schema == expected.schema, how
        assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect())), how
        assert spark.table(name).schema == other.table(name).schema


def test_notes_of_columns_are_those_of_now(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int, id int COMMENT 'of old') USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 2)")
    hive_bitmap.build(spark, "t", ["k"])
    for comment in ("of old", "new", "newer"):
        spark.sql(f"ALTER TABLE t CHANGE COLUMN id id int COMMENT '{comment}'")
        for _ in range(2):
            found = hive_bitmap.scan(spark, "t", "k = 1", strategy="rows").schema
            assert found == spark.table("t").schema
            assert found["id"].metadata["comment"] == comment


@pytest.mark.parametrize("name", ["orc.force.positional.evolution", "spark.hadoop.orc.force.positional.evolution"])
def test_columns_of_orc_by_their_places(spark: SparkSession, database: str, tmp_path: Path, name: str) -> None:
    (tmp_path / "t").mkdir()
    rows = pa.table({"x": pa.array(range(50), pa.int32()), "y": pa.array([3] * 50, pa.int32())})
    orc.write_table(rows, str(tmp_path / "t" / "a.orc"))
    spark.sql(f"CREATE TABLE t (y int, x int) USING orc LOCATION '{tmp_path}/t'")
    hive_bitmap.build(spark, "t", ["x"])
    hive_bitmap.build(spark, "t", ["y"])
    spark.conf.set(name, "true")
    try:
        agree(spark, "t", "x = 3", "y = 3", "x IS NULL")
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("said", ["TBLPROPERTIES", "SERDEPROPERTIES", "OPTIONS"])
def test_columns_of_orc_by_their_places_in_one_table(
    spark: SparkSession, database: str, tmp_path: Path, said: str
) -> None:
    (tmp_path / "t").mkdir()
    rows = pa.table({"x": pa.array(range(50), pa.int32()), "y": pa.array([3] * 50, pa.int32())})
    orc.write_table(rows, str(tmp_path / "t" / "a.orc"))
    option = f"{said} ('orc.force.positional.evolution'='true')"
    if said == "OPTIONS":
        spark.sql(f"CREATE TABLE t (y int, x int) USING orc {option} LOCATION '{tmp_path}/t'")
        with pytest.raises(Unsupported, match=r"orc\.force\.positional\.evolution"):
            hive_bitmap.build(spark, "t", ["x", "y"])
        return
    spark.sql(f"CREATE EXTERNAL TABLE t (y int, x int) STORED AS ORC LOCATION '{tmp_path}/t'")
    hive_bitmap.build(spark, "t", ["x", "y"])
    spark.sql(f"ALTER TABLE t SET {option}")
    spark.catalog.refreshTable("t")
    with pytest.raises(Unsupported, match=r"orc\.force\.positional\.evolution"):
        hive_bitmap.build(spark, "t", ["y"], name="later")
    agree(spark, "t", "x = 3", "y = 3", "x IS NULL")
    assert hive_bitmap.count(spark, "t", "x = 3") == 50
    assert "'orc.force.positional.evolution' may change what is read" in hive_bitmap.plan(spark, "t", "x = 3").reason


def test_times_without_a_zone_that_the_sessions_zone_lacks(spark: SparkSession, database: str) -> None:
    """Keys of TIMESTAMP_NTZ reach Spark as such: in Berlin there is no 2:30 on that night, and two in October."""
    times = ["2020-03-29 01:30:00", "2020-03-29 02:30:00", "2020-10-25 02:30:00"]
    listed = ", ".join(f"timestamp_ntz'{time}'" for time in times)
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT explode(array({listed})) AS nz, id FROM range(10)")
    hive_bitmap.build(spark, "t", ["nz"])
    with settings(spark, session_timeZone="Europe/Berlin"):
        predicates = ["hour(nz + INTERVAL '1' HOUR) = 2", "typeof(nz) = 'timestamp_ntz'", "hour(nz) = 2"]
        predicates += [f"nz = '{time}'" for time in times] + ["nz > '2020-01-01'"]
        assert "rows" in agree(spark, "t", *predicates)
        assert "index only" in agree(spark, "t", *predicates[1:])
        for value in ("CAST(nz + INTERVAL '1' HOUR AS STRING)", "typeof(nz)", "hour(nz)", "nz"):
            require_alike_always(spark, f"SELECT {value} AS v, count(*) FROM t GROUP BY 1")
        assert used(spark, "SELECT nz, count(*) FROM t GROUP BY 1", "index only") == [("t", "answered")]


@pytest.mark.parametrize("predicate", ["k = 1 AND", "k = 1 LIMIT", "k = 1 one", "abs(k) = 1 one", "k = 1 -- one\nAND"])
def test_a_condition_that_is_not_whole_is_refused(spark: SparkSession, database: str, predicate: str) -> None:
    """A DataFrame would take the last word for the name of the condition."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS k")
    assert spark.table("t").where(predicate).count() == 1
    hive_bitmap.build(spark, "t", ["k"])
    for ask in (hive_bitmap.scan, hive_bitmap.count, hive_bitmap.plan):
        with pytest.raises(InvalidPredicate, match=r"Spark refuses .*[Ss]yntax error"):
            ask(spark, "t", predicate)


def test_brackets_of_a_condition_are_its_own(spark: SparkSession, database: str) -> None:
    """It is put in brackets, which those in it must not close."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT explode(array(1, 2, 3)) AS k")
    hive_bitmap.build(spark, "t", ["k"])
    agree(spark, "t", "k = 1 -- )", "abs(k) = 1 -- (", "k = 1 /* ) */")
    for predicate in ("k = 1) OR (k = 2", "abs(k) = 1) OR (abs(k) = 2", "(k = 1 /* ) */", "k = 1 /*"):
        for ask in (hive_bitmap.scan, hive_bitmap.count, hive_bitmap.plan):
            with pytest.raises(InvalidPredicate, match=r"Spark refuses"):
                ask(spark, "t", predicate)


def test_an_index_is_not_put_among_the_rows_of_a_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    for name in ("t", "u"):
        spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{tmp_path}/{name}' AS SELECT 1 AS k")
    for location in (tmp_path / "t", tmp_path / "t" / "index", tmp_path / "u"):
        with pytest.raises(InvalidProperty, match=rf"is in the folder of table {database}.[tu]: give another"):
            hive_bitmap.build(spark, "t", ["k"], location=str(location))
        assert hive_bitmap.show(spark, "t") == []
    hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "t2"))
    assert sorted(path.suffix for path in (tmp_path / "t").rglob("*.parquet")) == [".parquet"]


def test_a_column_named_count(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 3 AS k, id % 5 AS count, id AS date FROM range(60)")
    hive_bitmap.build(spark, "t", ["k", "count"])
    agree(spark, "t", "k = 1", "count = 2 AND k = 1", None)
    for query in (
        "SELECT k, count(*) AS n FROM t GROUP BY k",
        "SELECT count(*) AS n FROM t WHERE count = 1",
        "SELECT count(DISTINCT k), max(k) FROM t",
        "SELECT count, count(count) FROM t GROUP BY count",
        "SELECT count, k, count(*) FROM t GROUP BY count, k",
    ):
        require_alike_always(spark, query)
    counted = hive_bitmap.group_counts(spark, "t", "k = 1", ["k"])
    assert counted.to_pylist() == [{"k": 1, "count": 20}]


@pytest.mark.parametrize("through_jvm", [True, False])
def test_partitions_whose_values_are_one_number(
    spark: SparkSession, database: str, through_jvm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MSCK REPAIR takes the names of folders as they are: `month=01` of an int column, and `1` beside it."""
    spark.sql("CREATE TABLE t (k int) PARTITIONED BY (month int) STORED AS PARQUET")
    folder = Path(spark.catalog.getDatabase(database).locationUri.removeprefix("file:")) / "t"
    for name in ("01", "1", "007", "12"):
        (folder / f"month={name}").mkdir(parents=True)
        pq.write_table(pa.table({"k": pa.array(range(20), pa.int32())}), folder / f"month={name}" / "a.parquet")
    spark.sql("MSCK REPAIR TABLE t")
    monkeypatch.setattr(jvm_reader, "available", lambda _: through_jvm)
    set_before = dict(spark.conf.getAll)
    hive_bitmap.build(spark, "t", ["k"])
    assert [(one.fresh, one.unindexed) for one in hive_bitmap.show(spark, "t")] == [(4, 0)]
    able = agree(spark, "t", "k = 3", "k = 3 AND month = 1", "month = 7 AND k < 5", "month = 12")
    assert ("index only" in able) == through_jvm
    shutil.rmtree(folder / "month=01")
    spark.sql("ALTER TABLE t ADD PARTITION (month=2)")
    pq.write_table(pa.table({"k": pa.array([3], pa.int32())}), folder / "month=007" / "b.parquet")
    [report] = hive_bitmap.rebuild(spark, "t")
    assert report.files_read == 1
    [report] = hive_bitmap.rebuild(spark, "t", full=True)
    assert report.files_read == 4
    agree(spark, "t", "k = 3", "k = 3 AND month = 1", "month = 7 AND k < 5")
    assert dict(spark.conf.getAll) == set_before


def test_partitions_that_spark_takes_from_folders(spark: SparkSession, database: str) -> None:
    with settings(spark, hive_manageFilesourcePartitions="false"):
        spark.sql("CREATE TABLE t USING parquet PARTITIONED BY (p) AS SELECT id % 5 AS k, id % 2 AS p FROM range(40)")
        assert hive_bitmap.count(spark, "t", "k = 3") == 8
    assert hive_bitmap.count(spark, "t", "k = 3") == 8
    with pytest.raises(Unsupported, match=r"not in the metastore: add them with MSCK REPAIR TABLE `.*`\.`t`"):
        hive_bitmap.build(spark, "t", ["k"])
    spark.sql("MSCK REPAIR TABLE t")
    hive_bitmap.build(spark, "t", ["k"])
    agree(spark, "t", "k = 3", "p = 1")
    folder = Path(spark.catalog.getDatabase(database).locationUri.removeprefix("file:")) / "t"
    shutil.copytree(folder / "p=1", folder / "p=7")
    agree(spark, "t", "k = 3", "p = 7")
    with settings(spark, hive_manageFilesourcePartitions="false"):
        spark.catalog.refreshTable("t")
        agree(spark, "t", "k = 3", "p = 7")
        assert "manageFilesourcePartitions" in hive_bitmap.plan(spark, "t", "k = 3").reason


def test_a_folder_that_became_a_file(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet PARTITIONED BY (p) AS SELECT id % 5 AS k, id % 2 AS p FROM range(40)")
    hive_bitmap.build(spark, "t", ["k"])
    folder = Path(spark.catalog.getDatabase(database).locationUri.removeprefix("file:")) / "t"
    shutil.rmtree(folder / "p=1")
    (folder / "p=1").write_text("no folder")
    spark.catalog.refreshTable("t")
    assert spark.table("t").where("k = 3").count() == 4
    agree(spark, "t", "k = 3 AND p = 0", "k = 3")
    for change in (hive_bitmap.rebuild, hive_bitmap.verify):
        with pytest.raises(Unsupported, match=r"is a file, but should be a folder of table"):
            change(spark, "t")


def test_a_query_sees_one_state_of_a_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """The session has listed the files; then others add one, and rebuild the index: it sees what it has listed."""
    spark.sql(f"CREATE TABLE t USING parquet LOCATION '{tmp_path}/t' AS SELECT id, id % 9 AS k FROM range(90)")
    hive_bitmap.build(spark, "t", ["k"])
    assert len(hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").collect()) == 10
    assert spark.table("t").count() == 90
    pq.write_table(pa.table({"id": pa.array(range(90, 99)), "k": pa.array(range(9))}), tmp_path / "t" / "more.parquet")
    other = spark.newSession()
    other.catalog.setCurrentDatabase(database)
    hive_bitmap.rebuild(other, "t")
    query = "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.id = b.id WHERE a.k = 3"
    with settings(spark, adaptive_enabled="false"):
        found = by_index(spark, query, "rows")
    assert not difference(found, by_spark(spark, query)) and len(found.rows) == 10
    other_found = by_index(other, query, "rows")
    assert not difference(other_found, by_spark(other, query)) and len(other_found.rows) == 11
    (tmp_path / "t" / "more.parquet").unlink()
    assert len(hive_bitmap.scan(spark, "t", "k = 3").collect()) == 10
    assert spark.table("t").count() == 90


def test_a_table_in_the_cache_stays_as_it_was(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE t USING parquet LOCATION '{tmp_path}/t' AS SELECT id, id % 9 AS k FROM range(90)")
    hive_bitmap.build(spark, "t", ["k"])
    spark.sql("CACHE TABLE t")
    pq.write_table(pa.table({"id": pa.array(range(90, 99)), "k": pa.array(range(9))}), tmp_path / "t" / "more.parquet")
    agree(spark, "t", "k = 3", None)
    for query in ("SELECT count(*) FROM t WHERE k = 3", "SELECT k, count(*) FROM t GROUP BY k", "SELECT max(k) FROM t"):
        require_alike_always(spark, query)
    assert hive_bitmap.count(spark, "t", "k = 3") == 10
    assert "cache" in hive_bitmap.plan(spark, "t", "k = 3").reason
    spark.sql("UNCACHE TABLE t")
    assert hive_bitmap.count(spark, "t", "k = 3") == 11


@pytest.mark.parametrize("how", ["STORED AS PARQUET", "USING parquet"])
def test_a_table_whose_folder_is_gone(spark: SparkSession, database: str, tmp_path: Path, how: str) -> None:
    spark.sql(f"CREATE TABLE t {how} LOCATION '{tmp_path}/t' AS SELECT id, id % 9 AS k FROM range(90)")
    hive_bitmap.build(spark, "t", ["k"])
    shutil.rmtree(tmp_path / "t")
    [report] = hive_bitmap.rebuild(spark, "t")
    assert (report.base_files, report.base_rows) == (0, 0)
    assert hive_bitmap.count(spark, "t", "k = 3") == 0


def test_a_struct_named_as_the_table_outside(spark: SparkSession, database: str) -> None:
    """In EXISTS `f.k` is a field of the nearest `f`."""
    spark.sql("CREATE TABLE fact USING parquet AS SELECT id, id % 9 AS k FROM range(9000)")
    spark.sql("CREATE TABLE d USING parquet AS SELECT id AS k, struct(id AS k) AS f, 'x' AS s FROM range(3)")
    hive_bitmap.build(spark, "fact", ["k"])
    for alias, expected in (("f", 9000), ("g", 3000)):
        query = f"SELECT * FROM fact {alias} WHERE EXISTS (SELECT 1 FROM d WHERE d.k = {alias}.k AND d.s = 'x')"
        assert len(by_spark(spark, query).rows) == expected
        require_alike_always(spark, query)
        assert bool(used(spark, query, "rows")) == (alias == "g")


CLAUSES = (
    "desc",
    "asc",
    "nulls",
    "first",
    "limit",
    "offset",
    "order",
    "by",
    "group",
    "distinct",
    "all",
    "like",
    "window",
)


@pytest.fixture(scope="module")
def clauses(spark: SparkSession, shared_database: str) -> str:
    """A table with all those columns, each with an index, and one more of it and `a`; what it is called."""
    table = f"{shared_database}.clauses"
    columns = ", ".join(f"id % 3 AS `{word}`" for word in CLAUSES)
    spark.sql(f"CREATE TABLE {table} USING parquet AS SELECT id % 5 AS a, {columns}, id AS like2 FROM range(60)")
    hive_bitmap.build(spark, table, ["a", *CLAUSES, *(["a", word] for word in CLAUSES)])
    return table


@pytest.mark.parametrize("word", CLAUSES)
def test_columns_named_as_words_of_clauses(spark: SparkSession, clauses: str, word: str) -> None:
    for query in (
        f"SELECT DISTINCT `{word}` FROM {clauses} ORDER BY `{word}` DESC",
        f"SELECT `{word}`, max(a) FROM {clauses} GROUP BY `{word}` ORDER BY `{word}` NULLS LAST",
        f"SELECT a, `{word}`, count(*) FROM {clauses} GROUP BY a, `{word}` ORDER BY a, `{word}` DESC",
        f"SELECT * FROM (SELECT like2 AS `{word}`, a FROM {clauses}) z WHERE `{word}` = 1 AND a = 1 ORDER BY a",
    ):
        require_alike(spark, query, "", "index only", ordered=True)
    for query in (
        f"SELECT count(*) AS n FROM {clauses} {word}",
        f"SELECT a, count(*) AS n FROM {clauses} AS {word} GROUP BY a",
    ):
        require_alike_always(spark, query)


def test_clauses_of_a_table_with_columns_named_as_their_words(spark: SparkSession, clauses: str) -> None:
    named = ", ".join(f"`{word}`" for word in CLAUSES if word != "all")  # GROUP BY ALL would be by that column
    spark.sql(f"CREATE TABLE {clauses}_but_all USING parquet AS SELECT a, {named} FROM {clauses}")
    hive_bitmap.build(spark, f"{clauses}_but_all", ["a", ["a", "group"]])
    for query in (
        f"SELECT DISTINCT a FROM {clauses} ORDER BY a DESC",
        f"SELECT DISTINCT a FROM {clauses} ORDER BY a ASC NULLS FIRST LIMIT 3",
        f"SELECT DISTINCT a FROM {clauses} ORDER BY a NULLS LAST LIMIT 20",
        f"SELECT DISTINCT a FROM {clauses} ORDER BY a OFFSET 2",
        f"SELECT a, count(*) AS n FROM {clauses} GROUP BY a ORDER BY a DESC",
        f"SELECT a FROM {clauses}_but_all GROUP BY ALL ORDER BY a",
        f"SELECT EXISTS (SELECT a FROM {clauses} ORDER BY a OFFSET 59) AS e,"
        f" EXISTS (SELECT a FROM {clauses} OFFSET 60) AS f",
    ):
        require_alike(spark, query, "", "index only", ordered=True)


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_dates_that_python_does_not_have(spark: SparkSession, database: str, format: str) -> None:
    """Year 10000 and those before 1: such files are left to Spark, the others are indexed."""
    spark.sql(f"CREATE TABLE t (d date, g int) USING {format}")
    for first, step in (("9999-12-31", 1), ("2020-01-01", 1), ("0001-01-01", -1)):
        days = f"date_add(date'{first}', {step} * CAST(id AS int))"
        spark.sql(f"INSERT INTO t SELECT {days}, CAST(id % 3 AS int) FROM range(0, 9, 1, 1)")
    unindexed = {report.definition.name: len(report.unindexed) for report in hive_bitmap.build(spark, "t", ["d", "g"])}
    assert unindexed == {"d": 2, "g": 0}
    for predicate in (
        "d = date'2020-01-03'",
        "d > date'2020-01-05'",
        "d IS NULL",
        "year(d) > 9999",
        "d < date'0001-01-01'",
        "g = 1 AND d IN (date'2020-01-02', date'2020-01-03')",
    ):
        expected = spark.table("t").where(predicate).count()
        assert hive_bitmap.count(spark, "t", predicate) == expected
        for strategy in (None, "rows", "blocks", "files"):
            with suppress(Unsupported):  # it says so where it cannot answer
                assert hive_bitmap.scan(spark, "t", predicate, strategy=strategy).count() == expected
    for query in (
        "SELECT CAST(d AS STRING) AS d, n FROM (SELECT d, count(*) AS n FROM t GROUP BY d)",
        "SELECT CAST(d AS STRING) AS d, CAST(e AS STRING) AS e FROM (SELECT min(d) AS d, max(d) AS e FROM t)",
        "SELECT count(DISTINCT d) AS n FROM t WHERE g = 1",
    ):
        require_alike_always(spark, query)
    assert all(verified.ok for verified in hive_bitmap.verify(spark, "t"))


@pytest.mark.parametrize("format", ["PARQUET", "ORC"])
def test_a_column_that_hides_the_metadata_of_files(spark: SparkSession, database: str, format: str) -> None:
    spark.sql(f"CREATE TABLE t (k int, `_metadata` struct<file_path:string>) STORED AS {format}")
    for first, value in ((0, "NULL"), (20, "named_struct('file_path', 'x')")):
        spark.sql(f"INSERT INTO t SELECT id, {value} FROM range({first}, {first + 9}, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    agree(spark, "t", "k = 2", "k > 22", "k = 99")


def test_intervals_of_months(spark: SparkSession, database: str) -> None:
    """No task can give them to Spark."""
    spark.sql("CREATE TABLE t (k int, i interval year to month, s struct<i: interval month>) USING parquet")
    for first in (0, 10):
        months = "interval '1-2' year to month, named_struct('i', interval '3' month)"
        spark.sql(f"INSERT INTO t SELECT id + {first}, {months} FROM range(0, 9, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    with pytest.raises(Unsupported, match="cannot answer this"):
        hive_bitmap.scan(spark, "t", "k = 2", strategy="rows")
    assert hive_bitmap.scan(spark, "t", "k = 2").selectExpr("CAST(i AS STRING)").collect()[0][0] is not None
    assert agree(spark, "t", "k = 2", "k = 99", columns=["k"]) >= {"rows", "files", "index only"}


def test_a_serde_that_is_not_that_of_the_files(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT id FROM range(9)")
    hive_bitmap.build(spark, "t", ["k"])
    spark.sql("ALTER TABLE t SET SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde'")
    assert "parquet read by org.apache.hadoop.hive.ql.io.orc.OrcSerde" in hive_bitmap.plan(spark, "t", "k = 1").reason


@pytest.mark.parametrize("name", ["_cardinality", "_offset", "hive_bitmap_place", "Hive_Bitmap file"])
def test_names_that_indexes_and_queries_use_themselves(spark: SparkSession, database: str, name: str) -> None:
    spark.sql(f"CREATE TABLE t (`{name}` int, k int) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT 100 - id * 3, id FROM range(30)")
    with pytest.raises(Unsupported, match=f"(?i)column '{name}' of .* (has the name|begins with)"):
        hive_bitmap.build(spark, "t", [name])
    hive_bitmap.build(spark, "t", ["k"])
    agree(spark, "t", "k % 2 = 0", f"abs(k) = 4 AND `{name}` > 0")


def test_what_is_no_text_does_not_reach_java(spark: SparkSession, database: str) -> None:
    """It would end the connection to it."""
    spark.sql("CREATE TABLE t (k int, s string) STORED AS PARQUET")
    hive_bitmap.build(spark, "t", ["k"])
    for ask in (hive_bitmap.scan, hive_bitmap.count, hive_bitmap.plan):
        with pytest.raises(InvalidPredicate, match="half a surrogate pair is not a character"):
            ask(spark, "t", "s = '\udc80'")
        with pytest.raises(NotFound, match="is not a table name"):
            ask(spark, "t\udc80", "k = 1")
    with pytest.raises(InvalidStatement, match="half a surrogate pair is not a character"):
        hive_bitmap.sql(spark, "SELECT * FROM t WHERE s = '\udc80'")
    spark.sql("CREATE TABLE parted (k int) PARTITIONED BY (p string) STORED AS PARQUET")
    with pytest.raises(InvalidPredicate, match="half a surrogate pair is not a character"):
        hive_bitmap.build(spark, "parted", ["k"], where="p = '\udc80'")
    assert hive_bitmap.count(spark, "t", "k = 1") == 0
