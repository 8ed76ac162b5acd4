"""Test that the base files of a folder are those that Spark lists, also while others write and delete files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.listings.file_listing import base_files, why_option_unsupported
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import Unsupported


def files_in(folder: Path) -> list[FileStatus]:
    [listing] = stores.listings([f"file:{folder}"])
    return base_files(f"file:{folder}", listing)


def test_visible_files_that_lie_directly_in_the_folder(tmp_path: Path) -> None:
    for name in ("a.parquet", "b c.parquet", "100%.parquet", "_x=1", "no_extension"):
        (tmp_path / name).write_text(name)
    for name in ("_SUCCESS", ".hidden", "_metadata", "x._COPYING_", ".a.crc"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.parquet").write_text("deep")
    found = files_in(tmp_path)
    names = ["100%.parquet", "_x=1", "a.parquet", "b c.parquet", "no_extension"]
    assert [file.path for file in found] == [f"file:{tmp_path}/{name}" for name in names]
    assert [file.size for file in found] == [len(name) for name in names]
    assert files_in(tmp_path / "missing") == []
    (tmp_path / "p=1").mkdir()
    with pytest.raises(Unsupported, match="p=1"):
        files_in(tmp_path)


def test_a_file_that_vanishes_meanwhile_hides_no_other(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"kept{number}").write_text("x")
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(50):
                (tmp_path / f"gone{number}").write_text("x")
            for number in range(50):
                (tmp_path / f"gone{number}").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            kept = [file for file in files_in(tmp_path) if "/kept" in file.path]
            assert len(kept) == 50
    finally:
        stop.set()
        thread.join()


def is_refused(name: str, properties: dict[str, str], options: dict[str, str]) -> bool:
    odd = why_option_unsupported(
        Table(database="d", name="t", kind="EXTERNAL", provider="hive", properties=properties, options=options)
    )
    assert not odd or repr(name) in odd
    return bool(odd)


@pytest.mark.parametrize(
    "name",
    [
        *("orc.compress", "orc.stripe.row.count", "orc.compression.zstd.level", "orc.bloom.filter.columns"),
        *("parquet.compression", "parquet.compress", "parquet.block.size.row.check.min", "parquet.writer.version"),
    ],
)
def test_properties_for_writers_are_supported(name: str) -> None:
    assert not is_refused(name, {name: "x"}, {}) and not is_refused(name, {}, {name: "x"})


@pytest.mark.parametrize(
    "name", ["orc.force.positional.evolution", "orc.mask", "parquet.strings.signed-min-max.enabled"]
)
def test_properties_that_may_change_what_readers_see(name: str) -> None:
    """Spark takes table properties with these prefixes as options; it ignores other properties of a Hive table."""
    assert is_refused(name, {name: "x"}, {}) and is_refused(name, {}, {name: "x"})
    assert not is_refused("mergeSchema", {"mergeSchema": "true"}, {})
    assert is_refused("mergeSchema", {}, {"mergeSchema": "true"})
