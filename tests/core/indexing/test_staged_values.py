"""Files that only Spark reads, with the values that it has read of them: found again by their rows, or not believed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats import FORMATS, LAYOUTS, blocks
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.indexing.staged_values import LIST, STAGED, ReadOptions, StagedFormat
from hive_bitmap.errors import FileChanged, Undecodable

K, S = Column("k", "int"), Column("s", "char(3)")


def staged(folder: Path, lines: int, parts: Sequence[int], row_groups: int = 3) -> tuple[str, StagedFormat]:
    """A text file of so many lines, and what Spark read of it in parts of so many rows: their numbers, and texts."""
    number = len(list(folder.iterdir()))
    path, scratch = folder / f"{number}.txt", folder / f"{number}.scratch"
    path.write_text("".join(f"{line}\n" for line in range(lines)))
    scratch.mkdir()
    first, names = 0, []
    for count in parts:
        names.append(f"{len(names)}.parquet")
        rows = range(first, first + count)
        table = pa.table({"k": pa.array(rows, pa.int32()), "s": pa.array([f"{row % 7}" for row in rows])})
        pq.write_table(table, scratch / names[-1], row_group_size=row_groups)
        first += count
    known = {**vars(fingerprint.take(f"file:{path}")), "parts": names}
    pq.write_table(pa.Table.from_pylist([known], STAGED), scratch / LIST)
    found = ReadOptions("text", (K, S), "UTC", f"file:{scratch}").file_format()
    assert isinstance(found, StagedFormat)
    return f"file:{path}", found


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 20), st.integers(1, 5))
def test_the_rows_of_a_block_are_found_in_the_parts(
    tmp_path: Path, parts: list[int], block: int, row_groups: int
) -> None:
    total = sum(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block)
        path, format = staged(tmp_path, total, parts, row_groups)
        handle = format.open_file(path)
        found = format.blocks(handle)
        assert handle.rows == total == int(found.rows.sum())
        columns = ReadOptions("text", (K, S), "UTC").key_columns([K, S])
        read = [format.key_columns(handle, number, columns) for number in range(len(found.rows))]
    assert [len(rows) for rows in read] == found.rows.tolist()
    assert [key for rows in read for key in rows["k"].to_pylist()] == list(range(total))
    # as keys are: a CHAR is padded to its length
    assert [key for rows in read for key in rows["s"].to_pylist()] == [f"{row % 7}  " for row in range(total)]


def test_what_spark_reads_otherwise_than_the_layout_is_not_indexed(tmp_path: Path) -> None:
    path, format = staged(tmp_path, 5, [3, 1])
    with pytest.raises(Undecodable) as raised:
        format.open_file(path)
    assert str(raised.value) == "Spark reads 4 rows of its 5 records"


def test_a_file_that_is_not_as_spark_has_read_it_has_changed(tmp_path: Path) -> None:
    path, format = staged(tmp_path, 5, [5])
    new = tmp_path / "new.txt"
    new.write_text("1\n")
    for other in (f"file:{new}", path):
        if other == path:
            os.utime(path.removeprefix("file:"), (1, 1))
        with pytest.raises(FileChanged) as raised:
            format.open_file(other)
        assert str(raised.value) == "it was added or changed while Spark read the table"
    Path(path.removeprefix("file:")).unlink()
    with pytest.raises(FileNotFoundError):
        format.open_file(path)


def test_without_a_folder_nothing_was_read(tmp_path: Path) -> None:
    path, format = staged(tmp_path, 5, [5])
    with pytest.raises(FileChanged):
        replace(format, folder="").open_file(path)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_only_what_spark_alone_reads_is_staged(format: str) -> None:
    found = ReadOptions(format, (K,), "UTC", "file:/staged").file_format()
    assert isinstance(found, StagedFormat) is (format in LAYOUTS)
    assert found.folder == "file:/staged" if isinstance(found, StagedFormat) else found is FORMATS[format]


def test_a_fingerprint_is_kept_with_what_was_read() -> None:
    assert STAGED.names == [*Fingerprint.__dataclass_fields__, "parts"]
