"""Check that the packages that hive_bitmap needs are installed, and locate data files of the package.

Each process checks once, before it imports any of them: the driver at the first call, the program when it starts, and
the Python worker of an executor, which may lack packages that the driver has, when it runs its first task.
"""

from __future__ import annotations

import atexit
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import MissingPackage

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# Which packages are needed where; their versions are those that the installed package requires (setup.cfg).
TASK = ("pyarrow", "numpy", "duckdb", "packaging", "cachetools", "pyorc")
DRIVER = ("pyspark", "pandas", *TASK, "rich")
PROGRAM = (*DRIVER, "click", "prompt_toolkit")

_copies = ExitStack()
atexit.register(_copies.close)


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
            from hive_bitmap.spark import packages
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
    if find_spec("packaging") is None:  # which compares the versions of the others
        found = {"packaging": "packaging is not installed"}
    else:
        found = {str(requirement): problem for requirement in _declared(needed) if (problem := _problem(requirement))}
    if not found:
        return
    install = " ".join(f"'{requirement}'" for requirement in found)
    more = " (on every machine that runs executors)" if where else ""
    raise MissingPackage(
        f"{where}hive_bitmap needs {', '.join(found)}, and {' and '.join(found.values())}: "
        f"{sys.executable} -m pip install {install}{more}"
    )


def _declared(needed: Sequence[str]) -> list[Requirement]:
    """Return these packages with the versions that hive_bitmap requires; any version if it was sent as a mere zip."""
    from packaging.requirements import Requirement

    try:
        lines = requires("hive_bitmap") or []
    except PackageNotFoundError:
        lines = []
    declared = [Requirement(line) for line in lines]
    versions = {one.name: one.specifier for one in declared if one.marker is None}
    found = [Requirement(name) for name in needed]
    for one in found:
        one.specifier = versions.get(one.name, one.specifier)
    return found


def _problem(requirement: Requirement) -> str:
    """Return what is wrong with a required package; "" if nothing is.

    >>> from packaging.requirements import Requirement
    >>> _problem(Requirement("numpy>=2")), _problem(Requirement("numpy>=1000"))[:6]
    ('', 'numpy ')
    >>> _problem(Requirement("no_such_package>=1"))
    'no_such_package is not installed'
    """
    if find_spec(requirement.name) is None:
        return f"{requirement.name} is not installed"
    try:
        found = version(requirement.name)
    except PackageNotFoundError:  # without metadata, like pyspark from SPARK_HOME/python: assume that it fits
        return ""
    return "" if requirement.specifier.contains(found, prereleases=True) else f"{requirement.name} is {found}"
