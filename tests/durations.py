"""A pytest plugin: `--seconds` prints where the time of a run goes, as seconds of all workers together.

Three tables: test files, fixtures (without the fixtures that they ask for), and single cases.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

_FIXTURES = "seconds of fixtures"
_ROWS = 30
_HEADS = ("file", "tests", "set-up", "call", "teardown", "sum")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", action="store_true", help="print the slowest files, fixtures and cases")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--seconds"):
        config.pluginmanager.register(_Stopwatch(), "seconds of fixtures and cases")


class _Stopwatch:
    def __init__(self) -> None:
        self.inner: list[float] = [0.0]  # seconds of the fixtures that each running fixture has asked for

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """Note the fixture's own seconds with the test that it is set up for."""
        self.inner.append(0.0)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            took = time.perf_counter() - began
            own = took - self.inner.pop()
            self.inner[-1] += took
            request._pyfuncitem.user_properties.append((_FIXTURES, [f"{fixturedef.argname} ({request.scope})", own]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        reports = [one for some in terminalreporter.stats.values() for one in some if hasattr(one, "duration")]
        files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        fixtures: dict[str, list[float]] = defaultdict(list)
        cases: dict[str, float] = defaultdict(float)
        for report in reports:
            files[report.location[0]][report.when] += report.duration
            files[report.location[0]]["tests"] += report.when == "call"
            cases[report.nodeid] += report.duration
            if report.when == "teardown":
                for name, value in report.user_properties:
                    if name == _FIXTURES:
                        fixtures[value[0]].append(value[1])
        _print(terminalreporter, _HEADS, [_row(name, found) for name, found in files.items()])
        _print(
            terminalreporter,
            ("fixture", "times", "seconds"),
            [(name, len(some), round(sum(some), 1)) for name, some in fixtures.items()],
        )
        _print(terminalreporter, ("case", "seconds"), [(name, round(some, 2)) for name, some in cases.items()])


def _row(name: str, found: dict[str, float]) -> tuple[object, ...]:
    phases = [round(found[phase], 1) for phase in ("setup", "call", "teardown")]
    return (name, int(found["tests"]), *phases, round(sum(phases), 1))


def _print(reporter: Any, heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print the rows with the largest last columns, and the sum of all."""
    everything = round(sum(row[-1] for row in rows), 1)
    reporter.section(f"seconds by {heads[0]}: {everything} in {len(rows)} rows, the largest {_ROWS}")
    reporter.write_line("  ".join(f"{head:>8}" for head in (*heads[1:], heads[0])))
    for row in sorted(rows, key=lambda row: -row[-1])[:_ROWS]:
        reporter.write_line("  ".join(f"{cell:>8}" for cell in (*row[1:], row[0])))
