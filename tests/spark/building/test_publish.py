"""Publishing on the embedded metastore: odd partition values, several indexes of which one fails, readers in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.index import markers
from hive_bitmap.errors import BuildFailed, Unsupported
from hive_bitmap.spark.building import build_job
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import alter_table, jvm_reader, metastore, table_ddl
from hive_bitmap.spark.metastore.jvm_metastore import JvmMetastore
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import (
    drop_partitions,
    drop_table,
    external_table,
    flat_table,
    generations,
    index_table,
    live,
    parted_table,
    rename_table,
    repair,
    require_right,
    require_verified,
    write,
)
from tests.spark.metastore.memory import MemoryMetastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ["a b", "x/y=z", "50%", "%20", "it's", 'say "hi"', "näß 日", "back\\slash", "a:b", "#?&", None, "x" * 100]
ODD += ["both ' and \\", "at the end \\", "${env:PATH}", "${spark.app.name}"]
# Spark then resolves no escapes in a partition spec, and takes the text of constants that are not strings.
LEGACY = ("spark.sql.parser.escapedStringLiterals", "spark.sql.legacy.keepPartitionSpecAsStringLiteral")


@pytest.fixture(params=[(), LEGACY[:1], LEGACY], ids=["", "escaped", "legacy"])
def parsing(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test once for each way in which Spark's parser reads partition values."""
    for name in request.param:
        spark.conf.set(name, "true")
    yield
    assert all(spark.conf.get(name) == "true" for name in request.param), "the settings are as they were"
    for name in request.param:
        spark.conf.unset(name)


@pytest.mark.parametrize("through_jvm", [True, False])
def test_odd_partition_values_are_switched_together(
    spark: SparkSession,
    database: str,
    parsing: None,
    tmp_path: Path,
    through_jvm: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In few calls or by SQL, one by one: what the metastore then says is what was asked for."""
    spark.sql("CREATE TABLE odd (k int) PARTITIONED BY (p string, q int) STORED AS PARQUET")
    table = metastore.describe(spark, "odd")
    values = [(value, str(number)) for number, value in enumerate(ODD)]
    first = {value: f"file:{tmp_path}/q=a b%2F{number}/é{number}" for number, value in enumerate(values)}
    second = {value: f"{folder}/next #?" for value, folder in first.items()}
    monkeypatch.setattr(table_ddl, "AT_ONCE", 5)
    monkeypatch.setattr(jvm_reader, "available", lambda _: through_jvm)
    reading = JvmMetastore().partitions
    alter_table.change(spark, table, added=first)
    assert {one.values: one.location for one in reading(spark, table)} == first
    described = spark.sql("SHOW TABLE EXTENDED LIKE 'odd' PARTITION (p='a b', q=0)").collect()[0].information
    alter_table.change(spark, table, moved=second)
    assert {one.values: one.location for one in reading(spark, table)} == second
    again = spark.sql("SHOW TABLE EXTENDED LIKE 'odd' PARTITION (p='a b', q=0)").collect()[0].information
    unlike = [line for line in set(described.splitlines()) ^ set(again.splitlines()) if "InputFormat" in line]
    assert unlike == [] and "MapredParquetInputFormat" in again


@pytest.mark.contract
def test_an_index_table_of_odd_partitions_is_read_by_all(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE odd (k int, id bigint) PARTITIONED BY (p string) STORED AS PARQUET")
    rows = [(number % 5, number, value) for number, value in enumerate(ODD * 3)]
    spark.createDataFrame(rows, "k int, id bigint, p string").coalesce(1).write.insertInto("odd")
    hive_bitmap.build(spark, "odd", ["k"])
    before = spark.table(index_table(spark, "odd")).groupBy("p").count().collect()
    hive_bitmap.rebuild(spark, "odd", full=True)
    assert sorted(spark.table(index_table(spark, "odd")).groupBy("p").count().collect(), key=str) == sorted(
        before, key=str
    )
    assert hive_bitmap.show(spark, "odd")[0].fresh == len(ODD)
    require_right(spark, "odd")


def test_an_external_root_without_a_file_system(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """It lies in that of the database, as the metastore has it, and tasks find there what was built."""
    flat = flat_table(spark, tmp_path / "t")
    external = "spark.hadoop.metastore.warehouse.external.dir"
    spark.conf.set(external, f"{tmp_path}/external root")
    try:
        [report] = hive_bitmap.build(spark, flat, ["k"])
    finally:
        spark.conf.unset(external)
    assert report.definition.root.startswith(f"file:{tmp_path}/external root/")
    assert (hive_bitmap.show(spark, flat)[0].problem, hive_bitmap.show(spark, flat)[0].fresh) == ("", 2)
    require_right(spark, flat)


def test_a_text_that_the_metastore_cannot_hold(spark: SparkSession, database: str, tmp_path: Path) -> None:
    flat = flat_table(spark, tmp_path / "t")
    before = table_names(spark)
    said = "nothing of it remains: the metastore holds no property as long as one of this index: give it fewer"
    with pytest.raises(BuildFailed, match=said):
        hive_bitmap.build(spark, flat, ["k"], comment="x" * 100_000)
    assert table_names(spark) == before
    hive_bitmap.build(spark, flat, ["k"])
    require_right(spark, flat)


def test_an_index_that_is_dropped_meanwhile(memory: SparkSession, tmp_path: Path) -> None:
    """Those before it are published, those behind it are not, and the error says so."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k", "id"])
    hive_bitmap.build(memory, flat, [["k", "id"]], name="both")
    before = by_index(memory, flat)
    asked = []

    def drop_one(done: BuildProgress) -> None:
        if done.files == done.files_total and not asked:
            asked.append(done)
            drop_table(memory, "db__flat_id__")

    said = r"index id could not be published, .* was dropped while it was built; published before it: k; not .*: both"
    with pytest.raises(BuildFailed, match=said):
        hive_bitmap.rebuild(memory, flat, ["k", "id", "both"], full=True, progress=drop_one)
    after = by_index(memory, flat)
    assert after["both"] == before["both"] and after["k"] != before["k"] and set(after) == {"both", "k"}
    left = {folder for folders in (*before.values(), *after.values()) for folder in folders}
    assert set(generations(memory, "db")) == left, "what was not published is deleted"
    require_verified(memory, flat)


def by_index(spark: SparkSession, table: str) -> dict[str, list[str]]:
    """The segments of each index of a table."""
    return {one.definition.name: catalog.segments(spark, one) for one in catalog.table_and_indexes(spark, table)[1]}


def test_an_index_that_is_made_anew_meanwhile(memory: SparkSession, tmp_path: Path) -> None:
    """Its table has the name, but it is another index: what was built for the former one is not published there."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "one"))
    made = []

    def make_anew(done: BuildProgress) -> None:
        if not made:
            made.append(done)
            hive_bitmap.drop(memory, flat, "k")
            hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "two"))
            made.extend(live(memory, flat))

    with pytest.raises(BuildFailed, match=r"index k could not be published, .*another build has created index k"):
        hive_bitmap.rebuild(memory, flat, full=True, progress=make_anew)
    assert live(memory, flat) == made[1:]
    require_verified(memory, flat)


def test_a_publication_is_one_batch(in_memory: MemoryMetastore, memory: SparkSession, tmp_path: Path) -> None:
    """All slots that change are moved together; those of a new index are added where they stay."""
    parted = parted_table(memory, tmp_path / "t", 4)
    hive_bitmap.build(memory, parted, ["k"])
    [first] = in_memory.batches[-1:]
    assert set(first.added) == {("0",)} and list(first.added.values()) == live(memory, parted)
    assert not first.moved and not first.vacated
    (tmp_path / "t" / "p=1" / "0.parquet").unlink()
    write(tmp_path / "t" / "p=2", 1, 7)
    write(tmp_path / "t" / "p=5")
    repair(memory, parted)
    drop_partitions(memory, parted, 4)
    done = len(in_memory.batches)
    hive_bitmap.rebuild(memory, parted)
    [batch] = in_memory.batches[done:]
    assert set(batch.vacated) == {("0",)} and set(batch.moved) == {("0",), ("1",)} and set(batch.added) == {("1",)}
    assert sorted(live(memory, parted)) == sorted(batch.moved.values())
    hive_bitmap.rebuild(memory, parted)
    assert len(in_memory.batches) == done + 1
    require_verified(memory, parted)


class Elsewhere:
    """Another build, which publishes right before this one moves slots: once, or each time."""

    def __init__(self, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
        self.change, self.times = alter_table.change, times
        self.spark, self.table = spark, table
        monkeypatch.setattr(alter_table, "change", self)

    def __call__(self, *what: Any, **changes: Any) -> None:
        if self.times:
            self.times -= 1
            left, self.times = self.times, 0
            hive_bitmap.refresh(self.spark, self.table)
            self.times = left
        self.change(*what, **changes)


@pytest.mark.parametrize("times", [1, 3])
def test_two_builds_that_index_the_same_files_leave_each_covered_once(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    parted = parted_table(memory, tmp_path / "t", 3)
    hive_bitmap.build(memory, parted, ["k"])
    for p in (1, 2, 3):
        write(tmp_path / "t" / f"p={p}", 1, 7)
    Elsewhere(memory, parted, monkeypatch, times)
    hive_bitmap.refresh(memory, parted)
    require_verified(memory, parted)  # which reports files that two segments cover
    assert all(one.files_read == 0 for one in hive_bitmap.refresh(memory, parted))
    [shown] = hive_bitmap.show(memory, parted)
    assert (shown.fresh, shown.unindexed, shown.gone) == (9, 0, 0)
    require_verified(memory, parted)


def test_a_segment_whose_slot_another_build_takes_gets_another_slot(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    write(tmp_path / "t", 1, 7)
    [index] = catalog.table_and_indexes(memory, flat)[1]
    change, taken = alter_table.change, []

    def taking(spark: SparkSession, table: Any, **changes: Any) -> bool:
        are_new = change(spark, table, **changes)
        if not taken:
            taken.extend(changes["added"])
            change(spark, table, moved={taken[0]: f"{index.definition.root}/empty"})
        return are_new

    monkeypatch.setattr(alter_table, "change", taking)
    hive_bitmap.refresh(memory, flat)
    assert taken and [one.fresh for one in hive_bitmap.show(memory, flat)] == [3]
    require_verified(memory, flat)


def test_what_a_killed_build_left_twice_is_mended_by_the_next_refresh(memory: SparkSession, tmp_path: Path) -> None:
    """Two segments cover a file: the build that had published the second died before it looked again."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [index] = catalog.table_and_indexes(memory, flat)[1]
    [folder] = catalog.segments(memory, index)
    hive_bitmap.rebuild(memory, flat, full=True)
    alter_table.change(memory, index.table, added={("9",): folder})
    catalog.clear_caches()
    assert "and in another segment" in hive_bitmap.verify(memory, flat)[0].problems[0]
    [report] = hive_bitmap.refresh(memory, flat)
    assert report.files_read == 0 and len(live(memory, flat)) == 1
    require_verified(memory, flat)


def test_a_slot_that_points_elsewhere_is_shown_and_emptied(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [index] = catalog.table_and_indexes(memory, flat)[1]
    alter_table.change(memory, index.table, added={("5",): f"file:{tmp_path}/t"})
    catalog.clear_caches()
    assert "is not a segment of this index, and SQL users see its rows" in hive_bitmap.show(memory, flat)[0].problem
    hive_bitmap.rebuild(memory, flat)
    assert hive_bitmap.show(memory, flat)[0].problem == "" and len(list((tmp_path / "t").iterdir())) == 2


def test_a_segment_in_two_slots_is_shown_and_a_refresh_empties_one(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [index] = catalog.table_and_indexes(memory, flat)[1]
    [folder] = catalog.segments(memory, index)
    alter_table.change(memory, index.table, added={("5",): folder})
    catalog.clear_caches()
    assert "and SQL users see its rows twice" in hive_bitmap.show(memory, flat)[0].problem
    [report] = hive_bitmap.refresh(memory, flat)
    assert (report.files_read, hive_bitmap.show(memory, flat)[0].problem) == (0, "")
    slots = catalog.slots_of(memory, index.table)
    assert (slots[0], slots[5]) == (folder, f"{index.definition.root}/empty")


@pytest.mark.parametrize("make", [flat_table, parted_table])
def test_an_index_that_is_renamed_meanwhile(
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    make: Callable[[SparkSession, Path], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right behind the switch, so that what is looked for under the old name is published under another."""
    table = make(spark, tmp_path / "t")
    hive_bitmap.build(spark, table, ["k"])
    change = alter_table.change

    def change_and_rename(*what: Any, **changes: Any) -> None:
        change(*what, **changes)
        hive_bitmap.rename(spark, table, "k", "other")
        raise OSError("gone")

    monkeypatch.setattr(alter_table, "change", change_and_rename)
    with pytest.raises(BuildFailed, match="except for 1 of 1 new segments"):
        hive_bitmap.rebuild(spark, table, full=True)
    assert [(one.definition.name, one.unindexed, one.problem) for one in hive_bitmap.show(spark, table)] == [
        ("other", 0, "")
    ]
    require_right(spark, table)


@pytest.mark.contract
def test_a_reader_in_flight_ends_right(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path / "t", 2)
    hive_bitmap.build(spark, parted, ["k"])
    planned = {name: hive_bitmap.scan(spark, parted, "k = 3", strategy=name) for name in ("rows", "files")}
    rows = sorted(row.id for row in spark.table(parted).where("k = 3").collect())
    hive_bitmap.rebuild(spark, parted, full=True)
    assert {name: sorted(row.id for row in frame.collect()) for name, frame in planned.items()} == dict.fromkeys(
        planned, rows
    )
    planned = {name: hive_bitmap.scan(spark, parted, "k = 3", strategy=name) for name in ("rows", "files")}
    hive_bitmap.drop(spark, parted, "k")
    assert all(sorted(row.id for row in frame.collect()) == rows for frame in planned.values())


@pytest.mark.contract
def test_two_full_builds_at_once_leave_each_file_covered_once(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """Whichever is published later sees the other's segment, and removes what both have."""
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    inner = []

    def build_another(done: BuildProgress) -> None:
        if done.files == done.files_total and not inner:
            inner.append(done)
            write(tmp_path / "t", files=1, first=2)
            hive_bitmap.rebuild(spark, flat, full=True)

    hive_bitmap.rebuild(spark, flat, full=True, progress=build_another)
    assert [(one.fresh, one.unindexed) for one in hive_bitmap.show(spark, flat)] == [(3, 0)]
    require_verified(spark, flat)
    require_right(spark, flat)
    hive_bitmap.clean(spark, flat, grace_seconds=0)
    assert generations(spark, database) == live(spark, flat)


def test_a_new_encoding_drops_no_table_of_others(memory: SparkSession, tmp_path: Path) -> None:
    """Neither one that sounds like its own, nor one that has the name which it needs."""
    flat = flat_table(memory, tmp_path / "t")
    [report] = hive_bitmap.build(memory, flat, ["k"], index_table="foo")
    needed = f"foo{report.definition.id[:8]}next__"
    others, places = ("foonext__", needed), [f"file:{tmp_path}/{name}" for name in ("foonext__", needed)]
    for name in others:
        external_table(memory, name, tmp_path / name)
    hive_bitmap.set_properties(memory, flat, "k", {"encoding": "roaring"})
    with pytest.raises(BuildFailed, match=f"{needed} has the name that index k needs"):
        hive_bitmap.rebuild(memory, flat)
    assert [metastore.describe(memory, name).location for name in others] == places
    require_verified(memory, flat)
    rename_table(memory, needed, "elsewhere")
    hive_bitmap.rebuild(memory, flat)
    assert [metastore.describe(memory, name).location for name in ("foonext__", "elsewhere")] == places
    require_verified(memory, flat)


def test_what_is_set_while_a_new_encoding_is_built_stays(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    hive_bitmap.set_properties(memory, flat, "k", {"encoding": "roaring"})
    run = build_job.run

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        changes = {"enabled": "false", "comment": "see the ticket", "encoding": "ewah", "owner": "me"}
        hive_bitmap.set_properties(memory, flat, "k", changes)
        return run(*arguments, **options)

    monkeypatch.setattr(build_job, "run", meanwhile)
    hive_bitmap.rebuild(memory, flat)
    monkeypatch.undo()
    [found] = [one.definition for one in hive_bitmap.show(memory, flat)]
    assert (found.enabled, found.comment, found.properties) == (False, "see the ticket", (("owner", "me"),))
    assert (found.encoding, found.next_encoding) == ("roaring", "ewah")
    hive_bitmap.rebuild(memory, flat)
    assert hive_bitmap.show(memory, flat)[0].definition.encoding == "ewah"


def test_values_that_look_like_variables_are_values(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE v (k int) PARTITIONED BY (p string) STORED AS PARQUET")
    by_frame = spark.createDataFrame([(1, "${env:PATH}"), (2, "${spark.app.name}")], "k int, p string")
    by_frame.write.insertInto("v")
    [report] = hive_bitmap.build(spark, "v", ["k"], comment="of ${env:PATH}")
    index = report.definition.index_table
    stored = sorted(row.p for row in spark.table(index).select("p").distinct().collect())
    assert stored == ["${env:PATH}", "${spark.app.name}"]
    [status] = hive_bitmap.show(spark, "v")
    assert status.definition.comment == "of ${env:PATH}" and status.unindexed == 0


def test_a_column_that_looks_like_a_variable_is_no_key(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.createDataFrame([(1,)], "`${env:PATH}` int").write.saveAsTable("v")
    with pytest.raises(Unsupported, match="begins a variable in SQL"):
        hive_bitmap.build(spark, "v", ["${env:PATH}"])


def table_names(spark: SparkSession) -> set[str]:
    return {row.tableName for row in spark.sql("SHOW TABLES").collect() if not row.isTemporary}


class Killed(BaseException):
    """Ends a build as SIGKILL would: nothing is tidied up."""


@pytest.fixture
def half_replaced(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, list[str]]:
    """A table whose index was about to get another encoding when its build was killed, and the two index tables."""
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    hive_bitmap.set_properties(spark, flat, "k", {"encoding": "roaring"})
    change = alter_table.change

    def change_and_die(*args: Any, **changes: Any) -> None:
        change(*args, **changes)
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(alter_table, "change", change_and_die)
        hive_bitmap.rebuild(spark, flat)
    monkeypatch.setattr(markers.Author, "is_at_work", lambda author, complete: False)  # its process has ended
    tables = [name for name in table_names(spark) if name != flat]
    assert len(tables) == 2
    return flat, tables


@pytest.mark.contract
def test_a_rebuild_goes_on_after_a_killed_new_encoding(
    spark: SparkSession, half_replaced: tuple[str, list[str]], database: str
) -> None:
    flat, tables = half_replaced
    require_right(spark, flat)
    hive_bitmap.set_properties(spark, flat, "k", {"encoding": "gap"})  # as it still is: nothing is to be replaced
    hive_bitmap.rebuild(spark, flat)
    assert table_names(spark) == {flat, min(tables, key=len)}
    require_right(spark, flat)
    hive_bitmap.clean(spark, flat, grace_seconds=0)
    assert generations(spark, database) == live(spark, flat)


def test_a_drop_takes_what_a_killed_new_encoding_left(
    spark: SparkSession, half_replaced: tuple[str, list[str]], database: str
) -> None:
    flat, _ = half_replaced
    hive_bitmap.drop(spark, flat, "k")
    assert table_names(spark) == {flat}
    assert generations(spark, database) == []


def test_a_refresh_does_not_undo_an_encoding_that_another_build_has_changed(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    write(tmp_path / "t", 1, first=7)
    run, runs = build_job.run, list[int]()

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        runs.append(1)
        if len(runs) == 1:
            hive_bitmap.set_properties(memory, flat, "k", {"encoding": "roaring"})
            hive_bitmap.rebuild(memory, flat)
        return run(*arguments, **options)

    monkeypatch.setattr(build_job, "run", meanwhile)
    with pytest.raises(BuildFailed, match=r"another build has changed the encoding of index k .* to roaring"):
        hive_bitmap.refresh(memory, flat)
    catalog.clear_caches()
    [found] = hive_bitmap.show(memory, flat)
    assert (found.definition.encoding, found.fresh, found.unindexed) == ("roaring", 3, 0)
    require_verified(memory, flat)


def test_nothing_is_written_through_a_link_in_the_place_of_the_empty_folder(
    memory: SparkSession, tmp_path: Path
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    (tmp_path / "victim").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "empty").symlink_to(tmp_path / "victim")
    with pytest.raises(BuildFailed, match=r"is a link|Not a directory"):
        hive_bitmap.build(memory, flat, ["k"], location=f"{tmp_path}/root")
    assert list((tmp_path / "victim").iterdir()) == [] and hive_bitmap.show(memory, flat) == []


def test_slots_of_other_names_shadow_none(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [index] = catalog.table_and_indexes(memory, flat)[1]
    places = {("00",): f"file:{tmp_path}/t", ("-1",): f"file:{tmp_path}/t", (str(2**31 - 1),): f"file:{tmp_path}/t"}
    alter_table.change(memory, index.table, added=places)
    write(tmp_path / "t", 1, first=7)
    hive_bitmap.rebuild(memory, flat, full=True)
    assert [one.fresh for one in hive_bitmap.show(memory, flat)] == [3]
    assert set(catalog.slots_of(memory, index.table)) == {0, 2**31 - 1}
