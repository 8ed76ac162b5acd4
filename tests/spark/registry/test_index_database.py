"""Index tables in another database than their base tables: found by a pointer, believed for the base table's owner."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.grammar.statements import DropDatabase
from hive_bitmap.core.index import generation_names
from hive_bitmap.core.index.definition import INDEX_DATABASE, POINTER
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import AlreadyExists, DatabaseNotFound, InvalidProperty, NotFound
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog, catalog_changes, locations
from hive_bitmap.spark.sql.commands import indexes_to_drop
from tests.spark.maintaining.life import (
    drop_table,
    external_table,
    flat_table,
    generations,
    live,
    rename_table,
    require_verified,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.metastore.memory import MemoryMetastore

EXTERNAL = "spark.hadoop.metastore.warehouse.external.dir"


@pytest.fixture
def apart(memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path) -> str:
    """A table in `db` whose two indexes are in `idx`, by the setting, which the session has no more."""
    in_memory.create_database("idx")
    flat = flat_table(memory, tmp_path / "t")
    build(memory, flat, "k", "id")
    return flat


def build(spark: SparkSession, table: str, *columns: str) -> None:
    """Build indexes in the database `idx`."""
    spark.conf.set(INDEX_DATABASE, " IDX")
    hive_bitmap.build(spark, table, columns)
    spark.conf.unset(INDEX_DATABASE)


def names(spark: SparkSession, database: str) -> list[str]:
    return [table.name for table in catalog.tables_of_database(spark, database)]


def pointer(spark: SparkSession, table: str) -> str | None:
    return metastore.describe(spark, table).properties.get(POINTER)


def set_pointer(spark: SparkSession, table: str, text: str) -> None:
    """Write the pointer of a table, as others could; "" removes it."""
    base = metastore.describe(spark, table)
    alter_table.set_properties(spark, base, {POINTER: text} if text else {}, [] if text else [POINTER])
    catalog.clear_caches()


def found(spark: SparkSession, database: str) -> list[tuple[str, str, bool]]:
    """Return table, name and trust of each index of a database."""
    indexes = catalog.indexes_of_database(spark, database)
    return [(one.definition.full_table, one.definition.name, one.trusted) for one in indexes]


def test_index_tables_are_in_the_database_of_the_setting(memory: SparkSession, apart: str, tmp_path: Path) -> None:
    assert names(memory, "db") == ["flat"]
    assert names(memory, "idx") == ["db__flat_id__", "db__flat_k__"]
    assert pointer(memory, apart) == "idx.db__flat_id__,idx.db__flat_k__", "each of the two builds wrote its own"
    homes = {str(Path(one.definition.root).parent) for one in hive_bitmap.show(memory, apart)}
    assert homes == {locations.default_folder(memory, "idx")}
    require_verified(memory, apart)
    write(tmp_path / "t", 1, first=7)
    assert [one.files_read for one in hive_bitmap.refresh(memory, apart)] == [1, 1]
    require_verified(memory, apart)
    assert catalog.indexed_tables(memory, "idx") == catalog.indexed_tables(memory, "db") != []
    for name in ("id", "k"):
        hive_bitmap.drop(memory, apart, name)
    assert pointer(memory, apart) is None and names(memory, "idx") == [] == generations(memory, "idx")


def test_a_name_with_a_database_comes_before_the_setting(memory: SparkSession, apart: str) -> None:
    memory.conf.set(INDEX_DATABASE, "idx")
    hive_bitmap.build(memory, apart, ["k"], name="a", index_table="own")
    hive_bitmap.build(memory, apart, ["k"], name="b", index_table="DB.Of_B")
    memory.conf.unset(INDEX_DATABASE)
    hive_bitmap.build(memory, apart, ["k"], name="c", index_table="idx.own")
    assert names(memory, "db") == ["flat", "of_b", "own"] and "own" in names(memory, "idx")
    assert [one.definition.pointer for one in hive_bitmap.show(memory, apart)] == [
        "own",
        "of_b",
        "idx.own",
        "idx.db__flat_id__",
        "idx.db__flat_k__",
    ]
    require_verified(memory, apart)
    for text, error in (("nope.x", DatabaseNotFound), ("idx.", InvalidProperty), ("a b.x", InvalidProperty)):
        with pytest.raises(error):
            hive_bitmap.build(memory, apart, ["k"], name="d", index_table=text)


def test_names_that_collide_are_refused(memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path) -> None:
    """`a`.`b__c` and `a__b`.`c` have one default name."""
    for database, table in (("a", "b__c"), ("a__b", "c")):
        in_memory.create_database(database)
        memory.catalog.setCurrentDatabase(database)
        write(tmp_path / database)
        external_table(memory, table, tmp_path / database)
    in_memory.create_database("idx")
    build(memory, "a.b__c", "k")
    with pytest.raises(
        AlreadyExists, match=r"table idx\.a__b__c_k__ already exists and it is index k on a\.b__c: give"
    ):
        build(memory, "a__b.c", "k")
    assert pointer(memory, "a__b.c") is None
    build(memory, "a__b.c", "id")
    hive_bitmap.build(memory, "a__b.c", ["k"], index_table="idx.of_k")
    assert [one.definition.name for one in hive_bitmap.show(memory, "a.b__c")] == ["k"]
    assert [one.definition.pointer for one in hive_bitmap.show(memory, "a__b.c")] == ["idx.a__b__c_id__", "idx.of_k"]


def test_the_pointer_alone_leads_to_an_index(memory: SparkSession, apart: str, tmp_path: Path) -> None:
    """One of a table that is not the index's base table leads to none, whatever the setting."""
    write(tmp_path / "o")
    external_table(memory, "other", tmp_path / "o")
    memory.conf.set(INDEX_DATABASE, "idx")
    text = pointer(memory, apart) or ""
    for others in (text, "idx.nope,nope.x,,${x},a.b.c,idx.", "other,flat,db.other"):
        set_pointer(memory, "other", others)
        assert hive_bitmap.show(memory, "other") == []
        assert len(hive_bitmap.show(memory, apart)) == 2
        assert found(memory, "db") == found(memory, "idx") == [("db.flat", "id", True), ("db.flat", "k", True)]
    set_pointer(memory, "other", text)
    set_pointer(memory, apart, "")
    assert hive_bitmap.show(memory, apart) == []
    assert found(memory, "idx") == [("db.flat", "id", False), ("db.flat", "k", False)]
    assert catalog.indexed_tables(memory, "idx") == []
    with pytest.raises(
        AlreadyExists, match=r"or DROP TABLE idx\.db__flat_k__, because table db\.flat no longer points at it"
    ):
        hive_bitmap.build(memory, apart, ["k"])
    set_pointer(memory, apart, text)
    require_verified(memory, apart)


def test_it_is_believed_for_the_owner_of_its_base_table(
    memory: SparkSession, in_memory: MemoryMetastore, apart: str
) -> None:
    bob = in_memory.session("bob", "idx")
    assert found(bob, "idx") == [("db.flat", "id", True), ("db.flat", "k", True)], "they are ann's, as the table is"
    in_memory.give("idx", "db__flat_k__", owner="bob")
    catalog.clear_caches()
    for session in (bob, memory):
        assert found(session, "idx") == found(session, "db") == [("db.flat", "id", True), ("db.flat", "k", False)]
        shown = {one.definition.name: one.problem for one in hive_bitmap.show(session, "db.flat")}
        assert (
            shown["id"] == "" and "index table idx.db__flat_k__ belongs to bob and table db.flat to ann" in shown["k"]
        )
    in_memory.give("db", "flat", owner="bob")
    catalog.clear_caches()
    assert found(memory, "idx") == [("db.flat", "id", False), ("db.flat", "k", True)]


def test_renames_and_another_encoding_keep_the_pointer(memory: SparkSession, apart: str) -> None:
    hive_bitmap.rename(memory, apart, "k", "keys")
    assert pointer(memory, apart) == "idx.db__flat_id__,idx.db__flat_keys__"
    hive_bitmap.set_properties(memory, apart, "keys", {"encoding": "roaring"})
    hive_bitmap.rebuild(memory, apart)
    assert pointer(memory, apart) == "idx.db__flat_id__,idx.db__flat_keys__"
    assert [one.definition.encoding for one in hive_bitmap.show(memory, apart)] == ["gap", "roaring"]
    external_table(memory, "taken", Path("/nowhere"))
    before = pointer(memory, apart)
    with pytest.raises(AlreadyExists):
        hive_bitmap.rename(memory, apart, "keys", "id")
    assert pointer(memory, apart) == before
    require_verified(memory, apart)
    hive_bitmap.clean(memory, grace_seconds=0)
    assert generations(memory, "idx") == live(memory, apart)


def test_the_new_table_of_an_encoding_is_found_if_the_build_is_killed(
    memory: SparkSession, apart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is another one until the former table is dropped."""

    class Killed(BaseException): ...

    def kill(*_: object) -> None:
        raise Killed

    hive_bitmap.set_properties(memory, apart, "k", {"encoding": "roaring"})
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(alter_table, "rename", kill)
        hive_bitmap.rebuild(memory, apart, ["k"])
    catalog.clear_caches()
    assert [one.definition.encoding for one in hive_bitmap.show(memory, apart)] == ["gap", "roaring"]
    hive_bitmap.rebuild(memory, apart)
    require_verified(memory, apart)


@pytest.mark.parametrize("by_hand", [False, True], ids=["default", "own"])
def test_indexes_come_along_when_their_table_is_renamed(
    memory: SparkSession, apart: str, tmp_path: Path, by_hand: bool
) -> None:
    if by_hand:
        hive_bitmap.drop(memory, apart, "k")
        hive_bitmap.build(memory, apart, ["k"], index_table="idx.own")
    rename_table(memory, apart, "new")
    assert hive_bitmap.show(memory, "new") == [], "they are of another table yet"
    assert "is gone" in hive_bitmap.show(memory, "flat")[0].problem
    before = generations(memory, "idx")
    hive_bitmap.attach(memory, "new", "flat")
    assert generations(memory, "idx") == before
    of_k = "idx.own" if by_hand else "idx.db__new_k__"
    assert pointer(memory, "new") == ",".join(sorted(["idx.db__new_id__", of_k]))
    require_verified(memory, "new")
    with pytest.raises(NotFound):
        hive_bitmap.show(memory, "flat")
    write(tmp_path / "again")
    external_table(memory, "flat", tmp_path / "again")
    assert hive_bitmap.show(memory, "flat") == []


def test_of_a_table_that_is_gone_they_are_found_by_name(
    memory: SparkSession, in_memory: MemoryMetastore, apart: str
) -> None:
    drop_table(memory, apart)
    assert found(memory, "db") == [] and found(memory, "idx") == [("db.flat", "id", True), ("db.flat", "k", True)]
    assert ["is gone" in one.problem for one in hive_bitmap.show(memory, "flat")] == [True, True]
    in_memory.drop_database(memory, "db", if_exists=False)
    memory.catalog.setCurrentDatabase("idx")
    catalog.clear_caches()
    for name in ("id", "k"):
        hive_bitmap.drop(memory, "db.flat", name)
    assert names(memory, "idx") == [] == generations(memory, "idx")
    assert not hive_bitmap.drop(memory, "db.flat", "k", if_exists=True)


def test_clean_keeps_what_is_used_and_finds_what_was_dropped_by_hand(
    memory: SparkSession, apart: str, tmp_path: Path
) -> None:
    write(tmp_path / "t", 1, first=7)
    hive_bitmap.rebuild(memory, apart, full=True)
    assert len(generations(memory, "idx")) > len(live(memory, apart))
    hive_bitmap.clean(memory, grace_seconds=0)
    assert generations(memory, "idx") == live(memory, apart)
    [*_, of_k] = hive_bitmap.show(memory, apart)
    drop_table(memory, "idx.db__flat_k__")
    assert [one.definition.name for one in hive_bitmap.show(memory, apart)] == ["id"]
    assert hive_bitmap.clean(memory, grace_seconds=0) == [], "its folder is in the other database"
    memory.catalog.setCurrentDatabase("idx")
    [left] = hive_bitmap.clean(memory, grace_seconds=0)
    assert left.why == "index k on db.flat was dropped" and left.path.startswith(of_k.definition.root)
    assert generations(memory, "idx") == live(memory, "db.flat")
    build(memory, "db.flat", "k")
    require_verified(memory, "db.flat")


@pytest.mark.parametrize("place", ["shared", "location"])
def test_an_index_database_that_is_gone_leaves_no_index_and_folders_for_clean(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path, place: str
) -> None:
    in_memory.create_database("idx")
    flat = flat_table(memory, tmp_path / "t")
    if place == "shared":
        memory.conf.set(EXTERNAL, f"file:{tmp_path}/external")
        build(memory, flat, "k")
    else:
        hive_bitmap.build(memory, flat, ["k"], index_table="idx.own", location=str(tmp_path / "root"))
    [index] = hive_bitmap.show(memory, flat)
    root = index.definition.root
    given = None if place == "shared" else local_path(root)
    assert hive_bitmap.clean(memory, location=given, grace_seconds=0) == []
    in_memory.drop_database(memory, "idx", if_exists=False)
    catalog.clear_caches()
    assert hive_bitmap.show(memory, flat) == [] and catalog.indexes_on(memory, metastore.describe(memory, flat)) == []
    [left] = hive_bitmap.clean(memory, location=given, grace_seconds=0)
    assert left.why == "index k on db.flat was dropped" and not Path(local_path(root)).exists()
    in_memory.create_database("idx")
    build(memory, flat, "k")
    require_verified(memory, flat)


def test_clean_of_a_folder_that_databases_share_leaves_the_index_tables_of_others(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path
) -> None:
    """Nor does it take one for dropped to which its table does not point any more."""
    in_memory.create_database("idx")
    memory.conf.set(EXTERNAL, f"file:{tmp_path}/external")
    flat = flat_table(memory, tmp_path / "t")
    build(memory, flat, "k")
    in_memory.create_database("more")
    memory.catalog.setCurrentDatabase("more")
    external_table(memory, "t", tmp_path / "t")
    build(memory, "t", "id")
    before = generations(memory, "idx")
    assert len(before) == 2
    for text in ("idx.db__flat_k__", ""):
        set_pointer(memory, "db.flat", text)
        for database in ("db", "idx", "more"):
            memory.catalog.setCurrentDatabase(database)
            assert all(one.kept for one in hive_bitmap.clean(memory, grace_seconds=0))
            assert generations(memory, "idx") == before
    drop_table(memory, "idx.db__flat_k__")
    memory.catalog.setCurrentDatabase("more")
    assert hive_bitmap.clean(memory, grace_seconds=0) == []
    memory.catalog.setCurrentDatabase("db")
    assert [one.why for one in hive_bitmap.clean(memory, grace_seconds=0)] == ["index k on db.flat was dropped"]
    assert generations(memory, "idx") == live(memory, "more.t")


def test_a_table_that_points_at_an_index_of_another_database_gains_nothing(
    memory: SparkSession, in_memory: MemoryMetastore, apart: str
) -> None:
    """Else a DROP DATABASE of its own would drop that index."""
    in_memory.create_database("evil")
    memory.catalog.setCurrentDatabase("evil")
    external_table(memory, "flat", Path("/nowhere"))
    set_pointer(memory, "evil.flat", pointer(memory, "db.flat") or "")
    statement = DropDatabase("evil", if_exists=False)
    assert found(memory, "evil") == [] == indexes_to_drop(memory, statement)
    assert hive_bitmap.show(memory, "evil.flat") == [] and len(hive_bitmap.show(memory, "db.flat")) == 2


def test_where_a_table_points_is_read_again_before_it_is_changed(memory: SparkSession, tmp_path: Path) -> None:
    """Another build may have written it since the table was described."""
    flat = flat_table(memory, tmp_path / "t")
    before = metastore.describe(memory, flat)
    catalog_changes.point_to(memory, before, {"idx.a"}, set())
    catalog_changes.point_to(memory, before, {"idx.b"}, set())
    assert pointer(memory, flat) == "idx.a,idx.b"
    catalog_changes.point_to(memory, before, set(), {"idx.a"})
    assert pointer(memory, flat) == "idx.b"
    catalog_changes.point_to(memory, before, set(), {"idx.b"})
    assert pointer(memory, flat) is None


def test_a_pointer_that_another_build_overwrites_is_written_again(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory.create_database("idx")
    flat, before = flat_table(memory, tmp_path / "t"), alter_table.change

    def change(spark: SparkSession, table: Table, **changes: Any) -> None:
        set_pointer(memory, flat, "idx.of_another")
        before(spark, table, **changes)

    with monkeypatch.context() as patched:
        patched.setattr(alter_table, "change", change)
        build(memory, flat, "k")
    assert pointer(memory, flat) == "idx.db__flat_k__,idx.of_another"


def test_a_session_that_keeps_a_description_of_the_table_finds_new_indexes(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path
) -> None:
    in_memory.create_database("idx")
    flat = flat_table(memory, tmp_path / "t")
    kept = metastore.describe(memory, flat)
    assert catalog.indexes_on(memory, kept, 30) == []
    build(in_memory.session(), flat, "k")
    assert [one.definition.name for one in catalog.indexes_on(memory, kept, 30)] == ["k"]


def test_a_build_that_fails_leaves_no_pointer(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spark: SparkSession, table: Table) -> bool:
        raise OSError("no more tables")

    in_memory.create_database("idx")
    flat = flat_table(memory, tmp_path / "t")
    with monkeypatch.context() as patched, pytest.raises(hive_bitmap.errors.BuildFailed, match="no more tables"):
        patched.setattr(alter_table, "create", fail)
        build(memory, flat, "k")
    assert pointer(memory, flat) is None and generations(memory, "idx") == []


def test_edited_properties_are_noticed_and_repaired(memory: SparkSession, apart: str) -> None:
    of_k = metastore.describe(memory, "idx.db__flat_k__")
    alter_table.set_properties(memory, of_k, {"hive_bitmap.encoding": "plain"})
    catalog.clear_caches()
    shown = {one.definition.name: one.problem for one in hive_bitmap.show(memory, apart)}
    assert "idx.db__flat_k__ are not what a build wrote" in shown["k"]
    assert found(memory, "idx") == [("db.flat", "id", True), ("db.flat", "k", True)]
    hive_bitmap.rebuild(memory, apart)
    require_verified(memory, apart)


def test_an_unreadable_database_hides_no_index_of_others(
    memory: SparkSession, apart: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drop_table(memory, apart)
    [secret] = catalog.metastore_errors()[:1]
    before = metastore.names_like

    def refusing(spark: SparkSession, database: str, pattern: str) -> list[str]:
        if database == "secret":
            raise secret("not yours")
        return before(spark, database, pattern)

    memory.metastore.create_database("secret")  # type: ignore[attr-defined]
    monkeypatch.setattr(metastore, "names_like", refusing)
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        assert len(hive_bitmap.show(memory, "flat")) == 2
    assert "cannot check whether database secret has indexes of table db.flat: not yours" in caplog.text
    assert all(generation_names.is_generation(folder) for folder in generations(memory, "idx"))
