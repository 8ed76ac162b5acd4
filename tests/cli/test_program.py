"""What holds of the whole program: its configuration file, completion in shells, `--quiet`, all tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.cli import COMPLETION, invocation, main
from hive_bitmap.cli.invocation import Config
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv(invocation.CONFIG_VARIABLE, str(path))
    return path


def test_the_configuration_file(config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config.write_text("[hive-bitmap]\nwarehouse = ~/w\nmaster=local[3]\n[conf]\nspark.Ab.c = d=e\n")
    home = str(Path("~/w").expanduser())
    assert invocation.read_config() == Config(home, "local[3]", {"spark.Ab.c": "d=e"})
    monkeypatch.delenv(invocation.CONFIG_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "x"))
    assert invocation.read_config() == Config()
    (tmp_path / "x/hive-bitmap").mkdir(parents=True)
    config.rename(tmp_path / "x/hive-bitmap/config")
    assert invocation.read_config().master == "local[3]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[hive-bitmap]\nwarehous = x\n", "did you mean 'warehouse'?"),
        ("[confg]\n", "did you mean 'conf'?"),
        ("[conf]\nhive_bitmap.enabled = true\n", "begin with spark."),
        ("warehouse = x\n", "cannot be read"),
        (None, "which is not a file"),
    ],
)
def test_a_wrong_file_is_wrong_usage(config: Path, run: Run, text: str | None, says: str) -> None:
    if text is not None:
        config.write_text(text)
    status, out, err = run("show", "t")
    assert (status, out) == (2, "") and says in " ".join(err.split())


def test_options_go_before_the_file(config: Path, spark: SparkSession, database: str, run: Run) -> None:
    config.write_text("[conf]\nspark.hive_bitmap.enbled = true\n")  # no session is started here, so none complains
    spark.sql("CREATE TABLE t USING parquet AS SELECT id AS k FROM range(9)")
    assert run("show", "t")[0] == 0


def test_shells_complete_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(COMPLETION, "bash_complete")
    for words, position, wanted in (("hive-bitmap reb", "1", "rebuild"), ("hive-bitmap show --da", "2", "--database")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", position)
        assert main([]) == 0
        assert wanted in capsys.readouterr().out


def test_all_tables_and_quiet(spark: SparkSession, database: str, run: Run) -> None:
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT id % 3 AS k FROM range(99)")
        hive_bitmap.build(spark, name, ["k"])
    spark.sql("INSERT INTO b VALUES (7)")
    status, out, _ = run("show", "--database", database, "--format", "json")
    assert status == 0 and [one["table"] for one in json.loads(out)] == [f"{database}.a", f"{database}.b"]
    status, out, _ = run("rebuild", "--database", database, "--format", "json")
    assert status == 0 and [(one["table"][-1], one["files_read"]) for one in json.loads(out)] == [("a", 0), ("b", 1)]
    assert len(run("show", "--all")[1].splitlines()) >= 4
    assert run("show")[0] == run("show", "a", "--all")[0] == run("rebuild", "--all", "--dry-run")[0] == 2
    assert run("rebuild", "a", "--dry-run")[2] != "" and run("--quiet", "rebuild", "a", "--dry-run") == (0, "", "")
    assert run("rebuild", "a", "--dry-run")[2] != ""  # the next call is not quiet
    status, out, err = run("--quiet", "show", "nope")
    assert (status, out) == (1, "") and err.startswith("hive-bitmap: no table")
    spark.sql("ALTER TABLE a RENAME TO c")
    assert run("attach", "c", "--from", "a")[0] in (0, 1)  # 1: a session with indexes enabled has attached it already
    assert json.loads(run("show", "c", "--format", "json")[1])[0]["fresh"] >= 1
