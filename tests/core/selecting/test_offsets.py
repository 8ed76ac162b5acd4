"""The result file of a compact index: paths that a reader would misread or miss are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA
from hive_bitmap.core.selecting.offsets import covering_offsets, result_file
from hive_bitmap.errors import Unsupported


@pytest.mark.parametrize(
    "path",
    [
        "file:/w/a b",
        "/w/a",
        "hdfs://nn:8020/w/p=50%25/a",
        "s3a://bucket/x",
        "file:/w/a:b",
        "file:/w/a.b/.c/..d",
        "/w/#",
    ],
)
def test_paths_as_hadoop_prints_them_are_written(path: str) -> None:
    assert result_file({path: [30, 4, 30]}) == f"{path}\x014\x0230\n".encode()


@pytest.mark.parametrize("odd", ["\n", "\r", "\x01", "\x02", ",", "{", "}", "[", "]", "*", "?", "\\"])
def test_what_a_reader_would_misread_is_refused(odd: str) -> None:
    with pytest.raises(Unsupported, match=r"would misread .* rename the file"):
        result_file({f"file:/w/a{odd}b": [4]})


@pytest.mark.parametrize(
    "path",
    ["file:///w/a", "file:/w//a", "file:/w/a/", "file:/w/./a", "file:/w/../a", "hdfs:/w/a", "hdfs:///w/a", "w/a", ""],
)
def test_a_path_that_a_reader_would_miss_is_refused(path: str) -> None:
    with pytest.raises(Unsupported, match="prints that path differently"):
        result_file({path: [4]})


def test_a_path_beyond_ascii_is_for_readers_that_are_known_to_take_utf8() -> None:
    with pytest.raises(Unsupported, match=r"defaultCharset.*--utf8"):
        result_file({"file:/w/ü": [4]})
    assert result_file({"file:/w/ü": [4]}, utf8=True) == b"file:/w/\xc3\xbc\x014\n"


def test_a_file_without_offsets_has_no_line() -> None:
    assert result_file({"file:/w/a": [], "file:/w/b": [0]}) == b"file:/w/b\x010\n"


def tables(path: str, lengths: list[int], selected: list[int]) -> tuple[pa.Table, pa.Table]:
    """The tables of files and blocks of a plan, for one file with blocks of these lengths."""
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    rows = [
        {"file": 0, "offset": start, "length": length, "rows": 9, "selected": count}
        for start, length, count in zip(starts, lengths, selected, strict=True)
    ]
    return pa.table({"path": [path]}), pa.Table.from_pylist(rows, BLOCKS_SCHEMA)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 40),
    st.integers(0, 50),
)
def test_each_split_that_may_own_a_byte_of_a_block_is_kept(
    blocks: list[tuple[int, bool]], smallest: int, more: int
) -> None:
    """Splits are cut as Hadoop does: all of one size but the last, which is shorter, or up to a tenth longer."""
    lengths, chosen = [length for length, _ in blocks], [selected for _, selected in blocks]
    files, listed = tables("file:/w/t", lengths, [int(selected) for selected in chosen])
    offsets = covering_offsets(files, listed, "text", smallest).get("file:/w/t", [])
    size, step, start = sum(lengths), smallest + more, 0
    while start < size:
        end = start + step if (size - start) / step > 1.1 else size
        first = 0
        for length, selected in blocks:
            owned = any(start <= byte <= end for byte in range(first, first + length))
            if selected and owned:
                assert any(start <= offset <= end for offset in offsets)
            first += length
        start = end


def test_offsets_within_blocks_need_the_size_of_splits() -> None:
    files, blocks = tables("file:/w/a.gz", [100, 50], [0, 3])
    with pytest.raises(Unsupported, match=r"pass min_split=N \(--min-split N\) if the reader has mapreduce.input.fi"):
        covering_offsets(files, blocks, "avro", None)
    assert covering_offsets(files, blocks, "avro", 20) == {"file:/w/a.gz": [100, 120, 140, 150]}
    assert covering_offsets(*tables("file:/w/a.gz", [100], [3]), "text", None) == {"file:/w/a.gz": [0]}
