"""Indexes of earlier versions are read, rebuilt and dropped by this one, as docs/guide/upgrading.md promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import TYPES
from tests.asking import indexed
from tests.golden.make import EARLY, EARLY_INDEXES, INDEXES
from tests.golden.restore import VERSIONS, restored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = Path(__file__).parents[2]
# Conditions that the indexes of each table serve, each index by one at least.
CONDITIONS = {
    "parts": [
        "k = 'key 3'",
        "k IS NULL AND p = 1",
        "n = 2 AND day >= DATE '2024-03-01'",
        "price IN (3, 4)",
        "k > 'key 5' OR n = 0",
    ],
    "flat": ["k = 'key 3'", "n <> 1", "at = timestamp_seconds(1700000001)", "NOT k LIKE 'key 1%' AND n < 3"],
}


@pytest.fixture(params=VERSIONS)
def of_version(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Path]:
    """The folder of the tables of a version, whose database is current; the zone is that in which they were built."""
    yield from _restored(spark, request.param)


@pytest.fixture
def early(spark: SparkSession) -> Iterator[Path]:
    """The folder of tables with indexes of the format before the first release."""
    yield from _restored(spark, EARLY)


def _restored(spark: SparkSession, version: str) -> Iterator[Path]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with restored(spark, version) as folder:
        yield folder
    spark.conf.set("spark.sql.session.timeZone", zone)


def base_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and "__" not in str(path))


def index_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__" in str(path))


def rows(spark: SparkSession, table: str, where: str) -> list[str]:
    return sorted(map(str, spark.table(table).where(where).collect()))


def test_every_release_has_its_indexes_here() -> None:
    headings = re.findall(r"^## ([\d.]+)(.*)$", (HOME / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [version for version, more in headings if "not released" not in more]
    assert {hive_bitmap.__version__, *released} <= set(VERSIONS)


def test_every_type_and_encoding_is_among_them() -> None:
    options = [given for indexes in INDEXES.values() for _, given in indexes]
    assert {given.get("type", "BITMAP") for given in options} == set(TYPES)
    assert {given.get("encoding", "gap") for given in options} == set(ENCODINGS)


def test_answers_from_an_index_of_an_earlier_version(spark: SparkSession, of_version: Path) -> None:
    states = {table: hive_bitmap.show(spark, table) for table in INDEXES}
    assert {table: len(shown) for table, shown in states.items()} == {
        table: len(made) for table, made in INDEXES.items()
    }
    for one in (status for shown in states.values() for status in shown):
        assert (one.problem, one.stale, one.gone) == ("", 0, 0), one
        assert (one.fresh, one.unindexed) == ((5, 0) if one.definition.table == "parts" else (2, 1)), one
    for table in INDEXES:
        assert [(found.definition.name, found.problem_count) for found in hive_bitmap.verify(spark, table)] == [
            (status.definition.name, 0) for status in states[table]
        ]
    for table, conditions in CONDITIONS.items():
        for where in conditions:
            wanted = rows(spark, table, where)
            assert wanted and hive_bitmap.count(spark, table, where) == len(wanted)
            plan = hive_bitmap.plan(spark, table, where)
            assert any(use.used for use in plan.indexes), plan
            for strategy in ("rows", "blocks", "files"):
                with indexed(spark, strategy):
                    assert rows(spark, table, where) == wanted, (where, strategy)


def test_sums_from_an_index_of_an_earlier_version(spark: SparkSession, of_version: Path) -> None:
    for query in (
        "SELECT day, sum(price), max(v), avg(v), count(*) FROM parts GROUP BY day",
        "SELECT at, sum(price * v) FROM parts GROUP BY at",
    ):
        wanted = sorted(map(str, spark.sql(query).collect()))
        with indexed(spark):
            assert hive_bitmap.explain(query).relations[0].action == "answered"
            assert sorted(map(str, spark.sql(query).collect())) == wanted


def test_a_rebuild_and_a_drop_of_an_earlier_version(spark: SparkSession, of_version: Path) -> None:
    wanted = {(table, where): rows(spark, table, where) for table in CONDITIONS for where in CONDITIONS[table]}
    spark.sql("INSERT INTO parts SELECT k, n, price, day, at, v, p FROM parts WHERE v < 20")
    base = base_files(of_version)
    for table, new in (("parts", 2), ("flat", 1)):
        found = hive_bitmap.rebuild(spark, table)
        assert [report.files_read for report in found] == [new] * len(INDEXES[table]), found
        assert all(status.unindexed == 0 for status in hive_bitmap.show(spark, table))
    for (table, where), before in wanted.items():
        after = rows(spark, table, where)
        assert set(before) <= set(after) and hive_bitmap.count(spark, table, where) == len(after)
    for table in INDEXES:
        for status in hive_bitmap.show(spark, table):
            root = Path(status.definition.root.removeprefix("file:"))
            assert root.is_dir()
            assert hive_bitmap.drop(spark, table, status.definition.name)
            assert not root.exists()
    assert base_files(of_version) == base


def test_indexes_of_the_format_before_the_first_release_are_replaced_by_a_rebuild(
    spark: SparkSession, early: Path
) -> None:
    before, base = index_files(early), base_files(early)
    for table, conditions in CONDITIONS.items():
        shown = hive_bitmap.show(spark, table)
        assert len(shown) == EARLY_INDEXES[table]
        assert all("which is no longer read: rebuild it" in status.problem for status in shown), shown
        for where in conditions:
            assert not any(use.used for use in hive_bitmap.plan(spark, table, where).indexes)
            assert hive_bitmap.count(spark, table, where) == len(rows(spark, table, where)) > 0
        files = len(spark.table(table).inputFiles())
        assert [report.files_read for report in hive_bitmap.rebuild(spark, table)] == [files] * EARLY_INDEXES[table]
        for status in hive_bitmap.show(spark, table):
            assert (status.problem, status.fresh, status.stale, status.unindexed) == ("", files, 0, 0), status
        assert [found.problem_count for found in hive_bitmap.verify(spark, table)] == [0] * EARLY_INDEXES[table]
        for where in conditions:
            wanted = rows(spark, table, where)
            assert any(use.used for use in hive_bitmap.plan(spark, table, where).indexes)
            with indexed(spark):
                assert rows(spark, table, where) == wanted
    hive_bitmap.clean(spark, grace_seconds=0)
    assert not [path for path in before if path.exists() and path.name != "_index.json"]
    for table in INDEXES:
        for status in hive_bitmap.show(spark, table):
            assert hive_bitmap.drop(spark, table, status.definition.name)
    assert (index_files(early), base_files(early)) == ([], base)


def test_indexes_of_the_format_before_the_first_release_are_dropped_with_all_their_files(
    spark: SparkSession, early: Path
) -> None:
    base = base_files(early)
    for table in INDEXES:
        for status in hive_bitmap.show(spark, table):
            assert hive_bitmap.drop(spark, table, status.definition.name)
    assert (index_files(early), base_files(early)) == ([], base)


def test_an_index_of_a_later_format_is_left_alone(spark: SparkSession, of_version: Path) -> None:
    where = CONDITIONS["flat"][0]
    wanted = rows(spark, "flat", where)
    index = next(one.definition for one in hive_bitmap.show(spark, "flat") if one.definition.name == "k")
    spark.sql(f"ALTER TABLE {index.index_table} SET TBLPROPERTIES ('hive_bitmap.version' = '99')")
    with indexed(spark):
        assert "k" not in [one.definition.name for one in hive_bitmap.show(spark, "flat")]
        assert not any(use.used for use in hive_bitmap.plan(spark, "flat", where).indexes)
        assert rows(spark, "flat", where) == wanted
    root = Path(index.root.removeprefix("file:"))
    files = sorted(root.rglob("*"))
    hive_bitmap.clean(spark, grace_seconds=0)
    assert len(files) > 5 and sorted(root.rglob("*")) == files
