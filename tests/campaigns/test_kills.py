"""Acts on an index killed in the middle, again and again: what is there is right, and can be repaired and cleaned up.

Two acts are killed, with `--long N` four for each N; `--seed S` begins with that seed. A failure prints seed, run and
act.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns import kills

pytestmark = [pytest.mark.random, pytest.mark.servers]
SHORT, LONG = 2, 4  # kills of a seed


def test_acts_are_killed(
    tmp_path: Path, seed: int, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    number = LONG if pytestconfig.getoption("--long") else SHORT
    report = kills.run(tmp_path, seed, number)
    tell_of_campaign(f"kills, seed {seed}: {report}")
    assert report.kills.total() == number
