"""The packages that hive_bitmap needs, and what to install where one is missing or too old; its own files.

Each process asks once, before it imports any of them: at the first call, when the program starts, and when a task
starts, for an executor has a Python of its own.
"""

from __future__ import annotations

import atexit
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hive_bitmap.errors import MissingPackage

# As setup.cfg declares them; a test compares. Lower bounds were run (`make compat VERSIONS=lowest`). pyarrow before 21
# cannot be told to leave extension types alone, and pyarrow 18 ends the process over a damaged ORC file.
TASK = ("pyarrow>=21", "numpy>=2", "duckdb>=1.2", "sqlglot>=26", "cachetools>=5.3", "pyorc>=0.9")
# PySpark refuses `mapInArrow` and Spark Connect without pandas, and warns of pandas 3; pandas before 2.2.2 cannot be
# imported beside numpy 2.
DRIVER = ("pyspark>=4.0,<4.4", "pandas>=2.2.2,<3", *TASK, "rich>=13")
PROGRAM = (*DRIVER, "click>=8.1", "prompt_toolkit>=3.0")

_copies = ExitStack()
atexit.register(_copies.close)
_REQUIREMENT = re.compile(r"(?P<name>\w+)>=(?P<oldest>[\d.]+)")


@lru_cache
def require(needed: tuple[str, ...] = DRIVER) -> None:
    """Raise MissingPackage unless these packages are installed here, none of them older than it may be."""
    _refuse(needed, "")


@lru_cache
def file_of(package: str, name: str) -> Path:
    """A file of ours for Spark, which reads no zip: a copy where the package came as one (`spark.submit.pyFiles`)."""
    return _copies.enter_context(as_file(files(package) / name))


def require_connect() -> None:
    """Raise MissingPackage unless the client of Spark Connect can be imported; PySpark's own word is a traceback."""
    missing = [name for name in ("grpc", "grpc_status") if find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"SPARK_REMOTE is set, and Spark Connect needs {' and '.join(missing)}, not installed here: "
            f"{sys.executable} -m pip install 'hive_bitmap[connect]'"
        )


def for_tasks(run: Callable[..., Iterator[Any]], /, **given: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """`run`, with these arguments, as what `mapInArrow` sends to tasks.

    A task looks for its packages first. Were `run` sent by its name alone, a Python that lacks hive_bitmap or a package
    would fail with a traceback of what tries to find it; `checked` is no function of a module, so it is sent as it is.
    """
    from pyspark import cloudpickle

    work = cloudpickle.dumps(partial(run, **given))

    def checked(batches: Iterable[Any]) -> Iterator[Any]:
        import pickle
        import socket
        import sys

        try:
            from hive_bitmap import packages
        except ModuleNotFoundError as e:
            if e.name is None or e.name.partition(".")[0] != "hive_bitmap":
                raise
            raise ImportError(
                f"an executor on {socket.gethostname()} has no hive_bitmap: install it for its Python, "
                f"{sys.executable}, on every machine that runs executors, or send an environment that has it "
                "(spark.archives)"
            ) from None
        packages.require_in_task()
        yield from pickle.loads(work)(batches)

    return checked


@lru_cache
def require_in_task() -> None:
    """Raise MissingPackage unless this process, an executor's, has what tasks need."""
    _refuse(TASK, f"an executor on {socket.gethostname()}: ")


def _refuse(needed: Sequence[str], where: str) -> None:
    found = {requirement: problem for requirement in needed if (problem := _problem(requirement))}
    if not found:
        return
    install = " ".join(f"'{requirement}'" for requirement in found)
    more = " (on every machine that runs executors)" if where else ""
    raise MissingPackage(
        f"{where}hive_bitmap needs {', '.join(found)}, and {' and '.join(found.values())}: "
        f"{sys.executable} -m pip install {install}{more}"
    )


def _problem(requirement: str) -> str:
    """What is wrong with a package; empty where nothing is.

    >>> _problem("numpy>=2"), _problem("numpy>=1000")[:6], _problem("no_such_package>=1")
    ('', 'numpy ', 'no_such_package is not installed')
    """
    match = _REQUIREMENT.match(requirement)
    assert match is not None, requirement
    name, oldest = match["name"], match["oldest"]
    if find_spec(name) is None:
        return f"{name} is not installed"
    try:
        found = version(name)
    except PackageNotFoundError:  # it came without a version, as Spark's own folder of Python does: it is tried
        return ""
    return f"{name} is {found}" if _numbers(found) < _numbers(oldest) else ""


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version, for comparison.

    >>> _numbers("2.2.0rc1") < _numbers("2.2.2") < _numbers("2.10") < _numbers("10.dev1")
    True
    >>> _numbers("2.0.0") == _numbers("2")
    True
    """
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
