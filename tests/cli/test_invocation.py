"""How a command is called: settings of Spark by name, and errors in one line."""

from __future__ import annotations

import io

import click
import pytest

from hive_bitmap.cli.invocation import messages, one_line, settings_of

TASK = """An error occurred while calling o1.collect.
: Job aborted due to stage failure
Traceback (most recent call last):
  File "x.py", line 1, in read
{error}

	at org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ([], {}),
        (["spark.a=1", "spark.b="], {"spark.a": "1", "spark.b": ""}),
        (["spark.a=b=c"], {"spark.a": "b=c"}),
        (["spark.a=1", "spark.a=2"], {"spark.a": "2"}),  # the last one, as in spark-submit
    ],
)
def test_settings(given: list[str], settings: dict[str, str]) -> None:
    assert settings_of(given) == settings


@pytest.mark.parametrize("given", ["spark.a", "a=1", "=1", "", "sparky=1"])
def test_what_is_no_setting_of_spark(given: str) -> None:
    with pytest.raises(click.UsageError) as raised:
        settings_of(["spark.a=1", given])
    assert str(raised.value) == f"--conf {given}: give a setting of Spark as spark.name=value"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "ValueError"),
        ("  \n", "ValueError"),
        ("a\nb\n\nJVM stacktrace:\nx", "a b"),
        ("a   b\n", "a b"),
        (
            "[A] no column. Give one; line 1 pos 0;\n'Filter ('x = 1)\n+- Relation t",
            "[A] no column. Give one; line 1 pos 0",
        ),
        (TASK.format(error="hive_bitmap.errors.FileChanged: a is gone: run it again"), "a is gone: run it again"),
        (TASK.format(error="ValueError: odd"), "ValueError: odd"),
    ],
)
def test_an_error_is_one_line(text: str, line: str) -> None:
    assert one_line(ValueError(text)) == line


def test_messages_go_where_stderr_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        messages().print("told", markup=False)
        assert stream.getvalue() == "told\n"
