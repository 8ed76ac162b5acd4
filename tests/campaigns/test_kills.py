"""Acts on an index killed in the middle, again and again: what is there is right, and can be repaired and cleaned up.

`--long N` takes four kills for each N, `--seed S` begins with that seed. A failure prints seed, run and act.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns import kills

pytestmark = [pytest.mark.random, pytest.mark.servers]
KILLS = 4  # of a seed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, long = (metafunc.config.getoption(name) for name in ("--seed", "--long"))
    metafunc.parametrize("seed", range(first, first + max(1, long)))


def test_acts_are_killed(tmp_path: Path, seed: int, tell_of_campaign: Callable[[str], None]) -> None:
    report = kills.run(tmp_path, seed, KILLS)
    tell_of_campaign(f"kills, seed {seed}: {report}")
    assert report.kills.total() == KILLS
