"""A pytest plugin: which tests a lane of the Makefile runs, and whose turn it is in big oracles.

A test that uses the shared session gets the marker `spark`. A test marked `turn(n)` takes turns with the others of its
file that are marked alike: a lane that is run with `--turns` runs one case in `n`. `SAMPLE`, a number, says which; by
default it is drawn from the commit, so that successive commits run all cases. Without git it is 0. The contract takes
no turns.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

_SAMPLE = "SAMPLE"


def sample() -> int:
    """Return the number that says whose turn it is: the same in all workers of a run."""
    return int(os.environ.get(_SAMPLE) or "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", action="store_true", help=f"run one case in n of tests marked turn(n); see {_SAMPLE}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the number before tests are imported; workers inherit it."""
    if not os.environ.get(_SAMPLE):
        os.environ[_SAMPLE] = str(_of_commit(config.rootpath))
    elif not os.environ[_SAMPLE].isdecimal():
        raise pytest.UsageError(f"{_SAMPLE}={os.environ[_SAMPLE]} is not a number")


def pytest_report_header(config: pytest.Config) -> str:
    turns = "one case in n of tests marked turn(n)" if config.getoption("--turns") else "whole (no --turns)"
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
    """Return the items whose turn it is: of each file one case in n of those marked turn(n)."""
    kept: set[pytest.Item] = set()
    cases: dict[tuple[Path, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("turn")
        if marker is None or item.get_closest_marker("contract"):
            kept.add(item)
        else:
            cases[item.path, marker.args[0]].append(item)
    for (_, share), some in cases.items():
        kept.update(item for number, item in enumerate(some) if (number + sample()) % share == 0)
    return kept


def _of_commit(folder: Path) -> int:
    """Return a number made of the checked out commit, 0 if there is none."""
    try:
        command = ["git", "rev-parse", "--short=8", "HEAD"]
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(found.stdout.strip() or "0", 16)
