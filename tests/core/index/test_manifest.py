"""Manifests: written and read back, as Parquet and as lines; the state of base files according to one."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import BY_NAME
from hive_bitmap.core.index.manifest import FILES, FILES_NAME, LINES_NAME, SHARDS, SHARDS_NAME, Manifest, valid_rows
from hive_bitmap.errors import CorruptIndex, DroppedIndex

KNOWN = {"size": 9, "mtime_ms": 5, "etag": "e", "tail_crc32": 0, "schema_crc": 7}
MANIFEST = Manifest(
    "file:/i/generation",
    pa.Table.from_pylist(
        [{"path": "/a", "shard": "s", **KNOWN}, {"path": "/b", "shard": None, "reason": "encrypted", **KNOWN}], FILES
    ),
    SHARDS.empty_table(),
)


def test_files_of_other_schemas_are_unindexed() -> None:
    assert MANIFEST.valid_under(None) is MANIFEST.valid_under([7, 8]) is MANIFEST
    others = MANIFEST.valid_under([8])
    assert others.files["shard"].to_pylist() == [None, None] and others.files.schema == FILES
    assert "changed since" in others.files["reason"][0].as_py()


@pytest.mark.parametrize("by_name", [True, False, None])
def test_files_found_by_name_are_valid_where_names_are_enough(by_name: bool | None) -> None:
    rows = [{"path": "/a", "shard": "s", "by_name": by_name, **KNOWN}, {"path": "/b", "by_name": by_name, **KNOWN}]
    files = pa.Table.from_pylist(rows, FILES)
    assert valid_rows(files, [8, BY_NAME]).tolist() == [by_name is True] * 2
    assert not valid_rows(files, [8]).any() and valid_rows(files, [7]).all()
    found = replace(MANIFEST, files=files)
    assert found.valid_under([8, BY_NAME]).files["shard"][0].as_py() == ("s" if by_name else None)


def write(folder: Path, files: Sequence[dict[str, Any]] = (), shards: Sequence[dict[str, Any]] = ()) -> Manifest:
    """Write a manifest, the files in two tables, as two tasks report them; return what was written."""
    (folder / FOLDER).mkdir(parents=True)
    rows = [pa.Table.from_pylist(list(part), FILES) for part in (files[::2], files[1::2])]
    held = pa.Table.from_pylist(list(shards), SHARDS)
    for shard in shards:
        (folder / shard["shard"]).touch()
    manifest.write(f"file:{folder}", rows, held, {"part-1.parquet": [1, 2]})
    return Manifest(f"file:{folder}", pa.concat_tables(rows).sort_by("path"), held)


LONGS = st.lists(st.integers(0, 2**62), max_size=3)
PATHS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=5), max_size=5, unique=True)
OF_A_FILE = st.fixed_dictionaries(
    {
        "size": st.integers(0, 2**62),
        "mtime_ms": st.integers(-(2**40), 2**40),
        "etag": st.text(max_size=4),
        "tail_crc32": st.integers(0, 2**32 - 1),
        "shard": st.sampled_from([None, "part-1.parquet", "part-2.parquet"]),
        "reason": st.text(max_size=4),
        "schema_crc": st.integers(0, 2**32 - 1),
        "indirect": st.lists(st.text(max_size=3), max_size=2),
        "offsets": LONGS,
        "lengths": LONGS,
        "rows": LONGS,
        "starts": st.one_of(st.none(), LONGS),
    }
)
HELD = [
    {"shard": f"part-{number}.parquet", "size": 100 * number, "rows": number, "cardinality_size": 7 * number}
    for number in (1, 2)
]


class TestStored:
    @given(PATHS, st.data())
    @settings(max_examples=40)
    def test_what_is_written_is_read_back_sorted_by_path_also_from_its_lines(
        self, tmp_path: Path, paths: list[str], data: st.DataObject
    ) -> None:
        folder = tmp_path / uuid4().hex
        written = write(folder, [{"path": path, **data.draw(OF_A_FILE)} for path in paths], HELD)
        found = manifest.read(f"file:{folder}")
        assert found == written and found.files.schema == FILES and found.shards.schema == SHARDS
        with gzip.open(folder / FOLDER / LINES_NAME, "rt", encoding="utf-8") as lines:
            assert manifest.from_lines(f"file:{folder}", lines) == written

    def test_bounds_are_not_among_its_lines(self, tmp_path: Path) -> None:
        bounds = {"bounded": ["at timestamp"], "bounds": [0, 5, 7]}
        write(tmp_path / "g", [{"path": "/a", **KNOWN, **bounds}])
        found = manifest.read(f"file:{tmp_path / 'g'}")
        assert found.files.select([*bounds]).to_pylist() == [bounds]
        with gzip.open(tmp_path / "g" / FOLDER / LINES_NAME, "rt", encoding="utf-8") as lines:
            [row] = manifest.from_lines("", lines).files.to_pylist()
        assert row == {**found.files.to_pylist()[0], "bounded": None, "bounds": None}

    def test_shards_are_known_by_name(self, tmp_path: Path) -> None:
        found = write(tmp_path / "g", shards=HELD)
        assert found.sizes == {"part-1.parquet": 100, "part-2.parquet": 200}
        assert found.shard_path("part-1.parquet") == f"file:{tmp_path}/g/part-1.parquet"

    def test_it_is_read_once(self, tmp_path: Path) -> None:
        written = write(tmp_path / "g", shards=HELD)
        first = manifest.read(written.folder)
        for file in (tmp_path / "g" / FOLDER).iterdir():
            file.unlink()
        assert manifest.read(written.folder) is first
        manifest.read.forget(written.folder)
        with pytest.raises(CorruptIndex):
            manifest.read(written.folder)

    def test_whoever_may_not_read_a_shard_may_not_read_it(self, tmp_path: Path) -> None:
        folder = tmp_path / "g"
        folder.mkdir()
        for shard, mode in zip(HELD, (0o644, 0o640), strict=True):
            (folder / shard["shard"]).touch()
            (folder / shard["shard"]).chmod(mode)
        (folder / FOLDER).mkdir()
        manifest.write(f"file:{folder}", [], pa.Table.from_pylist(HELD, SHARDS), {})
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (folder / FOLDER).iterdir()}
        assert modes == dict.fromkeys([FILES_NAME, LINES_NAME, SHARDS_NAME, checksums.NAME], 0o640)

    @pytest.mark.parametrize("name", [FILES_NAME, LINES_NAME, checksums.NAME])
    def test_one_that_could_not_be_written_whole_is_not_complete(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "g"
        (folder / FOLDER / name).mkdir(parents=True)
        with pytest.raises(OSError, match="directory"):
            manifest.write(f"file:{folder}", [], SHARDS.empty_table(), {})
        assert SHARDS_NAME not in os.listdir(folder / FOLDER)


class TestUnreadable:
    """What `tests/core/index/test_damage` does by flipping bits is told in words here."""

    def refused(self, folder: str) -> CorruptIndex:
        for function in (manifest.read, checksums.of_generation):
            function.forget(folder)
        with pytest.raises(CorruptIndex) as error:
            manifest.read(folder)
        return error.value

    def test_one_that_is_gone_is_that_of_a_dropped_index(self, tmp_path: Path) -> None:
        folder = f"file:{tmp_path}/none"
        error = self.refused(folder)
        assert isinstance(error, DroppedIndex)
        assert str(error) == f"generation {folder} or its manifest no longer exists"

    @pytest.mark.parametrize("name", [FILES_NAME, SHARDS_NAME])
    def test_one_that_lacks_a_file_is_damaged(self, tmp_path: Path, name: str) -> None:
        written = write(tmp_path / "g")
        (tmp_path / "g" / FOLDER / name).unlink()
        error = self.refused(written.folder)
        assert type(error) is CorruptIndex
        assert str(error).startswith(f"the manifest of {written.folder} cannot be read: ") and name in str(error)

    @pytest.mark.parametrize("name", [FILES_NAME, SHARDS_NAME])
    def test_one_that_is_truncated_has_the_wrong_checksum(self, tmp_path: Path, name: str) -> None:
        written = write(tmp_path / "g", shards=HELD)
        file = tmp_path / "g" / FOLDER / name
        file.write_bytes(file.read_bytes()[:-1])
        said = f"manifest {written.folder}/{FOLDER}/{name} cannot be read: its checksum is wrong"
        assert str(self.refused(written.folder)) == said
        (tmp_path / "g" / FOLDER / checksums.NAME).unlink()  # then Parquet finds it
        assert str(self.refused(written.folder)).startswith(said.removesuffix("its checksum is wrong"))

    def test_one_without_a_column_is_damaged_but_for_that_of_the_first_bytes(self, tmp_path: Path) -> None:
        written = write(tmp_path / "g", [{"path": "/a", "starts": [4], "shard": "part-1.parquet", **KNOWN}])
        file = tmp_path / "g" / FOLDER / FILES_NAME
        (tmp_path / "g" / FOLDER / checksums.NAME).unlink()
        pq.write_table(written.files.drop_columns(["starts"]), file)  # as older builds wrote it
        manifest.read.forget(written.folder)
        checksums.of_generation.forget(written.folder)
        found = manifest.read(written.folder)
        assert found.files["starts"].to_pylist() == [None] and found.files.schema == FILES
        pq.write_table(written.files.drop_columns(["shard"]), file)
        assert f"{FILES_NAME} cannot be read: " in str(self.refused(written.folder))

    @pytest.mark.parametrize(
        "line",
        ["", "{", "[]", "1", '{"other": {}}', '{"file": 1}', '{"file": {"size": "x"}}', '{"shard": {"size": []}}'],
    )
    def test_lines_that_are_none_of_a_manifest(self, line: str) -> None:
        good = json.dumps({"file": {"path": "/a"}})
        with pytest.raises(CorruptIndex, match="the manifest of file:/g cannot be read: "):
            manifest.from_lines("file:/g", [good, line])
        assert manifest.from_lines("file:/g", [good]).files["path"].to_pylist() == ["/a"]


@given(
    st.lists(st.tuples(st.sampled_from(["s", None]), st.integers(1, 3)), min_size=1, max_size=4),
    st.one_of(st.none(), st.frozensets(st.integers(1, 3))),
)
def test_what_is_valid_under_schemas_is_what_was_indexed_under_them(
    files: list[tuple[str | None, int]], schemas: frozenset[int] | None
) -> None:
    rows = [{**KNOWN, "path": f"/{n}", "shard": shard, "schema_crc": crc} for n, (shard, crc) in enumerate(files)]
    found = replace(MANIFEST, files=pa.Table.from_pylist(rows, FILES))
    valid = found.valid_under(schemas)
    for number, (shard, crc) in enumerate(files):
        known = schemas is None or crc in schemas
        assert valid.files["shard"][number].as_py() == (shard if known else None)
        assert valid.files["reason"][number].as_py() == (
            None if known else "the table's columns, or how they are read, changed since it was indexed"
        )
