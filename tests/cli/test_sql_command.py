"""`hive-bitmap sql`: statements in scripts and at the prompt, their output and their exit status."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from hive_bitmap.cli.sql_command import unique_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.conftest import Run


class Keyboard(io.StringIO):
    "A standard input that claims to be a terminal."

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "sql")


@pytest.fixture
def trips(spark: SparkSession, database: str) -> str:
    spark.sql("CREATE TABLE trips (city string, n int) STORED AS PARQUET")
    spark.sql("INSERT INTO trips VALUES ('x', 1), ('y', 2), (NULL, 3)")
    return "trips"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PipeInput]:
    "A simulated keyboard; the history of what is typed is kept under tmp_path."
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", Keyboard())
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        yield typed


def test_a_script_in_a_text(trips: str, run: Run) -> None:
    status, out, err = run(
        "-e",
        "CREATE INDEX i ON TABLE trips (city) AS 'BITMAP' COMMENT 'a;b'; SHOW INDEX ON trips; -- done",
        "--format",
        "json",
    )
    assert (status, err) == (0, "")
    created, shown = (json.loads(f"[{text}]")[0] for text in out.replace("[\n", "").replace("\n]", "").splitlines())
    assert (created["index"], created["files"], created["rows"]) == ("i", 2, 3)
    assert (shown["idx_name"], shown["col_names"], shown["comment"]) == ("i", "city", "a;b")


def test_a_script_in_a_file_and_in_a_pipe(
    trips: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "-- two results\nSELECT n FROM trips WHERE city = 'y';\nSELECT count(*) AS c FROM trips\n"
    script = tmp_path / "s.sql"
    script.write_text(text, encoding="utf-8-sig")
    assert run("-f", str(script), "--format", "csv") == (0, "n\n2\nc\n3\n", "")
    for argv in (["-f", "-"], []):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert run(*argv, "--format", "csv") == (0, "n\n2\nc\n3\n", "")
    assert run("-e", " ;-- nothing\n") == (0, "", "")


def test_rows_for_people(trips: str, run: Run) -> None:
    status, out, _ = run("-e", "SELECT city, n, n AS city FROM trips ORDER BY n", "--limit", "2")
    assert status == 0
    assert [line.split() for line in out.splitlines() if "─" not in line] == [
        ["city", "n", "city", "(2)"],
        ["x", "1", "1"],
        ["y", "2", "2"],
    ]


SCRIPT = "SELECT 1 AS a;\nSELECT 2 AS b;\n\n  DROP INDEX\n nope ON;\nSELECT nope;\nSELECT 3 AS c;"
FIRST = "hive-bitmap: statement 3 at line 4: line 5, column 9: mismatched input '<EOF>', expecting a name\n"


def test_the_first_error_ends_a_script(spark: SparkSession, run: Run) -> None:
    assert run("-e", SCRIPT, "--format", "csv") == (1, "a\n1\nb\n2\n", FIRST)


def test_keep_going(spark: SparkSession, run: Run) -> None:
    status, out, err = run("-e", SCRIPT, "--format", "csv", "--keep-going")
    first, second = err.splitlines(keepends=True)
    assert (status, out, first) == (1, "a\n1\nb\n2\nc\n3\n", FIRST)
    assert second.startswith("hive-bitmap: statement 4 at line 6: [UNRESOLVED_COLUMN") and "line 6" in second[30:]


def test_nothing_runs_of_a_script_that_cannot_be_split(run: Run, tmp_path: Path) -> None:
    assert run("-e", "SELECT 1;\nSELECT 'a") == (1, "", "hive-bitmap: line 2, column 8: this ' is not closed\n")
    (tmp_path / "s.sql").write_bytes(b"SELECT '\xff'")
    status, out, err = run("-f", str(tmp_path / "s.sql"))
    assert (status, out) == (1, "") and "is not UTF-8 text" in err


def test_wrong_usage_and_a_file_that_is_not_there(run: Run) -> None:
    status, out, err = run("-e", "SELECT 1", "-f", "-")
    assert (status, out) == (2, "") and "give -e or -f, not both" in err
    status, out, err = run("-f", "no/such/file")
    assert (status, out) == (1, "") and "No such file or directory: 'no/such/file'" in err


def test_typed_statements(trips: str, run: Run, keys: PipeInput, tmp_path: Path) -> None:
    keys.send_text("SELECT n\r FROM trips\r WHERE city = 'x;\ry' OR n = 2;\r")  # three lines
    keys.send_text("SELECT nope;\r\rSHOW INDEX nope nope; SELECT 9;\rSELECT 'it;\x03")  # two errors, one is given up
    keys.send_text("SELECT 4 AS d; SELECT 5 AS e;\rexit\r")
    status, out, err = run("--format", "csv")
    assert (status, out) == (0, "n\n2\nd\n4\ne\n5\n")
    assert "[UNRESOLVED_COLUMN" in err and "mismatched input 'nope', expecting the end" in err
    history = (tmp_path / "hive-bitmap" / "history").read_text()
    assert "+SELECT n\n+ FROM trips\n" in history and "it;" not in history
    keys.send_text("\x1b[A\x1b[A\r\x04")  # Up, Up, Enter, Ctrl-D: the last statement but `exit`
    assert run("--format", "csv")[:2] == (0, "d\n4\ne\n5\n")


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a (2)", "a (3)"]),
        (["a", "a (2)", "a"], ["a", "a (2)", "a (3)"]),
        (["a", "a", "a (2)"], ["a", "a (2)", "a (2) (2)"]),
        (["a", "A"], ["a", "A (2)"]),  # one and the same for Spark
        (["", ""], ["", " (2)"]),
    ],
)
def test_names_of_columns(names: list[str], unique: list[str]) -> None:
    assert unique_names(names) == unique


@given(st.lists(st.sampled_from(["a", "A", "a (2)", "A (2)", "a (3)", "b"]), max_size=8))
def test_each_column_has_a_name_of_its_own(names: list[str]) -> None:
    found = unique_names(names)
    assert len({name.lower() for name in found}) == len(names)
    assert all(one.startswith(name) for one, name in zip(found, names, strict=True))
    assert unique_names(found) == found


def test_columns_whose_names_differ_by_case(spark: SparkSession, run: Run) -> None:
    assert run("-e", "SELECT 1 AS a, 2 AS A", "--format", "csv") == (0, "a,A (2)\n1,2\n", "")
