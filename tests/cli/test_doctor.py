"""`hive-bitmap doctor`: a line for each check, whatever is wrong, and what to do about it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.cli.doctor import _without_traces, checked
from hive_bitmap.cli.invocation import Endpoint
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.packages import PROGRAM
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_MACHINE = ["java", "packages", "pyspark"]
OF_SESSION = ["metastore", "executors", "stores", "optimizer rule"]
AWAY = ("--hiveserver2", "nowhere:1", "doctor")  # with which no session starts


def java(folder: Path, says: str, status: int = 0) -> str:
    """Make a program that stands for Java; return its JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return str(folder)


def states(run: Run, *argv: str) -> tuple[int, dict[str, tuple[str, str]]]:
    status, out, _ = run(*argv, "--format", "json")
    return status, {one["check"]: (one["state"], one["detail"]) for one in json.loads(out)}


def test_no_warehouse_is_left_behind(tmp_path: Path) -> None:
    new, there = str(tmp_path / "new"), str(tmp_path)
    with _without_traces(Endpoint(warehouse=new)) as tried:
        assert tried.warehouse is not None and Path(tried.warehouse).is_dir() and not Path(new).exists()
    assert not Path(tried.warehouse).exists() and not Path(new).exists()
    with _without_traces(Endpoint(warehouse=there)) as tried:
        assert tried.warehouse == there


def test_a_check_is_a_line() -> None:
    assert checked("a", lambda: "found") == {"check": "a", "state": "ok", "detail": "found"}


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (NotFound("no table"), "no table"),
        (ValueError("one\ntwo"), "one two"),
        (RuntimeError(), "RuntimeError"),
        (ImportError("no module"), "no module"),
        (AssertionError("at\n\nJVM stacktrace:\nx"), "at"),
    ],
)
def test_an_error_of_any_kind_is_a_line(error: Exception, detail: str) -> None:
    def check() -> str:
        raise error

    assert checked("a", check) == {"check": "a", "state": "wrong", "detail": detail}


def test_a_check_that_is_interrupted_is_no_line() -> None:
    def check() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked("a", check)


def test_without_a_session_the_rest_is_not_looked_at(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java(tmp_path, 'openjdk version "21.0.4" 2024-07-16')
    monkeypatch.setenv("JAVA_HOME", home)
    status, found = states(run, *AWAY)
    assert (status, list(found)) == (1, [*OF_MACHINE, "spark", *OF_SESSION])
    assert found["java"] == ("ok", f"Java 21, {home}/bin/java")
    assert found["pyspark"] == ("ok", f"PySpark {version('pyspark')}")
    named = [name for name in PROGRAM if name != "pyspark"]
    assert found["packages"] == ("ok", ", ".join(f"{name} {version(name)}" for name in named))
    assert found["spark"][0] == "wrong" and found["spark"][1].startswith("this command needs Spark; with ")
    assert {found[name] for name in OF_SESSION} == {("unknown", "not checked: no Spark session started")}


@pytest.mark.parametrize(
    ("says", "status", "detail"),
    [
        (None, 0, "but JAVA_HOME={home} holds no bin/java; install Java 17 or newer"),
        ('java version "1.8.0_402"', 0, "{home}/bin/java is Java 8; install Java 17 or newer"),
        ('openjdk version "16.0.2"', 0, "{home}/bin/java is Java 16; install Java 17 or newer"),
        ("Unable to locate a Java Runtime.", 1, "-version failed: Unable to locate a Java Runtime.; install Java 17"),
    ],
)
def test_a_java_that_does_not_do(
    says: str | None, status: int, detail: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = str(tmp_path) if says is None else java(tmp_path, says, status)
    monkeypatch.setenv("JAVA_HOME", home)
    state, said = states(run, *AWAY)[1]["java"]
    assert state == "wrong" and detail.format(home=home) in said and "\n" not in said


def test_lines_for_people(run: Run) -> None:
    status, out, err = run(*AWAY)
    heading, _, *lines = out.splitlines()
    assert (status, heading.split("  ")[0], err) == (1, "check", "")
    assert heading.endswith("what was found, or what to do")
    assert len(lines) == len([*OF_MACHINE, "spark", *OF_SESSION])


def test_the_doctor(spark: SparkSession, database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hive_bitmap.enable(spark)
    status, out, _ = run("doctor", "--format", "json")
    found = {one["check"]: (one["state"], one["detail"]) for one in json.loads(out)}
    assert (status, {state for state, _ in found.values()}) == (0, {"ok"}), found
    assert list(found) == [
        "java", "packages", "pyspark", "spark", "metastore", "executors", "stores", "optimizer rule",
    ]  # fmt: skip
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    status, out, _ = run("doctor")
    assert status == 1 and "install Java" in out
