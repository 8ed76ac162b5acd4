"""The prompt: when an input ends, what is remembered of it, and what Tab completes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from hive_bitmap.cli.sql_command import completer, inputs, is_unfinished, state_folder


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PipeInput]:
    "A simulated keyboard; the history of what is typed is kept under tmp_path."
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        yield typed


def typed(keys: PipeInput, text: str, *tables: str) -> list[list[str]]:
    """The statements of each input that this text is, of whose end Ctrl-D is a part."""
    keys.send_text(text + "\x04")
    return [[part.text for part in parts] for parts in inputs(lambda: tables)]


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("", False),
        (" \n", False),
        ("SELECT 1", True),
        ("SELECT 1;", False),
        ("SELECT 1; -- done", False),
        ("SELECT 1; SELECT 2", True),
        ("SELECT ';", True),
        ("SELECT 1 -- ;", True),
        ("/* a;", True),
        ("exit", False),
        (" Quit ;\n", False),
        ("exit;;", False),
        ("exits", True),
        ("exit 1", True),
        (";", False),
    ],
)
def test_when_enter_begins_another_line(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) is unfinished


@given(st.lists(st.sampled_from(["a", "'b;'", "-- c;\n", "/* d; */", "`e;`", "\n"]), max_size=5))
def test_only_a_semicolon_outside_of_quotes_and_comments_ends_a_statement(pieces: list[str]) -> None:
    text = "SELECT " + " ".join(pieces)
    assert is_unfinished(text)
    assert not is_unfinished(f"{text} ;")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", []),
        ("SELECT 1;\r", [["SELECT 1"]]),
        ("SELECT\r 1;\r", [["SELECT\n 1"]]),
        ("a; b;\rc;\r", [["a", "b"], ["c"]]),
        ("\r\r", [[], []]),
        ("half\r of it\x03b;\r", [["b"]]),  # Ctrl-C
        ("a;\rexit\rb;\r", [["a"]]),
        ("a;\rQUIT ;\rb;\r", [["a"]]),
        ("exit now;\r", [["exit now"]]),
    ],
)
def test_inputs(keys: PipeInput, text: str, said: list[list[str]]) -> None:
    assert typed(keys, text) == said


def test_the_next_session_remembers(keys: PipeInput, tmp_path: Path) -> None:
    assert typed(keys, "a\r;\rb;\r") == [["a"], ["b"]]
    history = tmp_path / "state" / "hive-bitmap" / "history"
    assert [line for line in history.read_text().splitlines() if line.startswith("+")] == ["+a", "+;", "+b;"]
    assert history.parent.stat().st_mode & 0o077 == 0  # what was typed may be secret
    assert typed(keys, "\x1b[A\r") == [["b"]]  # Up


def test_a_home_that_cannot_be_written(keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert typed(keys, "a;\rb;\r") == [["a"], ["b"]]
    assert typed(keys, "\x1b[A\r") == [[]]  # Up finds nothing
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize(("root", "folder"), [("/s", "/s/hive-bitmap"), ("", "/h/.local/state/hive-bitmap")])
def test_the_folder_of_the_state(root: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_STATE_HOME", root)
    assert str(state_folder()) == folder


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("SHOW INDEX ON tr", {"trips"}),
        ("create ind", {"INDEX", "INDEXES"}),
        ("Ex", {"EXISTS", "EXPLAIN", "exit"}),
        ("TRI", {"trips"}),
        ("'roar", {"roaring"}),
        ("nothing", set()),
    ],
)
def test_tab_completes_words_and_tables(text: str, completed: set[str]) -> None:
    found = completer(["trips"]).get_completions(Document(text), CompleteEvent(completion_requested=True))
    assert {completion.text for completion in found} == completed


def test_tables_are_asked_for_before_each_input(keys: PipeInput) -> None:
    asked = []

    def tables() -> list[str]:
        asked.append(0)
        return []

    keys.send_text("make t;\ruse t;\r\x04")
    assert [len(asked) for _ in inputs(tables)] == [1, 2]
    assert len(asked) == 3
