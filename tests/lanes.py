"""A pytest plugin: which tests a lane of the Makefile runs, and whose turn it is in big oracles.

A test that uses the shared session gets the marker `spark`. A lane that is run with `--turns` runs a part of the tests:

* with Spark, the tests of one file in two; of the contract, those of one file in three (`_FILES`);
* of those marked `turn(n)`, but for the contract, one in `n` of a file.

`SAMPLE`, a number, says which; by default it is drawn from the commit, so that successive commits run all. Without git
it is 0.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

_T = TypeVar("_T")
_SAMPLE = "SAMPLE"
# Of the tests with one of these markers, one file in so many is run. A test belongs to the first one that it has.
_FILES = {"random": 1, "servers": 1, "hive": 1, "lake": 2, "stores": 2, "contract": 3, "spark": 2}


def sample() -> int:
    """Return the number that says whose turn it is: the same in all workers of a run."""
    return int(os.environ.get(_SAMPLE) or "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", action="store_true", help=f"run a part of the tests that take turns; see {_SAMPLE}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the number before tests are imported; workers inherit it."""
    if not os.environ.get(_SAMPLE):
        os.environ[_SAMPLE] = str(_of_commit(config.rootpath))
    elif not os.environ[_SAMPLE].isdecimal():
        raise pytest.UsageError(f"{_SAMPLE}={os.environ[_SAMPLE]} is not a number")


def pytest_report_header(config: pytest.Config) -> str:
    turns = "a part of the tests that take turns" if config.getoption("--turns") else "whole (no --turns)"
    return f"sample: {_SAMPLE}={sample()} draws the ways to ask; {turns}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if config.getoption("--turns"):
        kept = _in_turn(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _in_turn(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the items whose turn it is."""
    files: dict[tuple[str, int], dict[Path, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        files[_group(item)][item.path].append(item)
    kept: set[pytest.Item] = set()
    for (name, share), of_path in files.items():
        by_size = sorted(of_path, key=lambda path: (-len(of_path[path]), path))
        for path in _every(share, by_size, sample()):
            cases: dict[int, list[pytest.Item]] = defaultdict(list)
            for item in of_path[path]:
                marker = item.get_closest_marker("turn")
                cases[1 if marker is None or name == "contract" else marker.args[0]].append(item)
            for turns, some in cases.items():
                kept.update(_every(turns, some, sample() // share))
    return kept


def _group(item: pytest.Item) -> tuple[str, int]:
    """Return the group of tests whose files take turns with each other, and that one file in so many is run."""
    return next(((name, share) for name, share in _FILES.items() if item.get_closest_marker(name)), ("", 1))


def _every(share: int, some: Sequence[_T], number: int) -> list[_T]:
    """Return one in `share` of some; successive numbers give all of them."""
    return [one for place, one in enumerate(some) if (place + number) % share == 0]


def _of_commit(folder: Path) -> int:
    """Return a number made of the checked out commit, 0 if there is none."""
    try:
        command = ["git", "rev-parse", "--short=8", "HEAD"]
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(found.stdout.strip() or "0", 16)
