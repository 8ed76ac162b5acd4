"""Advice for real queries of real tables: what it names, that its statements run, and that it then names others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidProperty, NotFound
from hive_bitmap.spark.advising.advise import advise
from hive_bitmap.spark.advising.proposals import Advice
from hive_bitmap.spark.estimating.estimate import Estimate, estimate
from tests.asking import indexed, under, used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

ROWS = 3_000_000


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows in files of several row groups, which take Spark longer than a look at an index."""
    path = str(tmp_path_factory.mktemp("rows") / "t")
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        "id", "int(id / 1000) AS day", "int(id % 7) AS K", "concat('text ', hash(id), hash(id + 1), hash(id + 2)) AS s"
    )
    rows.write.option("parquet.block.size", 4 << 20).parquet(path)
    return path


@pytest.fixture
def tables(spark: SparkSession, database: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    build_takes(monkeypatch, 0.001)
    spark.sql(f"CREATE TABLE t (id BIGINT, day INT, K INT, s STRING) USING parquet LOCATION '{folder}'")
    with indexed(spark):
        yield spark


def build_takes(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have each build estimated at so many seconds, which are measured otherwise."""

    def constant(*given: Any, **options: Any) -> list[Estimate]:
        return [replace(one, seconds=seconds) for one in estimate(*given, **options)]

    monkeypatch.setattr("hive_bitmap.spark.advising.advise.estimate", constant)


def of_table(spark: SparkSession, **options: Any) -> Advice:
    return advise(spark, table="t", **options)


def notes(found: Advice) -> list[str]:
    """Return the notes without one on the record, which the tests of a run share."""
    return [note for note in found.notes if not note.startswith("the record was full")]


def test_a_set_is_proposed_and_can_be_created(tables: SparkSession) -> None:
    database = tables.catalog.currentDatabase()
    for day in (3, 5):
        tables.sql(f"SELECT s FROM t WHERE day = {day}").collect()
    tables.sql("SELECT k, count(*) FROM t GROUP BY k").collect()
    tables.sql("SELECT id FROM t WHERE s LIKE '%x'").collect()
    found = of_table(tables)
    assert found.queries == 4 and found.since is not None and notes(found) == []
    by_columns = {one.columns: one for one in found.proposals}
    assert set(by_columns) == {(("day",),), (("K",),)}
    day = by_columns[(("day",),)]
    size = sum(entry.stat().st_size for entry in os.scandir(_folder(tables)) if entry.name.endswith(".parquet"))
    assert (day.table, day.queries) == (f"{database}.t", 2)
    assert size < day.bytes_saved < 2 * size and day.seconds_saved > day.build_seconds
    assert day.statements == (f"CREATE INDEX `day` ON TABLE `{database}`.`t` (`day`) AS 'BITMAP'",)
    assert str(found).count("CREATE INDEX") == 2
    tables.sql(day.statements[0])
    [built] = hive_bitmap.show(tables, "t")
    assert 0.3 < day.index_bytes / built.index_bytes < 3
    again = of_table(tables)
    assert [one.columns for one in again.proposals] == [(("K",),)]
    [unused] = again.unused
    assert (unused.index, unused.columns, unused.index_bytes) == ("day", ("day",), built.index_bytes)
    assert unused.built == built.built and "no query used index day" in str(again)
    tables.sql("SELECT s FROM t WHERE day = 8").collect()
    used = of_table(tables)
    assert used.unused == () and used.queries == 5


def test_what_is_left_out_has_a_reason(tables: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.sql("CREATE TABLE arrays USING parquet AS SELECT id, array(k) AS ks FROM t")
    for query in (
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT day, count(*) FROM t GROUP BY day",
        "SELECT s FROM t WHERE K >= 0",
        "SELECT id FROM arrays WHERE ks = array(3)",
    ):
        tables.sql(f"EXPLAIN {query}")
    both = of_table(tables)
    assert {one.columns for one in both.proposals} == {(("K",),), (("day",),)} and both.left_out == ()
    limited = of_table(tables, limit=1)
    assert limited.proposals == both.proposals[:1]
    [other] = limited.left_out
    assert other.columns == both.proposals[1].columns
    assert other.why.endswith("but the set is limited to 1")
    assert f"left out: {limited.proposals[0].table} ({other.columns[0][0]}): {other.why}" in str(limited)
    build_takes(monkeypatch, 1000.0)
    dear = of_table(tables)
    assert dear.proposals == () and {one.columns for one in dear.left_out} == {(("K",),), (("day",),)}
    assert all(one.why.endswith("takes 1000.0 s to build, more than 30 times that") for one in dear.left_out)
    assert len(of_table(tables, times=10**9).proposals) == 2
    [array] = advise(tables, table="arrays").left_out
    assert array.columns == (("ks",),) and array.why.startswith("it cannot be created: ")


def test_expressions_that_queries_use_are_proposed(
    spark: SparkSession, database: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE TABLE t (id BIGINT, day INT, K INT, s STRING) USING parquet LOCATION '{folder}'")
    build_takes(monkeypatch, 0.001)
    queries = (
        "SELECT id % 10 AS rest, count(*) FROM t GROUP BY rest",
        "SELECT substring(s, 6, 1) AS c, k, count(*) FROM t WHERE substring(s, 6, 1) <> '-' GROUP BY c, k",
    )
    with indexed(spark), under(spark, {"spark.sql.ansi.enabled": "true"}):
        for query in queries:
            spark.sql(query).collect()
        found = of_table(spark)
        keys = {index for one in found.proposals for index in one.columns}
        assert ("(id % 10L) AS id_10l",) in keys and ("K", "substring(s, 6, 1) AS substring_s_6_1") in keys, str(found)
        for one in found.proposals:
            for statement in one.statements:
                spark.sql(statement)
        for query in queries:
            assert used(spark, query) == [("t", "answered")], query
        assert of_table(spark).proposals == ()


def _folder(spark: SparkSession) -> str:
    return str(spark.sql("DESCRIBE EXTENDED t").where("col_name = 'Location'").collect()[0][1]).removeprefix("file:")


def test_values_that_are_kept_tell_how_selective_queries_are(tables: SparkSession) -> None:
    conf: Any = tables.sparkContext._jsc.sc().conf()
    tables.sql("CREATE TABLE uneven USING parquet AS SELECT id, IF(id % 9 = 0, id, -1) AS n, s FROM t")
    conf.set("spark.hive_bitmap.advice_literals", "true")
    try:
        tables.sql("SELECT max(s) FROM uneven WHERE n = -1").collect()
    finally:
        conf.remove("spark.hive_bitmap.advice_literals")
    found = advise(tables, table="uneven")
    assert (found.queries, found.proposals) == (1, ())  # nearly all rows, where an average key has few
    assert "Spark alone is as quick" in found.left_out[0].why


def test_queries_of_a_file(tables: SparkSession, tmp_path: Path) -> None:
    database = tables.catalog.currentDatabase()
    shape = {"tests": [["day", "equality", 1]], "queries": 1000, "bytes": 10**13, "unsized": 0, "served": 0}
    tables.sql("CREATE VIEW v AS SELECT 1 AS day")
    lines = [{"application": "a", "since": 86400, "until": 86401, "forgotten": 0}]
    lines += [{"database": database, "table": name, "columns": {"*": 1000}, **shape} for name in ("t", "gone", "v")]
    path = tmp_path / "advice.json"
    path.write_text("\n".join(map(json.dumps, lines)) + "\nbroken\n")
    found = advise(tables, file=path)
    assert [(one.table, one.columns, one.queries) for one in found.proposals] == [(f"{database}.t", (("day",),), 1000)]
    assert (found.queries, found.since) == (3000, 86400)
    assert len(found.notes) == 3 and all(word in " ".join(found.notes) for word in ("gone", "view", "1 lines"))
    assert advise(tables, file=path, table="t").queries == 1000
    with pytest.raises(NotFound):
        advise(tables, file=tmp_path / "none")


def test_nothing_seen_is_said(tables: SparkSession, tmp_path: Path) -> None:
    found = of_table(tables)
    assert (found.queries, found.proposals, found.unused) == (0, (), ())
    assert "no query of" in str(found)
    (tmp_path / "empty").write_text("")
    [said] = advise(tables, file=tmp_path / "empty").notes
    assert said.startswith("no query has been seen: enable indexes")
    with pytest.raises(NotFound):
        advise(tables, table="nonsense")
    for wrong in ({"limit": 0}, {"times": 0}):
        with pytest.raises(InvalidProperty):
            advise(tables, **wrong)


def test_a_session_that_may_not_read_the_files_is_told(tables: SparkSession) -> None:
    tables.sql("SELECT s FROM t WHERE day = 3").collect()
    with under(tables, {"hive_bitmap.engine_reads_only": "true"}):
        found = of_table(tables)
    assert found.proposals == () and "was not estimated" in notes(found)[0]
