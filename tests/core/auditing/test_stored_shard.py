"""A shard that is read whole: its rows as they were written, and every byte that is wrong is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.auditing.compare import Problems
from hive_bitmap.core.auditing.stored_shard import StoredShard, opened
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import CARDINALITY, cardinalities_path
from hive_bitmap.core.indexing.group_indexing import index_rows
from hive_bitmap.errors import CorruptIndex

KEYS = [3, None, 1, 1, 2, 1]
BITMAP: dict[str, Any] = {"encoding": "gap"}
COMPACT: dict[str, Any] = {"type": "COMPACT"}


def definition(**kind: Any) -> Definition:
    return Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), **kind)


def written(folder: Path, index: Definition) -> tuple[StoredShard, pa.Table]:
    """A shard of two blocks, as a build writes it, and its rows before that."""
    (folder / "_manifest").mkdir()
    keys = pa.table({"k": pa.array(KEYS, pa.int32())})
    blocks = [index_rows(index, keys.slice(first, 3), "file:/t/a", offset) for first, offset in [(0, 4), (3, 90)]]
    rows = shard.sort(pa.concat_tables(blocks), index.column_names)
    path = f"file:{folder}/part-1.parquet"
    stored = rows if index.has_bitmaps else shard.compact(rows, index)
    done = shard.write(path, stored, index)
    beside = cardinalities_path(path).rpartition("/")[2]
    found = StoredShard(
        definition=index,
        path=path,
        size=done.size,
        rows=stored.num_rows,
        cardinality_size=done.cardinality_size,
        sums=done.sums["part-1.parquet"],
        cardinality_sums=done.sums.get(beside),
    )
    return found, rows


def read(stored: StoredShard) -> tuple[pa.Table, Problems]:
    problems = Problems()
    with opened(stored, problems) as file:
        parts = [file.schema.empty_table()]
        for group, rows in file.row_groups():
            file.check_statistics(problems, group, rows)
            parts.append(rows)
    return pa.concat_tables(parts), problems


def file_of(path: str) -> Path:
    return Path(path.removeprefix("file:"))


@pytest.mark.parametrize("groups", [1, 100])
@pytest.mark.parametrize("kind", [BITMAP, {"encoding": "ewah"}, COMPACT], ids=str)
def test_rows_are_those_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], groups: int
) -> None:
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", groups)
    stored, rows = written(tmp_path, definition(**kind))
    found, problems = read(stored)
    assert problems.messages == []
    names = found.column_names
    assert found.to_pylist() == rows.select(names).to_pylist()
    assert (CARDINALITY.name in names) is (kind is not COMPACT)


def test_a_shard_without_checksums_is_read_as_well(tmp_path: Path) -> None:
    stored, rows = written(tmp_path, definition(**BITMAP))
    found, problems = read(replace(stored, sums=None, cardinality_sums=None))
    assert (found.to_pylist(), problems.count) == (rows.to_pylist(), 0)


@pytest.mark.parametrize("kind", [BITMAP, COMPACT], ids=str)
def test_any_flipped_bit_is_found(tmp_path: Path, kind: dict[str, Any]) -> None:
    stored, _ = written(tmp_path, definition(**kind))
    path = file_of(stored.path)
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        with pytest.raises(CorruptIndex, match=r"^shard file:.*part-1.parquet cannot be read: "):
            read(stored)
    path.write_bytes(content)
    assert read(stored)[1].count == 0


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "cannot be read: "),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of "),
        (lambda path: path.write_bytes(b"PAR2" + path.read_bytes()[4:]), "it does not begin as a Parquet file"),
    ],
)
def test_a_shard_that_cannot_be_read(tmp_path: Path, harm: Any, said: str) -> None:
    stored, _ = written(tmp_path, definition(**BITMAP))
    harm(file_of(stored.path))
    with pytest.raises(CorruptIndex, match=said):
        read(stored)


def test_a_shard_of_other_columns(tmp_path: Path) -> None:
    stored, _ = written(tmp_path, definition(**BITMAP))
    with pytest.raises(CorruptIndex, match=r"it has columns .*, not "):
        read(replace(stored, definition=definition(encoding="ewah")))


def test_another_number_of_rows_than_the_manifest_says(tmp_path: Path) -> None:
    stored, rows = written(tmp_path, definition(**BITMAP))
    _, problems = read(replace(stored, rows=9))
    assert problems.messages == [f"shard {stored.path} has {rows.num_rows} rows instead of 9"]


@pytest.mark.parametrize("harm", ["missing", "short", "other rows", "other column"])
def test_cardinalities_that_cannot_be_read_leave_the_rows(tmp_path: Path, harm: str) -> None:
    stored, rows = written(tmp_path, definition(**BITMAP))
    path = file_of(cardinalities_path(stored.path))
    content = path.read_bytes()
    match harm:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(content[:-1])
        case _:
            name = CARDINALITY.name if harm == "other rows" else "n"
            count = 1 if harm == "other rows" else rows.num_rows
            pq.write_table(pa.table({name: pa.array([1] * count, pa.int32())}), path)
            stored = replace(stored, cardinality_size=path.stat().st_size, cardinality_sums=None)
    found, problems = read(stored)
    [message] = problems.messages
    assert message.startswith(f"cardinalities {cardinalities_path(stored.path)} cannot be read: ")
    assert found.to_pylist() == rows.drop_columns([CARDINALITY.name]).to_pylist()


def test_any_flipped_bit_of_cardinalities_is_found(tmp_path: Path) -> None:
    stored, _ = written(tmp_path, definition(**BITMAP))
    path = file_of(cardinalities_path(stored.path))
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :])
        assert read(stored)[1].count == 1, at


@pytest.mark.parametrize("wrong", [[0, None], [9, None], [1, 2]])
def test_keys_outside_the_statistics_of_their_row_group(tmp_path: Path, wrong: list[int | None]) -> None:
    stored, rows = written(tmp_path, definition(**BITMAP))
    problems = Problems()
    with opened(stored, problems) as file:
        file.check_statistics(problems, 0, rows)
        assert problems.count == 0
        file.check_statistics(problems, 0, pa.table({"k": pa.array(wrong, pa.int32())}))
    assert problems.messages == [f"shard {stored.path} has keys of k outside the statistics of their row group"]
