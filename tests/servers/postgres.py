"""PostgreSQL, where it is installed: a cluster of its own in a temporary folder, on loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.servers import process

USER = "hive"  # who needs no password
_OWNER = "postgres"  # as whom root runs the server, which refuses to be run by root


def installed() -> bool:
    """Whether a server can be run here."""
    return bool(_programs()) and (os.getuid() != 0 or any(user.pw_name == _OWNER for user in pwd.getpwall()))


@contextlib.contextmanager
def serving(folder: Path, schema: Path) -> Iterator[str]:
    """The JDBC address of a database made by the script `schema`; what the server prints goes to `folder`/log."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as data:  # which another user can reach
        if os.getuid() == 0:
            shutil.chown(data, _OWNER)
        port = process.free_port()
        at = ["-h", "127.0.0.1", "-p", str(port)]
        _run(*_as_owner("initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"))
        command = _as_owner("postgres", "-D", data, *at, "-k", "", "-F")
        ready = partial(_run, str(_program("pg_isready")), *at)
        with process.serving(command, folder, ready):
            psql = str(_program("psql"))
            _run(psql, *at, "-U", USER, "-d", "postgres", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(schema))
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")


def _as_owner(program: str, *arguments: str) -> list[str]:
    before = ["setpriv", f"--reuid={_OWNER}", f"--regid={_OWNER}", "--init-groups"] if os.getuid() == 0 else []
    return [*before, str(_program(program)), *arguments]


def _program(name: str) -> Path:
    return _programs()[-1] / name


def _programs() -> list[Path]:
    """The folders of installed servers, the newest last; Debian has them in none of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("postgres")
    return found or ([Path(on_path).resolve().parent] if on_path else [])
