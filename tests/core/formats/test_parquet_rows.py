"""Rows of Parquet files in portions: all of them, in order, and never many large values at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import parquet_rows
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_rows import FEW_ROWS, BlockRows, read_rows, read_together

COLUMNS = [KeyColumn("number", "bigint"), KeyColumn("text", "string"), KeyColumn("missing", "int")]
BLOCK, BLOCKS = 500, 3


def file_of(folder: Path, texts: list[str | None], dictionary: bool = True) -> str:
    rows = pa.table({"number": range(len(texts)), "text": pa.array(texts, pa.string())})
    path = folder / "rows.parquet"
    pq.write_table(rows, path, row_group_size=BLOCK, use_dictionary=dictionary)
    return f"file:{path}"


@given(
    st.lists(st.sets(st.integers(0, BLOCK - 1)), min_size=BLOCKS, max_size=BLOCKS),
    st.sets(st.integers(0, BLOCKS - 1)),
    st.sampled_from([1, 3, 64]),
    st.sampled_from([1, 2, 16]),
    st.sampled_from([1 << 10, 1 << 20]),
)
@settings(max_examples=60)
def test_the_selected_rows_come_once_in_order(
    tmp_path: Path, chosen: list[set[int]], whole: set[int], first: int, growth: int, most: int
) -> None:
    texts = [None if number % 7 == 0 else f"v{number % 5}" * (number % 11) for number in range(BLOCK * BLOCKS)]
    path = file_of(tmp_path, texts)
    selection: list[BlockRows] = [
        (block, None if block in whole else np.array(sorted(rows), np.int64)) for block, rows in enumerate(chosen)
    ]
    parquet_rows._batch_sizes.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_rows, "_FIRST_ROWS", first)
        patch.setattr(parquet_rows, "_GROWTH", growth)
        patch.setattr(parquet_rows, "_BATCH_BYTES", most)
        found = [[row for batch in read_rows(path, COLUMNS, selection) for row in batch.to_pylist()] for _ in range(2)]
    wanted = [
        {"number": number, "text": texts[number], "missing": None}
        for block, rows in enumerate(chosen)
        for number in (block * BLOCK + row for row in (range(BLOCK) if block in whole else sorted(rows)))
    ]
    assert found == [wanted, wanted]


@pytest.mark.parametrize("rows", [np.arange(0, BLOCK, 25), np.arange(0, BLOCK, 2), None])
def test_large_values_come_in_small_batches(tmp_path: Path, rows: np.ndarray | None) -> None:
    """Texts of a megabyte of which a dictionary has five."""
    path = file_of(tmp_path, [str(number % 5) * (1 << 20) for number in range(BLOCK)])
    parquet_rows._batch_sizes.clear()
    batches = list(read_rows(path, COLUMNS[:2], [(0, rows)]))
    assert sum(batch.num_rows for batch in batches) == (BLOCK if rows is None else len(rows))
    assert max(batch.nbytes for batch in batches) <= 65 << 20
    assert all(batch.nbytes <= 40 << 20 for batch in batches[1:])
    again = list(read_rows(path, COLUMNS[:2], [(0, rows)]))
    assert len(again) >= len(batches)


@given(st.lists(st.sets(st.integers(0, BLOCK * BLOCKS - 1), max_size=30), min_size=1, max_size=5))
@settings(max_examples=40)
def test_few_rows_of_several_files_are_those_of_each(tmp_path: Path, chosen: list[set[int]]) -> None:
    files: list[tuple[str, list[BlockRows]]] = []
    for number, rows in enumerate(chosen):
        (tmp_path / str(number)).mkdir(exist_ok=True)
        path = file_of(tmp_path / str(number), [f"{number} {row % 13}" for row in range(BLOCK * BLOCKS)])
        blocks = [sorted(row % BLOCK for row in rows if row // BLOCK == block) for block in range(BLOCKS)]
        files.append((path, [(block, np.array(some, np.int64)) for block, some in enumerate(blocks)]))
    found = read_together(files, COLUMNS)
    if sum(map(len, chosen)) > FEW_ROWS:
        assert found is None
        return
    assert found is not None
    alone = [batch for path, selection in files for batch in read_rows(path, COLUMNS, selection)]
    assert found.to_pylist() == [row for batch in alone for row in batch.to_pylist()]
    assert found.schema == next(read_rows(files[0][0], COLUMNS, [(0, np.array([0]))])).schema


@pytest.mark.parametrize(
    ("other", "row"),
    [
        (pa.table({"number": pa.array(range(BLOCK), pa.int32()), "text": ["x"] * BLOCK}), 3),  # another type
        (pa.table({"Number": range(BLOCK), "text": ["x"] * BLOCK}), 3),  # a column of another name
        (pa.table({"number": range(BLOCK)}), 3),  # a column that is missing
        (pa.table({"number": range(4), "text": ["x"] * 4}), 3),  # a row of few
        (pa.table({"number": range(BLOCK), "text": ["x"] * BLOCK}), None),  # a whole block
    ],
)
def test_files_that_differ_are_read_one_by_one(tmp_path: Path, other: pa.Table, row: int | None) -> None:
    path = file_of(tmp_path, ["x"] * BLOCK)
    pq.write_table(other, tmp_path / "other.parquet")
    rows = None if row is None else np.array([row])
    one: list[BlockRows] = [(0, np.array([3]))]
    assert read_together([(path, one), (f"file:{tmp_path}/other.parquet", [(0, rows)])], COLUMNS) is None


def test_what_one_query_cannot_read_is_read_one_by_one(tmp_path: Path) -> None:
    """Texts that are not UTF-8, which DuckDB refuses; and rows so large that few of them fit."""
    path, other = file_of(tmp_path, ["x"] * BLOCK), tmp_path / "bytes.parquet"
    texts = pa.array([b"\xff"] * BLOCK, pa.binary()).view(pa.string())
    pq.write_table(pa.table({"number": range(BLOCK), "text": texts}), other)
    three: list[BlockRows] = [(0, np.array([3]))]
    assert read_together([(path, three), (f"file:{other}", three)], COLUMNS) is None
    large = tmp_path / "large.parquet"
    pq.write_table(pa.table({"number": range(BLOCK), "text": ["x" * (1 << 20)] * BLOCK}), large)
    parquet_rows._batch_sizes.clear()
    [_] = read_rows(f"file:{large}", COLUMNS, [(0, np.arange(60))])  # which tells how large rows are
    many: list[BlockRows] = [(0, np.arange(50))]
    assert read_together([(f"file:{large}", many), (path, three)], COLUMNS) is None
