"""The listing of a scan, from its text, and as the folders are now."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.listings.scan_listing import ScanListing, as_now, deleted_rows, parse
from hive_bitmap.core.selecting.lookup_units import Place
from hive_bitmap.core.stores import IMMUTABLE, WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import Lake, Table

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FILES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**41), TEXT.map("file:/w/".__add__)), max_size=3)
LISTINGS = st.lists(st.tuples(st.lists(st.none() | TEXT, max_size=2), FILES), max_size=3)


def escaped(text: str) -> str:
    for plain, code in [("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")]:
        text = text.replace(plain, code)
    return text


@given(LISTINGS)
def test_any_values_and_paths_are_read(listed: list[tuple[list[str | None], list[tuple[int, int, str]]]]) -> None:
    lines = []
    for values, files in listed:
        lines.append("\t".join(["P", *("" if value is None else f"={escaped(value)}" for value in values)]))
        lines += ["\t".join(["F", str(size), str(time), escaped(path)]) for size, time, path in files]
    found = parse("\n".join(lines))
    assert found.partitions == tuple(
        (tuple(values), tuple(FileStatus(path, size, time, "") for size, time, path in files))
        for values, files in listed
    )


def test_a_file_has_a_number_in_each_of_its_partitions() -> None:
    shared = FileStatus("file:/w/shared", 10, 0, "")
    own, empty = FileStatus("file:/w/own", 20, 0, ""), FileStatus("file:/w/empty", 0, 0, "")
    listing = ScanListing(((("1",), (shared, empty)), (("2",), (own, shared))))
    assert listing.numbers == {
        Place(0, shared.path): 0,
        Place(0, empty.path): 1,
        Place(1, own.path): 2,
        Place(1, shared.path): 3,
    }
    assert [len(files) for _, files in listing.without_empty] == [1, 2]


def test_files_are_listed_again_as_they_are_now(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    old = ScanListing(((("x",), tuple(FileStatus(f"file:{tmp_path}/{name}", 9, 0, "") for name in "ab")),))
    (tmp_path / "new").write_text("not in the listing")
    now = as_now(old)
    assert now is not None
    [(values, files)] = now.partitions
    assert values == ("x",) and [(Path(file.path).name, file.size) for file in files] == [("a", 1), ("b", 1)]
    assert all(file.mtime_ms > 0 for file in files)
    (tmp_path / "b").unlink()
    assert as_now(old) is None


def test_a_folder_that_is_gone_is_no_listing(tmp_path: Path) -> None:
    assert as_now(ScanListing((((), (FileStatus(f"file:{tmp_path}/gone/a", 9, 0, ""),)),))) is None


def test_files_of_a_log_are_as_they_were_and_what_is_deleted_of_them_is_told_or_not() -> None:
    found = parse("P\nF\t10\t99\tfile:/w/a\tlog\nF\t20\t98\tfile:/w/b\tdeletes\t\nF\t30\t97\tfile:/w/c\tdeletes\t1\\t2")
    first, second = FileStatus("file:/w/a", 10, 99, IMMUTABLE), FileStatus("file:/w/b", 20, 98, IMMUTABLE)
    third = FileStatus("file:/w/c", 30, 97, IMMUTABLE)
    assert found.without_empty == (((), (first, second, third)),)
    countable = (first, replace(second, etag=WITH_DELETES), replace(third, deletes="1\t2"))
    assert found.countable == (((), countable),)
    assert found.summable == (((), (first, countable[1], replace(third, etag=WITH_DELETES))),)  # sums have deleted rows
    assert as_now(found) is found
    assert parse("P\nF\t10\t99\tfile:/w/a\tlog").countable == (((), (first,)),)


class Text(str):
    """A text with the methods of a StringBuilder."""

    def length(self) -> int:
        return len(self)

    def substring(self, begin: int, end: int) -> str:
        return self[begin:end]


def test_deleted_rows_are_asked_for_once_by_the_numbers_of_files() -> None:
    lines = ["P", *(f"F\t9\t1\tfile:/listed/{name}\tdeletes\t{name}" for name in "abc")]
    found, asked = parse("\n".join(lines)), list[str]()

    def ask(numbers: str) -> Any:
        asked.append(numbers)
        rows = base64.b64encode(bytes([1, 0, 0, 0, 0, 1, 0, 0])).decode()
        return Text(json.dumps([None if number == 1 else rows for number in json.loads(numbers)]))

    for _ in range(2):
        rows = deleted_rows(ask, found, {"file:/listed/c": "c", "file:/listed/b": "b"})
        assert list(rows) == ["file:/listed/c"] and rows["file:/listed/c"].rows.tolist() == [1, 256]
    assert asked == ["[2, 1]", "[1]"]
    assert deleted_rows(ask, found, {"file:/listed/c": "deleted later"})["file:/listed/c"].id == "deleted later"
    assert asked[2:] == ["[2]"]


def test_a_table_is_by_partitions_where_its_log_has_told_their_values() -> None:
    columns = tuple(Column(name, "int") for name in "kqp")
    base = Table(database="d", name="t", kind="MANAGED", columns=columns, lake=Lake("delta", ("p", "q")))
    plain = parse("P\nF\t9\t1\tfile:/w/a\tlog")
    apart = parse("P\t=1\t\nF\t9\t1\tfile:/w/a\tlog\nP\t=1\t\nF\t9\t1\tfile:/w/b\tlog")
    assert plain.table(base) is base
    found = apart.table(base)
    assert [column.name for column in found.columns] == ["k"]
    assert [column.name for column in found.partition_columns] == ["p", "q"]
    assert [(values, len(files)) for values, files in apart.partitions] == [(("1", None), 1)] * 2
    files = replace(base, lake=None)
    assert parse("P\t=1\nF\t9\t1\tfile:/w/a").table(files) is files
