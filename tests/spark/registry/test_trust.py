"""An index is believed if its table belongs to whom the base table belongs, or to whom the settings name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation_names
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.building import publish
from hive_bitmap.spark.building.publish import index_table
from hive_bitmap.spark.maintaining import drop
from hive_bitmap.spark.metastore import alter_table, jvm_settings, metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.trust import why_untrusted
from tests.asking import indexed, require_alike, under, used
from tests.forging import forge_without_three, give
from tests.spark.maintaining.life import drop_table, external_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNERS, ROOTS = jvm_settings.TRUSTED_OWNERS, jvm_settings.TRUSTED_ROOTS
QUERY = "SELECT count(*) FROM v WHERE k = 3"
Forge = Callable[..., Index]


@pytest.fixture
def forge(spark: SparkSession, database: str, tmp_path: Path) -> Forge:
    """Return a function that makes an index of the table v in which no row has the key 3, and gives it to mallory."""
    return forging(spark, tmp_path)


@pytest.fixture
def forge_in_memory(memory: SparkSession, tmp_path: Path) -> Forge:
    return forging(memory, tmp_path)


def forging(spark: SparkSession, folder: Path) -> Forge:
    """Make table v of 1,000 rows in two files, with an index."""
    for number in range(2):
        write_keys(folder / "v", number)
    external_table(spark, "v", folder / "v", [Column("k", "int")])
    hive_bitmap.build(spark, "v", ["k"])
    database = spark.catalog.currentDatabase()

    def forged(name: str = "aaa", index_table: str = "aaa", owner: str = "mallory") -> Index:
        return forge_without_three(spark, f"file:{folder}/mallory", name, f"{database}__v_{index_table}__", owner)

    return forged


def write_keys(folder: Path, number: int) -> None:
    """Write a file of 500 keys from 0 to 4."""
    folder.mkdir(exist_ok=True)
    keys = pa.array([id % 5 for id in range(500)], pa.int32())
    pq.write_table(pa.table({"k": keys}), folder / f"{number}.parquet")


@pytest.mark.contract
def test_an_index_of_another_owner_is_used_for_no_query(spark: SparkSession, forge: Forge) -> None:
    """It comes first by name, and has the right fingerprints."""
    forge()
    require_alike(spark, QUERY, "", "index only", "blocks")
    require_alike(spark, "SELECT k, count(*) FROM v GROUP BY k", "index only")
    assert used(spark, QUERY, "index only") == [("v", "answered")]  # by the legitimate one
    assert hive_bitmap.count(spark, "v", "k = 3") == hive_bitmap.scan(spark, "v", "k = 3").count() == 200


@pytest.mark.contract
def test_it_does_not_stand_in_for_the_legitimate_one_of_its_name(spark: SparkSession, forge: Forge) -> None:
    forge("k", "a")
    [status] = hive_bitmap.show(spark, "v")
    assert not status.problem and status.fresh == 2
    assert used(spark, QUERY, "index only") == [("v", "answered")]


@pytest.mark.contract
def test_show_and_explain_say_why_and_what_to_do(spark: SparkSession, forge: Forge) -> None:
    made = forge()
    status = {one.definition.name: one for one in hive_bitmap.show(spark, "v", keys=True)}["aaa"]
    assert status.problem == (
        f"index aaa is not trusted, because index table {made.table.database}.{made.definition.index_table} belongs to "
        f"mallory and table {made.table.full_name} to {made.table.owner}: let the owner of the table create it, or "
        f"name mallory in {OWNERS} or its folder {made.definition.root} in {ROOTS}"
    )
    assert status.partitions == ()  # what others wrote is not even read
    assert status.problem in [use.reason for use in hive_bitmap.plan(spark, "v", "k = 3").indexes]


def test_it_is_not_rebuilt_for_its_folder_may_be_a_place_of_others(
    memory: SparkSession, forge_in_memory: Forge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = forge_in_memory()
    write_keys(tmp_path / "v", 2)
    folder = Path(made.definition.root.removeprefix("file:"))
    before = sorted(folder.rglob("*"))
    with caplog.at_level(logging.WARNING):
        assert [report.definition.name for report in hive_bitmap.rebuild(memory, "v")] == ["k"]
    assert "not rebuilt: index aaa is not trusted" in caplog.text
    with pytest.raises(Unsupported, match="is not trusted"):
        hive_bitmap.rebuild(memory, "v", ["aaa"])
    assert sorted(folder.rglob("*")) == before
    [found] = [one for one in hive_bitmap.verify(memory, "v", ["aaa"]) if not one.ok]
    assert "is not trusted" in found.problems[0]


@pytest.mark.parametrize("setting", ["owner", "root"])
def test_an_owner_or_a_root_that_a_setting_names_is_believed(
    memory: SparkSession, forge_in_memory: Forge, setting: str
) -> None:
    made = forge_in_memory()
    named = {OWNERS: "etl, mallory"} if setting == "owner" else {ROOTS: str(Path(made.definition.root).parent)[5:]}
    with under(memory, named):
        assert {one.definition.name: one.problem for one in hive_bitmap.show(memory, "v")} == {"aaa": "", "k": ""}
    assert sum(bool(one.problem) for one in hive_bitmap.show(memory, "v")) == 1


@pytest.mark.contract
def test_in_the_rule_the_setting_holds_too(spark: SparkSession, forge: Forge) -> None:
    """The forged answer shows that the index is used."""
    forge()
    with indexed(spark, "index only", trusted_owners="mallory"):
        assert spark.sql(QUERY).first() == (0,)
    with indexed(spark, "index only", trusted_owners="bob"):
        assert spark.sql(QUERY).first() == (200,)


def test_who_builds_an_index_on_a_table_of_others_is_told(
    memory: SparkSession, forge_in_memory: Forge, caplog: pytest.LogCaptureFixture
) -> None:
    give(memory, "v", "alice")
    with caplog.at_level(logging.WARNING):
        hive_bitmap.build(memory, "v", ["k"], name="mine")
    assert "built, but not used by queries: index mine is not trusted" in caplog.text
    assert "index k is not trusted" not in caplog.text


@pytest.mark.contract
def test_a_base_table_given_away_takes_its_indexes_out_of_use(spark: SparkSession, forge: Forge) -> None:
    give(spark, "v", "alice")
    assert "to alice: let the owner" in hive_bitmap.show(spark, "v")[0].problem
    require_alike(spark, QUERY, "index only")
    with under(spark, {OWNERS: "bob"}):
        assert hive_bitmap.show(spark, "v")[0].problem


@pytest.mark.parametrize(
    ("base", "index", "conf", "believed"),
    [
        ("a", "a", {}, True),
        ("", "", {}, True),  # a metastore without owners
        ("a", "b", {}, False),
        ("a", "", {}, False),
        ("", "b", {}, False),
        ("", "b", {OWNERS: "b"}, True),
        ("a", "", {OWNERS: ""}, False),
        ("a", "", {OWNERS: " , "}, False),
        ("a", "B", {OWNERS: "b"}, False),
        ("a", "b", {ROOTS: "file:/w"}, True),
        ("a", "b", {ROOTS: "/w/"}, True),
        ("a", "b", {ROOTS: "hdfs://n/x,file:///w/i"}, True),
        ("a", "b", {ROOTS: "/w/i2,/w/ii"}, False),
        ("a", "b", {ROOTS: "hdfs://n/w"}, False),
        ("a", "b", {ROOTS: ""}, False),
    ],
)
def test_whom_an_index_is_believed(base: str, index: str, conf: dict[str, str], believed: bool) -> None:
    made = Definition(name="i", database="d", table="t", columns=(), root="file:/w/i")
    table = Table(database="d", name="t", kind="MANAGED", owner=base)
    of_index = Table(database="d", name="d__t_i__", kind="EXTERNAL", owner=index, location="file:/w/i/generation")
    for definition in (made, None):
        assert (why_untrusted(table, of_index, definition, lambda: conf) == "") is believed


def test_a_table_outside_of_the_trusted_folder_where_it_says_to_be_is_not_in_it() -> None:
    made = Definition(name="i", database="d", table="t", columns=(), root="file:/w/i")
    tables = (
        Table(database="d", name="t", kind="MANAGED", owner="a"),
        Table(database="d", name="i", kind="EXTERNAL", owner="b", location="file:/x/i"),
    )
    assert why_untrusted(*tables, made, lambda: {ROOTS: "/w"})


@pytest.mark.parametrize("root", ["file:/w/../x", "file:/w/./../x", "file:/w//x", "file:/wx", "file:/", "/w/.."])
def test_a_root_that_leaves_a_trusted_folder_is_not_in_it(root: str) -> None:
    made = Definition(name="i", database="d", table="t", columns=(), root=root)
    tables = (
        Table(database="d", name="t", kind="MANAGED", owner="a"),
        Table(database="d", name="i", kind="EXTERNAL", owner="b", location="file:/w/i"),
    )
    assert why_untrusted(*tables, made, lambda: {ROOTS: "/w"})


def test_a_generation_that_leaves_the_root_is_not_of_the_index() -> None:
    definition = Definition(name="i", database="d", table="t", columns=(), root="file:/trusted/i")
    name = generation_names.new_name()
    assert generation_names.belongs_to(f"file:/trusted/i/{name}", definition)
    assert not generation_names.belongs_to(f"file:/trusted/i/../../mallory/{name}", definition)


def test_an_equal_owner_asks_for_no_settings() -> None:
    def unexpected() -> dict[str, str]:
        raise AssertionError

    table = Table(database="d", name="t", kind="MANAGED", owner="a")
    assert not why_untrusted(table, table, Definition(name="i", database="d", table="t", columns=()), unexpected)


@pytest.mark.parametrize("is_own", [False, True])
def test_a_table_that_points_to_no_store_and_has_no_definition_is_no_index(
    memory: SparkSession, forge_in_memory: Forge, caplog: pytest.LogCaptureFixture, is_own: bool
) -> None:
    """No file is looked for, unless the table belongs to the owner of v."""
    tables = catalog.tables_of_database(memory, "db")
    [base] = [table for table in tables if table.name == "v"]
    nowhere = Table(
        database="db",
        name="db__v_x__",
        kind="EXTERNAL",
        location=f"foo://x/{generation_names.new_name()}",
        properties={"hive_bitmap.x": "1"},
        owner=base.owner if is_own else "mallory",
    )
    with caplog.at_level(logging.WARNING):
        assert [one.definition.name for one in catalog.with_copies(memory, [*tables, nowhere])] == ["k"]
    assert ("does not count as an index table: its folder cannot be read" in caplog.text) is is_own
    assert catalog.among([nowhere]) == [] and catalog.at(nowhere, "file:/w") is None


def test_of_a_table_that_is_not_believed_no_marker_is_read(memory: SparkSession, forge_in_memory: Forge) -> None:
    made = forge_in_memory()
    forged = metastore.describe(memory, made.definition.index_table)
    alter_table.set_properties(memory, forged, {"hive_bitmap.columns": "[]"})
    catalog.clear_caches()
    assert [one.definition.name for one in hive_bitmap.show(memory, "v")] == ["k"]
    assert [one.definition.name for one in catalog.indexes_of_database(memory, "db")] == ["k"]
    with under(memory, {ROOTS: made.definition.root}):
        [damaged, _] = hive_bitmap.show(memory, "v")
        assert "are not what a build wrote" in damaged.problem
        assert len(catalog.indexes_of_database(memory, "db")) == 2


def test_of_a_table_that_is_gone_the_indexes_of_this_user_are_believed(
    memory: SparkSession, forge_in_memory: Forge, caplog: pytest.LogCaptureFixture
) -> None:
    made = forge_in_memory()
    _, indexes = catalog.table_and_indexes(memory, "v")
    theirs, own = (Path(index.definition.root.removeprefix("file:")) for index in indexes)
    before = sorted(theirs.rglob("*"))
    drop_table(memory, "v")
    found = catalog.indexes_of_database(memory, "db")
    assert {index.definition.name: index.trusted for index in found} == {"aaa": False, "k": True}
    with caplog.at_level(logging.WARNING):
        hive_bitmap.drop(memory, "v", "aaa")
        hive_bitmap.drop(memory, "v", "k")
    assert f"index aaa is dropped, but folder {made.definition.root} is left alone, because index aaa" in caplog.text
    assert sorted(theirs.rglob("*")) == before and not own.exists()
    assert catalog.tables_of_database(memory, "db") == []


@pytest.mark.parametrize("how", ["index", "table", "database"])
def test_its_table_is_dropped_and_nothing_is_asked_of_its_store(
    memory: SparkSession, forge_in_memory: Forge, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    _, [legitimate] = catalog.table_and_indexes(memory, "v")
    table = "db__v_aaa__"
    false = replace(legitimate.definition, name="aaa", index_table=table, root="foo://x/i", id="0" * 32)
    alter_table.create(memory, replace(index_table(false), location=f"file:{tmp_path}/aaa"))
    give(memory, table, "mallory")
    reports = hive_bitmap.clean(memory, grace_seconds=0)
    assert [(one.path, "is not trusted" in one.kept) for one in reports if one.kept] == [("foo://x/i", True)]
    with caplog.at_level(logging.WARNING):
        if how == "index":
            hive_bitmap.drop(memory, "v", "aaa")
        elif how == "table":
            hive_bitmap.drop_table(memory, "v")
        else:
            doomed = [
                publish.index_to_drop(memory, *one) for one in _with_all(catalog.indexes_of_database(memory, "db"))
            ]
            drop.drop_after(memory, doomed)
    assert "index aaa is dropped, but folder foo://x/i is left alone, because index aaa is not trusted" in caplog.text
    assert table not in [one.name for one in catalog.tables_of_database(memory, "db")]


def _with_all(indexes: list[Index]) -> list[tuple[Index, list[Index]]]:
    return [(index, indexes) for index in indexes]
