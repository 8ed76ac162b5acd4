"""`--hiveserver2`: which commands go with it, and how its address is given."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from hive_bitmap import cli
from hive_bitmap.cli.server import address_of
from hive_bitmap.hive.hiveserver.connection import Address


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--hiveserver2", "h:1", "create", "t", "a"], "this command needs Spark; with --hiveserver2 use: show, query"),
        (["--hiveserver2", "h:1", "query", "t", "a = 1"], "this command needs Spark"),
        (["--hiveserver2", "h:99999", "show", "t"], "'h:99999' is not HOST:PORT"),
        (["--hiveserver2", "h:x", "show", "t"], "is not HOST:PORT"),
        (["--auth", "PLAIN", "show", "t"], "'PLAIN' is not one of"),
        (["--timeout", "0", "show", "t"], "is not in the range x>0"),
        (["register", "/w/i"], "--hiveserver2 HOST:PORT must come before this command"),
    ],
)
def test_wrong_usage(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in " ".join(err.split())


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(None, "NONE", None, "hive", 1) is None
    assert address_of("h", "NONE", None, "hive", 1) == Address(host="h", port=10000, seconds=1)
    assert str(address_of("[::1]:7", "KERBEROS", None, "svc", 1)) == "::1:7"
    monkeypatch.setenv("HIVE_BITMAP_PASSWORD", "secret")
    found = address_of("h:2", "LDAP", "ann", "hive", 1)
    assert found is not None and (found.username, found.password) == ("ann", "secret")
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        address_of("h:1:2", "NONE", None, "hive", 1)


def test_the_entry_point_loads_no_spark() -> None:
    code = (
        "import sys\nfrom hive_bitmap import cli\n"
        "from hive_bitmap.hive.hiveserver import register, server_queries, states\n"
        "print(cli.main(['--hiveserver2', '127.0.0.1:1', 'show', 't']))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n[]\n"
