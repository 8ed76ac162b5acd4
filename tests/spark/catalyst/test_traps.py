"""Plans in which replacing relations easily goes wrong: equal subtrees, caches, subqueries, partitions, streams."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.errors import NotFound
from tests.asking import (
    FORCED,
    OFF,
    Answer,
    answer,
    by_index,
    by_spark,
    difference,
    indexed,
    require_alike,
    require_alike_always,
    under,
    used,
)
from tests.spark.catalyst import warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.turn(4)

N = "narrowed"
ALIKE = [
    # one table more than once, equal subtrees among them
    "SELECT a.id, b.id FROM fact a JOIN fact b ON a.g = b.g WHERE a.k = 1 AND b.j = 2",
    "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id WHERE a.k = 1 AND b.k = 1",
    "SELECT a.id, b.k FROM fact a LEFT JOIN fact b ON a.g = b.id AND b.k = 1 WHERE a.k = 2",
    "SELECT a.id, b.k FROM (TABLE fact |> WHERE k = 1) a FULL JOIN (TABLE fact |> WHERE k = 2) b ON a.id = b.j",
    "SELECT id FROM fact WHERE k = 1 UNION ALL SELECT id FROM fact WHERE k = 1",
    "SELECT id FROM fact WHERE k = 1 UNION ALL SELECT id FROM fact WHERE k = 2 UNION ALL SELECT id FROM fact",
    "SELECT id FROM fact WHERE k = 1 INTERSECT SELECT id FROM fact WHERE j = 1 EXCEPT SELECT id FROM fact WHERE g = 3",
    "WITH w AS (SELECT * FROM fact WHERE k < 4) SELECT a.id FROM w a JOIN w b USING (id) WHERE a.j = 1 AND b.s = 's1'",
    "WITH w AS (SELECT *, rand() AS r FROM fact WHERE k < 4) SELECT id FROM w a JOIN w b USING (id) WHERE a.j = 1",
    "WITH w AS (SELECT k, count(*) AS n FROM fact GROUP BY k) SELECT * FROM w a JOIN w b ON a.n = b.n WHERE a.k = 3",
    # subqueries in conditions
    "SELECT id FROM fact WHERE k IN (SELECT k FROM dim WHERE name IN ('n1', 'n2')) AND j = 3",
    "SELECT id FROM fact WHERE k NOT IN (SELECT k FROM dim WHERE name <> 'n1') AND j = 3",
    "SELECT id FROM fact WHERE k = (SELECT max(k) FROM dim WHERE j = 1) AND j = 3",
    "SELECT id FROM fact WHERE k = (SELECT max(k) FROM fact WHERE s = 's1')",
    "SELECT id FROM fact WHERE k > (SELECT avg(k) FROM fact) OR g = 1",
    "SELECT id FROM fact f WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = f.id + 1 AND o.k = 3) AND f.j = 2",
    "SELECT id FROM fact f WHERE NOT EXISTS (TABLE orders |> WHERE g = f.g AND k = 3 AND j = 1) AND f.k = 2",
    "SELECT id FROM fact f WHERE k = (SELECT min(o.k) FROM orders o WHERE o.g = f.g AND o.j = 1)",
    "SELECT id FROM fact f WHERE EXISTS (SELECT 1 FROM fact f2 WHERE f2.k = f.k AND f2.id = 3) OR k IN (SELECT 4)",
    "SELECT id, (SELECT count(*) FROM orders o WHERE o.k = f.k AND o.j = 1) AS n FROM fact f WHERE k = 2",
    "SELECT id FROM fact WHERE k IN (SELECT k FROM fact WHERE j IN (SELECT j FROM dim WHERE name = 'n2'))",
    "SELECT (SELECT first(name) FROM dim WHERE k = (SELECT max(k) FROM fact WHERE g = 1)) AS n",
    "SELECT count(*) FROM fact WHERE k IN (SELECT k FROM plain WHERE j = 1)",
    "SELECT k, count(*) FROM fact WHERE k > (SELECT 5) GROUP BY k",
    # partitions
    "SELECT id, day FROM part WHERE k = 3 AND day = 2",
    "SELECT id, day FROM part WHERE k = 3 AND day IN (1, 5, 99)",
    "SELECT id FROM part WHERE day = 99 AND k = 3",
    "SELECT id FROM part WHERE k = 3 AND (day = 2 OR j = 1)",
    "SELECT id FROM part WHERE day + 1 = k AND k = 3",
    "SELECT id FROM part WHERE day = 3",
    "SELECT id FROM hive WHERE k = 3 AND day % 2 = 1",
    "SELECT day, count(*), min(k) FROM hive WHERE day > 2 GROUP BY day",
    "SELECT p.id FROM part p JOIN hive h ON p.day = h.day AND p.id = h.id WHERE p.k = 3 AND h.day < 3",
    "SELECT p.id FROM part p JOIN dim d ON p.day = d.k WHERE d.name = 'n3' AND p.k = 2",
    "SELECT p.id FROM hive p JOIN plain d ON p.day = d.k WHERE d.name = 'n3' AND p.k = 2",
    "SELECT count(*) FROM part p JOIN part q ON p.day = q.day AND p.id = q.id WHERE q.k = 3",
    "SELECT max(day) FROM part",
    "SELECT DISTINCT day FROM part WHERE day > 1",
    # lists that Spark turns into sets, values that are no plain numbers
    "SELECT id FROM fact WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) AND g = 3",
    "SELECT id FROM fact WHERE k IN (0, 1, 2, NULL, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) AND g = 3",
    "SELECT id FROM fact WHERE k NOT IN (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)",
    "SELECT id FROM fact WHERE s IN ('s1', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'it''s', 'k') AND k = 2",
    "SELECT id FROM fact WHERE k <=> NULL AND s IS NULL",
    "SELECT id FROM fact WHERE k = NULL",
    "SELECT id FROM fact WHERE false",
    "SELECT id FROM fact WHERE (k = 3) IS NOT FALSE AND g = 1",
    # errors that the order of conditions hides
    "SELECT id FROM fact WHERE k <> 0 AND 10 / k = 2",
    "SELECT id FROM fact WHERE k = 5 AND try_divide(10, k) = 2",
    # what is between a filter and a table, or stands for one
    "SELECT count(*) FROM fact TABLESAMPLE (100 PERCENT) WHERE k = 3",
    "SELECT id FROM fact WHERE k = 3 ORDER BY id LIMIT 5",
    "SELECT * FROM (SELECT * FROM fact ORDER BY id LIMIT 30) WHERE k = 3",
    "SELECT * FROM (SELECT * FROM fact ORDER BY id OFFSET 1570) WHERE k = 3",
    "SELECT /*+ BROADCAST(d) */ f.id FROM fact f JOIN dim d ON f.k = d.k WHERE d.name = 'n3'",
    "SELECT /*+ REPARTITION(3, k) */ id FROM fact WHERE k = 3",
    "SELECT explode(array(id, k)) AS e FROM fact WHERE k = 3",
    "SELECT id FROM fact WHERE k = 3 AND note RLIKE '7$' AND length(note) > 6",
    "SELECT hash(*) AS h FROM fact WHERE k = 3",
    "SELECT struct(*) AS r, map('k', k) AS m FROM fact WHERE k = 3",
    "SELECT count(*) FROM fact WHERE k = 3 GROUP BY GROUPING SETS (())",
    "SELECT grouping(k) AS g, k, j, count(*) FROM fact WHERE g < 9 GROUP BY CUBE (k, j)",
]  # fmt: skip


@pytest.mark.parametrize("text", ALIKE)
def test_answers_are_sparks(tables: SparkSession, text: str) -> None:
    require_alike_always(tables, text, ordered=text.endswith("ORDER BY id LIMIT 5"))


@pytest.mark.parametrize("strategy", ["rows", "blocks"])
@pytest.mark.parametrize(
    ("text", "narrowed"),
    [
        ("SELECT a.id FROM fact a JOIN fact b ON a.id = b.id + 1 WHERE a.k = 1 AND b.j = 2", ["fact", "fact"]),
        ("SELECT id FROM fact WHERE k = 1 UNION ALL SELECT id FROM fact WHERE k = 1", ["fact", "fact"]),
        ("SELECT id FROM fact WHERE k = (SELECT max(k) FROM orders WHERE note = 'note 3' AND j = 3) AND j = 3",
         ["fact", "orders"]),
        ("SELECT id FROM fact WHERE k IN (SELECT k FROM orders WHERE j = 3 AND g < 3) AND j = 3", ["fact", "orders"]),
        ("SELECT id FROM part WHERE k = 3 AND day = 2", ["part"]),
        ("SELECT id FROM hive WHERE k = 3 AND day IN (2, 3)", ["hive"]),
        ("SELECT id FROM fact WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12) AND g = 3", ["fact"]),
    ],
)  # fmt: skip
def test_they_are_narrowed_nevertheless(tables: SparkSession, text: str, narrowed: list[str], strategy: str) -> None:
    found = used(tables, text, strategy)
    assert [table for table, action in found if action == N] == narrowed


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("dynamic", ["true", "false"])
def test_adaptive_plans_and_dynamic_pruning(tables: SparkSession, adaptive: str, dynamic: str) -> None:
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": dynamic,
        "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false",
    }
    with under(tables, settings):
        for text in (
            "SELECT p.id, d.name FROM part p JOIN dim d ON p.day = d.k WHERE d.name IN ('n2', 'n3') AND p.k = 2",
            "SELECT h.day, count(*) FROM hive h JOIN plain d ON h.day = d.k WHERE d.j = 1 AND h.j = 2 GROUP BY h.day",
            "SELECT f.k, max(f.note) FROM fact f JOIN orders o ON f.id = o.id WHERE o.k = 3 GROUP BY f.k",
        ):
            for strategy in ("", *FORCED):
                found = by_index(tables, text, strategy)
                assert not difference(found, expected(tables, text)), f"{strategy or 'default'}: {text}"


@cache
def expected(spark: SparkSession, text: str) -> Answer:
    """Return plain Spark's result of a query, cached, since no test changes its tables."""
    return by_spark(spark, text)


@pytest.mark.parametrize("table", ["part", "hive"])
def test_partitions_are_pruned_as_without_the_rule(tables: SparkSession, table: str) -> None:
    """Partitions are pruned both by a condition and dynamically, by the keys of the other side of a join."""
    static = f"SELECT id FROM {table} WHERE k = 3 AND day = 2"
    joined = f"SELECT p.id FROM {table} p JOIN dim d ON p.day = d.k WHERE d.name = 'n2' AND p.k = 3"
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false",
        "spark.sql.autoBroadcastJoinThreshold": "10m",
    }
    with under(tables, settings):
        for text in (static, joined):
            with under(tables, OFF):
                before = read(tables.sql(text), table)
            with indexed(tables, "files"):
                after = read(tables.sql(text), table)
            assert 0 < before[1] < len(warehouse.DAYS)
            assert after[0] <= before[0] and after[1] <= before[1]


def read(frame: DataFrame, table: str) -> tuple[int, int]:
    """Execute a query and return how many files and partitions the scan of a table has read, by the scan's metrics."""
    frame.collect()
    [scan] = [one for one in nodes(frame._jdf.queryExecution().executedPlan()) if f".{table}" in one.simpleString(999)]
    metrics = scan.metrics()
    return int(metrics.apply("numFiles").value()), int(metrics.apply("numPartitions").value())


def nodes(plan: object) -> Iterator[object]:
    """Yield the scans of a physical plan, which must not be adaptive."""
    found = plan.collectLeaves()  # type: ignore[attr-defined]
    for number in range(found.size()):
        if "Scan" in found.apply(number).nodeName():
            yield found.apply(number)


@pytest.mark.parametrize("strategy", ["files", "blocks"])
def test_equal_exchanges_are_reused(tables: SparkSession, strategy: str) -> None:
    counted = "(SELECT k, max(note) AS m FROM fact WHERE j = 1 AND g < 8 GROUP BY k)"
    text = f"SELECT a.k, a.m, b.m FROM {counted} a JOIN {counted} b ON a.k = b.k + 1"
    with under(tables, {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}):
        with under(tables, OFF):
            assert physical(tables, text).count("ReusedExchange") == 1
        with indexed(tables, strategy):
            assert physical(tables, text).count("ReusedExchange") == 1
        require_alike(tables, text, strategy)


def physical(spark: SparkSession, text: str) -> str:
    return str(spark.sql(text)._jdf.queryExecution().executedPlan())


def test_a_scan_that_keeps_little_may_be_broadcast(tables: SparkSession) -> None:
    text = "SELECT f.id FROM orders f JOIN fact t ON f.id = t.id WHERE t.g = 3"
    with under(tables, {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "3000"}):
        with under(tables, OFF):
            assert "SortMergeJoin" in physical(tables, text)
        for strategy in ("files", "blocks", "rows"):
            with indexed(tables, strategy):
                assert "BroadcastHashJoin" in physical(tables, text), strategy
            require_alike(tables, text, strategy)


@pytest.mark.parametrize("strategy", ["", *FORCED])
def test_cached_relations_are_not_touched(tables: SparkSession, strategy: str) -> None:
    whole, some = tables.table("fact"), tables.table("fact").where("k = 3")
    queries = ("SELECT id FROM fact WHERE k = 3 AND j = 1", "SELECT count(*) FROM fact WHERE k = 3", "TABLE fact")
    wanted = [by_spark(tables, text) for text in queries]
    for frame in (whole, some):
        with indexed(tables, strategy):
            frame.cache()  # its own plan is made with the rule on
            frame.count()
        try:
            for text, expected in zip(queries, wanted, strict=True):
                assert not difference(by_index(tables, text, strategy), expected)
                assert not difference(by_spark(tables, text), expected)
            with indexed(tables, strategy):
                served = queries[0] if frame is whole else queries[1]  # Spark takes no less than what was cached
                assert "InMemoryTableScan" in physical(tables, served)
                [one] = hive_bitmap.explain(served).relations
                assert (one.action, one.reason) == ("left alone", "cached")
        finally:
            frame.unpersist(True)
    if strategy in ("rows", "blocks"):
        assert used(tables, queries[0], strategy) == [("fact", N)]


def test_what_was_cached_narrowed_serves_no_more_than_its_query(tables: SparkSession) -> None:
    with indexed(tables, "rows"):
        tables.sql("CACHE TABLE threes AS SELECT id, k, j FROM fact WHERE k = 3")
    try:
        selected = "SELECT id, k, j FROM"
        for text in (f"{selected} threes WHERE j = 2", f"{selected} fact", f"{selected} fact WHERE k = 4"):
            wanted = by_spark(tables, text)
            assert not difference(by_index(tables, text, "rows"), wanted)
        assert len(by_spark(tables, "SELECT id, k, j FROM fact").rows) == warehouse.ROWS
    finally:
        tables.sql("UNCACHE TABLE threes")
        tables.sql("DROP VIEW threes")


def test_streams_are_left_alone(tables: SparkSession, tmp_path: Path) -> None:
    wanted = by_spark(tables, "SELECT id, note FROM fact WHERE k = 3 AND g < 20")
    joined = by_spark(tables, "SELECT f.id, d.name FROM fact f JOIN dim d ON f.k = d.k WHERE d.name = 'n3'")
    with indexed(tables, "rows"):
        stream = tables.readStream.table("fact")
        frames = {
            "narrow": stream.where("k = 3 AND g < 20").select("id", "note"),
            "joined": stream.join(tables.table("dim"), "k").where("name = 'n3'").select("id", "name"),
        }
        for (name, frame), expected in zip(frames.items(), (wanted, joined), strict=True):
            query = (
                frame.writeStream.format("memory")
                .queryName(name)
                .option("checkpointLocation", str(tmp_path / name))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(300) and query.exception() is None
            found = answer(tables.table(name))
            assert sorted(found.rows) == sorted(expected.rows)
            tables.catalog.dropTempView(name)


def test_batches_of_a_stream_may_ask(tables: SparkSession, tmp_path: Path) -> None:
    """A stream runs its batches in a thread of its own, with the settings of a session of its own."""
    found: list[Answer] = []
    text = "SELECT id, note FROM orders WHERE k = 3"
    wanted = by_spark(tables, text)

    def ask(batch: DataFrame, _: int) -> None:
        found.append(answer(batch.sparkSession.sql(text)))

    with indexed(tables, "rows"):
        query = (
            tables.readStream.table("fact")
            .where("k = 1")
            .writeStream.foreachBatch(ask)
            .option("checkpointLocation", str(tmp_path / "asked"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300) and query.exception() is None
    assert found and not difference(found[0], wanted)


def test_new_sessions_have_the_rule_and_settings_of_their_own(tables: SparkSession) -> None:
    text = "SELECT id FROM fact WHERE k = 3"
    wanted = by_spark(tables, text)
    other = tables.newSession()
    other.catalog.setCurrentDatabase(tables.catalog.currentDatabase())
    for name, value in {"strategy": "rows", "strict": "true", "planning_seconds": "60"}.items():
        other.conf.set(f"hive_bitmap.{name}", value)
    with indexed(tables):
        frame = other.sql(text)
        [one] = hive_bitmap.explain(frame).relations
        assert (one.action, one.strategy) == (N, "rows")
        assert not difference(answer(frame), wanted)
        newer = tables.newSession()
        newer.catalog.setCurrentDatabase(tables.catalog.currentDatabase())
        [one] = hive_bitmap.explain(newer.sql(text)).relations
        assert (one.action, one.reason) == ("left alone", "too_small")
    assert not difference(answer(other.sql(text)), wanted)


def test_settings_that_spark_was_started_with_are_defaults(tables: SparkSession) -> None:
    """Spark drops settings of its configuration that do not begin with `spark.`."""
    text = "SELECT id FROM fact WHERE k = 3"

    def one() -> tuple[str, str]:
        [found] = hive_bitmap.explain(text, tables).relations
        return found.strategy, found.reason

    hive_bitmap.enable(tables)
    with under(tables, {"spark.hive_bitmap.strategy": "blocks", "spark.hive_bitmap.planning_seconds": "60"}):
        assert one() == ("blocks", "")
        with under(tables, {"hive_bitmap.strategy": "files"}):
            assert one() == ("files", "")
        with under(tables, {"spark.hive_bitmap.enabled": "false"}):
            assert one()[1] == "off"
            assert "NarrowedScan" not in physical(tables, text)
            with under(tables, {"hive_bitmap.enabled": "true"}):
                assert one() == ("blocks", "")


def test_to_enable_twice_is_to_enable_once(tables: SparkSession) -> None:
    text = "SELECT id FROM fact WHERE g = 3"
    before = physical(tables, text)
    with indexed(tables, "files"):
        hive_bitmap.enable(tables)
        assert physical(tables, text) != before
        assert [one.action for one in hive_bitmap.explain(text, tables).relations] == [N]
        hive_bitmap.disable(tables)
        assert "FileScan parquet" in before and without_ids(physical(tables, text)) == without_ids(before)


def without_ids(plan: str) -> str:
    return re.sub(r"#\d+L?", "", plan)


def test_a_late_plan_is_sparks_own(tables: SparkSession) -> None:
    text = "SELECT id FROM fact WHERE k = 3"
    wanted = by_spark(tables, text)
    with indexed(tables, "rows", planning_seconds="0", strict="false"):
        [one] = hive_bitmap.explain(text, tables).relations
        assert (one.action, one.reason) == ("left alone", "late")
        assert not difference(answer(tables.sql(text)), wanted)


def test_explaining_runs_nothing(tables: SparkSession) -> None:
    context = tables.sparkContext
    with indexed(tables, "index only"):
        context.setJobGroup("explained", "explained")
        hive_bitmap.explain("SELECT k, count(*) FROM fact GROUP BY k", tables)
        tables.sql("EXPLAIN SELECT k, count(*) FROM fact GROUP BY k").collect()
        assert not context.statusTracker().getJobIdsForGroup("explained")
    context.setLocalProperty("spark.jobGroup.id", None)


@pytest.fixture
def changing(tables: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Create an indexed table `changing`, whose files Spark has listed, and yield its folder."""
    for number in range(4):
        warehouse.write(tmp_path / "changing" / f"{number}.parquet", number * 200, 200)
    tables.sql(f"CREATE TABLE changing ({warehouse.COLUMNS}) USING parquet LOCATION '{tmp_path / 'changing'}'")
    hive_bitmap.build(tables, "changing", ["k", "g"])
    tables.sql("SELECT * FROM changing WHERE k = 3").collect()
    yield tmp_path / "changing"
    with contextlib.suppress(NotFound):  # a test may have dropped it
        hive_bitmap.drop_table(tables, "changing")


CHANGED = (
    "SELECT id FROM changing WHERE g = 30",
    "SELECT g, count(*) FROM changing GROUP BY g",
    "SELECT count(*) FROM changing",
)


@pytest.mark.parametrize("strategy", ["", *FORCED])
def test_a_file_that_was_replaced_since_it_was_listed(tables: SparkSession, changing: Path, strategy: str) -> None:
    warehouse.write(changing / "0.parquet", 1500, 90)
    for text in CHANGED:
        require_alike(tables, text, strategy)
    tables.catalog.refreshTable("changing")
    for text in CHANGED:
        require_alike(tables, text, strategy)


@pytest.mark.parametrize("strategy", ["", *FORCED])
def test_files_that_came_and_went(tables: SparkSession, changing: Path, strategy: str) -> None:
    warehouse.write(changing / "new.parquet", 1500, 90)
    (changing / "1.parquet").unlink()
    tables.catalog.refreshTable("changing")
    for text in CHANGED:
        require_alike(tables, text, strategy)
    tables.sql("INSERT INTO changing SELECT * FROM fact WHERE g = 30")
    for text in CHANGED:
        require_alike(tables, text, strategy)


@pytest.mark.parametrize("strategy", ["", *FORCED])
def test_a_plan_that_is_run_after_a_file_was_replaced(tables: SparkSession, changing: Path, strategy: str) -> None:
    """The result has the old or the new rows of the changed file, as with plain Spark, and all rows of the others."""
    with indexed(tables, strategy):
        frame = tables.sql("SELECT g, count(*) AS n FROM changing WHERE g IN (2, 6, 9) GROUP BY g")
        frame._jdf.queryExecution().executedPlan()
        replaced = pq.read_table(changing / "1.parquet")
        pq.write_table(replaced.slice(0, 150), changing / "1.parquet", row_group_size=30)  # without g = 7
        found = {row.g: row.n for row in frame.collect()}
    assert found == {2: 50, 6: 50, 9: 50}


@pytest.mark.parametrize("harm", ["manifest", "shard", "all", "dropped"])
def test_a_damaged_index_changes_no_answer(tables: SparkSession, changing: Path, harm: str) -> None:
    from hive_bitmap.spark.registry import catalog

    _, indexes = catalog.table_and_indexes(tables, "changing")
    folders = [Path(f.removeprefix("file:")) for one in indexes for f in catalog.segments(tables, one)]
    for folder in folders:
        files = [path for path in folder.rglob("*.parquet") if path.is_file()]
        for path in files:
            if harm == "all" or (harm == "manifest") == ("_manifest" in path.parts):
                path.unlink() if harm != "shard" else path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    if harm == "dropped":
        hive_bitmap.drop(tables, "changing", "k")
    catalog.clear_caches()
    texts = (*CHANGED, "SELECT id FROM changing WHERE k = 3 AND g = 2")
    wanted = {text: by_spark(tables, text) for text in texts}
    for strategy in ("", *FORCED):
        for text in texts:
            found = by_index(tables, text, strategy, strict="false")
            assert not difference(found, wanted[text]), f"{strategy}: {text}"


def test_tables_that_are_only_paths(tables: SparkSession, changing: Path) -> None:
    def of_path(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(changing)).where("k = 3").select("id")

    assert used(tables, of_path, "rows") == []
    require_alike_always(tables, of_path)


def test_char_and_collations(tables: SparkSession) -> None:
    tables.sql("CREATE TABLE codes (id BIGINT, c CHAR(4), v VARCHAR(4), l STRING COLLATE UTF8_LCASE) USING parquet")
    case = "if(id % 2 = 0, 'Web', 'wEB')"
    tables.sql(f"INSERT INTO codes SELECT id, if(id % 7 = 0, NULL, id % 5), id % 3, {case} FROM range(99)")
    hive_bitmap.build(tables, "codes", ["c", "v"])
    for condition in (
        "c = '1'", "c = '1   '", "c IN ('1', '2  ')", "c <> '1'", "c LIKE '1%'", "length(c) = 4", "c > '2'", "c = v",
        "v = '1'", "v = '1 '", "l = 'WEB'", "c = '1' AND l = 'web'", "c IS NULL", "'1' = c", "rtrim(c) = '1'",
        "c = '1' COLLATE UTF8_LCASE", "concat(c, 'x') = '1   x'",
    ):  # fmt: skip
        require_alike_always(tables, f"SELECT id, c FROM codes WHERE {condition}")
        require_alike_always(tables, f"SELECT count(*), min(c) FROM codes WHERE {condition}")
