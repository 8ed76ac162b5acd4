"""The contract of metastores: the same cases on the one in memory, through the JVM, and by SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table, Values, hadoop_path
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.jvm_metastore import JvmMetastore
from hive_bitmap.spark.metastore.protocol import Changes, Metastore
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore
from tests.spark.metastore.memory import MemoryMetastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Side:
    """A metastore, a session of it, and an empty database."""

    metastore: Metastore
    spark: SparkSession
    database: str
    folder: Path

    def table(self, name: str = "t", *partition_columns: str, **fields: Any) -> Table:
        """A table to create: a Parquet table of k and s."""
        given = {
            "database": self.database,
            "name": name,
            "kind": "EXTERNAL",
            "provider": "hive",
            "columns": (Column("k", "int"), Column("s", "string")),
            "partition_columns": tuple(Column(column, "string") for column in partition_columns),
            "location": f"file:{self.folder}/{name}",
            "properties": {"a": "it's"},
        }
        return Table(**{**given, **fields})

    def create(self, name: str = "t", *partition_columns: str, **fields: Any) -> Table:
        made = self.table(name, *partition_columns, **fields)
        assert self.metastore.create_table(self.spark, made)
        return made

    def described(self, name: str = "t") -> Table | None:
        found = self.metastore.describe(self.spark, self.database, [name], "")
        assert len(found) <= 1
        return found[0] if found else None

    def folders(self, table: Table) -> dict[Values, str]:
        folders = {one.values: one.location for one in self.metastore.partitions(self.spark, table)}
        some = [*list(folders)[::2], tuple("nowhere" for _ in table.partition_columns)]
        by_values = self.metastore.partitions(self.spark, table, some)
        assert {one.values: one.location for one in by_values} == {one: folders[one] for one in some[:-1]}
        return folders

    def change(self, table: Table, **fields: Any) -> bool:
        return self.metastore.change(self.spark, table, Changes(**fields))


def a_table_is_described_as_it_was_created(side: Side) -> None:
    made = side.create("t", "p", properties={"a": "it's", "b": "", "comment": "mine"})
    found = side.described()
    assert found is not None
    for field in ("database", "name", "kind", "provider", "columns", "partition_columns", "location"):
        assert getattr(found, field) == getattr(made, field), field
    assert found.properties["a"] == "it's" and "comment" not in found.properties
    assert not found.properties.get("b")  # DESCRIBE .. AS JSON leaves out what is empty
    assert found.input_format.endswith("MapredParquetInputFormat") and found.serde.endswith("ParquetHiveSerDe")
    assert (found.by_folders, found.lake, found.catalog) == (False, None, "")


def a_name_that_is_taken_is_not_created_again(side: Side) -> None:
    side.create(properties={"a": "1"})
    assert side.metastore.create_table(side.spark, side.table(properties={"a": "2"})) is False
    found = side.described()
    assert found is not None and found.properties["a"] == "1"
    with pytest.raises(AnalysisException):
        side.metastore.create_table(side.spark, side.table(database="nowhere"))


def tables_are_found_by_their_names(side: Side) -> None:
    for name in ("t", "t2", "db__t_i__"):
        side.create(name)
    named = side.metastore.describe(side.spark, side.database, ["t2", "none", "t"], "")
    assert sorted(table.name for table in named) == ["t", "t2"]
    for pattern, names in (("*", ["db__t_i__", "t", "t2"]), ("db__t_*__", ["db__t_i__"]), ("t", ["t"]), ("u*", [])):
        assert sorted(side.metastore.names_like(side.spark, side.database, pattern)) == names


def tables_belong_to_the_user_of_the_session(side: Side) -> None:
    side.create("t")
    side.create("hers", owner="eve")
    mine, hers = side.described("t"), side.described("hers")
    assert mine is not None and mine.owner == side.metastore.current_user(side.spark) != ""
    chosen = type(side.metastore) is not SqlMetastore  # such a session cannot choose
    assert hers is not None and hers.owner == ("eve" if chosen else mine.owner)


def properties_are_set_and_unset(side: Side) -> None:
    side.create(properties={"a": "1", "b": "1", "c": "1"})
    before = side.described()
    assert before is not None
    side.metastore.set_properties(side.spark, before, {"a": "it's 2", "d": "${x}"}, ["b", "none", "d"])
    found = side.described()
    assert found is not None
    assert {name: found.properties.get(name) for name in "abcd"} == {"a": "it's 2", "b": None, "c": "1", "d": "${x}"}
    side.metastore.set_properties(side.spark, found, {}, [])
    assert side.described() == found


def a_table_is_moved_with_its_properties(side: Side) -> None:
    made = side.create(properties={"a": "1", "b": "1"})
    (side.folder / "else where").mkdir()
    moved = f"file:{side.folder}/else where"
    side.change(made, moved={(): moved})
    found = side.described()
    assert found is not None and found.location == moved
    assert (found.properties["a"], found.properties["b"]) == ("1", "1")
    side.change(made)
    assert side.described() == found


def partitions_are_added_and_moved_in_one_batch(side: Side) -> None:
    made = side.create("t", "p", "q")
    before = {values: f"file:{side.folder}/{n}" for n, values in enumerate([("1", "x"), ("1", None), ("2", "a b")])}
    assert side.change(made, added=before)
    assert side.folders(made) == before
    new, moved = f"file:{side.folder}/new", f"file:{side.folder}/moved"
    side.change(made, added={("3", "x"): new}, moved={("1", None): moved, ("3", "x"): moved})
    assert side.folders(made) == {**before, ("1", None): moved, ("3", "x"): moved}
    assert not side.change(made, added={("3", "x"): new, ("4", "x"): new})  # one is there already
    assert side.folders(made)["4", "x"] == new
    assert side.folders(made)["3", "x"] == moved


def what_is_vacated_is_where_it_was_moved_to_in_the_end(side: Side) -> None:
    made = side.create("t", "p")
    before = {(str(n),): f"file:{side.folder}/{n}" for n in range(3)}
    side.change(made, added=before)
    empty, new = f"file:{side.folder}/empty", f"file:{side.folder}/new"
    vacated = {("0",): empty, ("1",): empty}
    side.change(made, vacated=vacated, moved={**vacated, ("1",): new})
    assert side.folders(made) == {("0",): empty, ("1",): new, ("2",): before["2",]}


def a_table_is_renamed_with_all_that_it_has(side: Side) -> None:
    made = side.create("t", "p")
    side.create("taken")
    side.change(made, added={("1",): f"file:{side.folder}/1"})
    before = side.described()
    with pytest.raises(AnalysisException):
        side.metastore.rename_table(side.spark, made, "taken")
    side.metastore.rename_table(side.spark, made, "new")
    after = side.described("new")
    assert before is not None and after is not None and side.described() is None
    assert (after.location, after.columns, after.properties["a"]) == (before.location, before.columns, "it's")
    assert side.folders(after) == {("1",): f"file:{side.folder}/1"}


def a_table_that_is_dropped_leaves_its_files(side: Side) -> None:
    made = side.create("t", "p")
    (side.folder / "t").mkdir(exist_ok=True)
    (side.folder / "t" / "file").touch()
    side.metastore.drop_table(side.spark, made.spark_name, if_exists=False, purge=False)
    assert side.described() is None and (side.folder / "t" / "file").exists()
    with pytest.raises(AnalysisException):
        side.metastore.drop_table(side.spark, made.spark_name, if_exists=False, purge=False)
    side.metastore.drop_table(side.spark, made.spark_name, if_exists=True, purge=False)
    with pytest.raises(AnalysisException):
        side.metastore.partitions(side.spark, made)
    side.create("t")  # with nothing of the former one
    found = side.described()
    assert found is not None and found.partition_columns == ()


def databases(side: Side) -> None:
    of, spark = side.metastore, side.spark
    assert side.database in of.database_names(spark)
    assert of.database_exists(spark, side.database) and not of.database_exists(spark, "nowhere")
    assert hadoop_path(of.database_folder(spark, side.database)).startswith("file:/")
    with pytest.raises(AnalysisException):
        of.database_folder(spark, "nowhere")


def a_database_is_dropped_with_its_tables(side: Side) -> None:
    name = f"d_{uuid4().hex[:8]}"
    if isinstance(side.metastore, MemoryMetastore):
        side.metastore.create_database(name)
    else:
        side.spark.sql(f"CREATE DATABASE {name}")
    other = replace(side, database=name)
    made = other.create("t", "p")
    other.change(made, added={("1",): f"file:{side.folder}/1"})
    side.metastore.drop_database(side.spark, name, if_exists=False)
    assert not side.metastore.database_exists(side.spark, name)
    side.metastore.drop_database(side.spark, name, if_exists=True)
    with pytest.raises(AnalysisException):
        side.metastore.drop_database(side.spark, name, if_exists=False)


def what_is_not_there_is_told_with_what_is(side: Side) -> None:
    side.create("t")
    side.create(f"{side.database}__t_i__")
    with pytest.raises(NotFound, match=rf"^no table 'u' in database {side.database}; known: t$"):
        metastore.describe(side.spark, f"{side.database}.u")
    with pytest.raises(NotFound, match=r"^no database 'nowhere'; known: .*"):
        metastore.describe(side.spark, "nowhere.t")


CASES: dict[str, Callable[[Side], None]] = {
    case.__name__: case
    for case in (
        a_table_is_described_as_it_was_created,
        a_name_that_is_taken_is_not_created_again,
        tables_are_found_by_their_names,
        tables_belong_to_the_user_of_the_session,
        properties_are_set_and_unset,
        a_table_is_moved_with_its_properties,
        partitions_are_added_and_moved_in_one_batch,
        what_is_vacated_is_where_it_was_moved_to_in_the_end,
        a_table_is_renamed_with_all_that_it_has,
        a_table_that_is_dropped_leaves_its_files,
        databases,
        a_database_is_dropped_with_its_tables,
        what_is_not_there_is_told_with_what_is,
    )
}


@pytest.mark.parametrize("case", CASES)
def test_in_memory(in_memory: MemoryMetastore, memory: SparkSession, tmp_path: Path, case: str) -> None:
    CASES[case](Side(in_memory, memory, "db", tmp_path))


@pytest.mark.parametrize("real", [JvmMetastore(), SqlMetastore()], ids=["jvm", "sql"])
@pytest.mark.parametrize("case", CASES)
def test_of_spark(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, real: Metastore
) -> None:
    monkeypatch.setattr(metastore, "METASTORES", (real,))
    CASES[case](Side(real, spark, database, tmp_path))


def test_every_metastore_is_here() -> None:
    assert [type(one) for one in metastore.METASTORES] == [JvmMetastore, SqlMetastore]
