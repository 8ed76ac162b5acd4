"""Command line arguments, help and output, as far as they need no Spark."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap import cli
from hive_bitmap.cli.index_options import split_names, split_pairs

COMMANDS = [
    "advise",
    "attach",
    "clean",
    "create",
    "doctor",
    "drop",
    "estimate",
    "explain",
    "export-hive",
    "jar",
    "offsets",
    "query",
    "rebuild",
    "refresh",
    "register",
    "rename",
    "set",
    "show",
    "sql",
    "verify",
]
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_the_commands_are_those_of_the_contract() -> None:
    assert sorted(cli.command.commands) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_every_option_is_explained(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(rf"Example:\n    hive-bitmap (--hiveserver2 hive:10000 )?{name}[ \n]", out)
    options = [p for p in cli.command.commands[name].params if isinstance(p, click.Option)]
    assert [p.name for p in options if not p.help] == []


def test_the_program_has_help_and_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "hive-bitmap create flights" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hive-bitmap ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["create", "t"], "Missing argument 'COLUMNS...'"),
        (["create", "t", "a", "--encoding", "rle"], "'rle' is not one of 'plain', 'gap', 'ewah', 'roaring'"),
        (["create", "t", "a", "--type", "btree"], "is not one of"),
        (["create", "t", "a", "b", "--name", "n"], "--name is for one index, but COLUMNS name 2"),
        (["create", "t", "a", "b", "--index-table", "n"], "--index-table is for one index"),
        (["create", "t", "a,`b"], "is not a list of names, from '`b'"),
        (["rebuild", "t", "--partition", "month"], "is not a list of NAME=VALUE, from 'month'"),
        (["query", "t", "--count", "--limit", "3"], "--count cannot be combined with --columns or --limit"),
        (["query", "t", "--limit", "-1"], "-1 is not in the range x>=0"),
        (["query", "t", "--strategy", "magic"], "'magic' is not one of"),
        (["query", "t", "--strategy", "index only"], "answers --count only"),
        (["query", "t", "--format", "xml"], "'xml' is not one of"),
        (["offsets", "t"], "Missing argument 'WHERE'"),
        (["drop", "t"], "Missing argument 'INDEX'"),
        (["--conf", "memory=2g", "show"], "--conf memory=2g: give a Spark setting as spark.name=value"),
        (["--conf", "spark.memory", "show"], "--conf spark.memory: give a Spark setting"),
        (["--hiveserver2", "h:1", "--master", "local", "show"], "--master and --conf configure Spark"),
    ],
)
def test_wrong_usage_is_status_2_with_nothing_on_stdout(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize("grace", ["nan", "inf", "1e308", "-1"])
def test_a_grace_period_is_a_number_of_hours(grace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["clean", "--grace", grace]) == 2
    assert "Invalid value for '--grace'" in capsys.readouterr().err


@pytest.mark.parametrize("every", ["0", "0.5s", "999999999d", "often"])
def test_a_refresh_is_repeated_in_a_time_that_can_be_waited_for(every: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["refresh", "t", f"--every={every}"]) == 2
    assert "Invalid value for '--every'" in capsys.readouterr().err


def test_what_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9")
    for arguments in (["create", "t", "k", "--comment", name], ["show", "--database", name], ["show", name]):
        assert cli.main(arguments) == 2
        assert "is not valid UTF-8" in capsys.readouterr().err


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_any_names_go_through_backticks(names: list[str]) -> None:
    assert split_names(",".join(map(quoted, names))) == names


@given(st.dictionaries(NAMES, st.none() | st.text(), min_size=1, max_size=4))
def test_any_partition_goes_through_quotes(pairs: dict[str, str | None]) -> None:
    values = {k: "NULL" if v is None else "'" + v.replace("'", "''") + "'" for k, v in pairs.items()}
    assert split_pairs(",".join(f"{quoted(k)}={v}" for k, v in values.items())) == pairs


@pytest.mark.parametrize("text", ["", ",", "a,", ",a", "a,,b", "`a", "`a`b", "``"])
def test_lists_of_names_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter):
        split_names(text)


def test_an_interrupt_and_a_full_disk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for error, status, said in [
        (KeyboardInterrupt(), 130, "hive-bitmap: interrupted\n"),
        (OSError(28, "No space left on device"), 1, "hive-bitmap: [Errno 28] No space left on device\n"),
    ]:

        def fail(error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(cli.command.commands["show"], "callback", lambda **_: fail())
        assert cli.main(["show", "t"]) == status
        assert capsys.readouterr() == ("", said)


def test_what_py4j_logs_of_an_interrupt_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark's handler of Ctrl-C calls Java within another call, which fails, and py4j logs the failure."""

    def fail(error: type[BaseException], said: str) -> None:
        try:
            try:
                raise error(said)
            except error:
                raise ConnectionError("Error while sending or receiving")  # noqa: B904 - as py4j does
        except ConnectionError:
            logging.getLogger().exception("Exception while sending command.")

    def show(**_: object) -> None:
        fail(RuntimeError, "reentrant call inside <_io.BufferedReader name=6>")
        fail(KeyboardInterrupt, "")
        fail(ValueError, "of others")

    monkeypatch.setattr(cli.command.commands["show"], "callback", show)
    assert cli.main(["show", "t"]) == 0
    told = capfd.readouterr().err
    assert "of others" in told and "reentrant" not in told and "KeyboardInterrupt" not in told


def test_a_reader_that_goes_away_is_no_error_message() -> None:
    code = (
        "import sys\nfrom hive_bitmap import cli\n"
        "cli.command.commands['show'].callback = lambda **_: [print('x' * 1000) for _ in range(10000)]\n"
        "sys.exit(cli.main(['show', 't']))"
    )
    read, write = os.pipe()
    with subprocess.Popen([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True) as process:
        os.close(write)
        os.read(read, 1)
        os.close(read)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_help_loads_no_spark() -> None:
    code = "import sys\nfrom hive_bitmap import cli\ncli.main(['query', '--help'])\nprint('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


LOST, LATE = "26/11/28 21:00:00 ERROR x: disk lost\n", "26/11/28 21:00:00 WARN x: late\n"


@pytest.mark.parametrize(
    ("closed", "quiet", "passed"), [(False, False, LATE + LOST), (False, True, LOST), (True, False, "")]
)
def test_the_filter_of_stderr_drops_noise_and_nothing_else(closed: bool, quiet: bool, passed: str) -> None:
    noise = f"WARNING: Using incubator modules: jdk.incubator.vector\n{LATE}{LOST}"
    code = (
        "import os, sys, threading\nfrom hive_bitmap.cli.stderr_filter import StderrFilter\n"
        f"stderr_filter = StderrFilter(quiet={quiet})\nstderr_filter.closed = {closed}\n"
        f"with stderr_filter.applied():\n    os.write(2, {noise!r}.encode())\n"
        "[t.join() for t in threading.enumerate() if t.daemon]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == passed


@pytest.mark.parametrize("name", ["", " "])
def test_a_warehouse_without_a_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As an unset variable of a shell gives it; the current folder would become a warehouse."""
    assert cli.main(["--warehouse", name, "show"]) == 2
    assert "the name of the warehouse is empty" in capsys.readouterr().err
