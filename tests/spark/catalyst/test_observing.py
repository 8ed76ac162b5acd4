"""What the optimizer rule records of queries, in memory and in the file of a server, and counts for Spark's metrics."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

import hive_bitmap
from hive_bitmap.spark.advising.observed import Kind, Observed, Shape, of_file, of_session
from hive_bitmap.spark.jvm_bridge import bridge
from tests.asking import indexed, under

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(2)

FILE, LITERALS = "spark.hive_bitmap.advice_file", "spark.hive_bitmap.advice_literals"
SECRET = "Wedgwood-8431"
Tests = dict[str, tuple[str, int]]
NOTHING: Tests = {}


@pytest.fixture
def tables(spark: SparkSession, database: str) -> Iterator[SparkSession]:
    rows = "SELECT id, int(id % 7) AS K, int(id % 5) AS j, 's' AS s FROM range(2000)"
    spark.sql(f"CREATE TABLE t USING parquet AS {rows}")
    spark.sql("CREATE TABLE d USING parquet AS SELECT int(id) AS k, concat('n', id) AS name FROM range(3)")
    spark.sql("CREATE TABLE p (id BIGINT, k INT, day INT) USING parquet PARTITIONED BY (day)")
    spark.sql("INSERT INTO p SELECT id, int(id % 7), int(id % 4) FROM range(2000)")
    hive_bitmap.build(spark, "t", ["K"])
    with indexed(spark, "blocks"):
        yield spark


@pytest.fixture
def server_conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Return a function that changes a setting of the application, which no session can."""
    conf: Any = spark.sparkContext._jsc.sc().conf()
    names: list[str] = []

    def change(name: str, value: str) -> None:
        names.append(name)
        conf.set(name, value)

    yield change
    for name in names:
        conf.remove(name)


def shapes(spark: SparkSession, table: str = "t") -> dict[Shape, Any]:
    seen, full = of_session(spark), f"{spark.catalog.currentDatabase()}.{table}"
    return {shape: tally for shape, tally in seen.shapes.items() if shape.full_table == full}


def _all(tally: Any) -> int:
    return int(tally.queries + tally.served)


def new_tests(spark: SparkSession, query: str | Callable[[], DataFrame], table: str = "t") -> Tests:
    """Run a query, and return the tests of the one shape that is new."""
    before = {shape: _all(tally) for shape, tally in shapes(spark, table).items()}
    (spark.sql(query) if isinstance(query, str) else query()).collect()
    new = [shape for shape, tally in shapes(spark, table).items() if _all(tally) != before.get(shape, 0)]
    assert len(new) <= 1
    return {test.column: (test.kind.value, test.values) for shape in new for test in shape.tests}


@pytest.mark.parametrize(
    ("condition", "tests"),
    [
        ("J = 3", {"j": ("equality", 1)}),
        ("3 = j", {"j": ("equality", 1)}),
        ("j <=> 3", {"j": ("equality", 1)}),
        ("j IN (1, 2, 3)", {"j": ("in", 4)}),
        (f"j IN ({', '.join(map(str, range(20)))})", {"j": ("in", 32)}),
        ("j = 1 OR j = 2", {"j": ("in", 2)}),
        ("j > 1 AND j < 4", {"j": ("range", 0)}),
        ("j > 1 AND j = 4", {"j": ("equality", 1)}),
        ("s LIKE 'a%'", {"s": ("range", 0)}),
        ("j IS NULL", {"j": ("null", 0)}),
        ("j IS NOT NULL", NOTHING),
        ("j = 1 OR s = 'a'", {"j": ("other", 0), "s": ("other", 0)}),
        ("length(s) = 2 AND j = 1", {"j": ("equality", 1), "s": ("other", 0)}),
        ("j <> 3", {"j": ("other", 0)}),
        ("j = id", {"j": ("other", 0), "id": ("other", 0)}),
    ],
)
def test_a_column_is_tested_so(tables: SparkSession, condition: str, tests: Tests) -> None:
    assert new_tests(tables, f"SELECT id FROM t WHERE {condition}") == tests


def test_frames_joins_subqueries_and_partitions(tables: SparkSession) -> None:
    from pyspark.sql import functions as f

    assert new_tests(tables, lambda: tables.table("t").where(f.col("j") == 2)) == {"j": ("equality", 1)}
    join = "SELECT t.id FROM t JOIN d ON t.j = d.k WHERE d.name = 'n1' AND t.s = 's'"
    assert new_tests(tables, join) == {"s": ("equality", 1)}
    assert new_tests(tables, join, "d") == {"name": ("equality", 1)}
    assert new_tests(tables, "SELECT (SELECT max(id) FROM t WHERE j = 4) AS m FROM d", "t") == {"j": ("equality", 1)}
    assert new_tests(tables, "SELECT * FROM d WHERE k IN (SELECT j FROM t WHERE s = 's')") == {"s": ("equality", 1)}
    assert new_tests(tables, "SELECT id FROM p WHERE day = 1 AND k = 2", "p") == {"k": ("equality", 1)}
    assert new_tests(tables, "SELECT id FROM p WHERE day = 1", "p") == NOTHING


def test_a_table_that_a_serde_reads(tables: SparkSession) -> None:
    tables.sql("CREATE TABLE x (k INT, s STRING) STORED AS TEXTFILE")
    tables.sql("INSERT INTO x VALUES (1, 'a')")
    assert new_tests(tables, "SELECT s FROM x WHERE k = 1", "x") == {"k": ("equality", 1)}
    [tally] = shapes(tables, "x").values()
    assert (tally.queries, dict(tally.columns)) == (1, {"*": 1})


def test_a_scan_counts_once_however_often_it_is_optimized(tables: SparkSession) -> None:
    before = sum(map(_all, shapes(tables).values()))
    tables.sql("SELECT * FROM d WHERE EXISTS (SELECT 1 FROM t WHERE t.j = d.k AND t.s = 's')").collect()
    frame = tables.table("t").where("j = 1")
    frame.collect()
    hive_bitmap.explain(frame)
    assert sum(map(_all, shapes(tables).values())) == before + 2


def test_the_bytes_are_those_of_the_partitions_that_are_left(tables: SparkSession) -> None:
    files = {day: _bytes(tables, f"SELECT * FROM p WHERE day = {day}") for day in range(4)}
    tables.sql("SELECT id FROM p WHERE day = 1 AND k = 2").collect()
    [tally] = [tally for shape, tally in shapes(tables, "p").items() if shape.tests]
    assert (tally.queries, tally.bytes, tally.unsized) == (1, files[1], 0)
    tables.sql("SELECT id FROM p WHERE k = 2").collect()
    [tally] = [tally for shape, tally in shapes(tables, "p").items() if shape.tests]
    assert (tally.queries, tally.unsized) == (2, 1)  # of all partitions: Spark lists them when it reads


def _bytes(spark: SparkSession, query: str) -> int:
    paths = spark.sql(query).select("_metadata.file_path").distinct().collect()
    return sum(os.stat(unquote(urlsplit(row[0]).path)).st_size for row in paths)


def test_columns_that_are_counted(tables: SparkSession) -> None:
    tables.sql("SELECT j, count(*) FROM t WHERE s = 's' GROUP BY j").collect()
    tables.sql("SELECT s, collect_list(id) FROM t WHERE j = 1 GROUP BY s").collect()
    found = {shape.key_sets: {test.column for test in shape.tests} for shape in shapes(tables)}
    assert found == {(("j",),): {"s"}, None: {"j"}}
    tables.sql("SELECT day, k, count(*) FROM p GROUP BY day, k").collect()
    assert [shape.key_sets for shape in shapes(tables, "p")] == [(("k",),)]


def test_what_an_index_served(tables: SparkSession) -> None:
    tables.sql("SELECT id FROM t WHERE k = 3").collect()
    tables.sql("SELECT count(*) FROM t WHERE k = 3").collect()
    tables.sql("SELECT id FROM t WHERE j = 3").collect()
    found = {(shape.key_sets, shape.tests[0].column): tally.served for shape, tally in shapes(tables).items()}
    assert found == {(None, "k"): 1, (((),), "k"): 1, (None, "j"): 0}
    assert of_session(tables).uses[f"{tables.catalog.currentDatabase()}.t", "k"] == 2


def test_nothing_is_recorded_while_indexes_are_off(tables: SparkSession) -> None:
    with under(tables, {"hive_bitmap.enabled": "false"}):
        tables.sql("SELECT id FROM t WHERE j = 3").collect()
    assert shapes(tables) == {}


def test_the_record_is_bounded_and_keeps_what_is_recent(tables: SparkSession) -> None:
    names = [f"column_{number:02}_{'x' * 100}" for number in range(60)]
    tables.sql(f"CREATE TABLE wide ({', '.join(f'{name} INT' for name in names)}) USING parquet")
    for number in range(60):
        for other in (1, 2):
            condition = f"{names[number]} = 1 AND {names[(number + other) % 60]} > 2"
            frame = tables.table("wide").where(condition).select(*names[1:])
            frame._jdf.queryExecution().optimizedPlan()
    text = bridge(tables).queries(tables._jsparkSession).toString()
    assert len(text) < 4 << 20
    assert json.loads(text.splitlines()[0])["forgotten"] > 0
    kept = shapes(tables, "wide")
    assert 0 < len(kept) < 120 and names[59] in {test.column for shape in kept for test in shape.tests}


def test_a_broken_observation_fails_no_query(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    server_conf(FILE, str(tmp_path / "no" / "such" / "folder"))
    assert tables.sql("SELECT id FROM t WHERE j = 3").count() == 400
    bridge(tables).flushQueries(tables._jsparkSession)


def test_no_literal_is_kept_unless_a_setting_asks(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    path, day = tmp_path / "advice.json", date(2031, 5, 17)
    numbers = [84311, 84312, 84313, 84314, 84315, (day - date(1970, 1, 1)).days]
    server_conf(FILE, str(path))

    def asked() -> str:
        of_numbers = "j IN ({}, {}, {}) AND k < {}".format(*numbers[:4])
        tables.sql(f"SELECT id FROM t WHERE s = '{SECRET}' AND {of_numbers}").collect()
        tables.sql(f"SELECT id FROM t WHERE s LIKE '{SECRET}%' OR j = {numbers[4]}").collect()
        of_day = f"date'{day}' = date_add(date'{day}', j)"
        tables.sql(f"SELECT count(*) FROM t WHERE {of_day} AND s IN ('{SECRET}')").collect()
        bridge(tables).flushQueries(tables._jsparkSession)
        return str(bridge(tables).queries(tables._jsparkSession).toString()) + path.read_text()

    def is_kept(number: int, text: str) -> bool:
        """Return whether a number is there as a whole, and not as some digits of a time or a size."""
        return re.search(rf"(?<![\d.]){number}(?![\d.])", text) is not None

    text = asked()
    assert f'"{tables.catalog.currentDatabase()}"' in text
    assert SECRET not in text and str(day) not in text
    assert not [number for number in numbers if is_kept(number, text)]
    server_conf(LITERALS, "true")
    text = asked()
    assert SECRET in text and is_kept(84312, path.read_text())
    samples = [tally.samples for tally in of_file(path).shapes.values() if tally.samples]
    assert {"j": {"84311", "84312", "84313"}, "s": {SECRET}} in samples


def test_a_session_cannot_have_a_file_written(tables: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    with under(tables, {FILE: str(path), FILE.removeprefix("spark."): str(path), LITERALS: "true"}):
        tables.sql("SELECT id FROM t WHERE s = 'Minton-5523'").collect()
        bridge(tables).flushQueries(tables._jsparkSession)
    assert not path.exists()
    assert "Minton" not in bridge(tables).queries(tables._jsparkSession).toString()


def _flushed(spark: SparkSession, path: Path) -> Observed:
    bridge(spark).flushQueries(spark._jsparkSession)
    return of_file(path)


def test_the_file_adds_up_and_is_its_owners_alone(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    path, database = tmp_path / "advice.json", tables.catalog.currentDatabase()
    server_conf(FILE, str(path))
    for number in range(3):
        tables.sql(f"SELECT id FROM t WHERE j = {number}").collect()
        _flushed(tables, path)
    seen = _flushed(tables, path)
    [tally] = [tally for shape, tally in seen.shapes.items() if shape.database == database]
    assert (tally.queries, tally.columns["j"], seen.broken) == (3, 3, 0)
    assert seen.since is not None
    assert [stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()] == [0o600] * 2
    lines = path.read_text().splitlines()
    tables.sql("SELECT id FROM t").collect()
    _flushed(tables, path)
    assert path.read_text().splitlines() == lines  # there was nothing new


def test_a_link_is_not_followed(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    target, path = tmp_path / "precious", tmp_path / "advice.json"
    target.write_text("as it was")
    path.symlink_to(target)
    server_conf(FILE, str(path))
    tables.sql("SELECT id FROM t WHERE j = 1").collect()
    bridge(tables).flushQueries(tables._jsparkSession)
    assert target.read_text() == "as it was"
    path.unlink()
    assert any(shape.table == "t" for shape in _flushed(tables, path).shapes)  # it is written the next time


def test_a_full_file_becomes_the_one_before(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    path, before = tmp_path / "advice.json", tmp_path / "advice.json.1"
    server_conf(FILE, str(path))
    tables.sql("SELECT id FROM t WHERE j = 1").collect()
    _flushed(tables, path)
    os.truncate(path, 16 << 20)
    tables.sql("SELECT id FROM t WHERE j = 1").collect()
    seen = _flushed(tables, path)
    assert before.stat().st_size == 16 << 20 > path.stat().st_size
    assert sum(tally.queries for shape, tally in seen.shapes.items() if shape.table == "t") >= 2


def test_writers_take_turns(tables: SparkSession, tmp_path: Path, server_conf: Any) -> None:
    path = tmp_path / "advice.json"
    server_conf(FILE, str(path))

    def ask() -> None:
        for _ in range(10):
            tables.sql("SELECT id FROM t WHERE j = 1")._jdf.queryExecution().optimizedPlan()
            bridge(tables).flushQueries(tables._jsparkSession)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = _flushed(tables, path)
    [tally] = [t for shape, t in seen.shapes.items() if shape.database == tables.catalog.currentDatabase()]
    assert (tally.queries, seen.broken) == (40, 0)


def metrics(spark: SparkSession) -> dict[str, float]:
    """The figures of the source in Spark's metrics system, by name."""
    jvm: Any = spark._jvm
    environment = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv")  # some of its methods are not for py4j
    field = environment.getDeclaredField("metricsSystem")
    field.setAccessible(True)
    [source] = _items(field.get(spark.sparkContext._jsc.sc().env()).getSourcesByName("hive_bitmap"))
    registry = source.metricRegistry()
    counters = {name: registry.getCounters().get(name).getCount() for name in registry.getCounters().keySet()}
    return counters | {name: registry.getGauges().get(name).getValue() for name in registry.getGauges().keySet()}


def _items(seq: Any) -> list[Any]:
    return [seq.apply(at) for at in range(seq.size())]


def test_metrics_count_what_is_decided(tables: SparkSession) -> None:
    def change(query: str) -> dict[str, float]:
        before = metrics(tables)
        tables.sql(query).collect()
        after = metrics(tables)
        changed = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
        return {name.removeprefix("scans."): number for name, number in changed.items()}

    size = _bytes(tables, "SELECT * FROM t")
    assert change("SELECT count(*) FROM t WHERE k = 3") == {"answered": 1, "bytes.saved": size}
    assert change("SELECT id FROM t WHERE k = 99") == {"narrowed": 1, "bytes.saved": size}
    assert change("SELECT id FROM t WHERE j = 3") == {"leftAlone.not_tested": 1}
    assert change("SELECT id FROM t WHERE j = 3") == {"leftAlone.not_tested": 1}  # without asking Python
    for _ in range(2):
        assert change("SELECT k FROM d WHERE k = 2") == {"leftAlone.no_index": 1}
    assert change("SELECT t.id FROM t JOIN d ON t.id = d.k WHERE t.j = 1") == {
        "leftAlone.no_index": 1,
        "leftAlone.not_tested": 1,
    }
    with under(tables, {"hive_bitmap.strategy": "full_scan"}):
        assert change("SELECT id FROM t WHERE k = 3") == {"leftAlone.off": 1}


def test_the_guide_has_every_metric(tables: SparkSession) -> None:
    tables.sql("SELECT id FROM t WHERE j = 3").collect()
    page = (Path(__file__).parents[3] / "docs/guide/advice.md").read_text().partition("## Metrics")[2]
    said = set(re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE))
    assert said == {re.sub(r"(leftAlone)\..*", r"\1.<reason>", name) for name in metrics(tables)}


def test_metrics_of_refreshes(tables: SparkSession) -> None:
    before = metrics(tables)
    for failed in (False, True, False):
        bridge(tables).refreshed(failed)
    bridge(tables).lag(2.5)
    after = metrics(tables)
    assert after["refreshes"] - before["refreshes"] == 3
    assert after["refreshes.failed"] - before["refreshes.failed"] == 1
    assert after["refreshes.lagSeconds"] == 2.5


def test_all_kinds_of_tests_are_known() -> None:
    source = (Path(__file__).parents[3] / "jvm/hive_bitmap/catalyst/observing/ColumnTest.java").read_text()
    assert ", ".join(kind.name for kind in Kind) in source
