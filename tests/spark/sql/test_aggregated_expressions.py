"""Aggregates of expressions: statements, builds, answers and the life of their indexes; the oracle is plain Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import HiveBitmapError, InvalidProperty, NotFound, Unsupported
from hive_bitmap.spark.metastore import metastore
from tests.asking import by_index, by_spark, difference, told, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSI, LOSS = "spark.sql.ansi.enabled", "spark.sql.decimalOperations.allowPrecisionLoss"
ANSWERED, LEFT = [("t", "answered")], [("t", "left alone")]
SUM = "SELECT country, sum(price * quantity) AS s FROM t GROUP BY country"
REVENUE = "count(*), sum(price * quantity) AS revenue"


def fill(spark: SparkSession, start: int, rows: int = 200) -> None:
    """Append files to t."""
    spark.sql(
        f"""INSERT INTO t SELECT concat('c', id % 5), CAST(id % 3 AS int),
        CASE WHEN id % 7 = 0 THEN NULL ELSE CAST(id * 1.37 - 90 AS decimal(10,2)) END,
        CASE WHEN id % 11 = 0 THEN NULL ELSE CAST(id % 13 - 3 AS int) END,
        CAST(id * 1000003 AS bigint), date_add(DATE'2020-01-01', CAST(id AS int)), 1.5, 'x'
        FROM range({start}, {start + rows}, 1, 2)"""
    )


def create(spark: SparkSession, stored: str = "USING parquet") -> None:
    spark.sql(
        "CREATE TABLE t (country string, j int, price decimal(10,2), quantity int, b bigint, d date, f double, "
        f"v varchar(9)) {stored}"
    )
    fill(spark, 0)


def index(spark: SparkSession, aggregates: str, keys: str = "country", name: str = "i", type: str = "BITMAP") -> None:
    hive_bitmap.sql(
        spark, f"CREATE INDEX {name} ON TABLE t ({keys}) AS '{type}' IDXPROPERTIES ('aggregates' = '{aggregates}')"
    )


def outcome(spark: SparkSession, query: str, strategy: str | None) -> Any:
    """The answer to a query, or the class of Spark's error; without a strategy, by plain Spark."""
    from pyspark.errors import PySparkException

    try:
        return by_spark(spark, query) if strategy is None else by_index(spark, query, strategy)
    except PySparkException as e:
        return e.getCondition()


def require(spark: SparkSession, query: str, action: list[tuple[str, str]] = ANSWERED) -> None:
    """Require Spark's answer to a query, or its error, and what is done with its scan of t."""
    wanted, found = outcome(spark, query, None), outcome(spark, query, "index only")
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted, query
    else:
        assert not (why := difference(found, wanted)), f"{query}: {why}"
        assert told(spark, query, "index only") == action, query


def require_sound(spark: SparkSession) -> None:
    assert {verified.problems for verified in hive_bitmap.verify(spark, "t")} == {()}


@pytest.mark.parametrize("stored", ["USING parquet", "USING orc", "STORED AS AVRO"])
def test_aggregates_of_an_expression_are_answered(spark: SparkSession, database: str, stored: str) -> None:
    create(spark, stored)
    index(spark, REVENUE, "country, j")
    index(spark, REVENUE, name="by_j", keys="j", type="AGGREGATE")
    for query in (
        SUM,
        "SELECT sum(quantity * price), avg(price * quantity), min(price * quantity), max(price * quantity) FROM t",
        "SELECT count(price * quantity), count(*) FROM t WHERE country = 'c1'",
        "SELECT country, sum(r) AS s FROM (SELECT price * quantity AS r, country FROM t) GROUP BY country",
        "WITH w AS (SELECT *, price * quantity AS r FROM t WHERE j > 0) SELECT max(r) / 2 FROM w",
        f"{SUM} HAVING sum(price * quantity) > 10 ORDER BY s DESC, country LIMIT 2",
        f"SELECT s + n FROM ({SUM}) JOIN (SELECT country, count(*) AS n FROM t GROUP BY country) USING (country)",
    ):
        require(spark, query, ANSWERED * (1 + query.count("JOIN")))
    for query in (
        "SELECT sum(price * quantity + 1) FROM t",
        "SELECT sum(price * b) FROM t",
        "SELECT sum(DISTINCT price * quantity) FROM t",
        "SELECT sum(price * quantity) FROM t WHERE price * quantity > 10",
        "SELECT sum(price * quantity) FROM t WHERE b > 10",
    ):
        require(spark, query, LEFT)
    require_sound(spark)
    spark.sql("CREATE VIEW w AS SELECT country AS c, price * quantity AS r FROM t")
    require(spark, "SELECT c, sum(r), count(*) FROM w GROUP BY c")


@pytest.mark.contract
def test_files_without_sums_are_aggregated_by_spark(spark: SparkSession, database: str) -> None:
    create(spark)
    index(spark, REVENUE)
    fill(spark, 1000)
    require(spark, SUM)
    require(spark, f"SELECT * FROM ({SUM}) WHERE s > 100")
    hive_bitmap.refresh(spark, "t")
    require(spark, SUM)
    require_sound(spark)


def test_what_is_shown(spark: SparkSession, database: str) -> None:
    create(spark)
    index(spark, REVENUE)
    text = "sum(price * quantity) AS revenue, count(price * quantity) AS revenue"
    [shown] = hive_bitmap.sql(spark, "SHOW INDEX i").collect()
    assert text in str(shown)
    [report] = hive_bitmap.show(spark, "t")
    assert text in ", ".join(map(str, report.definition.aggregates))
    names = [name for name in spark.table(f"{database}__t_i__").columns if "revenue" in name]
    assert names == ["_sum_of_revenue", "_count_of_revenue", "_min_of_revenue", "_max_of_revenue"]


@pytest.mark.parametrize(
    ("aggregates", "error", "message"),
    [
        ("sum(price * quantity)", InvalidProperty, r"needs a name: sum\(price \* quantity\) AS name"),
        ("sum(price) AS p", InvalidProperty, "leave out AS"),
        ("sum(price * f) AS r", Unsupported, "column f is double"),
        ("sum(price * length(v)) AS r", Unsupported, "column v is string"),
        ("sum(quantity * 2.5e0) AS r", Unsupported, "is not among"),
        ("sum(price / quantity) AS r", Unsupported, "is not among"),
        ("sum(CAST(b AS int) * 2) AS r", Unsupported, "is not among"),
        ("sum(price * rand()) AS r", Unsupported, "cannot be aggregated"),
        ("sum(price * nothing) AS r", Unsupported, "nothing"),
        ("sum(price * quantity) AS price", Unsupported, "'price' is already a column"),
        ("sum(price * quantity) AS country", Unsupported, "'country' is already a column"),
        ("sum(price * quantity) AS all", Unsupported, "'all' is already a column"),
        ("sum(price * quantity) AS r, sum(b * 2) AS r", Unsupported, "'r' is already a column"),
        ("sum(price * quantity) AS r, min(price * quantity) AS s", Unsupported, "aggregated as r already"),
        ("sum(price * quantity) AS Hive_Bitmap_r", Unsupported, "cannot name"),
        ("sum(price * quantity) AS `r s`", Unsupported, "cannot name"),
        ("sum((price)) AS p", Unsupported, "it is a column"),
        ("sum(2 * 3) AS p", Unsupported, "it has no column"),
        ("sum(count(*)) AS p", Unsupported, "cannot be aggregated"),
        ("sum((SELECT 1) * quantity) AS p", Unsupported, "cannot be aggregated"),
        ("count(DISTINCT price * quantity) AS p", InvalidProperty, "expected functions"),
        ("sum(price * quantity AS r", InvalidProperty, "expected functions"),
    ],
)
def test_what_is_refused(
    spark: SparkSession, shared_database: str, aggregates: str, error: type[HiveBitmapError], message: str
) -> None:
    if "t" not in metastore.names_like(spark, shared_database, "*"):
        create(spark)
    with pytest.raises(error, match=message):
        index(spark, aggregates)
    assert metastore.names_like(spark, shared_database, "*") == ["t"]


def test_a_name_of_a_partition_column_is_refused(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k string, n int, p int) USING parquet PARTITIONED BY (p)")
    for aggregates, error, message in (
        ("sum(n * 2) AS p", Unsupported, "'p' is already a column"),
        ("sum(n * p) AS r", Unsupported, "partitions"),
        ("sum(n * q) AS r", (Unsupported, NotFound), "q"),
    ):
        with pytest.raises(error, match=message):
            index(spark, aggregates, "k")


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_values_that_overflow(spark: SparkSession, database: str, ansi: str) -> None:
    """In ANSI mode the file of such a row is Spark's, and so is the error; else values wrap, or are NULL."""
    spark.sql("CREATE TABLE t (k string, n int, w decimal(38,2)) USING parquet")
    with under(spark, {ANSI: ansi}):
        spark.sql("INSERT INTO t VALUES ('a', 5, 1.5), ('b', NULL, 7), ('a', -3, NULL)")
        index(spark, "sum(n * 2) AS twice, sum(w * 10) AS tens", "k")
        queries = [f"SELECT k, {f}({e}) AS r FROM t GROUP BY k" for f in ("sum", "min") for e in ("n * 2", "w * 10")]
        for query in queries:
            require(spark, query)
        spark.sql(f"INSERT INTO t VALUES ('a', 2147483647, {'9' * 36}.25), ('c', 2, 3)")
        hive_bitmap.refresh(spark, "t")
        for query in queries:
            require(spark, query)
            require(spark, query.replace("FROM t", "FROM t WHERE k IN ('b', 'c')"))
        require(spark, "SELECT k, sum(CASE WHEN n < 100 THEN n * 2 END) AS r FROM t GROUP BY k", LEFT)
        require_sound(spark)
        assert hive_bitmap.count(spark, "t", "k = 'c'") == 1


def test_a_part_that_fails_beside_a_null(spark: SparkSession, database: str) -> None:
    """Spark fails for x * y + z where z is NULL, but may skip x * y in z + x * y: such a file is Spark's."""
    spark.sql("CREATE TABLE t (k string, x int, y int, z int) USING parquet")
    with under(spark, {ANSI: "true"}):
        spark.sql("INSERT INTO t VALUES ('a', 2147483647, 2, NULL), ('b', 1, 2, 3)")
        for number, expression in enumerate(("x * y + z", "z + x * y", "z - (-(x * y))")):
            index(spark, f"sum({expression}) AS s", "k", name=f"i{number}")
        for expression in ("x * y + z", "z + x * y", "y * x + z", "z - (-(x * y))"):
            for text in (f"sum({expression})", f"count({expression})", f"sum(CASE WHEN k = 'b' THEN {expression} END)"):
                for query in (f"SELECT {text} AS r FROM t", f"SELECT k, {text} AS r FROM t GROUP BY k"):
                    assert outcome(spark, query, "index only") == outcome(spark, query, None), query
        require(spark, "SELECT sum(x * y + z) AS r FROM t WHERE k = 'b'")


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_conditions_on_keys(spark: SparkSession, database: str, ansi: str) -> None:
    """In ANSI mode, an expression under a condition may fail for the rows that are left out: not in files with sums."""
    conditional = (
        "SELECT k, sum(n * 2) FILTER (WHERE k <> 'a') AS r FROM t GROUP BY k",
        "SELECT sum(2 * n) FILTER (WHERE k <> 'a') AS r, count(n * 2) FILTER (WHERE k = 'c') AS c, count(*) FROM t",
        "SELECT sum(CASE WHEN k = 'b' THEN n * 2 ELSE 0 END) AS r, max(IF(k = 'b', n * 2, NULL)) AS m FROM t",
    )
    always = "SELECT max(n * 2) FILTER (WHERE k <> 'a') AS m, sum(n * 2) AS r FROM t WHERE k <> 'a'"
    spark.sql("CREATE TABLE t (k string, n int) USING parquet")
    with under(spark, {ANSI: ansi}):
        spark.sql("INSERT INTO t VALUES ('a', 5), ('b', NULL), ('a', -3), ('b', 7)")
        index(spark, "count(*), sum(n * 2) AS twice", "k")
        for query in (*conditional, always):
            require(spark, query)
        spark.sql("INSERT INTO t VALUES ('c', 9)")
        for query in conditional:
            require(spark, query, LEFT if ansi == "true" else ANSWERED)
        require(spark, always)
        spark.sql("INSERT INTO t VALUES ('a', 2147483647), ('c', 2)")
        for query in conditional:
            require(spark, query, LEFT if ansi == "true" else ANSWERED)
        hive_bitmap.refresh(spark, "t")
        for query in (*conditional, always):
            require(spark, query)  # in ANSI mode it is found by the lookup that Spark has to aggregate


def test_a_session_with_other_settings(spark: SparkSession, database: str) -> None:
    create(spark)
    with under(spark, {ANSI: "true", LOSS: "true"}):
        index(spark, f"{REVENUE}, sum(b * b) AS squares")
    for settings in ({ANSI: "false"}, {LOSS: "false"}):
        with under(spark, {ANSI: "true", LOSS: "true", **settings}):
            require(spark, SUM, LEFT)
            fill(spark, 2000)
            hive_bitmap.refresh(spark, "t")
            require(spark, "SELECT country, count(*) FROM t GROUP BY country")
    with under(spark, {ANSI: "true", LOSS: "true"}):
        require(spark, SUM)
        require_sound(spark)


def test_a_session_in_another_time_zone(spark: SparkSession, database: str) -> None:
    zone = "spark.sql.session.timeZone"
    create(spark)
    with under(spark, {zone: "America/New_York"}):
        index(spark, REVENUE)
        require(spark, SUM)
    for other in ("Asia/Tokyo", "UTC", "America/New_York"):
        with under(spark, {zone: other}):
            require(spark, SUM)


def test_a_sum_of_more_terms_is_not_regrouped(spark: SparkSession, database: str) -> None:
    """a + b + c may overflow where a + (b + c) does not."""
    spark.sql("CREATE TABLE t (k string, a decimal(38,0), b decimal(38,0), c decimal(38,0)) USING parquet")
    most = "9" * 38
    spark.sql(f"INSERT INTO t VALUES ('x', {most}, {most}, -{most}), ('y', 1, 2, 3)")
    for ansi in ("false", "true"):
        with under(spark, {ANSI: ansi}):
            index(spark, "sum(a + b + c) AS s", "k", name=f"ansi_{ansi}")
            for expression in ("a + b + c", "a + (b + c)", "b + a + c", "c + b + a", "c + (a + b)"):
                for condition in ("", " WHERE k = 'y'"):
                    query = f"SELECT sum({expression}) AS r FROM t{condition}"
                    wanted, found = outcome(spark, query, None), outcome(spark, query, "index only")
                    assert found == wanted, query


def test_two_indexes_with_one_name(spark: SparkSession, database: str) -> None:
    create(spark)
    index(spark, "sum(price * quantity) AS r")
    index(spark, "sum(price - quantity) AS r", "j", name="by_j")
    index(spark, "sum(price * quantity) AS other", "j, country", name="both")
    for key in ("country", "j"):
        for sign in "*-":
            action = LEFT if (key, sign) == ("country", "-") else ANSWERED
            require(spark, f"SELECT {key}, sum(price {sign} quantity) AS s FROM t GROUP BY {key}", action)
    require(spark, "SELECT country, j, sum(price * quantity) AS s FROM t GROUP BY country, j")
    require_sound(spark)


def test_a_changed_column_takes_the_sums_away(spark: SparkSession, database: str) -> None:
    create(spark)
    index(spark, f"{REVENUE}, sum(b - 1) AS less")
    spark.sql("ALTER TABLE t ADD COLUMNS (revenue decimal(21,2))")
    require(spark, SUM)
    require(spark, "SELECT country, sum(revenue) AS s FROM t GROUP BY country", LEFT)
    spark.sql("ALTER TABLE t ADD COLUMNS (later int)")
    fill_with = "INSERT INTO t SELECT * , 3, 4 FROM (SELECT country, j, price, quantity, b, d, f, v FROM t)"
    spark.sql(fill_with)
    hive_bitmap.refresh(spark, "t")
    require(spark, SUM)
    require(spark, "SELECT country, sum(revenue) AS s FROM t GROUP BY country", LEFT)
    require_sound(spark)


def test_other_types_and_defaults_take_the_sums_away(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """A column that occurs only in the expression gets another type, or a default for the files that lack it."""
    columns = "country string, price decimal(10,2), quantity int"

    def create_with(quantity: str) -> None:
        spark.sql(f"CREATE TABLE t ({columns.replace('quantity int', quantity)}) USING parquet LOCATION '{tmp_path}/t'")

    create_with("quantity int")
    spark.sql("INSERT INTO t SELECT concat('c', id % 5), id * 1.5, id % 7 FROM range(100)")
    spark.sql("SELECT 'c1' AS country, 2.50BD AS price").write.mode("append").parquet(f"{tmp_path}/t")
    spark.catalog.refreshTable("t")
    index(spark, REVENUE)
    require(spark, SUM)
    for quantity, action in (("quantity bigint", LEFT), ("quantity int DEFAULT 3", LEFT), ("quantity int", ANSWERED)):
        spark.sql("DROP TABLE t")
        create_with(quantity)
        require(spark, SUM, action)
        require(spark, "SELECT country, count(*) FROM t GROUP BY country")
    require_sound(spark)


@pytest.mark.turn(4)
@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_are_sparks(spark: SparkSession, database: str, seed: int) -> None:
    rng = random.Random(seed)
    types = {"a": "tinyint", "b": "int", "c": "bigint", "d": "decimal(9,3)", "e": "decimal(38,6)", "g": "decimal(20,0)"}
    literals = ["2", "-1", "10L", "0.5", "3.25BD", "CAST(7 AS decimal(12,2))"]

    def expression(depth: int) -> str:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([*types] * 2 + literals)
        if rng.random() < 0.15:
            return f"(-{expression(depth - 1)})"
        return f"({expression(depth - 1)} {rng.choice('+-*')} {expression(depth - 1)})"

    def value(type: str) -> str:
        if rng.random() < 0.15:
            return "NULL"
        if type.startswith("decimal"):
            digits, scale = map(int, type[8:-1].split(","))
            whole = "9" * (digits - scale) if rng.random() < 0.1 else str(rng.randint(0, 999))
            return f"CAST('{rng.choice(['', '-'])}{whole}' AS {type})"
        bits = {"tinyint": 7, "int": 31, "bigint": 63}[type]
        number = rng.choice([(1 << bits) - 1, -(1 << bits)]) if rng.random() < 0.05 else rng.randint(-99, 99)
        return f"CAST('{number}' AS {type})"

    def write() -> None:
        rows = [f"('{rng.choice('xyz')}', {', '.join(map(value, types.values()))})" for _ in range(12)]
        spark.sql(f"INSERT INTO t VALUES {', '.join(rows)}")

    columns = ", ".join(f"{name} {type}" for name, type in types.items())
    spark.sql(f"CREATE TABLE t (k string, {columns}) USING parquet")
    with under(spark, {ANSI: rng.choice(["true", "false"]), LOSS: rng.choice(["true", "false"])}):
        write()
        write()
        texts: list[str] = []
        while len(texts) < 4:
            text = expression(2)
            if "(" in text and any(name in text for name in types):
                try:
                    index(
                        spark, f"sum({text}) AS m", "k", name=f"i{len(texts)}", type=rng.choice(["BITMAP", "AGGREGATE"])
                    )
                except HiveBitmapError:
                    continue
                texts.append(text)
        answered = asked = 0
        for turn in range(3):
            for text in texts:
                for function in ("sum", "avg", "min", "max", "count"):
                    query = f"SELECT k, {function}({text}) AS r FROM t GROUP BY k"
                    where = rng.choice(["", " WHERE k <> 'x'"])
                    query = query.replace("FROM t", f"FROM t{where}")
                    wanted, found = outcome(spark, query, None), outcome(spark, query, "index only")
                    if turn == 0 and not isinstance(wanted, str):
                        answered += told(spark, query, "index only") == ANSWERED
                        asked += 1
                    alike = found == wanted if isinstance(wanted, str) else not difference(found, wanted)
                    assert alike, (turn, query, found, wanted)
            require_sound(spark)
            write()
            if turn == 1:
                hive_bitmap.refresh(spark, "t")
        assert answered * 2 >= asked, (texts, answered, asked)
