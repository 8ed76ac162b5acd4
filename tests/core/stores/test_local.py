"""The local file system: what a listing makes of links."""

from __future__ import annotations

from pathlib import Path

from hive_bitmap.core import stores


def test_links_are_listed_as_others_and_those_that_lead_nowhere_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, target in {"to_file": "file", "to_folder": "folder", "dangling": "nothing", "loop": "loop"}.items():
        (tmp_path / name).symlink_to(target)
    listed = stores.listing(f"file:{tmp_path}")
    assert [Path(file.path).name for file in listed.files] == ["file", "to_file"]
    assert listed.folders == ["folder", "to_folder"]
    assert listed.others == {"to_file", "to_folder", "dangling", "loop"}
