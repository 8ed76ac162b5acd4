"""Check that the packages that hive_bitmap needs are installed.

Each process checks once, before it imports any of these packages: the driver at the first call, the command line when
it starts, and the Python worker of an executor at its first task. A worker may lack packages that the driver has.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import MissingPackage

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# The packages that each process needs; the installed package requires their versions (setup.cfg).
TASK = ("pyarrow", "numpy", "duckdb", "packaging", "cachetools", "pyorc")
DRIVER = ("pyspark", "pandas", *TASK, "rich")
PROGRAM = (*DRIVER, "click", "prompt_toolkit")


def require(needed: tuple[str, ...] = DRIVER) -> None:
    """Raise MissingPackage unless these packages are installed in the required versions."""
    _require_installed(needed, "")


def require_connect() -> None:
    """Raise MissingPackage unless the Spark Connect client can be imported.

    Without this check, PySpark would fail with a traceback.
    """
    missing = [name for name in ("grpc", "grpc_status") if find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"SPARK_REMOTE is set, but Spark Connect needs {' and '.join(missing)}, which is not installed: "
            f"{sys.executable} -m pip install 'hive_bitmap[connect]'"
        )


def for_tasks(run: Callable[..., Iterator[Any]], /, **arguments: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Bind `arguments` to `run`, and return the result as a function for `mapInArrow`.

    The function checks the executor's packages first. `run` is pickled by name, so unpickling it fails with a
    traceback if the executor lacks hive_bitmap or a package. The nested function `checked` is pickled by value, so it
    can run and raise a clear error.
    """
    from pyspark import cloudpickle

    work = cloudpickle.dumps(partial(run, **arguments))

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


def require_in_task() -> None:
    """Raise MissingPackage unless this Python worker has the packages of tasks."""
    _require_installed(TASK, f"an executor on {socket.gethostname()}: ")


@lru_cache
def _require_installed(needed: tuple[str, ...], where: str) -> None:
    """Raise MissingPackage if any of these packages is missing or outdated.

    `where` begins the message. Success is cached, because a check takes 10 ms.
    """
    if find_spec("packaging") is None:  # it compares the versions of the others
        problems = {"packaging": "packaging is not installed"}
    else:
        problems = {
            str(requirement): problem for requirement in _declared(needed) if (problem := _problem(requirement))
        }
    if not problems:
        return
    install = " ".join(f"'{requirement}'" for requirement in problems)
    more = " (on every machine that runs executors)" if where else ""
    raise MissingPackage(
        f"{where}hive_bitmap needs {', '.join(problems)}, but {' and '.join(problems.values())}: "
        f"{sys.executable} -m pip install {install}{more}"
    )


def _declared(needed: Sequence[str]) -> list[Requirement]:
    """Return these packages with the versions that hive_bitmap requires.

    If hive_bitmap was sent as a zip, its requirements are unknown, and any version is accepted.
    """
    from packaging.requirements import Requirement

    try:
        lines = requires("hive_bitmap") or []
    except PackageNotFoundError:
        lines = []
    declared = [Requirement(line) for line in lines]
    versions = {requirement.name: requirement.specifier for requirement in declared if requirement.marker is None}
    needed_requirements = [Requirement(name) for name in needed]
    for requirement in needed_requirements:
        requirement.specifier = versions.get(requirement.name, requirement.specifier)
    return needed_requirements


def _problem(requirement: Requirement) -> str:
    """Describe the problem of a required package; "" if there is none.

    >>> from packaging.requirements import Requirement
    >>> _problem(Requirement("numpy>=2")), _problem(Requirement("numpy>=1000"))[:6]
    ('', 'numpy ')
    >>> _problem(Requirement("no_such_package>=1"))
    'no_such_package is not installed'
    """
    if find_spec(requirement.name) is None:
        return f"{requirement.name} is not installed"
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:  # without metadata, like pyspark from SPARK_HOME/python: assume that it fits
        return ""
    return "" if requirement.specifier.contains(installed, prereleases=True) else f"{requirement.name} is {installed}"
