"""`WHERE .. ORDER BY .. LIMIT ..` reads only blocks that can hold the first rows, and returns what Spark returns.

Of rows that tie at the end any may be returned, as by Spark. So sort keys are compared in their order, and each row
must be one of the rows without the LIMIT, no more often than there.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.planning import prices
from hive_bitmap.spark.catalyst import driver_rows
from hive_bitmap.spark.catalyst.explanation import Relation, relations_of
from tests.asking import BY_TASKS, answer, by_spark, difference, frame, indexed, require_alike, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)
FILES = 8
BOUNDED = "the others are not read"  # what explain says of a scan whose blocks were left out
COLUMNS = {
    "id": "id",
    "k": "CAST(id % 5 AS int)",
    "day": "date_add(DATE '2026-01-01', CAST(id div 10 AS int))",
    "at": "timestamp_seconds(1700000000 + id * 1000)",
    "n": "IF(id % 400 < 8, NULL, CAST(id div 7 AS smallint))",
    "tied": "CAST(id div 300 AS bigint)",
    "note": "concat('note ', id)",
}
MADE = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())


@pytest.fixture(scope="module", params=["parquet", "orc", "int64"])
def table(spark: SparkSession, shared_database: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table of several files that are sorted by time, with an index on `k`."""
    name, format = f"t_{request.param}", "parquet" if request.param == "int64" else request.param
    micros = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"} if request.param == "int64" else {}
    with under(spark, micros):
        spark.sql(f"CREATE TABLE {name} USING {format} AS SELECT {MADE} FROM range(0, 4000, 1, {FILES})")
    hive_bitmap.build(spark, name, ["k"])
    yield name
    hive_bitmap.drop_table(spark, name)


def relation(spark: SparkSession, query: str, strategy: str = "rows", **more: str) -> Relation:
    with indexed(spark, strategy, **more):
        [one] = relations_of(frame(spark, query))
    return one


def is_bounded(spark: SparkSession, query: str, strategy: str = "rows", **more: str) -> bool:
    return BOUNDED in relation(spark, query, strategy, **more).detail


def rows_of(spark: SparkSession, query: str, strategy: str | None) -> list[tuple[Any, ...]]:
    """The rows by Spark, or by an index with a strategy."""
    if strategy is None:
        with under(spark, {"hive_bitmap.enabled": "false"}):
            return [tuple(row) for row in frame(spark, query).collect()]
    with indexed(spark, strategy):
        return [tuple(row) for row in frame(spark, query).collect()]


def wrong(
    found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], all_rows: list[tuple[Any, ...]], keys: int
) -> str:
    """Say how rows differ from Spark's: their first columns are the sort keys."""
    if [row[:keys] for row in found] != [row[:keys] for row in wanted]:
        return f"sort keys {[row[:keys] for row in found][:5]}, not {[row[:keys] for row in wanted][:5]}"
    surplus = Counter(map(repr, found)) - Counter(map(repr, all_rows))
    return f"rows that are not there: {list(surplus)[:5]}" if surplus else ""


@pytest.mark.parametrize(
    ("query", "blocks"),
    contract(
        [
            ("SELECT id, at FROM {} WHERE k = 3 ORDER BY day DESC, id LIMIT 20", 1),
            ("SELECT id, at FROM {} WHERE k = 3 ORDER BY id LIMIT 100 OFFSET 30", 2),
            ("SELECT id + 1 AS more, note FROM {} WHERE k IN (1, 2) ORDER BY tied DESC, more DESC LIMIT 7", 2),
            ("SELECT n, id FROM {} WHERE k = 1 ORDER BY n ASC NULLS LAST, id LIMIT 9", 2),
            ("SELECT n, id FROM {} WHERE k = 1 ORDER BY n DESC NULLS LAST, id LIMIT 9", 1),
            ("SELECT n, id FROM {} WHERE k = 1 ORDER BY n ASC NULLS FIRST, id LIMIT 9", None),
            ("SELECT day AS d FROM {} WHERE k = 1 AND k < 4 ORDER BY d LIMIT 1", 1),
        ],
        "SELECT id, at FROM {} WHERE k = 3 ORDER BY day DESC, id LIMIT 20",
        "SELECT id, at FROM {} WHERE k = 3 ORDER BY id LIMIT 100 OFFSET 30",
    ),
)
def test_only_blocks_of_the_first_rows_are_read(
    spark: SparkSession, table: str, query: str, blocks: int | None
) -> None:
    one = relation(spark, query.format(table))
    assert (BOUNDED in one.detail) == (blocks is not None)
    assert one.blocks_selected == (blocks or FILES)
    require_alike(spark, query.format(table), "rows", ordered=True)


@pytest.mark.parametrize("ascending", ["ASC", "DESC"])
def test_timestamps_are_bounded_in_parquet(spark: SparkSession, table: str, ascending: str) -> None:
    query = f"SELECT at, id FROM {table} WHERE k = 4 ORDER BY at {ascending} LIMIT 12"
    assert is_bounded(spark, query) == (table != "t_orc")
    require_alike(spark, query, "rows", ordered=True)


OTHERS = (
    "SELECT id FROM {} WHERE k = 3 AND note > 'note 1' ORDER BY id LIMIT 5",  # one conjunct is not in an index
    "SELECT id FROM {} WHERE k = 3 ORDER BY id * 2 LIMIT 5",
    "SELECT id FROM {} WHERE k = 3 ORDER BY note LIMIT 5",
    "SELECT id FROM {} WHERE k = 3 ORDER BY id",
    "SELECT id FROM {} WHERE k = 3 SORT BY id LIMIT 5",
    "SELECT DISTINCT id FROM {} WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT id, row_number() OVER (ORDER BY note) FROM {} WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT id, (SELECT max(k) FROM {}) FROM {} WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT id FROM {} WHERE k = (SELECT min(k) + 3 FROM {}) ORDER BY id LIMIT 5",
    "SELECT id, assert_true(id < 9999) FROM {} WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT explode(array(id, 1)) AS e, id FROM {} WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT max(id) FROM (SELECT id FROM {} WHERE k = 3 ORDER BY id DESC) GROUP BY id % 2",
    "SELECT a.id FROM {} a JOIN {} b ON a.id = b.id WHERE a.k = 3 AND b.k = 3 ORDER BY a.id LIMIT 5",
    "(SELECT id FROM {} WHERE k = 3 UNION ALL SELECT id FROM {} WHERE k = 4) ORDER BY id LIMIT 5",
    "SELECT id FROM {} WHERE k = 3 ORDER BY id LIMIT 2000",
)


def test_other_queries_read_all_blocks(spark: SparkSession, table: str) -> None:
    with indexed(spark, "rows"):
        for query in OTHERS:
            told = [one.detail for one in relations_of(frame(spark, query.format(table, table)))]
            assert not any(BOUNDED in detail for detail in told), query


def test_nothing_is_bounded_below_observed_metrics(spark: SparkSession, table: str) -> None:
    from pyspark.sql import Observation
    from pyspark.sql.functions import col, count, lit

    def first(*, observed: bool) -> Any:
        rows = spark.table(table).where("k = 3")
        rows = rows.observe(Observation(), count(lit(1))) if observed else rows
        return rows.orderBy(col("id")).limit(5)

    for observed in (False, True):
        with indexed(spark, "rows"):
            [one] = relations_of(first(observed=observed))
        assert (BOUNDED in one.detail) != observed


def test_who_does_not_read_in_the_driver_reads_all_blocks(spark: SparkSession, table: str) -> None:
    query = f"SELECT id FROM {table} WHERE k = 3 ORDER BY id LIMIT 5"
    assert is_bounded(spark, query)
    for strategy in (BY_TASKS, "blocks", "files"):
        assert relation(spark, query, strategy).blocks_selected == FILES
        require_alike(spark, query, strategy, ordered=True)
    assert not is_bounded(spark, query, engine_reads_only="true")


@pytest.mark.contract
def test_scans_of_one_table_differ_if_their_first_rows_do(spark: SparkSession, table: str) -> None:
    """Spark reads once for equal leaves: a bounded one must not stand for another."""
    rows = f"SELECT id, n FROM {table} WHERE k = 3"
    parts = [
        f"SELECT * FROM ({rows} ORDER BY id LIMIT 5)",
        rows,
        f"SELECT * FROM ({rows} ORDER BY id DESC LIMIT 5)",
        f"SELECT * FROM ({rows} ORDER BY id LIMIT 95)",
        f"SELECT * FROM ({rows} ORDER BY id LIMIT 5 OFFSET 200)",
        f"SELECT * FROM ({rows} ORDER BY n ASC NULLS LAST, id LIMIT 5)",
        f"SELECT * FROM ({rows} ORDER BY n, id LIMIT 5)",
    ]
    query = " UNION ALL ".join(f"({part})" for part in parts)
    with indexed(spark, "rows"):
        told = [BOUNDED in one.detail for one in relations_of(frame(spark, query))]
    assert told.count(True) == 5
    assert not told[1]
    require_alike(spark, query, "rows")
    require_alike(spark, f"SELECT a.id, b.n FROM ({parts[2]}) a JOIN ({rows}) b ON a.id <= b.id", "rows")
    for part in parts:  # one after the other: decisions are kept by their question
        require_alike(spark, part, "rows", ordered=part != rows)


def test_the_order_is_part_of_the_question(spark: SparkSession, table: str, questions: list[Any]) -> None:
    with indexed(spark, "rows"):
        frame(
            spark, f"SELECT n FROM {table} WHERE k = 3 ORDER BY n DESC NULLS FIRST LIMIT 5 OFFSET 7"
        )._jdf.queryExecution().optimizedPlan()
        [scan] = json.loads(questions[0].text())["scans"]
    assert scan["first"] == {"column": "n", "ascending": False, "nulls_first": True, "rows": 12}


def folder_of(spark: SparkSession, name: str) -> Path:
    [file, *_] = spark.table(name).inputFiles()
    return Path(file.removeprefix("file://").removeprefix("file:")).parent


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("part-*") if not path.name.endswith(".crc"))


def replace_file(file: Path, by: Path) -> None:
    shutil.copy(by, file)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def own(spark: SparkSession, database: str) -> Path:
    """A table that a test may change; returns its folder. Its newest rows are in the last file."""
    spark.sql(f"CREATE TABLE own USING parquet AS SELECT {MADE} FROM range(0, 4000, 1, {FILES})")
    hive_bitmap.build(spark, "own", ["k"])
    return folder_of(spark, "own")


NEWEST = "SELECT id, at FROM own WHERE k = 3 ORDER BY at DESC, id LIMIT 6"


@pytest.mark.parametrize(
    ("moment", "changed", "has_new"),
    contract(
        list(product(("after planning", "while rows are read"), (0, FILES - 1), (False, True))),
        ("after planning", FILES - 1, True),
        ("while rows are read", 0, False),
    ),
)
def test_a_file_that_was_left_out_or_counted_on_and_has_changed(
    spark: SparkSession, own: Path, monkeypatch: pytest.MonkeyPatch, moment: str, changed: int, has_new: bool
) -> None:
    """Another file with newer, or older, rows stands in its place: the whole scan is Spark's own."""
    files = files_of(own)
    if has_new:  # which Spark reads beside the others
        spark.sql(f"INSERT INTO own SELECT {MADE} FROM range(3800, 4003, 1, 1)")
    read = driver_rows.read_task
    by = files[FILES - 1 if changed == 0 else 1]

    def slow(*task: Any) -> Iterator[Any]:
        yield from read(*task)
        replace_file(files[changed], by)

    assert is_bounded(spark, NEWEST)
    with indexed(spark, "rows"):
        planned = frame(spark, NEWEST)
        planned._jdf.queryExecution().executedPlan()
        if moment == "after planning":
            replace_file(files[changed], by)
        else:
            monkeypatch.setattr(driver_rows, "read_task", slow)
        found = answer(planned)
    spark.catalog.refreshTable("own")
    assert not difference(found, by_spark(spark, NEWEST), ordered=True)


def test_a_plan_that_is_executed_again_compares_the_files_again(spark: SparkSession, own: Path) -> None:
    files = files_of(own)
    with indexed(spark, "rows"):
        planned = frame(spark, NEWEST)
        before = answer(planned)
        assert "DriverScan" in str(planned._jdf.queryExecution().executedPlan())
        replace_file(files[0], files[-1])
        found = answer(planned)
    assert found.rows != before.rows
    spark.catalog.refreshTable("own")
    assert not difference(found, by_spark(spark, NEWEST), ordered=True)


def test_new_and_stale_files_are_read(spark: SparkSession, own: Path) -> None:
    oldest, *_, newest = files_of(own)
    spark.sql(f"INSERT INTO own SELECT {MADE} FROM range(9000, 9100, 1, 1)")
    one = relation(spark, NEWEST)
    assert (one.blocks_selected, one.files_selected, BOUNDED in one.detail) == (2, 2, True)
    require_alike(spark, NEWEST, "", "rows", ordered=True)
    replace_file(oldest, newest)
    spark.catalog.refreshTable("own")
    assert relation(spark, NEWEST).blocks_selected == 3
    require_alike(spark, NEWEST, "", "rows", ordered=True)
    require_alike(spark, NEWEST.replace("DESC", "ASC"), "", "rows", ordered=True)
    hive_bitmap.refresh(spark, "own")
    assert is_bounded(spark, NEWEST)
    require_alike(spark, NEWEST, "", "rows", ordered=True)


def test_a_file_that_is_gone(spark: SparkSession, own: Path) -> None:
    for file in files_of(own)[::3]:
        file.unlink()
    spark.catalog.refreshTable("own")
    assert is_bounded(spark, NEWEST)
    require_alike(spark, NEWEST, "rows", ordered=True)


def test_columns_that_were_added_or_changed(spark: SparkSession, own: Path) -> None:
    spark.sql("ALTER TABLE own ADD COLUMNS (later bigint)")
    query = "SELECT later, id FROM own WHERE k = 3 ORDER BY later DESC NULLS LAST, id LIMIT 6"
    require_alike(spark, query, "rows", ordered=True)
    assert is_bounded(spark, NEWEST)
    spark.sql(f"INSERT INTO own SELECT {MADE}, id FROM range(5000, 5200, 1, 2)")
    hive_bitmap.refresh(spark, "own")
    for order in ("later DESC NULLS LAST, id", "later NULLS FIRST, id", "later, id"):
        require_alike(spark, query.replace("later DESC NULLS LAST, id", order), "rows", ordered=True)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices as if tables were large."""
    monkeypatch.setattr(prices, "SPARK_BYTE", {"parquet": 3e-5, "orc": 3e-5})


@pytest.mark.usefixtures("large")
def test_the_planner_chooses_it_even_if_many_rows_match(spark: SparkSession, table: str) -> None:
    half = f"SELECT id, note FROM {table} WHERE k > 0 ORDER BY day DESC, id LIMIT 10"
    one = relation(spark, half, "")
    assert (one.strategy, one.blocks_selected, BOUNDED in one.detail) == ("rows", 1, True)
    assert one.detail.startswith("the first 10 rows by day DESC NULLS LAST lie in 1 of the 8 blocks")
    require_alike(spark, half, "", ordered=True)


@pytest.mark.usefixtures("large")
def test_a_sample_of_many_partitions_does_not_rule_it_out(spark: SparkSession, database: str) -> None:
    spark.sql(
        "CREATE TABLE days USING parquet PARTITIONED BY (p) AS "
        "SELECT id, id % 3 AS k, id div 100 AS p FROM range(0, 2000, 1, 1)"
    )
    hive_bitmap.build(spark, "days", ["k"])
    for rows, files in ((10, 1), (600, 9)):  # more than the sample has
        query = f"SELECT id, p FROM days WHERE k > 0 ORDER BY id DESC LIMIT {rows}"
        one = relation(spark, query, "")
        assert (one.strategy, one.files_selected, BOUNDED in one.detail) == ("rows", files, True)
        require_alike(spark, query, "", ordered=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", range(first, first + max(1, metafunc.config.getoption("--long"))))


class TestRandom:
    """Random tables, and random queries of them before and after accidents."""

    KEYS = ("id", "day", "at", "n", "tied", "local", "small")

    @pytest.mark.random
    @pytest.mark.turn(1)
    def test_first_rows_are_sparks(self, spark: SparkSession, database: str, seed: int) -> None:
        rng = random.Random(seed)
        self.make(spark, rng)
        assert is_bounded(spark, "SELECT id FROM t WHERE k = 1 ORDER BY id LIMIT 1")
        for accident in (None, *rng.sample(("insert", "replace", "delete", "add column", "overwrite"), 3)):
            self.happen(spark, rng, accident)
            for _ in range(8):
                text, order, keys, limit = self.query(rng)
                strategy = rng.choice(["rows", "rows", ""])
                query = f"{text} ORDER BY {order} {limit}"
                found, wanted, all_rows = (
                    rows_of(spark, *one) for one in ((query, strategy), (query, None), (text, None))
                )
                assert not (why := wrong(found, wanted, all_rows, keys)), f"seed {seed}, {accident}: {query}: {why}"

    def make(self, spark: SparkSession, rng: random.Random) -> None:
        first_day = rng.choice(["1582-09-01", "2026-01-01"])
        count, nulls = rng.choice([300, 3000]), rng.choice([2, 3, 50, 1000])
        shuffled = rng.choice(["id", "id", f"(id * 7919) % {count}"])  # blocks that overlap
        columns = {
            "id": "id",
            "k": "CAST(id % 4 AS int)",
            "s": "concat('s', id % 3)",
            "day": f"IF({shuffled} % {nulls} = 0, NULL, date_add(DATE '{first_day}', CAST({shuffled} div 9 AS int)))",
            "at": f"timestamp_seconds({rng.choice([-2208990000, 1700000000])} + {shuffled} * 900)",
            "n": f"IF({shuffled} div 40 % {nulls} = 1, NULL, CAST({shuffled} div 7 AS smallint))",
            "tied": f"CAST({shuffled} div 111 - 9 AS bigint)",
            "local": f"CAST(timestamp_seconds(1700000000 + {shuffled} * 77) AS timestamp_ntz)",
            "small": f"CAST({shuffled} % 5 AS tinyint)",
        }
        self.columns = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        format = rng.choice(["parquet", "parquet", "orc"])
        type = rng.choice(["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
        by, self.partition = rng.choice([("", ""), ("PARTITIONED BY (p)", ", id div 200 AS p")])
        with under(spark, {"spark.sql.parquet.outputTimestampType": type}):
            rows = f"SELECT {self.columns}{self.partition} FROM range(0, {count}, 1, {rng.randint(2, 6)})"
            spark.sql(f"CREATE TABLE t USING {format} {by} AS {rows}")
        hive_bitmap.build(spark, "t", rng.choice([["k", "s"], ["k", "s", "at"], ["k", "s", "n"]]))
        self.added = False

    def happen(self, spark: SparkSession, rng: random.Random, accident: str | None) -> None:
        files = files_of(folder_of(spark, "t"))
        added = ", id AS added" if self.added else ""
        columns = f"{self.columns}{added}{self.partition}"
        match accident:
            case "insert":
                spark.sql(f"INSERT INTO t SELECT {columns} FROM range(2900, 3100, 1, 1)")
            case "overwrite":
                spark.sql(f"INSERT OVERWRITE t SELECT {columns} FROM range(100, 2000, 1, 3)")
            case "replace" if len(files) > 1:
                some, other = rng.sample(files, 2)
                replace_file(some, other)
            case "delete" if len(files) > 1:
                rng.choice(files).unlink()
            case "add column" if not self.added:
                spark.sql("ALTER TABLE t ADD COLUMNS (added bigint)")
                self.added = True
        spark.catalog.refreshTable("t")
        if rng.random() < 0.6:
            hive_bitmap.refresh(spark, "t")

    def query(self, rng: random.Random) -> tuple[str, str, int, str]:
        keys = rng.sample(self.KEYS + (("added",) if self.added else ()), rng.choice([1, 1, 2]))
        items = ", ".join([*keys, *(f"{name} AS {name}_" for name in rng.sample(("id", "s", "at"), 2))])
        where = rng.choice(
            ["k = 1", "k IN (0, 3)", "k >= 0", "k < 3 AND s = 's1'", "s <> 's2' OR k = 1", "k = 2 AND id > 50"]
        )
        orders = [
            f"{key}{rng.choice(['', ' ASC', ' DESC'])}{rng.choice(['', ' NULLS FIRST', ' NULLS LAST'])}" for key in keys
        ]
        offset = rng.choice(["", "", f" OFFSET {rng.choice([1, 30])}"])
        limit = f"LIMIT {rng.choice([1, 5, 40, 200])}{offset}"
        return f"SELECT {items} FROM t WHERE {where}", ", ".join(orders), len(keys), limit
