"""`make lake`: the tests of Delta and Iceberg tables, in an environment with a Spark for which both are released.

Neither runs on the newest PySpark, so these tests have an environment of their own, made and kept as those of
`make compat`. It holds what the tests need, but no hive_bitmap: the one of this checkout is tested. `--spark` as the
first argument names another release of PySpark, for which the formats' jars are taken then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.environments import Unavailable, checkout_environment

RELEASE = "4.1"
CHECKOUT = Path(__file__).parents[1]


def main() -> int:
    """Run pytest with these arguments, by default all tests of the lane; the exit status is pytest's."""
    release, arguments = (sys.argv[2], sys.argv[3:]) if sys.argv[1:2] == ["--spark"] else (RELEASE, sys.argv[1:])
    return run(["-m", "pytest", "-m", "lake", *(arguments or ["tests/lake"])], release)


def run(arguments: Sequence[str], release: str = RELEASE) -> int:
    """Run Python with these arguments in the environment, and this checkout; return its exit status."""
    try:
        python = str(checkout_environment(release, sys.executable).python)
    except Unavailable as e:
        print(e, file=sys.stderr)
        return 1
    spark = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run([python, *arguments], cwd=CHECKOUT, env={**os.environ, **spark}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
