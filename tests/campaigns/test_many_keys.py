"""A driver with a heap of 1 GB and an index of many distinct keys: every query works, and answers as Spark does.

`--long N` makes N million keys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.random, pytest.mark.servers]
PROGRAM = Path(__file__).with_name("many_keys.py")
HOME = Path(__file__).parents[2]
FEW = 300_000  # keys without --long
QUERIES = 13


def test_many_keys_and_a_small_heap(
    tmp_path: Path, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    keys = pytestconfig.getoption("--long") * 1_000_000 or FEW
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(keys)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    built, *asked = map(json.loads, ended.stdout.splitlines())
    plain, indexed = (sum(query[way] for query in asked) for way in ("plain", "indexed"))
    tell_of_campaign(
        f"{keys:,} keys, heap 1 GB: indexes built in {built['built']} s, {len(asked)} queries in {indexed:.0f} s, "
        f"plain Spark {plain:.0f} s"
    )
    assert len(asked) == QUERIES
    assert [query["query"] for query in asked if not query["same"]] == []
