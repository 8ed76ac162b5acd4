"""The text of a result file: what a reader would misread or miss is not written."""

from __future__ import annotations

import pytest

from hive_bitmap.errors import Unsupported
from hive_bitmap.query.offsets import result_file


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
    with pytest.raises(Unsupported, match="prints that path in another form"):
        result_file({path: [4]})


def test_a_path_beyond_ascii_is_for_readers_that_are_known_to_take_utf8() -> None:
    with pytest.raises(Unsupported, match=r"defaultCharset.*--utf8"):
        result_file({"file:/w/ü": [4]})
    assert result_file({"file:/w/ü": [4]}, utf8=True) == b"file:/w/\xc3\xbc\x014\n"


def test_a_file_without_offsets_has_no_line() -> None:
    assert result_file({"file:/w/a": [], "file:/w/b": [0]}) == b"file:/w/b\x010\n"
