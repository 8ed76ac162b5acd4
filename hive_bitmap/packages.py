"""Check that the packages that hive_bitmap needs are installed, and locate data files of the package.

Each process checks once, before it imports any of them: the driver at the first call, the program when it starts, and
the Python worker of an executor, which may lack packages that the driver has, when it runs its first task.
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

# The same as in setup.cfg, as a test checks. `make compat VERSIONS=lowest` tests the lower bounds. pyarrow before 21
# has no option to ignore extension types, and pyarrow 18 aborts the process at a damaged ORC file.
TASK = ("pyarrow>=21", "numpy>=2", "duckdb>=1.2", "sqlglot>=26", "cachetools>=5.3", "pyorc>=0.9")
# PySpark requires pandas for `mapInArrow` and Spark Connect, and warns about pandas 3. pandas before 2.2.2 does not
# support numpy 2.
DRIVER = ("pyspark>=4.0,<4.4", "pandas>=2.2.2,<3", *TASK, "rich>=13")
PROGRAM = (*DRIVER, "click>=8.1", "prompt_toolkit>=3.0")

_copies = ExitStack()
atexit.register(_copies.close)
_REQUIREMENT = re.compile(r"(?P<name>\w+)>=(?P<oldest>[\d.]+)")


@lru_cache
def require(needed: tuple[str, ...] = DRIVER) -> None:
    """Raise MissingPackage unless these packages are installed in this environment, in the required versions."""
    _require_installed(needed, "")


@lru_cache
def file_of(package: str, name: str) -> Path:
    """Return the path of a data file; a temporary copy if the package is in a zip (`spark.submit.pyFiles`)."""
    return _copies.enter_context(as_file(files(package) / name))


def require_connect() -> None:
    """Raise MissingPackage unless the client of Spark Connect can be imported; PySpark would fail with a traceback."""
    missing = [name for name in ("grpc", "grpc_status") if find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"SPARK_REMOTE is set, and Spark Connect needs {' and '.join(missing)}, not installed here: "
            f"{sys.executable} -m pip install 'hive_bitmap[connect]'"
        )


def for_tasks(run: Callable[..., Iterator[Any]], /, **given: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return `run` with these arguments as a function for `mapInArrow`, which first checks the executor's packages.

    `run` itself is pickled by name, so unpickling it fails with a traceback if the executor lacks hive_bitmap or a
    package. `checked` is a nested function, which is pickled by value, so it can run and raise a clear error.
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
    """Raise MissingPackage unless this process, a Python worker of an executor, has the packages that tasks need."""
    _require_installed(TASK, f"an executor on {socket.gethostname()}: ")


def _require_installed(needed: Sequence[str], where: str) -> None:
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
    """Return what is wrong with a required package; "" if nothing is.

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
    except PackageNotFoundError:  # without metadata, like pyspark from SPARK_HOME/python: assume that it fits
        return ""
    return f"{name} is {found}" if _numbers(found) < _numbers(oldest) else ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version, for comparison.

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
