"""Blocks against Spark: what is read of a file by blocks equals what Spark shows of it, row by row, or is declined.

Spark is the oracle of every test here; each reads a single file in one partition, so the rows come in the file's order.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pytest
from pyarrow import orc as pyarrow_orc
from pyspark.sql import SparkSession

from hive_bitmap.core.formats import FORMATS, orc_file, parquet_rows, parquet_types
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type, canonical, is_simple
from hive_bitmap.errors import Undecodable

pytestmark = pytest.mark.turn(2)

UTC = datetime.timezone.utc
NEW_YORK = "America/New_York"


@pytest.fixture(params=["UTC", NEW_YORK])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The default zone of the JVM, while the session shows times in a third one."""
    zones, session_zone = spark._jvm.java.util.TimeZone, spark.conf.get("spark.sql.session.timeZone")
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(request.param))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", session_zone)
    zones.setDefault(before)
    _forget_zones(spark)


def _forget_zones(spark: SparkSession) -> None:
    """Clear what the threads of tasks keep: they outlive the test, and Hive's dates keep a thread's first zone.

    https://github.com/apache/hive/blob/rel/storage-release-2.8.1/storage-api/src/java/org/apache/hadoop/hive/serde2/io/DateWritable.java
    """
    jvm: Any = spark._jvm
    kept = jvm.java.lang.Class.forName("java.lang.Thread").getDeclaredField("threadLocals")
    kept.setAccessible(True)
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName().startswith("Executor task"):
            kept.set(thread, None)


def shown(spark: SparkSession, query: str, columns: Sequence[KeyColumn]) -> pa.Table:
    """What Spark shows, in the Arrow types of the columns."""
    table = spark.sql(query).toArrow()
    return pa.table({c.name: table.column(c.name).cast(arrow_type(c)) for c in columns})


def same(ours: pa.ChunkedArray, theirs: pa.ChunkedArray, as_keys: bool = False) -> bool:
    """Equality of values and NULLs, bit by bit (-0.0 is not 0.0), or of keys."""
    if pa.types.is_dictionary(ours.type):
        ours = ours.cast(ours.type.value_type)
    ours, theirs = ours.combine_chunks(), theirs.combine_chunks()
    if as_keys:
        theirs = canonical(theirs)
    if not pa.types.is_floating(ours.type):
        return ours.equals(theirs)
    bits = np.dtype(f"u{ours.type.bit_width // 8}")
    raw = [np.asarray(values.fill_null(0)).view(bits) for values in (ours, theirs)]
    return ours.is_null().equals(theirs.is_null()) and np.array_equal(*raw)


def check(format_name: str, path: str, columns: Sequence[KeyColumn], theirs: pa.Table) -> dict[str, str]:
    """Compare each column read by blocks with Spark's; how each was read: keys and rows, keys, or neither."""
    ours = FORMATS[format_name]
    handle = ours.open_file(path)
    blocks = ours.blocks(handle)
    assert blocks.rows.sum() == theirs.num_rows
    spark_only = ours.spark_only_columns(handle, columns)
    direct = [column for column in columns if column.name not in spark_only]
    some = [(block, np.arange(0, rows, max(3, rows // 100))) for block, rows in enumerate(blocks.rows.tolist())]
    whole = [(block, None) for block in range(len(blocks))]
    kept = np.concatenate([first + rows for first, (_, rows) in zip(blocks.first_rows(), some, strict=True)])
    part = theirs.take(pa.array(kept))
    for selection, expected, few in ((whole, theirs, False), (some, part, False), (some, part, True)) if direct else ():
        with reader(few):
            read = pa.Table.from_batches(ours.read_rows(path, direct, selection))
        assert read.schema == pa.schema([(c.name, arrow_type(c)) for c in direct])
        for column in direct:
            assert same(read.column(column.name), expected.column(column.name)), f"rows of {column}"
    how = {}
    for column in filter(is_simple, columns):
        try:
            keys = pa.concat_tables(ours.key_columns(handle, block, [column]) for block in range(len(blocks)))
        except Undecodable:
            assert column.name in spark_only, f"{column} has no keys, but rows"
            how[column.name] = "neither"
            continue
        assert same(keys.column(0), theirs.column(column.name), as_keys=True), f"keys of {column}"
        how[column.name] = "keys" if column.name in spark_only else "both"
    return how


@contextmanager
def reader(few: bool) -> Iterator[None]:
    """Selected rows come by DuckDB (Parquet) or pyorc (ORC), as few do, or out of whole blocks by pyarrow."""
    with (
        mock.patch.object(parquet_rows, "_SPARSE", float(few)),
        mock.patch.object(orc_file.RowReader, "pays", lambda *_: few),
    ):
        yield


STORED: Mapping[str, pa.Array] = {
    "boolean": pa.array([True, False, None]),
    "int8": pa.array([1, -128, 127, None], pa.int8()),
    "int16": pa.array([1, -32768, 32767, None], pa.int16()),
    "int32": pa.array([1, -(2**31), 2**31 - 1, None], pa.int32()),
    "int64": pa.array([1, -(2**63), 2**63 - 1, None]),
    "float": pa.array([1.5, float("nan"), -0.0, 0.0, 3.4e38, 0.1, float("-inf"), None], pa.float32()),
    "double": pa.array([1.5, float("nan"), -0.0, 0.0, 1e308, float("inf"), None]),
    "string": pa.array(["", "a", "é😀", "a ", " ", "\0", None]),
    "binary": pa.array([b"", b"a", b"ab ", None]),
    "date": pa.array([0, -1, 20000, 2_932_896, -100_000, None], pa.int32()).cast(pa.date32()),
    "decimal": pa.array([Decimal("1.10"), Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal("1.1"), Decimal(f"-{'9' * 28}.{'9' * 10}"), None], pa.decimal128(38, 10)),
}
TIMES = [0, -1, 1, 1_234_567_890_123_456, -1_500_000_000_000_000, None]
STORED_IN_PARQUET: Mapping[str, pa.Array] = {
    "uint8": pa.array([1, 255, None], pa.uint8()),
    "uint16": pa.array([1, 65535, None], pa.uint16()),
    "uint32": pa.array([1, 2**32 - 1, None], pa.uint32()),
    "us_utc": pa.array(TIMES, pa.timestamp("us", "UTC")),
    "us": pa.array(TIMES, pa.timestamp("us")),
    "ms_utc": pa.array([0, -1, 123456789012], pa.timestamp("ms", "UTC")),
    "ms": pa.array([0, -1, 123456789012], pa.timestamp("ms")),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "duration": pa.array([1, None], pa.duration("us")),
    "large": pa.array(["a", None], pa.large_string()),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "json": pa.array(["{}", None], pa.json_()),
}
DECIMALS = ("decimal(10,2)", "decimal(12,2)", "decimal(12,4)", "decimal(38,10)")


def repeated(stored: Mapping[str, pa.Array]) -> pa.Table:
    """A table of the arrays, each repeated to the length of the longest, three times over."""
    rows = 3 * max(map(len, stored.values()))
    return pa.table({name: values.take(pa.array(np.arange(rows) % len(values))) for name, values in stored.items()})


def accepted(format_name: str, path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """For each column of a file the types that our reader takes it for."""
    safe = parquet_types.SAFE_CONVERSIONS | orc_file.SAFE_CONVERSIONS
    simple = set(itertools.chain(*safe.values())) - {"char", "varchar"}
    ours, handle = FORMATS[format_name], FORMATS[format_name].open_file(path)
    found: dict[str, list[str]] = {name: [] for name in names}
    for name, spark_type in itertools.product(names, sorted(simple | set(DECIMALS))):
        reason = ours.spark_only_columns(handle, [KeyColumn(name, spark_type, "UTC")]).get(name, "")
        if "the table says" not in reason:
            found[name].append(spark_type)
    return found


def check_accepted(spark: SparkSession, format_name: str, path: Path, names: Sequence[str]) -> set[tuple[str, str]]:
    """Read every column as every type that is taken; each pair, but those that the values decide."""
    types = accepted(format_name, f"file:{path}", names)
    assert all(types.values()), types
    compared = set()
    for round_ in range(max(map(len, types.values()))):
        columns = [KeyColumn(name, some[round_], "UTC") for name, some in types.items() if round_ < len(some)]
        schema = ", ".join(f"`{c.name}` {c.type}" for c in columns)
        spark.read.schema(schema).format(format_name).load(str(path)).createOrReplaceTempView("file")
        how = check(format_name, f"file:{path}", columns, shown(spark, "SELECT * FROM file", columns))
        compared |= {(c.name, c.type) for c in columns if how[c.name] != "neither"}
    return compared


def test_every_pair_of_types_in_parquet(spark: SparkSession, tmp_path: Path) -> None:
    stored = repeated({**STORED, **STORED_IN_PARQUET})
    pq.write_table(stored, tmp_path / "f.parquet", row_group_size=10)
    compared = check_accepted(spark, "parquet", tmp_path / "f.parquet", stored.column_names)
    assert {name for name, _ in compared} == set(stored.column_names)
    assert {("int32", "bigint"), ("int8", "double"), ("uint32", "bigint"), ("us", "timestamp_ntz")} <= compared
    assert {("decimal", "decimal(12,4)"), ("float", "double"), ("json", "string"), ("binary", "string")} <= compared
    assert ("int16", "tinyint") not in compared, "values that do not fit must be declined"


def test_every_pair_of_types_in_orc(spark: SparkSession, tmp_path: Path) -> None:
    stored = repeated(STORED)
    pyarrow_orc.write_table(stored, str(tmp_path / "f.orc"))
    compared = check_accepted(spark, "orc", tmp_path / "f.orc", stored.column_names)
    assert {name for name, _ in compared} == set(stored.column_names)
    assert {("int32", "bigint"), ("float", "double"), ("int32", "double"), ("decimal", "decimal(12,4)")} <= compared


TYPES = {
    "bo": "boolean",
    "ti": "tinyint",
    "sm": "smallint",
    "i": "int",
    "bi": "bigint",
    "fl": "float",
    "do": "double",
    "de": "decimal(10,2)",
    "dw": "decimal(38,18)",
    "s": "string",
    "vc": "varchar(4)",
    "ch": "char(4)",
    "b": "binary",
    "d": "date",
    "ts": "timestamp",
}
ROWS = """
    (true, -128Y, -32768S, -2147483648, -9223372036854775808L, float('nan'), double('-0.0'), -12345678.90, 1e-18, '',
     '', '', X'', DATE'{day}', TIMESTAMP'{time}'),
    (false, 127Y, 32767S, 2147483647, 9223372036854775807L, float('-0.0'), double('nan'), 0.01, -1, 'é😀 ', 'é ', 'é',
     X'FF00', DATE'9999-12-31', TIMESTAMP'2020-11-01 05:30:00.123456 UTC'),
    (true, 0Y, 0S, 0, 0L, float('0.0'), double('0.0'), 0, 0, ' a', 'abcd', 'ab  ', X'61', DATE'1970-01-01',
     TIMESTAMP'1999-12-31 23:59:59.999999 UTC')"""
NULLS = f"({', '.join(['NULL'] * len(TYPES))})"


def single_file(spark: SparkSession) -> str:
    """The path of the one file of table t, as Hadoop prints it."""
    described = {row["col_name"]: row["data_type"] for row in spark.sql("DESCRIBE FORMATTED t").collect()}
    [file] = Path(described["Location"].removeprefix("file:")).glob("part-*")
    return f"file:{file}"


def write_by_spark(spark: SparkSession, how: str, day: str, time: str) -> tuple[str, list[KeyColumn]]:
    """A table t of every type in a single file."""
    definition = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    spark.sql(f"CREATE TABLE t ({definition}) {how}")
    rows = f"VALUES {ROWS.format(day=day, time=time)}, {NULLS} AS v({', '.join(TYPES)})"
    many = f"SELECT /*+ REPARTITION(1) */ v.* FROM {rows} CROSS JOIN range(50)"
    spark.sql(f"INSERT INTO t {many}")
    return single_file(spark), [KeyColumn(*pair) for pair in TYPES.items()]


WRITERS = [
    ("parquet", "USING parquet"),
    ("parquet", "STORED AS PARQUET"),
    ("orc", "USING orc"),
    ("orc", "STORED AS ORC"),
]
BY_HIVE = {"parquet": "spark.sql.hive.convertMetastoreParquet", "orc": "spark.sql.hive.convertMetastoreOrc"}


def in_zone(columns: Sequence[KeyColumn], zone: str) -> list[KeyColumn]:
    return [KeyColumn(column.name, column.type, zone, place) for place, column in enumerate(columns)]


@pytest.mark.parametrize(
    ("format_name", "how", "by_hive"),
    [(*writer, False) for writer in WRITERS] + [(*writer, True) for writer in WRITERS if "STORED" in writer[1]],
)
@pytest.mark.usefixtures("database")
def test_tables_that_spark_wrote(spark: SparkSession, zone: str, format_name: str, how: str, by_hive: bool) -> None:
    """By Spark's writers or Hive's serializers; every column has keys, and rows but for some dates and timestamps."""
    spark.conf.set(BY_HIVE[format_name], str(not by_hive).lower())
    path, columns = write_by_spark(spark, how, "1582-10-15", "1900-01-02 00:00:00 UTC")
    spark.conf.unset(BY_HIVE[format_name])
    spark.sql("REFRESH TABLE t")
    columns = in_zone(columns, zone)
    found = check(format_name, path, columns, shown(spark, "SELECT * FROM t", columns))
    ambiguous = format_name == "orc" and zone == NEW_YORK  # 2020-11-01 01:30 is twice there
    assert found.pop("ts") in (("neither",) if ambiguous else ("keys", "both"))
    assert set(found.values()) <= {"both", "keys"}, found
    assert {name for name, way in found.items() if way == "keys"} <= {"d", "ts"}


@pytest.mark.parametrize(("format_name", "how"), WRITERS)
def test_old_dates_that_spark_wrote(spark: SparkSession, database: str, zone: str, format_name: str, how: str) -> None:
    """Files of Spark 3 and later prove their calendar in Parquet; in ORC such dates are declined."""
    path, columns = write_by_spark(spark, how, "0001-01-01", "0001-01-01 00:00:00 UTC")
    found = check(format_name, path, in_zone(columns, zone), shown(spark, "SELECT * FROM t", columns))
    expected = "both" if format_name == "parquet" else "neither"
    assert (found["d"], found["ts"]) == (expected, expected)


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("physical", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_calendars_of_parquet(spark: SparkSession, database: str, zone: str, mode: str, physical: str) -> None:
    options = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
        "spark.sql.parquet.outputTimestampType": physical,
    }
    for name, value in options.items():
        spark.conf.set(name, value)
    path, columns = write_by_spark(spark, "USING parquet", "1500-03-01", "1800-01-01 00:00:00 UTC")
    for name in options:
        spark.conf.unset(name)
    found = check("parquet", path, columns, shown(spark, "SELECT * FROM t", columns))
    assert found["d"] == found["ts"] == ("neither" if mode == "LEGACY" else "both")


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_timestamps_without_a_zone(spark: SparkSession, database: str, zone: str, format_name: str) -> None:
    times = ["0001-01-01", "1582-10-10", "1969-12-31 23:59:59.5", "2020-11-01 01:30:00", "9999-12-31 23:59:59.999999"]
    spark.sql(f"CREATE TABLE t (n timestamp_ntz) USING {format_name}")
    values = ", ".join(f"(TIMESTAMP_NTZ'{time}')" for time in times)
    spark.sql(f"INSERT INTO t SELECT /*+ REPARTITION(1) */ * FROM VALUES {values}, (NULL)")
    columns = in_zone([KeyColumn("n", "timestamp_ntz")], zone)
    found = check(format_name, single_file(spark), columns, shown(spark, "SELECT * FROM t", columns))
    assert found == {"n": "both"}


WALL_CLOCK = [
    "1900-01-03 00:00:00",
    "1950-06-01 00:00:00.123456",
    "1969-12-31 18:59:59.5",
    "1969-12-31 23:59:59.5",
    "1970-01-01 00:00:00.25",
    "1970-01-01 08:59:59.5",
    "1999-01-01 00:00:00",
    "2020-03-08 02:30:00",
    "2020-11-01 01:30:00",
    "2262-01-01 00:00:00",
    "2263-01-01 00:00:00",
]


@pytest.mark.parametrize("writer_zone", ["UTC", NEW_YORK, "Asia/Tokyo"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp with local time zone"])
def test_timestamps_of_orc_in_every_pair_of_zones(
    spark: SparkSession, tmp_path: Path, zone: str, writer_zone: str, kind: str
) -> None:
    """A file a value, for one doubtful value makes its stripe undecodable; most must be read."""
    column = KeyColumn("t", "timestamp", zone)
    found = []
    for number, time in enumerate(WALL_CLOCK):
        path = tmp_path / f"{number}.orc"
        with (
            open(path, "wb") as file,
            pyorc.Writer(file, f"struct<t:{kind}>", timezone=ZoneInfo(writer_zone)) as writer,
        ):
            writer.write((datetime.datetime.fromisoformat(time).replace(tzinfo=UTC),))
        spark.read.schema("t timestamp").orc(str(path)).createOrReplaceTempView("file")
        found.append(check("orc", f"file:{path}", [column], shown(spark, "SELECT * FROM file", [column]))["t"])
    assert len(found) - found.count("neither") >= 4, found


def test_chars_of_every_writer(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Short, exact, blank and over-long values; whatever the file says, the table says char(3) and varchar(3)."""
    values = ["", "a", "a ", "abc", "abc  ", "abcde", "é", " ", None]
    table = pa.table({"c": values, "v": values})
    writers = {"parquet": ["parquet"], "orc": ["orc", "char"]}
    for format_name, name in [(f, n) for f, names in writers.items() for n in names]:
        folder = tmp_path / name
        folder.mkdir()
        if name == "parquet":
            pq.write_table(table, folder / "f")
        elif name == "orc":
            pyarrow_orc.write_table(table, str(folder / "f"))
        else:
            with open(folder / "f", "wb") as file, pyorc.Writer(file, "struct<c:char(5),v:varchar(5)>") as writer:
                writer.writerows(zip(values, values, strict=True))
        for how in (f"USING {format_name}", f"STORED AS {format_name}"):
            kind = "TABLE" if how.startswith("USING") else "EXTERNAL TABLE"
            spark.sql(f"CREATE {kind} t (c char(3), v varchar(3)) {how} LOCATION '{folder}'")
            columns = [KeyColumn("c", "char(3)"), KeyColumn("v", "varchar(3)")]
            assert check(format_name, f"file:{folder}/f", columns, shown(spark, "SELECT * FROM t", columns)) == {
                "c": "both",
                "v": "both",
            }
            spark.sql("DROP TABLE t")


def test_a_file_that_duckdb_wrote(spark: SparkSession, tmp_path: Path) -> None:
    query = """SELECT i % 2 = 0 AS bo, i::TINYINT AS ti, i::SMALLINT AS sm, i::INTEGER AS i, i::BIGINT AS bi,
        i::FLOAT AS fl, i::DOUBLE AS "do", i::DECIMAL(10, 2) AS de, i::DECIMAL(38, 18) AS dw, 'é' || i AS s,
        i::VARCHAR::BLOB AS b, DATE '1999-01-01' + i::INTEGER AS d,
        TIMESTAMPTZ '1999-01-01 00:00:00+00' + INTERVAL (i) SECOND AS ts FROM range(100) r(i)"""
    path = tmp_path / "f.parquet"
    duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    columns = [KeyColumn(name, kind) for name, kind in TYPES.items() if name not in ("vc", "ch")]
    spark.read.schema(", ".join(f"{c.name} {c.type}" for c in columns)).parquet(str(path)).createOrReplaceTempView(
        "file"
    )
    assert set(check("parquet", f"file:{path}", columns, shown(spark, "SELECT * FROM file", columns)).values()) == {
        "both"
    }


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_evolved_schemas(spark: SparkSession, database: str, tmp_path: Path, format_name: str) -> None:
    """Missing, reordered, widened and renamed-in-case columns, a nested one, and names with blanks and dots."""
    stored = pa.table(
        {
            "W": pa.array([1, None, 3], pa.int32()),
            "x y": ["a", "b", None],
            "p.q": [1.5, 2.5, None],
            "Ä": [1, 2, 3],
            "nest": [{"a": 1}, None, {"a": None}],
            "gone": [1, 2, 3],
        }
    )
    if format_name == "parquet":
        pq.write_table(stored, tmp_path / "f")
    else:
        pyarrow_orc.write_table(stored, str(tmp_path / "f"))
    columns = in_zone(
        [
            KeyColumn("p.q", "double"),
            KeyColumn("new", "decimal(7,2)"),
            KeyColumn("x y", "string"),
            KeyColumn("w", "bigint"),
            KeyColumn("ä", "bigint"),
        ],
        "UTC",
    )
    definition = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    spark.sql(f"CREATE TABLE t ({definition}, nest struct<a: bigint>) USING {format_name} LOCATION '{tmp_path}'")
    theirs = shown(spark, "SELECT * FROM t", columns)
    assert set(check(format_name, f"file:{tmp_path}/f", columns, theirs).values()) == {"both"}
    handle = FORMATS[format_name].open_file(f"file:{tmp_path}/f")
    assert list(FORMATS[format_name].spark_only_columns(handle, [*columns, KeyColumn("nest", "struct<a:bigint>")])) == [
        "nest"
    ]


def test_orc_without_names(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """By position, and NULL behind the last; as STORED AS and as USING tables."""
    with open(tmp_path / "f", "wb") as file, pyorc.Writer(file, "struct<_col0:int,_col1:string>") as writer:
        writer.writerows([(1, "a"), (None, None), (3, "c")])
    columns = in_zone([KeyColumn("x", "bigint"), KeyColumn("_col0", "string"), KeyColumn("z", "date")], "UTC")
    definition = ", ".join(f"{column.name} {column.type}" for column in columns)
    for kind, how in (("TABLE", "USING orc"), ("EXTERNAL TABLE", "STORED AS ORC")):
        spark.sql(f"CREATE {kind} t ({definition}) {how} LOCATION '{tmp_path}'")
        theirs = shown(spark, "SELECT * FROM t", columns)
        assert theirs.column("_col0").to_pylist() == ["a", None, "c"]
        assert set(check("orc", f"file:{tmp_path}/f", columns, theirs).values()) == {"both"}
        spark.sql("DROP TABLE t")


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_blocks_of_files_that_spark_wrote(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    """Several blocks; each holds the rows that Spark shows at its place."""
    frame = spark.range(0, 200_000, 1, 1).selectExpr("id", "uuid() AS s", "id % 7 AS k")
    options = {"parquet.block.size": "1000000", "orc.stripe.size": "500000", "orc.rows.between.memory.checks": "1000"}
    frame.write.options(**options).format(format_name).save(str(tmp_path / "out"))
    [path] = (tmp_path / "out").glob(f"*.{format_name}")
    spark.read.format(format_name).load(str(path)).createOrReplaceTempView("file")
    columns = [KeyColumn("id", "bigint"), KeyColumn("s", "string"), KeyColumn("k", "bigint")]
    assert len(FORMATS[format_name].blocks(FORMATS[format_name].open_file(f"file:{path}"))) > 3
    found = check(format_name, f"file:{path}", columns, shown(spark, "SELECT * FROM file", columns))
    assert set(found.values()) == {"both"}


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_bytes_that_are_no_text(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    """Spark carries them along in string columns, and so do rows read by blocks."""
    values = pa.array([b"a", b"\xff\xfe", None])
    text = pa.Array.from_buffers(pa.string(), 3, values.buffers())
    if format_name == "parquet":
        pq.write_table(pa.table({"c": text}), tmp_path / "f")
    else:
        pyarrow_orc.write_table(pa.table({"c": text}), str(tmp_path / "f"))
    theirs = (
        spark.read.schema("c string").format(format_name).load(f"{tmp_path}/f").selectExpr("cast(c AS binary) AS c")
    )
    read = FORMATS[format_name].read_rows(f"file:{tmp_path}/f", [KeyColumn("c", "string")], [(0, np.arange(3))])
    assert pa.Table.from_batches(read).column("c").cast(pa.binary()) == theirs.toArrow().column("c")
