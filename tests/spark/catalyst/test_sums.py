"""Sums from partial aggregates: answers are plain Spark's, over random tables, whatever happens to their files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from tests.asking import answer, by_index, by_spark, difference, frame, indexed, told, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "k": "string",
    "j": "int",
    "n": "int",
    "tiny": "tinyint",
    "b": "bigint",
    "small": "decimal(7,2)",
    "price": "decimal(11,2)",
    "wide": "decimal(20,4)",
    "full": "decimal(38,0)",
    "day": "date",
    "name": "string",
    "f": "double",
}
ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "tinyint": pa.int8(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "double": pa.float64(),
    "decimal(7,2)": pa.decimal128(7, 2),
    "decimal(11,2)": pa.decimal128(11, 2),
    "decimal(20,4)": pa.decimal128(20, 4),
    "decimal(38,0)": pa.decimal128(38, 0),
}
AGGREGATES = "count(*), n, tiny, b, small, price, wide, full, day, count(name), count(f)"
SUMMED = ("n", "tiny", "b", "small", "price", "wide", "full")
EXACT = Context(prec=60)
ROWS = 60


def value(rng: random.Random, column: str, extreme: bool) -> Any:
    """A value of a column, of its type's limits if `extreme`; every eighth is NULL."""
    type = TYPES[column]
    if rng.random() < 0.12:
        return None
    if column in ("k", "name"):
        return rng.choice(["a", "b", "c", "d e", "é"])
    if column == "j":
        return rng.randint(0, 3)
    if type in ("int", "tinyint", "bigint"):
        most = {"int": 1 << 31, "tinyint": 1 << 7, "bigint": 1 << 63}[type] - 1
        return rng.choice([most, -most - 1, 1, 0]) if extreme else rng.randint(-100, 100) if rng.random() < 0.5 else 7
    if type == "date":
        return rng.randint(-1000, 30000)
    if type == "double":
        return rng.random()
    digits, scale = map(int, type[len("decimal(") : -1].split(","))
    most = 10**digits - 1
    whole = rng.choice([most, -most, 1, most // 3]) if extreme else rng.randint(-(10 ** min(digits, 9)) + 1, 10**6)
    return Decimal(whole).scaleb(-scale, EXACT)


def write(path: Path, rng: random.Random, extreme: bool = False, leave_out: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: pa.array([value(rng, name, extreme) for _ in range(ROWS)], ARROW[type])
        for name, type in TYPES.items()
        if name != leave_out
    }
    pq.write_table(pa.table(arrays), path, row_group_size=25)


def create(
    spark: SparkSession, folder: Path, seed: int, *, extreme: bool = False, type: str = "BITMAP"
) -> random.Random:
    """Create table t, partitioned by p, with five files, and an index of a type on k and j with all aggregates."""
    rng = random.Random(seed)
    for number in range(5):
        write(folder / f"p={number % 2}" / f"{number}.parquet", rng, extreme and number > 2)
    columns = ", ".join(f"{name} {type}" for name, type in TYPES.items())
    spark.sql(f"CREATE TABLE t ({columns}, p int) USING parquet PARTITIONED BY (p) LOCATION '{folder}'")
    spark.sql("MSCK REPAIR TABLE t")
    hive_bitmap.build(spark, "t", [["k", "j"]], aggregates=AGGREGATES, type=type)
    return rng


def query(rng: random.Random) -> str:
    """A SELECT of aggregates by keys of the index and partitions, under conditions on these."""
    grouping = rng.choice([[], ["k"], ["j"], ["k", "j"], ["p"], ["p", "k"], ["upper(k)"], ["k", "j % 2"], ["j > p"]])
    results = [f"{expression} AS g{number}" for number, expression in enumerate(grouping)]
    for number in range(rng.randint(1, 4)):
        column, filtered = (
            rng.choice(SUMMED),
            rng.choice(["", "", "", " FILTER (WHERE j > 1)", " FILTER (WHERE k = 'a')"]),
        )
        function = rng.choice([*["sum", "avg", "try_sum", "try_avg"] * 2, "min", "max", "count"])
        aggregate = f"{function}({column}){filtered}"
        if rng.random() < 0.3:
            condition = rng.choice(["j > 1", "k = 'a'", "k IS NULL AND j < 3", "p = 0", "j = 77"])
            aggregate = rng.choice(
                [
                    f"sum(CASE WHEN {condition} THEN {column} ELSE 0 END)",
                    f"try_sum(IF({condition}, {column}, 0))",
                    f"{function}(CASE WHEN {condition} THEN {column} END)",
                ]
            )
        other = rng.choice(
            ["count(*)", "count(name)", "max(day)", "min(day)", "count(j)", "max(j)", "sum(j)", "count(f)"]
        )
        result = rng.choice(
            [aggregate, aggregate, aggregate, other, f"sum({column}) / count(*)", f"round(avg({column}), 1)"]
        )
        results.append(f"{result} AS r{number}")
    condition = rng.choice(
        ["", "k = 'a'", "k IN ('a', 'zz') OR j = 2", "j >= 2", "k IS NULL", "p = 1", "p = 1 AND j < 2", "k LIKE 'd%'"]
    )
    where = f" WHERE {condition}" if condition else ""
    by = f" GROUP BY {', '.join(grouping)}" if grouping else ""
    having = " HAVING count(*) > 2" if grouping and rng.random() < 0.2 else ""
    order = " ORDER BY r0 DESC NULLS LAST, g0 LIMIT 3" if grouping and rng.random() < 0.1 and len(grouping) == 1 else ""
    return f"SELECT {', '.join(results)} FROM t{where}{by}{having}{order}"


def outcome(spark: SparkSession, text: str) -> Any:
    """The answer of Spark, or the class of its error."""
    from pyspark.errors import PySparkException

    try:
        return by_spark(spark, text)
    except PySparkException as e:
        return e.getCondition()


def require_alike(spark: SparkSession, text: str) -> None:
    """Require Spark's answer, or Spark's error, from the index."""
    from pyspark.errors import PySparkException

    wanted = outcome(spark, text)
    try:
        found: Any = by_index(spark, text, "index only")
    except PySparkException as e:
        found = e.getCondition()
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted, text
    else:
        assert not difference(found, wanted, ordered="ORDER BY" in text), text


def is_answered(spark: SparkSession, text: str) -> bool:
    return told(spark, text, "index only") == [("t", "answered")]


@pytest.fixture
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with under(spark, {"spark.sql.ansi.enabled": request.param}):
        yield


@pytest.mark.parametrize("ansi", ["false", "true"], indirect=True)
def test_random_sums_are_sparks_whatever_happens_to_files(
    spark: SparkSession, database: str, tmp_path: Path, ansi: None, request: pytest.FixtureRequest
) -> None:
    for seed in range(1 + request.config.getoption("--long")):
        require_sums_through_life(spark, tmp_path / str(seed), seed + 10 * ("true" in request.node.name), "BITMAP")


def require_sums_through_life(spark: SparkSession, folder: Path, seed: int, type: str) -> None:
    """Require Spark's answers to random sums, of an index that is new, then stale, then refreshed."""
    spark.sql("DROP TABLE IF EXISTS t")
    rng = create(spark, folder, seed, extreme=seed % 2 == 1, type=type)
    for turn in range(3):
        texts = [query(rng) for _ in range(8)]
        for text in texts:
            require_alike(spark, text)
        assert sum(is_answered(spark, text) for text in texts) >= 7, texts
        if turn == 0:  # a new file, an overwritten one, and one that is gone
            write(folder / "p=0" / "9.parquet", rng)
            write(folder / "p=1" / "1.parquet", rng)
            (folder / "p=0" / "2.parquet").unlink()
        elif turn == 1:
            spark.sql("ALTER TABLE t ADD COLUMNS (later int)")
            hive_bitmap.refresh(spark, "t")
        spark.catalog.refreshTable("t")


@pytest.mark.contract
def test_what_is_answered_and_what_is_left_to_spark(spark: SparkSession, database: str, tmp_path: Path) -> None:
    create(spark, tmp_path / "t", 3)
    answered = [
        "SELECT k, sum(price) AS revenue FROM t GROUP BY k HAVING sum(price) > 0 ORDER BY revenue DESC LIMIT 2",
        "SELECT sum(wide), count(*), avg(n), min(small), max(day), count(name) FROM t",
        "SELECT j, sum(n) / count(*), sum(n) FILTER (WHERE k = 'a') FROM t WHERE p = 1 AND k <> 'b' GROUP BY j",
        "SELECT k, s, n FROM (SELECT k, sum(b) AS s FROM t GROUP BY k) x JOIN VALUES ('a', 1) AS y(k, n) USING (k)",
        "SELECT k, max(j), sum(small), max(p) FROM t GROUP BY k",
        "SELECT j, sum(CASE WHEN k = 'a' THEN price ELSE 0 END), avg(IF(k = 'b', n, NULL)) FROM t GROUP BY j",
        "SELECT sum(IF(k = 'a', small, 0)), count(CASE WHEN p = 1 THEN name END) FROM t WHERE j = 77",
    ]
    left = [
        ("SELECT k, sum(f) FROM t GROUP BY k", "decimals such as decimal(18,2)"),
        ("SELECT k, sum(DISTINCT small) FROM t GROUP BY k", "has the key small"),
        ("SELECT k, sum(n + 1) FROM t GROUP BY k", "has the key n"),
        ("SELECT k, sum(CASE WHEN j = 1 THEN n ELSE 5 END) FROM t GROUP BY k", "has the key n"),
        ("SELECT name, sum(n) FROM t GROUP BY name", "no index holds sum(n) by name"),
        ("SELECT sum(n) FROM t WHERE day > DATE'2000-01-01'", "no index holds sum(n) by day"),
    ]
    for text in answered:
        require_alike(spark, text)
        assert is_answered(spark, text), text
    for text, why in left:
        require_alike(spark, text)
        with indexed(spark, "index only"):
            [relation] = hive_bitmap.explain(text, spark).relations
        assert relation.action == "left alone" and why in relation.detail, (text, relation.detail)
    with indexed(spark, "index only"):
        [relation] = hive_bitmap.explain(answered[0], spark).relations
    [use] = relation.plan.indexes
    assert relation.action == "answered" and "serves k; holds sum(price), count(price)" in use.reason


def test_files_that_change_after_planning_are_sparks(spark: SparkSession, database: str, tmp_path: Path) -> None:
    rng = create(spark, tmp_path / "t", 5)
    text = "SELECT k, sum(price), avg(n), count(*), max(day) FROM t GROUP BY k"
    with indexed(spark, "index only"):
        planned = frame(spark, text)
        planned._jdf.queryExecution().executedPlan()
        write(tmp_path / "t" / "p=0" / "4.parquet", rng)
        found = answer(planned)
    spark.catalog.refreshTable("t")
    assert not difference(found, by_spark(spark, text))


def test_columns_that_files_lack_or_had_otherwise(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """A column that one file lacks, one that has another type in a file, and one whose type in the table changed."""
    rng, folder = random.Random(7), tmp_path / "t"
    write(folder / "0.parquet", rng)
    write(folder / "1.parquet", rng, leave_out="small")
    table = pq.read_table(folder / "0.parquet")
    odd = table.set_column(table.schema.get_field_index("n"), "n", pa.array([5] * ROWS, pa.int16()))
    pq.write_table(odd, folder / "2.parquet")
    columns = ", ".join(f"{name} {type}" for name, type in TYPES.items())
    spark.sql(f"CREATE TABLE t ({columns}) USING parquet LOCATION '{folder}'")
    hive_bitmap.build(spark, "t", ["k"], aggregates=AGGREGATES)
    texts = ["SELECT k, sum(small), count(small), avg(n), min(n) FROM t GROUP BY k", "SELECT sum(n), avg(small) FROM t"]
    for text in texts:
        require_alike(spark, text)
        assert is_answered(spark, text)
    spark.sql("DROP TABLE t")
    changed = columns.replace("n int", "n bigint")
    spark.sql(f"CREATE TABLE t ({changed}) USING parquet LOCATION '{folder}'")
    for text in texts:
        require_alike(spark, text)
        assert not is_answered(spark, text)
    require_alike(spark, "SELECT k, sum(small) FROM t GROUP BY k")
    assert is_answered(spark, "SELECT k, sum(small) FROM t GROUP BY k")


def test_columns_of_any_name(spark: SparkSession, database: str) -> None:
    """Names that Arrow gives to results, and capitals that have no letter of their own in lower case."""
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT id % 3 AS count_sum, id % 2 AS `_sum_of_n_sum`, id AS n, "
        "id AS `İx`, id AS `ΟΣ` FROM range(20)"
    )
    hive_bitmap.build(spark, "t", [["count_sum", "_sum_of_n_sum"]], aggregates="n, `İx`, `ΟΣ`")
    for text in (
        "SELECT count_sum, sum(n), avg(`İx`), sum(`ΟΣ`), count(*) FROM t GROUP BY count_sum, _sum_of_n_sum",
        "SELECT count_sum, count(*) FROM t GROUP BY count_sum",
    ):
        require_alike(spark, text)
        assert is_answered(spark, text)


def test_averages_are_added_up_as_spark_does(spark: SparkSession, database: str) -> None:
    """Spark averages decimals of up to 11 digits in doubles, which near a tie differ from decimals."""
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT id DIV 32 AS k, "
        "CAST(999999900 + IF(id % 32 = 0, id DIV 32, 0) * 0.01 AS DECIMAL(11,2)) AS price FROM range(1280)"
    )
    hive_bitmap.build(spark, "t", ["k", "price"])
    texts = [
        "SELECT k, avg(price), try_avg(price) FROM t GROUP BY k",
        "SELECT avg(price), avg(DISTINCT price), avg(CAST(price AS DECIMAL(20,4))) FROM t",
        "SELECT avg(price) FILTER (WHERE k < 7) FROM t",
    ]
    for _ in range(2):  # from keys, then from partial aggregates
        for text in texts:
            require_alike(spark, text)
        hive_bitmap.drop(spark, "t", "price", if_exists=True)
        hive_bitmap.drop(spark, "t", "k")
        hive_bitmap.build(spark, "t", ["k"], aggregates="price")
    require_alike(spark, texts[0])
    assert is_answered(spark, texts[0])


@pytest.mark.contract
def test_empty_tables_and_sums_that_may_overflow(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k int, b bigint, full decimal(38,0), small decimal(5,2)) USING parquet")
    hive_bitmap.build(spark, "t", ["k"], aggregates="b, full, small")
    texts = [
        "SELECT sum(b), avg(full), count(small), max(b) FROM t",
        "SELECT k, sum(b), avg(b) FROM t GROUP BY k",
        "SELECT sum(full), sum(small) FROM t",
        "SELECT try_sum(full), try_sum(b) FROM t WHERE k = 2",
    ]
    for text in texts:
        require_alike(spark, text)
    most, full = (1 << 63) - 1, "9" * 38
    spark.sql(
        f"INSERT INTO t VALUES (1, {most}, {full}, 1), (1, -5, -{full}, 2), (2, {most}, {full}, NULL), (NULL, 1, 1, 3)"
    )
    spark.sql(f"INSERT INTO t VALUES (2, {most}, {full}, NULL), (3, NULL, NULL, NULL)")
    hive_bitmap.refresh(spark, "t")
    for ansi in ("true", "false"):
        with under(spark, {"spark.sql.ansi.enabled": ansi}):
            for text in [*texts, *(text.replace("sum(", "try_sum(").replace("try_try_", "try_") for text in texts)]:
                require_alike(spark, text)


def test_a_sum_that_is_not_proved_costs_the_time_of_the_index_once(
    spark: SparkSession, database: str, questions: list[Any]
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT int(id % 7) AS k, (1L << 61) + id * 3 AS b, id AS n, "
              "sha2(string(id), 256) AS note FROM range(0, 400000, 1, 2)")  # fmt: skip
    hive_bitmap.build(spark, "t", ["k"], aggregates="b, n")
    texts = ["SELECT k, avg(b) FROM t GROUP BY k", "SELECT k, avg(n) FROM t GROUP BY k"]
    wanted = [by_spark(spark, text) for text in texts]
    asked = []
    with indexed(spark):
        for text, answered in zip(2 * texts, 2 * wanted, strict=True):
            assert not difference(answer(frame(spark, text)), answered), text
            asked.append(len(questions))
    assert asked[0] > 0 and asked[1] > asked[0], "both are asked at first"
    assert asked[2] == asked[1], "averages of such numbers are left to Spark"
    assert asked[3] > asked[2], "others are not"


def write_days(path: Path, rng: random.Random, first: int) -> None:
    """Write a file with three blocks: two of a day each, beginning with `first`, and one of both days."""
    path.parent.mkdir(parents=True, exist_ok=True)
    days = [first] * 20 + [first + 1] * 20 + [first, first + 1] * 10
    values = {name: [value(rng, name, False) for _ in days] for name in TYPES}
    arrays = {name: pa.array(values[name], ARROW[type]) for name, type in TYPES.items()}
    arrays["day"] = pa.array(days, pa.date32())
    pq.write_table(pa.table(arrays), path, row_group_size=20)


def test_conditions_on_other_indexes_that_select_whole_blocks(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    rng, folder = random.Random(11), tmp_path / "t"
    for number in range(4):
        write_days(folder / f"{number}.parquet", rng, 2 * number)
    columns = ", ".join(f"{name} {type}" for name, type in TYPES.items())
    spark.sql(f"CREATE TABLE t ({columns}) USING parquet LOCATION '{folder}'")
    hive_bitmap.build(spark, "t", ["k"], aggregates="price, n, count(*)")
    hive_bitmap.build(spark, "t", ["day", "j"])
    day = "DATE'1970-01-01' + INTERVAL {} DAYS"
    conditions = [  # whole files; a part of a file, which Spark aggregates; no file
        f"day >= {day.format(2)}",
        f"day BETWEEN {day.format(2)} AND {day.format(5)} AND k <> 'a'",
        f"day < {day.format(3)}",
        f"day = {day.format(5)} OR day > {day.format(6)}",
        f"day > {day.format(99)}",
        f"day >= {day.format(4)} AND j IN (0, 1, 2, 3, 4)",
        f"day IS NOT NULL AND NOT day < {day.format(2)}",
    ]
    texts = [f"SELECT k, sum(price), avg(n), count(*), max(n) FROM t WHERE {text} GROUP BY k" for text in conditions]
    texts += [f"SELECT sum(n), count(price) FROM t WHERE {text}" for text in conditions]
    texts += [f"SELECT k, sum(n) s FROM t WHERE {conditions[0]} GROUP BY k ORDER BY s DESC, k LIMIT 2"]
    for turn in range(3):
        for text in texts:
            require_alike(spark, text)
            if "j IN" not in text and "k <>" not in text:
                assert is_answered(spark, text), text
        if turn == 0:
            write_days(folder / "1.parquet", rng, 20)  # stale
            write_days(folder / "9.parquet", rng, 4)  # new
            spark.catalog.refreshTable("t")
        elif turn == 1:
            hive_bitmap.refresh(spark, "t", "k")  # the other index stays stale
    with indexed(spark, "index only"):
        planned = frame(spark, texts[0])
        planned._jdf.queryExecution().executedPlan()
        write_days(folder / "2.parquet", rng, 4)
        found = answer(planned)
    spark.catalog.refreshTable("t")
    assert not difference(found, by_spark(spark, texts[0]))
