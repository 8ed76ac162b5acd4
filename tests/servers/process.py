"""A server as a plain process on loopback: started, waited for until it answers, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from xml.sax.saxutils import escape

SECONDS = 180  # to answer after the start, on a machine that does much else
TAIL = 4000  # characters of a log that are shown
T = TypeVar("T")


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect(port: int) -> None:
    """Raise OSError unless something listens there; quieter than a client that logs its failures."""
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def configuration(values: Mapping[str, str]) -> str:
    """The text of a Hadoop configuration file.

    >>> configuration({"a": "<1>"})
    '<configuration>\\n<property><name>a</name><value>&lt;1&gt;</value></property>\\n</configuration>\\n'
    """
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in values.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


@contextlib.contextmanager
def serving(
    command: Sequence[str], folder: Path, ask: Callable[[], T], environment: Mapping[str, str] | None = None
) -> Iterator[T]:
    """Run `command` in `folder` and yield what `ask` returns at its first call that does not raise.

    The process leads a group of its own, and the whole group is ended with the block. What it prints goes to
    `folder`/log, whose end is in the RuntimeError that tells that it did not start.
    """
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield _first_answer(process, log, ask)
    finally:
        _end(process)


def _first_answer(process: subprocess.Popen[bytes], log: Path, ask: Callable[[], T]) -> T:
    end = time.monotonic() + SECONDS
    while True:
        try:
            return ask()
        except Exception as e:
            if process.poll() is not None or time.monotonic() > end:
                state = "did not answer" if process.poll() is None else f"ended with status {process.returncode}"
                raise RuntimeError(f"the server {state}: {log.read_text(errors='replace')[-TAIL:]}") from e
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the group to end, and after ten seconds, or where some of it outlives its leader, do not ask."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # it has ended, and so has its group
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
