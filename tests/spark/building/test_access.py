"""No file of an index is read by whom the base files keep out: modes, groups and access control lists (Linux)."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, markers
from hive_bitmap.core.stores.access import Access, strictest
from hive_bitmap.errors import BuildFailed
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACL = "system.posix_acl_access"
# Version 2 of Linux: user rw, user 1234 r, group r, mask r, others none; each entry is a tag, permissions, and an id.
NAMED = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))
)


@pytest.fixture
def table(spark: SparkSession, database: str) -> tuple[str, list[Path]]:
    """A table of two files in a folder that anybody may enter; its name and the files."""
    spark.sql("CREATE TABLE secret USING parquet AS SELECT id % 5 AS k FROM range(0, 1000, 1, 2)")
    folder = Path(stores.local_path(spark_location(spark, "secret")))
    folder.chmod(0o755)
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == 2
    return "secret", files


def spark_location(spark: SparkSession, table: str) -> str:
    return catalog.table_and_indexes(spark, table)[0].location


def index_files(spark: SparkSession, table: str) -> list[Path]:
    """The files of its only index that hold keys, or what is known of them; markers say who built it."""
    [index] = catalog.table_and_indexes(spark, table)[1]
    folder = Path(stores.local_path(index.table.location))
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", "."))]
    assert any(path.suffix == ".cardinalities" for path in found) and len(found) >= 6, found
    return found


def modes(paths: list[Path]) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.parametrize(
    ("of_base", "of_index"),
    [
        pytest.param((0o600, 0o600), 0o600, marks=pytest.mark.contract),
        pytest.param((0o644, 0o640), 0o640, marks=pytest.mark.contract),
        ((0o644, 0o664), 0o644),
        ((0o400, 0o444), 0o600),
    ],
)
def test_files_of_an_index_are_as_private_as_the_most_private_base_file(
    spark: SparkSession, table: tuple[str, list[Path]], of_base: tuple[int, int], of_index: int
) -> None:
    name, files = table
    for path, mode in zip(files, of_base, strict=True):
        path.chmod(mode)
    hive_bitmap.build(spark, name, ["k"])
    assert modes(index_files(spark, name)) == {of_index}
    assert hive_bitmap.count(spark, name, "k = 3") == 200


@pytest.mark.contract
def test_a_mode_that_is_taken_away_later_is_followed(spark: SparkSession, table: tuple[str, list[Path]]) -> None:
    name, files = table
    hive_bitmap.build(spark, name, ["k"])
    assert modes(index_files(spark, name)) == {0o644}
    for path in files:
        path.chmod(0o600)
    hive_bitmap.rebuild(spark, name)
    assert modes(index_files(spark, name)) == {0o600}


def test_kept_and_compacted_shards_stay_private(spark: SparkSession, table: tuple[str, list[Path]]) -> None:
    name, files = table
    for path in files:
        path.chmod(0o600)
    hive_bitmap.build(spark, name, ["k"])
    spark.sql(f"INSERT INTO {name} SELECT id % 5 FROM range(10)")
    hive_bitmap.rebuild(spark, name)
    by_mode = {path.name: stat.S_IMODE(path.stat().st_mode) for path in index_files(spark, name)}
    assert {mode for path, mode in by_mode.items() if "manifest" in path or path.startswith(("files", "sh"))} == {0o600}
    hive_bitmap.rebuild(spark, name, compact=True)
    assert modes(index_files(spark, name)) == {0o600}


def root_of(spark: SparkSession, table: str) -> Path:
    [index] = catalog.table_and_indexes(spark, table)[1]
    return Path(stores.local_path(index.definition.root))


@pytest.mark.contract
def test_in_place_of_a_sticky_base_folder_only_the_owner_writes(
    spark: SparkSession, table: tuple[str, list[Path]]
) -> None:
    """Who may add files there, but not change those of others, makes no `_manifest` and no shard either."""
    name, [first, _] = table
    first.parent.chmod(0o1777)
    hive_bitmap.build(spark, name, ["k"])
    folders = [path for path in root_of(spark, name).rglob("*") if path.is_dir()]
    assert len(folders) == 2 and all(mode & 0o7022 == 0 for mode in modes(folders)), modes(folders)
    assert hive_bitmap.count(spark, name, "k = 3") == 200


@pytest.mark.parametrize(
    ("name", "stored"), [pytest.param("_manifest", "PARQUET", marks=pytest.mark.contract), ("_staging", "TEXTFILE")]
)
@pytest.mark.parametrize("by", ["link", "folder"])
def test_a_folder_that_another_has_made_in_a_generation_fails_the_build(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, stored: str, by: str
) -> None:
    spark.sql(f"CREATE TABLE raced (k BIGINT) STORED AS {stored}")
    spark.sql("INSERT INTO raced SELECT id % 5 FROM range(100)")
    (tmp_path / "victim").mkdir()
    write_marker = markers.write

    def race(folder: str, marker: str, content: markers.Content) -> None:
        write_marker(folder, marker, content)
        if marker == generation.MARKER:
            planted = Path(stores.local_path(folder)) / name
            planted.symlink_to(tmp_path / "victim") if by == "link" else planted.mkdir()

    monkeypatch.setattr(markers, "write", race)
    with pytest.raises(BuildFailed, match=f"{name} was there before it was made, so somebody else may write into it"):
        hive_bitmap.build(spark, "raced", ["k"])
    assert os.listdir(tmp_path / "victim") == []
    monkeypatch.undo()
    assert hive_bitmap.show(spark, "raced") == []
    hive_bitmap.build(spark, "raced", ["k"])


@pytest.mark.parametrize(
    ("closed", "index"), [pytest.param(0o700, 0o700, marks=pytest.mark.contract), (0o750, 0o750), (0o711, 0o755)]
)
def test_who_may_not_enter_a_partitioned_table_may_not_enter_its_index(
    spark: SparkSession, database: str, closed: int, index: int
) -> None:
    spark.sql("CREATE TABLE parted USING parquet PARTITIONED BY (p) AS SELECT id % 5 AS k, id % 2 AS p FROM range(100)")
    folder = Path(stores.local_path(spark_location(spark, "parted")))
    for path in folder.iterdir():
        path.chmod(0o755)
    folder.chmod(closed)
    hive_bitmap.build(spark, "parted", ["k"])
    generations = list(root_of(spark, "parted").glob("p=*/generation-*"))
    assert len(generations) == 2 and modes(generations) == {index}


@pytest.mark.contract
def test_who_may_not_enter_a_database_may_not_enter_an_index_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    spark.sql(f"CREATE DATABASE private LOCATION '{tmp_path}/private'")
    try:
        spark.sql("CREATE TABLE private.t USING parquet AS SELECT id % 5 AS k FROM range(100)")
        (tmp_path / "private" / "t").chmod(0o755)
        (tmp_path / "private").chmod(0o700)
        hive_bitmap.build(spark, "private.t", ["k"], location=f"{tmp_path}/index")
        assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700}
        assert hive_bitmap.count(spark, "private.t", "k = 3") == 20
        (tmp_path / "private").chmod(0o755)  # a change of modes is no change of the table
        hive_bitmap.rebuild(spark, "private.t")
        assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700}
        hive_bitmap.rebuild(spark, "private.t", full=True)
        assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700, 0o755}
    finally:
        hive_bitmap.drop_table(spark, "private.t")
        spark.sql("DROP DATABASE private CASCADE")


if hasattr(os, "setxattr"):  # access control lists of Linux

    @pytest.mark.contract
    def test_access_control_lists_are_those_of_the_base_files(
        spark: SparkSession, table: tuple[str, list[Path]]
    ) -> None:
        """Those that a folder hands on to new files are not kept."""
        name, files = table
        for path in files:
            os.setxattr(path, ACL, NAMED)
        hive_bitmap.build(spark, name, ["k"])
        assert {os.getxattr(path, ACL) for path in index_files(spark, name)} == {NAMED}
        hive_bitmap.drop(spark, name, "k")
        os.removexattr(files[0], ACL)
        hive_bitmap.build(spark, name, ["k"])  # the list of one of two files is of use to nobody
        assert modes(index_files(spark, name)) == {0o600}
        assert all(ACL not in os.listxattr(path) for path in index_files(spark, name))


def test_a_group_that_cannot_be_given_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.touch()

    def refuse(*arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    stores.set_access(f"file:{path}", Access(0o664, os.getgid() + 1))
    assert modes([path]) == {0o604}


def test_a_private_file_is_private_before_a_byte_is_written(tmp_path: Path) -> None:
    """Who has an older file of that name open sees nothing of the new one."""
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o666)
    with (tmp_path / "f").open("rb") as older, stores.open_output(f"file:{tmp_path}/f", private=True) as sink:
        assert modes([tmp_path / "f"]) == {0o600}
        sink.write(b"new keys")
        sink.flush()
        assert older.read() == b"old"


def test_what_two_groups_may_read_no_group_reads() -> None:
    assert strictest([Access(0o640, 1), Access(0o640, 2)]) == Access(0o600, 1)
    assert strictest([Access(0o640, 1, ("a",)), Access(0o640, 1)]) == Access(0o600, 1)
    assert strictest([Access(0o644, 1, ("a",)), Access(0o640, 1, ("a",))]) == Access(0o640, 1, ("a",))
