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
from hive_bitmap.core.formats.parquet_rows import Wanted, read_rows

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
    selection: list[Wanted] = [
        (block, None if block in whole else np.array(sorted(rows), np.int64)) for block, rows in enumerate(chosen)
    ]
    parquet_rows._together.clear()
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
    parquet_rows._together.clear()
    batches = list(read_rows(path, COLUMNS[:2], [(0, rows)]))
    assert sum(batch.num_rows for batch in batches) == (BLOCK if rows is None else len(rows))
    assert max(batch.nbytes for batch in batches) <= 65 << 20
    assert all(batch.nbytes <= 40 << 20 for batch in batches[1:])
    again = list(read_rows(path, COLUMNS[:2], [(0, rows)]))
    assert len(again) >= len(batches)
