"""The seeds of campaigns: `--long N` takes N of them, from `--seed S` on."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, long = (metafunc.config.getoption(name) for name in ("--seed", "--long"))
        metafunc.parametrize("seed", range(first, first + max(1, long)))
