"""How a driver is killed in the middle of an act: at a call of Python, at a moment, or at a system call of any thread.

The driver is Python and the JVM that it started. All of them die at once, at a signal that nobody can catch.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The ways of `Killing.during`; the last one needs strace.
WAYS = ("call", "moment", "syscall")
KILLED = "killed by SIGKILL"  # in the words of strace
CALLS = "openat,rename,mkdir,unlink,unlinkat,rmdir,link,write,pwrite64,fsync,fdatasync,ftruncate,close,sendto"
ATTACHING = 20.0  # seconds


class Killing:
    """Kills this process and its JVM at a random point of an act; `measures` are its calls and seconds, by act."""

    def __init__(self, ways: list[str], rng: random.Random, spark: SparkSession, trace: Path) -> None:
        self._ways, self._rng, self._trace = ways, rng, trace
        gateway: Any = spark.sparkContext._gateway
        self._jvm = gateway.proc.pid
        self.measures: dict[str, tuple[int, float]] = {}
        self.way = ""
        self._calls, self._fatal = 0, 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: tuple[Any, ...]) -> None:
        """Count what Python is about to do to files and sockets; die at the call that was drawn."""
        if event == "open" or event.startswith(("os.", "shutil.", "socket.")):
            self._calls += 1
            if self._calls == self._fatal:
                die()

    def measure(self, name: str, act: Callable[[], None]) -> None:
        calls, started = self._calls, time.monotonic()
        act()
        self.measures[name] = self._calls - calls, time.monotonic() - started

    def during(self, name: str, act: Callable[[], None]) -> None:
        """Do an act and be killed in it, or, if the point that was drawn lies behind its end, survive."""
        calls, seconds = self.measures[name]
        self.way = self._rng.choice(self._ways)
        if self.way == "call":
            self._fatal = self._calls + self._rng.randint(1, max(1, calls))
            act()
            self._fatal = 0
        elif self.way == "moment":
            timer = threading.Timer(self._rng.uniform(0, seconds), die)
            timer.start()
            act()
            timer.cancel()
        else:
            with self._traced():
                act()

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        """strace on all threads of both processes: the N-th call of one kills it, and `kills` all others."""
        calls = self._rng.choice([CALLS, *CALLS.split(",")])
        inject = f"inject={calls}:signal=SIGKILL:when={int(2 ** self._rng.uniform(0, 8))}"
        command = ["strace", "-f", "-e", f"trace={calls}", "-e", inject, "-p", str(os.getpid()), "-p", str(self._jvm)]
        with self._trace.open("w") as log:
            tracer = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + ATTACHING
        while tracer.poll() is None and self._trace.read_text(errors="replace").count("attached") < 2:
            if time.monotonic() > end:
                raise TimeoutError(f"strace has not attached: {self._trace.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)
        try:
            yield
        finally:
            tracer.terminate()
            tracer.wait()


def die() -> None:
    """Kill the process group of this process, which leads it."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
