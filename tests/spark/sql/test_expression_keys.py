"""Keys that are expressions: statements, builds, answers and the life of their indexes; the oracle is plain Spark."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

import hive_bitmap
from hive_bitmap.core.columns import KeyExpression
from hive_bitmap.errors import AlreadyExists, HiveBitmapError
from hive_bitmap.spark.building import key_expressions
from hive_bitmap.spark.metastore import metastore
from tests.asking import by_index, by_spark, difference, indexed, told, under, used
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
ANSWERED, NARROWED = [("t", "answered")], [("t", "narrowed")]
# Hours around changes of clocks, also across midnight; years 1 to 9999; other scripts, combining marks, pairs.
TABLE = """
CREATE TABLE t (ts timestamp, d date, n bigint, i int, s string, local timestamp_ntz, tiny tinyint) USING parquet
"""
VALUES = """
SELECT
  CASE WHEN id % 13 = 0 THEN NULL
    WHEN id % 101 = 1 THEN timestamp_micros(-62134000000000000 + id * 3600000000)
    WHEN id % 101 = 2 THEN timestamp_micros(253402214400000000 + id * 1000)
    ELSE timestamp_micros(1162177200000000 + id * 613000000) END AS ts,
  CASE WHEN id % 11 = 0 THEN NULL WHEN id % 97 = 1 THEN DATE'0001-01-01' WHEN id % 97 = 2 THEN DATE'9999-12-31'
    ELSE date_add(DATE'2019-11-28', CAST(id % 800 AS INT)) END AS d,
  CASE WHEN id % 17 = 0 THEN NULL WHEN id % 103 = 1 THEN 9223372036854775807 WHEN id % 103 = 2 THEN -9223372036854775808
    ELSE id * 7919 - 4000 END AS n,
  CASE WHEN id % 19 = 0 THEN NULL WHEN id % 107 = 1 THEN -2147483648 ELSE CAST(id % 300 - 20 AS INT) END AS i,
  CASE WHEN id % 7 = 0 THEN NULL ELSE concat(element_at(array('', 'a', 'ß', 'é', '\u6f22\u5b57', '\U0001f600', 'Ab'),
    CAST(id % 7 + 1 AS INT)), id % 5, 'x') END AS s,
  CASE WHEN id % 23 = 0 THEN NULL ELSE CAST(timestamp_micros(1162177200000000 + id * 313000000) AS timestamp_ntz) END
    AS local,
  CAST(id % 256 - 128 AS tinyint) AS tiny
FROM numbers
"""
KEYS = {
    "hour": "date_trunc('HOUR', ts)",
    "week": "date_trunc('week', ts)",
    "minute": "date_trunc('MINUTE', local)",
    "day": "to_date(ts)",
    "day_local": "CAST(local AS DATE)",
    "month": "trunc(d, 'MM')",
    "y": "year(ts)",
    "parts": "quarter(d)",
    "m": "month(d)",
    "dom": "day(ts)",
    "dow": "dayofweek(d)",
    "wd": "weekday(d)",
    "doy": "dayofyear(d)",
    "woy": "weekofyear(d)",
    "h": "hour(ts)",
    "mi": "minute(local)",
    "sec": "second(ts)",
    "prefix": "substring(s, 1, 2)",
    "beginning": "left(s, 1)",
    "ending": "substring(s, -2, 1)",
    "hashed": "xxhash64(s, n)",
    "h32": "hash(n)",
    "rest": "n % 7",
    "modulo": "pmod(i, 5)",
    "wide": "CAST(tiny AS BIGINT)",
    "bucket": "pmod(xxhash64(s), 16)",
}
HASHES = ("hashed", "h32")  # which Spark knows to be never NULL
REWRITTEN = ("day", "day_local", "wide")  # Spark compares their columns, not the casts, with literals


def fill(spark: SparkSession, start: int, rows: int = 400) -> None:
    """Append files to t."""
    spark.range(start, start + rows, 1, 2).createOrReplaceTempView("numbers")
    with under(spark, {ZONE: "UTC"}):
        spark.sql(VALUES).write.insertInto("t")


def require_answers(spark: SparkSession, expression: str, key: str) -> None:
    """Require that plain Spark's answers are given, from the index, about an expression of t."""
    known = [row[0] for row in spark.sql(f"SELECT DISTINCT CAST({expression} AS STRING) FROM t").collect() if row[0]]
    type = spark.sql(f"SELECT {expression} AS e FROM t LIMIT 0").schema["e"].dataType.simpleString()
    some = [f"CAST('{text}' AS {type})" for text in sorted(known)[:: max(1, len(known) // 3)]]
    counted = [
        f"SELECT {expression} AS e, count(*) AS c, count({expression}) AS d FROM t GROUP BY {expression}",
        f"SELECT count(*) FROM t WHERE {expression} IS NULL",
        f"SELECT min({expression}), max({expression}), count(DISTINCT {expression}) FROM t",
        f"SELECT DISTINCT {expression} AS e FROM t WHERE {expression} IS NOT NULL",
        f"SELECT e, count(*) FROM (SELECT {expression} AS e FROM t) WHERE e IN ({', '.join(some)}) GROUP BY e",
        f"SELECT count(*) FROM t WHERE {expression} > {some[-1]} OR {expression} <=> {some[0]}",
        f"SELECT count(*) FROM t WHERE NOT ({expression} = {some[0]})",
    ]
    for query in counted:
        wanted, found = by_spark(spark, query), by_index(spark, query, "index only")
        assert not (why := difference(found, wanted)), f"{key}: {query}: {why}"
        is_rewritten = (key in REWRITTEN and some[0] in query) or (key in HASHES and "NULL" in query)
        assert is_rewritten or told(spark, query, "index only") == ANSWERED, f"{key}: {query}"
    rows = f"SELECT * FROM t WHERE {expression} = {some[0]}"
    assert not (why := difference(by_index(spark, rows, "rows"), by_spark(spark, rows))), f"{key}: {why}"
    assert key in REWRITTEN or told(spark, rows, "rows") == NARROWED, f"{key}: {rows}"


@pytest.mark.turn(3)
@pytest.mark.parametrize("zone", ["America/St_Johns", "UTC", "Asia/Kathmandu"])
def test_each_function_is_answered_as_by_spark(spark: SparkSession, database: str, zone: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    with under(spark, {ZONE: zone}):
        hive_bitmap.build(spark, "t", [f"{sql} AS {name}" for name, sql in KEYS.items()])
        assert [verified.problems for verified in hive_bitmap.verify(spark, "t")] == [()] * len(KEYS)
        for name, expression in KEYS.items():
            require_answers(spark, expression, name)


@pytest.mark.contract
def test_statements_name_expressions_and_columns_in_both_dialects(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    hive_bitmap.sql(spark, "CREATE INDEX by_hour ON TABLE t (date_trunc('HOUR', ts) AS hour, i) AS 'BITMAP'")
    hive_bitmap.sql(spark, "CREATE INDEX by_prefix USING bitmap ON t (substring(s, 1, 1) AS p) WITH (encoding = ewah)")
    columns = [field.name for field in spark.table(f"{database}__t_by_hour__").schema]
    assert columns[:3] == ["i", "hour", "_bucketname"]
    for by in ("date_trunc('HOUR', ts), i", "i, date_trunc('HOUR', ts)"):
        query = f"SELECT {by}, count(*) FROM t WHERE date_trunc('HOUR', ts) > TIMESTAMP'2006-11-01 00:00' GROUP BY {by}"
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
        assert told(spark, query, "index only") == ANSWERED
    both = "SELECT i, s FROM t WHERE i = 7 AND date_trunc('HOUR', ts) < TIMESTAMP'2007-01-01 00:00'"
    both += " AND substring(s, 1, 1) = 'a'"
    assert not difference(by_index(spark, both, "rows"), by_spark(spark, both))
    assert told(spark, both, "rows") == NARROWED
    [shown] = hive_bitmap.sql(spark, "SHOW INDEX by_prefix").collect()
    assert "substring(s, 1, 1) AS p" in str(shown)
    assert "date_trunc('HOUR', ts) AS hour" in str(hive_bitmap.show(spark, "t"))
    with pytest.raises(AlreadyExists, match="same table, columns and type"):
        hive_bitmap.sql(spark, "CREATE INDEX again USING bitmap ON t (SUBSTRING(s, 1, 1) AS other)")
    hive_bitmap.sql(spark, "CREATE INDEX by_two USING bitmap ON t (substring(s, 1, 2) AS p)")
    for name in ("by_hour", "by_prefix", "by_two"):
        hive_bitmap.sql(spark, f"DROP INDEX {name} ON t")
    assert [table.name for table in spark.catalog.listTables(database) if not table.isTemporary] == ["t"]


def test_two_indexes_of_one_alias_and_a_later_column_of_that_name(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    hive_bitmap.build(spark, "t", ["date_trunc('HOUR', ts) AS hour"], name="a")
    hive_bitmap.build(spark, "t", ["hour(ts) AS hour"], name="b")
    hive_bitmap.build(spark, "t", ["hour(local) AS hour"], name="c")
    spark.sql("ALTER TABLE t ADD COLUMNS (hour int)")
    spark.sql("INSERT INTO t SELECT ts, d, n, i, s, local, tiny, i FROM t LIMIT 150")
    queries = [
        "SELECT count(*) FROM t WHERE hour = 7",
        "SELECT hour, count(*) FROM t GROUP BY hour",
        "SELECT hour(ts), count(*) FROM t GROUP BY hour(ts)",
        "SELECT count(*) FROM t WHERE hour(local) = 7 AND hour(ts) <> 7 AND date_trunc('HOUR', ts) > '2006-11-01'",
        "SELECT * FROM t WHERE hour(local) = 7 AND hour = 7",
    ]
    for query in queries:
        for strategy in ("", "rows", "index only"):
            assert not difference(by_index(spark, query, strategy), by_spark(spark, query)), query
    assert told(spark, queries[1], "index only")[0][1] == "left alone"
    hive_bitmap.refresh(spark, "t")
    for query in queries:
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query)), query
    assert told(spark, queries[3], "index only") == ANSWERED
    assert all(verified.ok for verified in hive_bitmap.verify(spark, "t"))


def test_an_index_serves_only_sessions_that_compute_alike(spark: SparkSession, database: str) -> None:
    """Builds compute what the index says, whoever runs them; a view has the settings of its own."""
    spark.sql(TABLE)
    fill(spark, 0)
    with under(spark, {ZONE: "America/St_Johns", ANSI: "true"}):
        hive_bitmap.build(spark, "t", ["to_date(ts) AS day"])
        hive_bitmap.build(spark, "t", ["n % 7 AS rest"])
        spark.sql("CREATE VIEW days AS SELECT to_date(ts) AS day, n FROM t")
    fill(spark, 1000)
    with under(spark, {ZONE: "Asia/Tokyo", ANSI: "false"}):
        assert [report.files_read for report in hive_bitmap.refresh(spark, "t")] == [2, 2]
        assert all(verified.ok for verified in hive_bitmap.verify(spark, "t"))
        for expression in ("to_date(ts)", "n % 7"):
            query = f"SELECT {expression}, count(*) FROM t GROUP BY {expression}"
            assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
            assert used(spark, query, "index only") == []
        with indexed(spark, "index only"):
            text = str(hive_bitmap.explain("SELECT to_date(ts), count(*) FROM t GROUP BY 1"))
        assert f"{ZONE} is Asia/Tokyo here and America/St_Johns in the index" in text
        view = "SELECT day, count(*) FROM days GROUP BY day"
        assert not difference(by_index(spark, view, "index only"), by_spark(spark, view))
        assert told(spark, view, "index only") == ANSWERED
    with under(spark, {ZONE: "America/St_Johns", ANSI: "true"}):
        require_answers(spark, "to_date(ts)", "day")
        require_answers(spark, "n % 7", "rest")


def test_the_other_keys_of_an_index_serve_where_one_is_computed_otherwise(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    with under(spark, {ZONE: "America/St_Johns"}):
        hive_bitmap.build(spark, "t", [["to_date(ts) AS day", "i", "pmod(n, 5) AS rest"]])
    with under(spark, {ZONE: "Asia/Tokyo"}):
        for query in (
            "SELECT i, count(*) FROM t GROUP BY i",
            "SELECT count(*) FROM t WHERE pmod(n, 5) = 3 AND i > 7",
            "SELECT pmod(n, 5) AS r, i, count(*) FROM t GROUP BY r, i",
        ):
            assert not difference(by_index(spark, query, "index only"), by_spark(spark, query)), query
            assert told(spark, query, "index only") == ANSWERED, query
        days = "SELECT to_date(ts) AS day, count(*) FROM t GROUP BY day"
        assert not difference(by_index(spark, days, "index only"), by_spark(spark, days))
        assert used(spark, days, "index only") == []
        with indexed(spark, "index only"):
            text = str(hive_bitmap.explain(days))
        assert f"{ZONE} is Asia/Tokyo here and America/St_Johns in the index" in text


def test_a_row_that_fails_leaves_its_file_unindexed(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    for start in (0, 100, 1000):
        spark.range(start, start + 50, 1, 1).createOrReplaceTempView("numbers")
        spark.sql("SELECT NULL, NULL, IF(id % 5 = 0, NULL, id), 1, 'a', NULL, 2 FROM numbers").write.insertInto("t")
    with under(spark, {ANSI: "true"}):
        [report] = hive_bitmap.build(spark, "t", ["CAST(n AS TINYINT) AS small"])
        assert [reason for _, reason in report.unindexed] == ["CAST(n AS TINYINT) fails for a row"] * 2
        query = "SELECT count(*) FROM t WHERE n < 50 AND CAST(n AS TINYINT) = 3"
        assert not difference(by_index(spark, query), by_spark(spark, query))
    with under(spark, {ANSI: "false"}):
        [report] = hive_bitmap.build(spark, "t", ["CAST(n AS TINYINT) AS wrapped"])
        assert report.unindexed == ()
        require_answers(spark, "CAST(n AS TINYINT)", "wrapped")


REFUSED = {
    "rand() AS r": "is not among the functions|is not deterministic",
    "current_date() AS today": "has no column of the table|is not among",
    "upper(s) AS u": "is not among the functions whose values an index may store",
    "n + 1 AS more": "is not among the functions",
    "to_date(s) AS day": "is not among the functions",
    "ts AS moment": "it is a column: leave out its name",
    "1 AS one": "it has no column",
    "other.ts AS x": "cannot be resolved|UNRESOLVED",
    "missing % 2 AS x": "missing",
    "array(n) AS x": "is not among the functions",
    "date_trunc('FORTNIGHT', ts) AS x": "is not among the functions",
    "date_trunc('HOUR', ts) AS n": "'n' is already a column",
    "date_trunc('HOUR', ts) AS p": "'p' is already a column",
    "date_trunc('HOUR', ts) AS _bucketname": "cannot name",
    "p % 2 AS half": "partition",
    "n % 0 AS x": "is not among the functions",
    "(SELECT max(n) FROM t) % 2 AS x": "it has no column",
    "substring(v, 1, 2) AS x": "VARCHAR",
    "max(n) AS x": "is not among|more than an expression|MISSING",
    "explode(sequence(n, n)) AS x": "more than an expression|is not among",
    "'unfinished AS x": "column|unfinished",
    f"{'(' * 3000}n % 3{')' * 3000} AS x": "it is nested too deep",
    f"{'substring(' * 3000}s{', 1, 5)' * 3000} AS x": "it is nested too deep",
}


def test_columns_of_spark_are_the_keys_that_their_text_is(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    columns = {
        "date_trunc('HOUR', ts)": f.date_trunc("HOUR", "ts"),
        "to_date(ts)": f.to_date(f.col("ts")),
        "CAST(local AS DATE)": f.col("local").cast("date"),
        "weekofyear(d)": f.weekofyear("d"),
        "hour(local)": f.hour("local"),
        "substring(s, -2, 1)": f.substring("s", -2, 1),
        "left(s, 1)": f.left("s", f.lit(1)),
        "xxhash64(s, n)": f.xxhash64("s", "n"),
        "hash(n)": f.hash("n"),
        "n % 7": f.col("n") % 7,
        "pmod(xxhash64(s), 16)": f.pmod(f.xxhash64("s"), f.lit(16)),
        "CAST(tiny AS BIGINT)": f.expr("CAST(tiny AS BIGINT)"),
    }
    for ansi in ("true", "false"):
        with under(spark, {ZONE: "Asia/Kathmandu", ANSI: ansi}):
            base = metastore.describe(spark, "t")
            for text, column in columns.items():
                [[by_column], [by_text]] = key_expressions.resolved_items(
                    spark, base, [column.alias("Key"), f"{text} AS key"]
                )
                assert isinstance(by_column, KeyExpression) and isinstance(by_text, KeyExpression)
                assert replace(by_column, sql=by_text.sql) == by_text, text
    hive_bitmap.build(
        spark, "t", [[columns["date_trunc('HOUR', ts)"].alias("hour"), "i"], columns["n % 7"].alias("rest")]
    )
    require_answers(spark, "date_trunc('HOUR', ts)", "hour")
    require_answers(spark, "n % 7", "rest")
    assert all(verified.ok for verified in hive_bitmap.verify(spark, "t"))


def _of_connect() -> Column:
    """A Column of a Spark Connect client, which needs no server until it is used."""
    from pyspark.sql.connect import functions

    return functions.hour("ts").alias("x")


def test_columns_of_spark_that_are_no_keys(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    frame = spark.table("t")
    refused = {
        "it has no name": [f.hour("ts"), f.col("n")],
        "it is a column: leave out its name": [f.col("n").alias("m")],
        "by more than an expression": [f.udf(lambda n: n, "bigint")("n").alias("x"), f.max("n").alias("x")],
        "is not a function of Spark|cannot be resolved|UNRESOLVED": [f.call_function("nothing", "n").alias("x")],
        "is not among the functions|has no column": [
            (f.col("n") + 1).alias("x"),
            f.upper("s").alias("x"),
            f.lit(1).alias("x"),
        ],
        "columns of a DataFrame|CANNOT_RESOLVE": [f.hour(frame["ts"]).alias("x"), f.hour(frame.ts).alias("x")],
        "not a column of the table|UNRESOLVED": [f.hour("other.ts").alias("x"), f.hour("missing").alias("x")],
        "not deterministic|is not among": [f.rand().alias("x")],
        "'n' is already a column": [f.hour("ts").alias("n")],
        "is a Column of Spark Connect, but": [] if find_spec("grpc") is None else [_of_connect()],
    }
    for why, columns in refused.items():
        for column in columns:
            with pytest.raises(HiveBitmapError, match=why) as error:
                hive_bitmap.build(spark, "t", [column])
            assert "\n" not in str(error.value).strip()
    assert [table.name for table in spark.catalog.listTables(database) if not table.isTemporary] == ["t"]


def test_refusals_are_one_sentence_and_leave_nothing_behind(spark: SparkSession, database: str, tmp_path: Path) -> None:
    columns = "ts timestamp, n bigint, s string, v varchar(5)"
    spark.sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (p int) STORED AS PARQUET LOCATION 'file:{tmp_path}/t'")
    spark.sql("INSERT INTO t VALUES (NULL, 1, 'a', 'b', 1)")
    for key, why in REFUSED.items():
        with pytest.raises(HiveBitmapError, match=why) as error:
            hive_bitmap.build(spark, "t", [key])
        assert "\n" not in str(error.value).strip(), key
    with pytest.raises(HiveBitmapError):
        hive_bitmap.build(spark, "t", [["n", "date_trunc('HOUR', ts) AS x", "hour(ts) AS x"]])
    assert [table.name for table in spark.catalog.listTables(database) if not table.isTemporary] == ["t"]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("format", contract(["orc", "text", "avro"], "orc"))
def test_other_formats_and_partitions(spark: SparkSession, database: str, format: str) -> None:
    stored = {"orc": "STORED AS ORC", "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'", "avro": "STORED AS AVRO"}
    spark.sql(f"CREATE TABLE t (n bigint, s string, d date) PARTITIONED BY (p int) {stored[format]}")
    for start in (0, 500):
        spark.range(start, start + 300, 1, 2).createOrReplaceTempView("numbers")
        spark.sql(
            "SELECT IF(id % 9 = 0, NULL, id), concat('ab', id % 4), date_add(DATE'2020-01-30', CAST(id % 50 AS INT)), "
            "CAST(id % 2 AS INT) FROM numbers"
        ).write.insertInto("t")
        if start == 0:
            hive_bitmap.build(
                spark, "t", [["trunc(d, 'MONTH') AS month", "n"], "pmod(n, 10) AS last", "xxhash64(s) AS h"]
            )
    hive_bitmap.refresh(spark, "t")
    assert all(verified.ok for verified in hive_bitmap.verify(spark, "t"))
    for query in (
        "SELECT p, trunc(d, 'MONTH') AS m, count(*) FROM t GROUP BY p, trunc(d, 'MONTH')",
        "SELECT count(*) FROM t WHERE pmod(n, 10) = 3 AND p = 1",
        "SELECT xxhash64(s) AS h, count(*) FROM t WHERE p = 0 GROUP BY h",
        "SELECT count(DISTINCT n), min(n) FROM t WHERE trunc(d, 'MONTH') = DATE'2020-02-01'",
    ):
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query)), query
        assert told(spark, query, "index only") == ANSWERED, query
    [report] = hive_bitmap.rebuild(spark, "t", ["last"], full=True)
    assert report.unindexed == () and report.base_rows == 600


def test_a_renamed_table_keeps_its_index(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    hive_bitmap.build(spark, "t", ["year(ts) AS y"])
    spark.sql("ALTER TABLE t RENAME TO u")
    [report] = hive_bitmap.attach(spark, "u", "t")
    assert report.files_read == 0
    query = "SELECT year(ts), count(*) FROM u GROUP BY year(ts)"
    assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
    assert told(spark, query, "index only") == [("u", "answered")]


def test_sums_by_an_expression_and_by_a_column_of_its_name(spark: SparkSession, database: str) -> None:
    spark.sql(TABLE)
    fill(spark, 0)
    hive_bitmap.build(spark, "t", ["year(d) AS y"], aggregates="count(*), sum(i), max(tiny)")
    spark.sql("ALTER TABLE t ADD COLUMNS (y int)")
    queries = {
        "SELECT year(d), sum(i), max(tiny), count(*) FROM t GROUP BY year(d)": True,
        "SELECT sum(i) FROM t WHERE year(d) IN (2020, 2021)": True,
        "SELECT y, sum(i), max(tiny), count(*) FROM t GROUP BY y": False,
        "SELECT sum(i) FROM t WHERE y = 2020": False,
        "SELECT sum(i) FROM t WHERE month(d) = 2": False,
    }
    for query, is_answered in queries.items():
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query)), query
        assert (told(spark, query, "index only") == ANSWERED) is is_answered, query


def test_a_key_means_the_same_in_each_session(spark: SparkSession, database: str) -> None:
    """A session may read TIMESTAMP as another type, and have functions and variables of its own."""
    spark.sql(TABLE)
    fill(spark, 0)
    query = "SELECT hash(CAST(d AS TIMESTAMP)), count(*) FROM t GROUP BY 1"
    with under(spark, {ZONE: "Asia/Tokyo", "spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        hive_bitmap.build(spark, "t", ["hash(CAST(d AS TIMESTAMP)) AS h"])
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
    with under(spark, {ZONE: "Asia/Tokyo"}):
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
        assert told(spark, query, "index only") == ANSWERED
    spark.sql("DECLARE OR REPLACE VARIABLE divisor BIGINT = 7")
    spark.sql("CREATE TEMPORARY FUNCTION hours(x TIMESTAMP) RETURNS INT RETURN hour(x)")
    try:
        for key, why in (("n % divisor", "divisor is not a column"), ("hours(ts)", "hours is not a function of Spark")):
            with pytest.raises(HiveBitmapError, match=why):
                hive_bitmap.build(spark, "t", [f"{key} AS x"])
    finally:
        spark.sql("DROP TEMPORARY VARIABLE divisor")
        spark.sql("DROP TEMPORARY FUNCTION hours")


def test_a_key_that_fails_is_computed_only_for_rows_for_which_the_query_does(
    spark: SparkSession, database: str
) -> None:
    spark.sql(TABLE)
    for start in (0, 1000):
        spark.range(start, start + 50, 1, 1).createOrReplaceTempView("numbers")
        spark.sql("SELECT NULL, NULL, id, 1, 'a', NULL, 2 FROM numbers").write.insertInto("t")
    with under(spark, {ANSI: "true"}):
        keys = ["CAST(n AS TINYINT) AS small", "CAST(n AS TINYINT) % 5 AS of_it", "n % 5 AS rest"]
        reports = hive_bitmap.build(spark, "t", [["n", keys[0]], *keys])
        assert [len(report.unindexed) for report in reports] == [1, 1, 1, 0]
        for expression in ("IF(n < 100, CAST(n AS TINYINT), 0Y)", "CASE WHEN n < 100 THEN CAST(n AS TINYINT) % 5 END"):
            for query in (
                f"SELECT {expression} AS e, count(*) FROM t GROUP BY e",
                f"SELECT count(*), sum({expression}) FROM t",
                "SELECT count(*) FILTER (WHERE n < 100 AND CAST(n AS TINYINT) = 3) FROM t",
                f"SELECT count(*) FROM t WHERE {expression} = 3",
            ):
                for strategy in ("", "index only"):
                    assert not difference(by_index(spark, query, strategy), by_spark(spark, query)), query
        query = "SELECT CAST(n AS TINYINT) AS e, count(*) FROM t WHERE n < 100 GROUP BY e"
        assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
        assert told(spark, query, "index only") == ANSWERED


@pytest.mark.parametrize("stored", ["USING parquet", "STORED AS TEXTFILE"])
def test_a_table_without_files_is_verified(spark: SparkSession, database: str, stored: str) -> None:
    spark.sql(f"CREATE TABLE t (n int) {stored}")
    spark.sql("INSERT INTO t VALUES (1), (2), (3)")
    hive_bitmap.build(spark, "t", ["n % 2 AS r"])
    spark.sql("TRUNCATE TABLE t")
    assert [verified.problems for verified in hive_bitmap.verify(spark, "t")] == [()]
    hive_bitmap.refresh(spark, "t")
    assert by_index(spark, "SELECT n % 2, count(*) FROM t GROUP BY 1", "index only").rows == []
