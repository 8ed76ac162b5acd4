"""The commands on real tables; their results are compared with Spark's."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from base64 import b64decode
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hive_bitmap import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.conftest import Run

ZONE = dt.timezone.utc
EVERY_TYPE = (
    "b boolean, i int, l bigint, d double, n decimal(20,4), s string, v varchar(9), x binary, day date, "
    "at timestamp, local timestamp_ntz, list array<int>, nested struct<`a b`:string,c:map<string,double>>"
)


@pytest.fixture
def trips(spark: SparkSession, database: str) -> str:
    "A Parquet table of 60 rows in 3 files, with NULLs and text that CSV has to quote."
    return make_trips(spark)


@pytest.fixture(scope="module")
def fixed_trips(spark: SparkSession, shared_database: str) -> str:
    "The same table with indexes on city and n, and an empty table without an index, for tests that only read."
    spark.sql("CREATE TABLE bare (id bigint) STORED AS PARQUET")
    build(spark, make_trips(spark), ["city", "n"])
    return "trips"


def make_trips(spark: SparkSession) -> str:
    words = "element_at(array('x', 'a,b', 'say \"hi\"', 'two\\nlines', 'naïve 日', '', NULL), CAST(1 + id % 7 AS int))"
    spark.sql("CREATE TABLE trips (id bigint, city string, n int) STORED AS PARQUET")
    frame = spark.range(60).selectExpr("id", f"{words} AS city", "CAST(id % 4 AS int) AS n")
    frame.repartition(3).write.insertInto("trips")
    return "trips"


@pytest.fixture
def by_month(spark: SparkSession, database: str) -> str:
    "An ORC table with a partition for each of two months and two regions, one of them NULL."
    spark.sql("CREATE TABLE by_month (id bigint, k string) PARTITIONED BY (month int, region string) STORED AS ORC")
    spark.range(40).selectExpr(
        "id", "CAST(id % 5 AS string)", "CAST(1 + id % 2 AS int)", "IF(id % 4 < 2, NULL, 'a b')"
    ).write.insertInto("by_month")
    return "by_month"


def multiset(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


def test_an_index_table_in_another_database(spark: SparkSession, trips: str, run: Run) -> None:
    spark.sql("CREATE DATABASE of_indexes")
    status, out, _ = run("create", trips, "city", "--index-table", "of_indexes.own", "--format", "json")
    assert (status, json.loads(out)[0]["index_table"]) == (0, "of_indexes.own")
    assert json.loads(run("show", trips, "--format", "json")[1])[0]["fresh"] == 3
    assert run("drop", trips, "city")[0] == 0
    spark.sql("DROP DATABASE of_indexes RESTRICT")


def test_an_index_from_its_creation_to_its_end(spark: SparkSession, trips: str, run: Run) -> None:
    status, out, err = run("create", trips, "city", "n,id", "--encoding", "roaring", "--format", "json")
    assert (status, err) == (0, "")
    city, both = json.loads(out)
    assert (city["index"], city["columns"], city["encoding"], city["base_rows"]) == ("city", ["city"], "roaring", 60)
    assert (both["index"], both["columns"]) == ("id_n", ["id", "n"])
    assert city["index_rows"] == spark.table(city["index_table"]).count()

    status, out, _ = run("show", trips, "--format", "csv")
    shown = list(csv.DictReader(io.StringIO(out)))
    assert [(row["index"], row["fresh"], row["stale"], row["columns"]) for row in shown] == [
        ("city", "3", "0", '["city"]'),
        ("id_n", "3", "0", '["id", "n"]'),
    ]
    status, out, _ = run("show", trips)
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["city", "id_n"]
    status, out, _ = run("show", trips, "CITY")
    assert status == 0 and "roaring" in out and "id_n" not in out

    status, _, err = run("create", city["index_table"], "city")
    assert status == 1 and "is the index table of city on" in err
    assert run("set", trips, "city", "encoding=gap")[0] == 0
    assert run("show", trips)[2] == "city: gap from its next rebuild on\n"
    assert [row.get("next_encoding") for row in json.loads(run("show", trips, "--format", "json")[1])] == ["gap", None]

    spark.sql("INSERT INTO trips VALUES (60, 'x', 0)")
    assert json.loads(run("show", trips, "city", "--format", "json")[1])[0]["unindexed"] == 1
    status, out, _ = run("rebuild", trips, "city", "--format", "json")
    assert (status, [r["base_files"] for r in json.loads(out)]) == (0, [4])
    assert json.loads(run("show", trips, "city", "--format", "json")[1])[0]["fresh"] == 4

    assert run("drop", trips, "id_n") == (0, "", "dropped index id_n on trips\n")
    assert run("drop", trips, "id_n", "--if-exists")[0] == 0
    assert run("drop", "no_such_table", "id_n", "--if-exists")[0] == 0
    assert [row["index"] for row in json.loads(run("show", trips, "--format", "json")[1])] == ["city"]


@pytest.mark.parametrize(
    "where", ["city = 'x'", "city IS NULL OR n = 3", "city = '' AND id < 30", "n > 1", "city = 'none'"]
)
def test_rows_and_counts_are_those_of_spark(spark: SparkSession, fixed_trips: str, run: Run, where: str) -> None:
    expected = spark.table(fixed_trips).where(where).collect()
    for options in ([], ["--strategy", "rows"], ["--strategy", "full scan"]):
        status, out, err = run("query", fixed_trips, where, "--format", "json", *options)
        assert (status, err) == (0, "")
        assert multiset(json.loads(out)) == multiset(row.asDict() for row in expected)
        status, out, _ = run("query", fixed_trips, where, "--format", "csv", *options)
        read = list(csv.reader(io.StringIO(out, newline="")))
        assert read[0] == ["id", "city", "n"]
        assert multiset(read[1:]) == multiset([str(row.id), row.city or "", str(row.n)] for row in expected)
    assert json.loads(run("query", fixed_trips, where, "--count", "--format", "json")[1]) == [{"count": len(expected)}]


def test_columns_limits_and_tables(spark: SparkSession, trips: str, run: Run) -> None:
    out = run("query", trips, "n = 1", "--columns", "n,`id`", "--limit", "4", "--format", "json")[1]
    assert [list(row) for row in json.loads(out)] == [["n", "id"]] * 4
    assert json.loads(run("query", trips, "--limit", "0", "--format", "json")[1]) == []
    status, out, err = run("query", trips, "id IN (3, 6)")
    assert (status, err) == (0, "")
    assert sorted(line.split() for line in out.splitlines()[2:]) == [["3", "two\\nlines", "3"], ["6", "NULL", "2"]]
    spark.sql("INSERT INTO trips SELECT id, 'x', 1 FROM range(100)")
    status, out, err = run("query", trips)
    assert len(out.splitlines()) == 102
    assert "only the first 100 rows" in err


def test_every_type_comes_back_from_json(spark: SparkSession, database: str, run: Run) -> None:
    spark.sql(f"CREATE TABLE every ({EVERY_TYPE}) USING parquet")
    spark.sql(
        "INSERT INTO every VALUES (true, -1, 9223372036854775807, 0.1D, 1234567890123456.7890, 'a\"b', 'v', X'00FF', "
        "DATE '1582-10-15', TIMESTAMP '2024-02-29 23:59:59.123456Z', TIMESTAMP_NTZ '1969-12-31 23:59:59.999999', "
        "array(1, NULL), named_struct('a b', 'é', 'c', map('k', 1.5D))), "
        "(NULL, NULL, NULL, double('NaN'), NULL, '', NULL, X'', NULL, NULL, NULL, array(), NULL)"
    )
    text = run("query", "every", "s = 'a\"b'", "--format", "json")[1]
    [row] = json.loads(text, parse_float=Decimal)
    assert (row["b"], row["i"], row["l"]) == (True, -1, 9223372036854775807)
    assert (float(row["d"]), row["n"]) == (0.1, Decimal("1234567890123456.7890"))
    assert (row["s"], row["v"], b64decode(row["x"])) == ('a"b', "v", b"\x00\xff")
    assert dt.date.fromisoformat(row["day"]) == dt.date(1582, 10, 15)
    assert dt.datetime.fromisoformat(row["at"]) == dt.datetime(2024, 2, 29, 23, 59, 59, 123456, ZONE)
    assert dt.datetime.fromisoformat(row["local"]) == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert (row["list"], row["nested"]) == ([1, None], {"a b": "é", "c": {"k": Decimal("1.5")}})

    [nulls] = json.loads(run("query", "every", "s = ''", "--format", "json")[1])
    assert (nulls["d"], nulls["x"], nulls["list"]) == ("NaN", "", [])
    assert [name for name, value in nulls.items() if value is None] == [
        "b",
        "i",
        "l",
        "n",
        "v",
        "day",
        "at",
        "local",
        "nested",
    ]
    fields = next(csv.DictReader(io.StringIO(run("query", "every", "i = -1", "--format", "csv")[1], newline="")))
    assert (fields["n"], fields["l"], fields["b"]) == ("1234567890123456.7890", "9223372036854775807", "true")
    assert json.loads(fields["nested"]) == {"a b": "é", "c": {"k": 1.5}}


def test_partitions_are_rebuilt_one_by_one(spark: SparkSession, by_month: str, run: Run) -> None:
    assert run("create", by_month, "k")[0] == 0
    spark.sql("INSERT INTO by_month VALUES (100, '9', 1, NULL), (101, '9', 2, 'a b')")
    for partition in ("month=1,region=NULL", "region='a b',MONTH=2"):
        before = json.loads(run("show", by_month, "--format", "json")[1])[0]["unindexed"]
        assert run("rebuild", by_month, "k", "--partition", partition)[0] == 0
        assert json.loads(run("show", by_month, "--format", "json")[1])[0]["unindexed"] == before - 1
    status, out, _ = run("query", by_month, "k = '9'", "--count", "--explain")
    assert (status, out) == (0, "2\n")
    status, out, err = run("rebuild", by_month, "--partition", "month=7,region=x")
    assert (status, out) == (1, "")
    assert "no partition (month=7, region=x) in table" in err


def test_deferred_and_existing_indexes(trips: str, run: Run) -> None:
    status, out, _ = run("create", trips, "city", "--deferred", "--type", "compact", "--format", "json")
    assert (status, json.loads(out)[0]["type"], json.loads(out)[0]["encoding"]) == (0, "COMPACT", None)
    status, out, err = run("create", trips, "city")
    assert (status, out, err) == (1, "", f"hive-bitmap: {err[len('hive-bitmap: ') :].strip()}\n")
    assert "index city already exists" in err
    status, out, _ = run("create", trips, "city", "n", "--if-not-exists", "--format", "json")
    assert (status, [record["index"] for record in json.loads(out)]) == (0, ["n"])
    assert run("create", trips, "city", "n", "--if-not-exists") == (0, "", "nothing to do: every index exists\n")


def test_the_plan_as_text_json_and_page(trips: str, run: Run, tmp_path: Path) -> None:
    run("create", trips, "city")
    status, out, _ = run("explain", trips, "city = 'x'", "--format", "json")
    plan = json.loads(out)
    assert (status, plan["predicate"], plan["indexes"][0]["used"]) == (0, "city = 'x'", True)
    page = tmp_path / "plan.html"
    status, out, err = run("explain", trips, "city = 'x'", "--html", str(page), "--width", "90")
    assert (status, err) == (0, f"wrote {page}\n")
    assert "city = 'x'" in out and max(map(len, out.splitlines())) <= 90
    assert "<html" in page.read_text()
    status, out, err = run("query", trips, "city = 'x'", "--explain", "--format", "json")
    assert "city = 'x'" in err and isinstance(json.loads(out), list)


def test_offsets_are_written(trips: str, run: Run, tmp_path: Path, spark: SparkSession) -> None:
    run("create", trips, "id")
    out_file = tmp_path / "o"
    status, out, err = run("offsets", trips, "id = 7", str(out_file))
    assert (status, out, err) == (0, "", f"wrote {out_file}: 1 of 3 files, 1 of 3 blocks\n")
    [line] = out_file.read_text().splitlines()
    [row] = spark.table(trips).where("id = 7").selectExpr("_metadata.file_path AS path").collect()
    assert line.partition("\x01")[0] == row.path.replace("file:///", "file:/")


def test_estimates_and_verification(trips: str, run: Run, spark: SparkSession) -> None:
    status, out, err = run("estimate", trips, "city", "id", "--sample", "1", "--format", "json")
    assert (status, err) == (0, "")
    assert [(e["columns"], e["blocks_total"]) for e in json.loads(out)] == [(["city"], 3), (["id"], 3)]
    run("create", trips, "city")
    status, out, err = run("verify", trips, "--format", "json")
    [found] = json.loads(out)
    assert (status, err, found["ok"], found["rows"], found["problems"]) == (0, "", True, 60, [])
    folder = spark.sql(f"DESCRIBE TABLE EXTENDED {found['index_table']} AS JSON").collect()[0][0]
    next(Path(json.loads(folder)["location"].removeprefix("file:")).rglob("part-*.parquet")).unlink()
    status, out, err = run("verify", trips)
    assert status == 1
    assert "problem: index city: " in err
    assert run("query", trips, "city = 'x'", "--count")[1].split()[-1] == str(
        spark.table(trips).where("city = 'x'").count()
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["create", "nope", "a"], "no table 'nope' in database"),
        (["create", "trips", "nope"], "no column 'nope' in table"),
        (["rebuild", "bare"], "has no index to rebuild"),
        (["rebuild", "trips", "nope"], "no index 'nope'"),
        (["drop", "trips", "nope"], "no index 'nope'"),
        (["drop", "nope", "nope"], "no table 'nope'"),
        (["show", "trips", "nope"], "no index 'nope'"),
        (["show", "no_such_database.t"], "no database 'no_such_database'"),
        (["query", "trips", "city ="], "end of input"),
        (["query", "trips", "town = 'x'"], "`town` cannot be resolved"),
        (["query", "trips", "--columns", "town"], "no column 'town' in table"),
        (["query", "trips", "--count", "n +"], "end of input"),
        (["query", "trips", "assert_true(id < 5, 'id is ' || id) IS NULL", "--format", "json"], "id is "),
        (["explain", "trips", "city ="], "end of input"),
        (["explain", "trips", "--html", "/no/such/folder/x.html"], "No such file or directory"),
        (["offsets", "trips", "city =", "never.offsets"], "end of input"),
        (["offsets", "trips", "n = 1", "/no/such/folder/x"], "/no/such/folder"),
        (["estimate", "trips", "nope"], "no column 'nope'"),
        (["verify", "trips", "nope"], "no index 'nope'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_1(fixed_trips: str, run: Run, argv: list[str], said: str) -> None:
    status, out, err = run(*argv)
    assert (status, out) == (1, "")
    assert err.startswith("hive-bitmap: ") and said in err
    assert err.count("\n") == 1


def test_an_empty_table(spark: SparkSession, database: str, run: Run) -> None:
    spark.sql("CREATE TABLE empty (a int, `b c` string) STORED AS PARQUET")
    assert run("show", "empty") == (0, "", "table empty has no index\n")
    assert run("create", "empty", "a", "b c")[0] == 0
    assert json.loads(run("query", "empty", "a = 1", "--format", "json")[1]) == []
    assert run("query", "empty", "a = 1", "--format", "csv")[1] == "a,b c\n"
    assert json.loads(run("query", "empty", "--count", "--format", "json")[1]) == [{"count": 0}]
    assert run("verify", "empty")[0] == 0
    assert json.loads(run("show", "empty", "b_c", "--format", "json")[1])[0]["columns"] == ["b c"]


def test_messages_are_told_with_v(trips: str, run: Run) -> None:
    status, out, err = run("-v", "query", trips, "n = 1", "--count", "--format", "csv")
    assert (status, out) == (0, "count\n15\n")
    assert "info: index only: " in err or "info: full scan: " in err
