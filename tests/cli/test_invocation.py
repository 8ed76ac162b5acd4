"""How a command is called: settings of Spark by name, the compiler of its JVM, and errors in one line."""

from __future__ import annotations

import io
import os
from pathlib import Path

import click
import pytest
from pyspark.sql import SparkSession

from hive_bitmap.cli.invocation import messages, one_line, settings_of
from hive_bitmap.errors import HiveBitmapError
from tests.cli.conftest import Run

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
    assert str(raised.value) == f"--conf {given}: give a Spark setting as spark.name=value"


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


@pytest.mark.parametrize(
    ("arguments", "quick"),
    [
        (("show", "t"), True),
        (("show", "t", "--keys"), False),
        (("explain", "t"), True),
        (("explain", "SELECT 1", "--analyze"), False),
        (("query", "t"), False),
        (("sql", "-e", "SHOW TABLES; DESC t"), True),
        (("sql", "-e", "SHOW TABLES; SELECT 1"), False),
    ],
)
def test_commands_without_a_job_have_the_quick_compiler(
    arguments: tuple[str, ...], quick: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise HiveBitmapError(f"options: {os.environ.get('SPARK_SUBMIT_OPTS')}")

    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("hive_bitmap.spark.session.session", started)
    status, _, err = run("--warehouse", str(tmp_path), *arguments)
    options = "-XX:TieredStopAtLevel=1 -Da=b" if quick else "-Da=b"
    assert status == 1 and f"options: {options}" in " ".join(err.split())
