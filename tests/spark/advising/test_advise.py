"""Advice for real queries of real tables: what it names, that its statements run, and that it then names others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidProperty, NotFound
from hive_bitmap.spark.advising.advise import Advice, advise
from tests.asking import indexed, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
def tables(spark: SparkSession, database: str, folder: str) -> Iterator[SparkSession]:
    spark.sql(f"CREATE TABLE t (id BIGINT, day INT, K INT, s STRING) USING parquet LOCATION '{folder}'")
    with indexed(spark):
        yield spark


def of_table(spark: SparkSession, **options: Any) -> Advice:
    return advise(spark, table="t", **options)


def notes(found: Advice) -> list[str]:
    """Return the notes without one on the record, which the tests of a run share."""
    return [note for note in found.notes if not note.startswith("the record was full")]


def test_the_best_index_is_named_and_can_be_created(tables: SparkSession) -> None:
    database = tables.catalog.currentDatabase()
    for day in (3, 5):
        tables.sql(f"SELECT s FROM t WHERE day = {day}").collect()
    tables.sql("SELECT k, count(*) FROM t GROUP BY k").collect()
    tables.sql("SELECT id FROM t WHERE s LIKE '%x'").collect()
    found = of_table(tables)
    assert found.queries == 4 and found.since is not None and notes(found) == []
    by_columns = {one.columns: one for one in found.candidates}
    assert set(by_columns) == {("day",), ("K",)}
    day = by_columns[("day",)]
    size = sum(entry.stat().st_size for entry in os.scandir(_folder(tables)) if entry.name.endswith(".parquet"))
    assert (day.table, day.queries) == (f"{database}.t", 2)
    assert size < day.bytes_saved < 2 * size and day.seconds_saved > 0
    assert day.statement == f"CREATE INDEX `day` ON TABLE `{database}`.`t` (`day`) AS 'BITMAP'"
    assert str(found).count("CREATE INDEX") == 2
    tables.sql(day.statement)
    [built] = hive_bitmap.show(tables, "t")
    assert 0.3 < day.index_bytes / built.index_bytes < 3
    again = of_table(tables)
    assert [one.columns for one in again.candidates] == [("K",)]
    [unused] = again.unused
    assert (unused.index, unused.columns, unused.index_bytes) == ("day", ("day",), built.index_bytes)
    assert unused.built == built.built and "no query used index day" in str(again)
    tables.sql("SELECT s FROM t WHERE day = 8").collect()
    used = of_table(tables)
    assert used.unused == () and used.queries == 5
    assert [one.columns for one in of_table(tables, limit=1).candidates] == [("K",)]


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
    assert (found.queries, found.candidates) == (1, ())  # nearly all rows, where an average key has few


def test_queries_of_a_file(tables: SparkSession, tmp_path: Path) -> None:
    database = tables.catalog.currentDatabase()
    shape = {"tests": [["day", "equality", 1]], "queries": 1000, "bytes": 10**13, "unsized": 0, "served": 0}
    tables.sql("CREATE VIEW v AS SELECT 1 AS day")
    lines = [{"application": "a", "since": 86400, "until": 86401, "forgotten": 0}]
    lines += [{"database": database, "table": name, "columns": {"*": 1000}, **shape} for name in ("t", "gone", "v")]
    path = tmp_path / "advice.json"
    path.write_text("\n".join(map(json.dumps, lines)) + "\nbroken\n")
    found = advise(tables, file=path)
    assert [(one.table, one.columns, one.queries) for one in found.candidates] == [(f"{database}.t", ("day",), 1000)]
    assert (found.queries, found.since) == (3000, 86400)
    assert len(found.notes) == 3 and all(word in " ".join(found.notes) for word in ("gone", "view", "1 lines"))
    assert advise(tables, file=path, table="t").queries == 1000
    with pytest.raises(NotFound):
        advise(tables, file=tmp_path / "none")


def test_nothing_seen_is_said(tables: SparkSession, tmp_path: Path) -> None:
    found = of_table(tables)
    assert (found.queries, found.candidates, found.unused) == (0, (), ())
    assert "no query of" in str(found)
    (tmp_path / "empty").write_text("")
    [said] = advise(tables, file=tmp_path / "empty").notes
    assert said.startswith("no query has been seen: enable indexes")
    with pytest.raises(NotFound):
        advise(tables, table="nonsense")
    with pytest.raises(InvalidProperty):
        advise(tables, limit=0)


def test_a_session_that_may_not_read_the_files_is_told(tables: SparkSession) -> None:
    tables.sql("SELECT s FROM t WHERE day = 3").collect()
    with under(tables, {"hive_bitmap.engine_reads_only": "true"}):
        found = of_table(tables)
    assert found.candidates == () and "was not estimated" in notes(found)[0]
