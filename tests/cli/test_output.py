"""Records on stdout: as a table for people, as JSON or CSV for programs, whose own readers are the oracle."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.cli.output import (
    csv_line,
    print_count,
    print_lines,
    print_records,
    print_table,
    printable,
    write_csv,
    write_json,
)
from hive_bitmap.core.explaining.reports import Field

FIELDS = (Field("name", "Name"), Field("rows", "Rows", lambda rows: f"{rows:,}", right=True))
RECORDS = [{"name": "a b", "rows": 1000, "more": [1, None]}, {"name": "\x1b[31m", "rows": 7, "more": True}]


@given(st.lists(st.lists(st.none() | st.text(st.characters(exclude_categories=("Cs",))), min_size=2, max_size=4)))
def test_csv_is_what_a_csv_reader_reads(records: list[list[str | None]]) -> None:
    text = "".join(map(csv_line, records))
    read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert read == [[value or "" for value in record] for record in records]


def test_csv_tells_null_from_empty_text() -> None:
    assert csv_line([None, ""]) == ',""\n'


def test_json_starts_with_the_first_record(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> None:
        raise ValueError("the engine failed")
        yield ""

    with pytest.raises(ValueError, match="the engine failed"):
        write_json(failing())
    assert capsys.readouterr().out == ""
    write_json(iter(["1", "2"]))
    assert json.loads(capsys.readouterr().out) == [1, 2]
    write_json(iter([]))
    assert json.loads(capsys.readouterr().out) == []


@given(st.text())
def test_a_terminal_gets_nothing_that_moves_it(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("", '""'),
        ("a b", "a b"),
        ('a"b', '"a""b"'),
        ("a\rb", '"a\rb"'),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1e300, "1e+300"),
        ([1, None], '"[1, null]"'),
        ([], "[]"),
        ({"é": 1}, '"{""é"": 1}"'),
    ],
)
def test_values_in_csv(value: Any, field: str) -> None:
    assert csv_line([value]) == f"{field}\n"


@pytest.mark.parametrize(
    ("names", "records", "text"),
    [
        (["a", "b c"], [[1, None]], "a,b c\n1,\n"),
        (["a"], [], "a\n"),
        ([], [[1]], "1\n"),
        ([], [], ""),
        (["a,b"], [["x"]], '"a,b"\nx\n'),
    ],
)
def test_csv_has_a_header_where_there_are_names(
    names: list[str], records: list[list[Any]], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(names, records)
    assert capsys.readouterr().out == text


def test_no_header_is_written_before_the_first_record_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        write_csv(["a"], ([1 // 0] for _ in range(1)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("table", "Name      Rows\n──────────────\na b      1,000\n\\x1b[31m      7\n"),
        (
            "json",
            '[\n{"name": "a b", "rows": 1000, "more": [1, null]},\n'
            '{"name": "\\u001b[31m", "rows": 7, "more": true}\n]\n',
        ),
        ("csv", 'name,rows,more\na b,1000,"[1, null]"\n\x1b[31m,7,true\n'),
    ],
)
def test_records_in_each_format(format: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_records(format, RECORDS, FIELDS, "there is none")
    found = capsys.readouterr().out
    if format == "table":
        found, text = ("\n".join(" ".join(line.split()) for line in one.splitlines()) for one in (found, text))
        found, text = ("\n".join(line for line in one.splitlines() if "─" not in line) for one in (found, text))
    assert found == text


@pytest.mark.parametrize(("format", "out"), [("table", ""), ("json", "[]\n"), ("csv", "")])
def test_no_records(format: str, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_records(format, [], FIELDS, "there is [bold] none")
    told = capsys.readouterr()
    assert told.out == out
    assert told.err == ("there is [bold] none\n" if format == "table" else "")


@pytest.mark.parametrize(
    ("format", "text"), [("table", "7\n"), ("json", '[\n{"count": 7}\n]\n'), ("csv", "count\n7\n")]
)
def test_a_count_in_each_format(format: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_count(format, 7)
    assert capsys.readouterr().out == text


def test_a_row_of_a_table_is_one_line_however_long_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", "[red]b"], [["x" * 5000, "two\nlines"], ["", "[bold]"]], [False, True])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "x" * 5000 in lines[2] and lines[2].endswith("two\\nlines") and lines[3].endswith("[bold]")
    assert lines[0].endswith("[red]b") and all(line == line.rstrip() for line in lines)


def test_names_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([("a", "1"), ("name", "x\ty")])
    assert capsys.readouterr().out == "a     1\nname  x\\ty\n"
