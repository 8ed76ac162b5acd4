"""Run a function in child processes of a task.

A damaged file may crash the C++ code that reads it, and so end the process by a signal, which no `except` catches. If
this happens in a child process, the task survives. A child is a new interpreter, because a fork of a worker would lack
the threads of the worker's libraries.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from hive_bitmap.core.stores import options
from hive_bitmap.errors import HiveBitmapError

# Signals caused by a process's own code; others, such as those of a kernel without memory, come from outside.
_OWN_SIGNALS = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)
_SERVE = "from hive_bitmap.spark.tasks.children import serve; serve()"


@dataclass(frozen=True)
class Died:
    """The result of an item that crashed its process, by the signal named `signal`."""

    signal: str

    @property
    def reason(self) -> str:
        """A sentence that says why a file that crashed its process cannot be read."""
        return f"a library ended the process that read it ({self.signal})"


def results(run: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """Yield run(item) for each item, in order.

    The result is Died for an item that crashes its process; another child then continues with the remaining items.
    Items and results are sent pickled. Raises the errors of `run`, and HiveBitmapError if a child ends for another
    reason than a crash.
    """
    done = 0
    while done < len(items):
        with _child(run, items[done:]) as child:
            assert child.stdout is not None
            for result in _received(child.stdout):
                if isinstance(result, _Raised):
                    raise result.error
                yield result
                done += 1
            code = child.wait()
        if done == len(items) and not code:
            return
        if -code not in _OWN_SIGNALS:
            raise HiveBitmapError(f"a child process of a task ended with status {code}")
        yield Died(signal.Signals(-code).name)
        done += 1


def serve() -> None:
    """Run a child process.

    The child reads the work from standard input, and writes the results to the original standard output.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with results
    store_options, run, items = pickle.load(sys.stdin.buffer)
    options.use(lambda: store_options)
    for item in items:
        try:
            result = run(item)
        except Exception as e:  # noqa: BLE001 - raised again in the task
            result = _Raised(e)
        pickle.dump(result, out)
        out.flush()


@dataclass(frozen=True)
class _Raised:
    error: Exception


def _child(run: Callable[[Any], Any], items: Sequence[Any]) -> subprocess.Popen[bytes]:
    """Start a child process, and send `run` and the items to it.

    The child has the import path of this process.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert child.stdin is not None
    with suppress(BrokenPipeError), child.stdin:  # the status of the child says how it ended
        pickle.dump((options.current(), run, list(items)), child.stdin)
    return child


def _received(source: IO[bytes]) -> Iterator[Any]:
    """Yield the values that a child has written completely."""
    while True:
        try:
            yield pickle.load(source)
        except (EOFError, pickle.UnpicklingError):
            return
