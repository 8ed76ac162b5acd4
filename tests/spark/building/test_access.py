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
from hive_bitmap.spark.registry import catalog, locations
from tests.spark.maintaining.life import external_table, flat_table, parted_table, require_verified, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACL = "system.posix_acl_access"
# Version 2 of Linux: user rw, user 1234 r, group r, mask r, others none; each entry is a tag, permissions, and an id.
NAMED = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))
)


@pytest.fixture
def table(memory: SparkSession, tmp_path: Path) -> tuple[str, list[Path]]:
    """A table of two files in a folder that anybody may enter; its name and the files."""
    folder = tmp_path / "secret"
    write(folder)
    folder.chmod(0o755)
    files = sorted(folder.glob("*.parquet"))
    for path in files:
        path.chmod(0o644)
    return external_table(memory, "secret", folder).name, files


def index_files(memory: SparkSession, table: str) -> list[Path]:
    """The files of its only index that hold keys, or what is known of them; markers say who built it."""
    [index] = catalog.table_and_indexes(memory, table)[1]
    folders = [Path(stores.local_path(folder)) for folder in catalog.segments(memory, index)]
    every = (path for folder in folders for path in folder.rglob("*"))
    found = [path for path in every if path.is_file() and not path.name.startswith(("_", "."))]
    assert any(path.suffix == ".cardinalities" for path in found) and len(found) >= 6, found
    return found


def modes(paths: list[Path]) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.parametrize(
    ("of_base", "of_index"),
    [
        ((0o600, 0o600), [{0o600}]),
        ((0o644, 0o640), [{0o640}, {0o644}]),
        ((0o644, 0o664), [{0o644}]),  # they let in the same readers
        ((0o400, 0o444), [{0o600}, {0o644}]),
    ],
)
def test_files_of_an_index_are_as_private_as_their_base_files(
    memory: SparkSession, table: tuple[str, list[Path]], of_base: tuple[int, int], of_index: list[set[int]]
) -> None:
    """Base files that let in other readers are in other segments, also after all segments were merged."""
    name, files = table
    for path, mode in zip(files, of_base, strict=True):
        path.chmod(mode)
    hive_bitmap.build(memory, name, ["k"])
    for _ in range(2):
        [index] = catalog.table_and_indexes(memory, name)[1]
        by_segment = [
            modes([path for path in index_files(memory, name) if str(path).startswith(stores.local_path(folder))])
            for folder in catalog.segments(memory, index)
        ]
        assert sorted(by_segment, key=sorted) == of_index
        require_verified(memory, name)
        hive_bitmap.rebuild(memory, name, compact=True)


def test_a_mode_that_is_taken_away_later_is_followed(memory: SparkSession, table: tuple[str, list[Path]]) -> None:
    name, files = table
    hive_bitmap.build(memory, name, ["k"])
    assert modes(index_files(memory, name)) == {0o644}
    for path in files:
        path.chmod(0o600)
    hive_bitmap.rebuild(memory, name)
    assert modes(index_files(memory, name)) == {0o600}


def test_kept_and_compacted_shards_stay_private(memory: SparkSession, table: tuple[str, list[Path]]) -> None:
    name, files = table
    for path in files:
        path.chmod(0o600)
    hive_bitmap.build(memory, name, ["k"])
    write(files[0].parent, 1, 2)
    (files[0].parent / "2.parquet").chmod(0o600)
    hive_bitmap.rebuild(memory, name)
    by_mode = {path.name: stat.S_IMODE(path.stat().st_mode) for path in index_files(memory, name)}
    assert {mode for path, mode in by_mode.items() if "manifest" in path or path.startswith(("files", "sh"))} == {0o600}
    hive_bitmap.rebuild(memory, name, compact=True)
    assert modes(index_files(memory, name)) == {0o600}


def root_of(memory: SparkSession, table: str) -> Path:
    [index] = catalog.table_and_indexes(memory, table)[1]
    return Path(stores.local_path(index.definition.root))


def test_in_place_of_a_sticky_base_folder_only_the_owner_writes(
    memory: SparkSession, table: tuple[str, list[Path]]
) -> None:
    """Who may add files there, but not change those of others, makes no `_manifest` and no shard either."""
    name, [first, _] = table
    first.parent.chmod(0o1777)
    hive_bitmap.build(memory, name, ["k"])
    folders = [path for path in root_of(memory, name).rglob("*") if path.is_dir()]
    assert len(folders) == 3 and all(mode & 0o7022 == 0 for mode in modes(folders)), modes(folders)
    require_verified(memory, name)


def require_race_fails(
    spark: SparkSession, table: str, name: str, by: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make a folder, or a link, of this name in each generation that begins: the build of an index fails."""
    victim = folder / "victim"
    victim.mkdir()
    write_marker = markers.write

    def race(folder: str, marker: str, content: markers.Content) -> None:
        write_marker(folder, marker, content)
        if marker == generation.MARKER:
            planted = Path(stores.local_path(folder)) / name
            planted.symlink_to(victim) if by == "link" else planted.mkdir()

    with monkeypatch.context() as raced:
        raced.setattr(markers, "write", race)
        said = f"{name} already existed, so somebody else may write into it"
        with pytest.raises(BuildFailed, match=said):
            hive_bitmap.build(spark, table, ["k"])
    assert os.listdir(victim) == []
    assert hive_bitmap.show(spark, table) == []
    hive_bitmap.build(spark, table, ["k"])


@pytest.mark.parametrize("by", ["link", "folder"])
def test_a_folder_that_another_has_made_in_a_generation_fails_the_build(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    require_race_fails(memory, flat_table(memory, tmp_path / "t"), "_manifest", by, tmp_path, monkeypatch)


def test_a_place_for_what_spark_reads_that_another_has_made_fails_the_build(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE TABLE raced (k BIGINT) STORED AS TEXTFILE")
    spark.sql("INSERT INTO raced SELECT id % 5 FROM range(100)")
    require_race_fails(spark, "raced", "_staging", "link", tmp_path, monkeypatch)


@pytest.mark.parametrize(("closed", "index"), [(0o700, 0o700), (0o750, 0o750), (0o711, 0o755)])
def test_who_may_not_enter_a_partitioned_table_may_not_enter_its_index(
    memory: SparkSession, tmp_path: Path, closed: int, index: int
) -> None:
    parted, folder = parted_table(memory, tmp_path / "t", 2), tmp_path / "t"
    for path in folder.iterdir():
        path.chmod(0o755)
    folder.chmod(closed)
    hive_bitmap.build(memory, parted, ["k"])
    generations = list(root_of(memory, parted).glob("generation-*"))
    assert len(generations) == 1 and modes(generations) == {index}


def test_who_may_not_enter_a_database_may_not_enter_an_index_elsewhere(memory: SparkSession, tmp_path: Path) -> None:
    private = Path(stores.local_path(locations.default_folder(memory, "db")))
    write(private / "t")
    external_table(memory, "t", private / "t")
    (private / "t").chmod(0o755)
    private.chmod(0o700)
    hive_bitmap.build(memory, "t", ["k"], location=f"{tmp_path}/index")
    assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700}
    require_verified(memory, "t")
    private.chmod(0o755)  # a change of modes is no change of the table
    hive_bitmap.rebuild(memory, "t")
    assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700}
    hive_bitmap.rebuild(memory, "t", full=True)
    assert modes(list((tmp_path / "index").glob("generation-*"))) == {0o700, 0o755}


if hasattr(os, "setxattr"):  # access control lists of Linux

    def test_access_control_lists_are_those_of_the_base_files(
        memory: SparkSession, table: tuple[str, list[Path]]
    ) -> None:
        """Those that a folder hands on to new files are not kept."""
        name, files = table
        for path in files:
            os.setxattr(path, ACL, NAMED)
        hive_bitmap.build(memory, name, ["k"])
        assert {os.getxattr(path, ACL) for path in index_files(memory, name)} == {NAMED}
        hive_bitmap.drop(memory, name, "k")
        os.removexattr(files[0], ACL)
        hive_bitmap.build(memory, name, ["k"])  # the two files are in segments of their own
        with_list = {path.parent for path in index_files(memory, name) if ACL in os.listxattr(path)}
        without = {path.parent for path in index_files(memory, name) if ACL not in os.listxattr(path)}
        assert with_list and without and not with_list & without


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
