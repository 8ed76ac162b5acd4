"""Byte ranges of Iceberg's files are tasks of ours, which executors have to make of their serialised form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lake
SECONDS = 400


def test_executors_read_parts_of_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lake.on_cluster", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
