"""What tests of columns imply for keys that are expressions of them; the oracle is plain Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import lanes
from tests.asking import by_index, by_spark, difference, indexed, told, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
ANSWERED, NARROWED = [("t", "answered")], [("t", "narrowed")]
TABLE = (
    "CREATE TABLE t (ts timestamp, local timestamp_ntz, d date, n bigint, i int, tiny tinyint, s string) USING parquet"
)
DAY, HOUR = 86_400_000_000, 3_600_000_000
# Steps of clocks, in seconds since 1970: across midnight, by half an hour, of summer time in the month of fasting, from
# mean to standard time, a day left out; and ends of years.
STEPS = [
    1162693860, 1143862260, 1289100660, 1301196660,  # America/St_Johns, back at 00:01 until 2010
    1238860800, 1254583800, -2364112585, 372785400,  # Australia/Lord_Howe
    1560045600, 1557021600, 1589068800, 1540692000,  # Africa/Casablanca
    -3852662325, -1691964000, 57722400,  # Europe/London
    1325239200, 0, 1577836800, 1704067200, 951782400, 253402214400, -62135510400,
]  # fmt: skip
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "ß",
    "ßx",
    "é",
    "漢",
    "漢字",
    "漢字x",
    "\uffff",
    "😀",
    "😀a",
    "A",
    " ",
    "ab ",
]
KEYS = {
    "ts": [f"date_trunc('{unit}', ts)" for unit in ("MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")]
    + ["to_date(ts)", "year(ts)", "trunc(CAST(ts AS DATE), 'MM')", "hour(ts)", "xxhash64(ts)"],
    "local": ["CAST(local AS DATE)", "year(local)", "date_trunc('HOUR', local)", "minute(local)"],
    "d": ["trunc(d, 'MM')", "trunc(d, 'WEEK')", "year(d)", "month(d)", "hash(d)"],
    "n": ["xxhash64(n)", "n % 7", "CAST(n AS TINYINT)"],
    "i": ["CAST(i AS BIGINT)", "pmod(i, 5)", "hash(i)"],
    "tiny": ["CAST(tiny AS INT)"],
    "s": ["substring(s, 1, 2)", "left(s, 1)", "substring(s, 0, 3)", "substring(s, -1, 1)", "xxhash64(s)"],
}


def micros(random: Random) -> int:
    step = random.choice(STEPS) * 1_000_000
    near = random.choice([0, 1, -1, random.randrange(-90, 90) * 60_000_000, random.randrange(-DAY, DAY)])
    return min(max(step + near, -62135510400_000_000), 253402300799_999_999 - DAY)


def value(column: str, random: Random) -> str:
    """A constant of the column's type, as SQL."""
    match column:
        case "ts":
            at = micros(random)
            return f"timestamp_micros({random.choice([at, at // HOUR * HOUR, at // DAY * DAY])})"
        case "local":
            unit = random.choice([1, HOUR, DAY])
            return f"CAST(timestamp_micros({micros(random) // unit * unit}) AS timestamp_ntz)"
        case "d":
            return f"date_from_unix_date({micros(random) // DAY})"
        case "n":
            return f"CAST({random.choice([random.randrange(-300, 300), 2**63 - 1, -(2**63) + 1])} AS BIGINT)"
        case "i":
            return f"CAST({random.choice([random.randrange(-40, 40), 2**31 - 1, -(2**31)])} AS INT)"
        case "tiny":
            return f"CAST({random.randrange(-128, 128)} AS TINYINT)"
    return f"'{random.choice(TEXTS)}'"


def row(random: Random) -> str:
    return ", ".join("NULL" if random.random() < 0.1 else value(column, random) for column in KEYS)


def condition_on(column: str, random: Random) -> str:
    """A test of a column."""
    one, two = value(column, random), value(column, random)
    tests = [f"{column} {op} {one}" for op in ("<", "<=", ">", ">=", "=", "<=>", "<>")]
    tests += [f"{one} {op} {column}" for op in ("<", ">=")]
    tests += [f"{column} BETWEEN {one} AND {two}", f"{column} IN ({one}, {two}, NULL)", f"{column} IN ({one}, {two})"]
    tests += [f"({column} >= {one} AND {column} < {two})", f"{column} IS NULL", f"{column} IS NOT NULL"]
    tests += [f"startswith(s, {one})", f"{column} > '漢' AND {column} < '😀'"] if column == "s" else []
    return random.choice(tests)


def condition(column: str, random: Random) -> str:
    parts = [condition_on(column, random) for _ in range(random.choice([1, 1, 2, 3]))]
    parts = [f"NOT ({part})" if random.random() < 0.25 else part for part in parts]
    if random.random() < 0.2:
        parts.append(random.choice(["tiny > 100", "length(s) = 1", "n IS NULL"]))
    return random.choice([" AND ", " OR "]).join(f"({part})" for part in parts)


def fill(spark: SparkSession, seed: int, files: int = 3, rows: int = 150) -> None:
    random = Random(seed)
    for _ in range(files):
        values = ", ".join(f"({row(random)})" for _ in range(rows))
        with under(spark, {ZONE: "UTC"}):
            spark.sql(f"INSERT INTO t SELECT * FROM VALUES {values}")


@contextmanager
def index(spark: SparkSession, key: str) -> Iterator[None]:
    """An index of t by an expression."""
    hive_bitmap.build(spark, "t", [f"{key} AS x"], name="x")
    try:
        yield
    finally:
        hive_bitmap.drop(spark, "t", "x")


def require_alike(spark: SparkSession, condition: str, strategies: Sequence[str] = ("index only", "rows")) -> None:
    for what, strategy in zip(("count(*), count(d)", "*"), strategies, strict=True):
        query = f"SELECT {what} FROM t WHERE {condition}"
        found, wanted = by_index(spark, query, strategy), by_spark(spark, query)
        assert not (why := difference(found, wanted)), f"{query}: {why}"


@pytest.mark.turn(49)
@pytest.mark.parametrize("column", KEYS)
@pytest.mark.parametrize(
    "zone",
    ["America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/London", "UTC", "Pacific/Apia", "+05:30"],
)
def test_random_conditions_have_the_rows_of_spark(spark: SparkSession, database: str, zone: str, column: str) -> None:
    random = Random(lanes.sample())
    spark.sql(TABLE)
    fill(spark, lanes.sample())
    for expression in KEYS[column]:
        built, asked = ({ANSI: random.choice(["true", "false"])} for _ in range(2))
        elsewhere = {ZONE: random.choice([zone, "Asia/Tokyo"]), **asked}
        with under(spark, {ZONE: zone, **built}), index(spark, expression), under(spark, elsewhere):
            for _ in range(6):
                require_alike(spark, condition(column, random))


# For a key: conditions of which its index answers a count, only leaves rows out, or knows nothing.
CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "date_trunc('HOUR', ts)": (
        [
            "ts >= TIMESTAMP'2019-12-31 00:00' AND ts < TIMESTAMP'2020-01-01 00:00'",
            "NOT (ts <= TIMESTAMP'2020-01-01 03:59:59.999999')",
            "ts < TIMESTAMP'2020-01-01 00:00' OR ts IS NULL",
        ],
        [
            "ts BETWEEN TIMESTAMP'2019-12-31 00:00' AND TIMESTAMP'2020-01-01 00:00'",
            "ts >= TIMESTAMP'2020-01-01 00:30' OR ts IS NULL",
            "NOT (ts < TIMESTAMP'2020-01-01 00:30' OR tiny = 3Y)",
            "ts = TIMESTAMP'2020-01-01 00:00'",
            "ts <=> TIMESTAMP'2020-01-01 00:00'",
        ],
        ["ts <> TIMESTAMP'2020-01-01 00:00'", "ts < TIMESTAMP'2020-01-01 00:00' OR tiny = 3Y"],
    ),
    "to_date(ts)": (
        ["to_date(ts) = DATE'2020-01-01'", "CAST(ts AS DATE) > DATE'2020-01-01'", "to_date(ts) <> DATE'2020-01-01'"],
        ["ts < TIMESTAMP'2020-01-01 12:00'"],
        ["CAST(ts AS STRING) < '2020'"],
    ),
    "year(ts)": (
        ["ts >= TIMESTAMP'2020-01-01 00:00' AND NOT ts >= TIMESTAMP'2021-01-01 00:00'"],
        ["to_date(ts) = DATE'2020-01-01'"],
        [],
    ),
    "hour(ts)": ([], ["ts = TIMESTAMP'2020-01-01 00:00'"], ["ts > TIMESTAMP'2020-01-01 00:00'"]),
    "CAST(local AS DATE)": (
        ["local < TIMESTAMP_NTZ'2020-01-01 00:00'", "CAST(local AS DATE) = DATE'2020-01-01'"],
        ["local > TIMESTAMP_NTZ'2020-01-01 00:00'"],
        [],
    ),
    "trunc(d, 'MM')": (["d >= DATE'2020-01-01' AND d <= DATE'2020-01-31'"], ["d > DATE'2020-01-30'"], []),
    "year(d)": (["d >= DATE'2020-01-01'"], ["d IN (DATE'2020-01-01', DATE'2024-01-01')"], []),
    "substring(s, 1, 2)": (
        ["s = 'a'", "s LIKE 'ab%' AND s <> 'b'", "s >= 'ab'", "s IN ('', 'a')"],
        ["s LIKE 'abc%' OR s IN ('abd', '')", "s > 'ab'", "s = 'ab'"],
        ["NOT (s = 'ab')", "s NOT LIKE 'abc%'"],
    ),
    "substring(s, 2, 2)": ([], ["s = 'ab'"], ["s > 'ab'", "s LIKE 'ab%'"]),
    "CAST(tiny AS INT)": (["tiny IN (1Y, 2Y) OR tiny > 120Y", "NOT (tiny = 3Y)"], [], ["n = 3"]),
    "xxhash64(n)": (
        [],
        ["n = 5", "n IN (5, 6, NULL) AND tiny > 0Y"],
        ["n > 5", "NOT (n = 5 OR tiny = 1Y)", "n = 5 OR tiny = 1Y", "n = 5.0D"],
    ),
    "xxhash64(n, tiny)": ([], [], ["n = 5"]),
    "CAST(n AS SMALLINT)": ([], ["n = 5"], ["n = 40000", "n < 5"]),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, shared_database: str) -> None:
    """The table t, with hours around 2020 and few other values, in three files."""
    spark.sql(TABLE)
    for start in (0, 40, 80):
        spark.range(start, start + 40, 1, 1).createOrReplaceTempView("numbers")
        spark.sql(
            """SELECT IF(id % 9 = 0, NULL, timestamp_micros(1577750400000000 + id * 1801000000)),
              IF(id % 9 = 1, NULL, CAST(timestamp_micros(1577750400000000 + id * 1801000000) AS timestamp_ntz)),
              date_add(DATE'2019-12-20', CAST(id AS INT)), id, CAST(id AS INT), CAST(id % 7 AS TINYINT),
              element_at(array('', 'a', 'ab', 'abc', 'abd', 'b', NULL), CAST(id % 7 + 1 AS INT)) FROM numbers"""
        ).write.insertInto("t")


@pytest.mark.turn(4)
@pytest.mark.parametrize("key", contract(list(CASES), "to_date(ts)", "xxhash64(n)"))
def test_what_a_condition_implies(spark: SparkSession, table: None, key: str) -> None:
    answered, pruned, unknown = CASES[key]
    with under(spark, {ZONE: "Europe/London", ANSI: "true"}), index(spark, key):
        for condition in (*answered, *pruned, *unknown):
            require_alike(spark, condition)
        for condition in answered:
            assert told(spark, f"SELECT count(*) FROM t WHERE {condition}", "index only") == ANSWERED, condition
        for condition in pruned:
            assert told(spark, f"SELECT * FROM t WHERE {condition}", "rows") == NARROWED, condition
            plan = hive_bitmap.plan(spark, "t", condition)
            assert plan.rows_selected is None and 0 < sum(plan.blocks["selected"].to_pylist()) < 120, condition
            assert "which follows from the test of" in plan.indexes[0].reason
        for condition in unknown:
            is_alone = told(spark, f"SELECT * FROM t WHERE {condition}", "rows")[0][1] == "left alone"
            assert is_alone or sum(hive_bitmap.plan(spark, "t", condition).blocks["selected"].to_pylist()) == 120, (
                condition
            )


def test_a_clock_that_steps_back_across_a_unit_keeps_no_order(spark: SparkSession, database: str) -> None:
    """In St. John's, the clock went back from 00:01 to 23:01 until 2010; in Nuuk it goes back when a day has ended."""
    spark.sql(TABLE)
    fill(spark, 7)
    known = {
        ("America/St_Johns", "to_date(ts)", "2005-01-01"): False,
        ("America/St_Johns", "to_date(ts)", "2012-01-01"): True,
        ("America/St_Johns", "date_trunc('HOUR', ts)", "2005-01-01"): False,
        ("America/St_Johns", "year(ts)", "2005-01-01"): True,
        ("America/Nuuk", "to_date(ts)", "2030-01-01"): True,
        ("Africa/Casablanca", "date_trunc('HOUR', ts)", "2019-01-01"): True,
        ("Pacific/Chatham", "date_trunc('HOUR', ts)", "2020-01-01"): False,  # by an hour at a quarter to
        ("Europe/London", "date_trunc('MINUTE', ts)", "1840-01-01"): False,
    }
    for (zone, key, day), is_ordered in known.items():
        with under(spark, {ZONE: zone}), index(spark, key):
            for condition in (f"ts < TIMESTAMP'{day} 00:00'", f"ts >= TIMESTAMP'{day} 12:30:01'"):
                require_alike(spark, condition)
                done = told(spark, f"SELECT * FROM t WHERE {condition}", "rows")
                assert (done == NARROWED) is is_ordered, (zone, key, condition)


@pytest.mark.contract
def test_files_that_the_index_does_not_know_are_read(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 1)
    hive_bitmap.build(spark, "t", ["xxhash64(n) AS h", "date_trunc('HOUR', ts) AS hour"])
    fill(spark, 2, files=1)
    conditions = ("n IN (5, -7, 9223372036854775807)", "ts >= TIMESTAMP'2020-01-01 00:00' AND n IS NOT NULL")
    for condition in conditions:
        require_alike(spark, condition)
        require_alike(spark, condition, ("", ""))
    hive_bitmap.refresh(spark, "t")
    for condition in conditions:
        require_alike(spark, condition)


def test_an_index_of_the_column_answers_in_place_of_a_key(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 3)
    hive_bitmap.build(spark, "t", ["xxhash64(n) AS h", "substring(s, 1, 2) AS p", "n", "s"])
    for condition in (
        "n = 5",
        "NOT (n IN (1, 2, 3))",
        "s > 'ab'",
        "n = 5 AND s LIKE 'abc%'",
        "xxhash64(n) = 1 OR n = 2",
    ):
        require_alike(spark, condition)
        assert told(spark, f"SELECT count(*) FROM t WHERE {condition}", "index only") == ANSWERED, condition
    with indexed(spark, "index only"):
        text = str(hive_bitmap.explain("SELECT count(*) FROM t WHERE n = 5"))
    assert "serves n" in text and "follows" not in text


def test_the_keys_of_a_small_side_prune_by_a_hash(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (n bigint, text string) USING parquet")
    spark.range(0, 20_000, 1, 4).selectExpr("id * 7", "repeat(sha(CAST(id AS STRING)), 3)").write.insertInto("t")
    spark.sql("CREATE TABLE small (n bigint, kind string) USING parquet")
    spark.range(0, 50, 1, 1).selectExpr("id * 21", "IF(id % 10 = 0, 'rare', 'usual')").write.insertInto("small")
    hive_bitmap.build(spark, "t", ["xxhash64(n) AS h"])
    for query in (
        "SELECT t.* FROM t JOIN small ON t.n = small.n WHERE kind = 'rare'",
        "SELECT * FROM t WHERE n IN (SELECT n FROM small WHERE kind = 'rare')",
        "SELECT count(*) FROM t JOIN small ON t.n = small.n WHERE kind = 'rare'",
    ):
        assert not difference(by_index(spark, query, "rows"), by_spark(spark, query)), query
    assert told(spark, query, "rows") == NARROWED
