"""Programs in a process of their own, with the package as it is here, and Spark's workers in this Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[1]


def run_program(text: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program, given as its text, in a folder until it ends; ten minutes at most."""
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
