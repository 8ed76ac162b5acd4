"""Spark 4 runs on Java 17 or newer; say so before Spark fails with a stack trace of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from hive_bitmap.errors import HiveBitmapError

OLDEST = 17
_ADVICE = (
    f"install Java {OLDEST} or newer and set JAVA_HOME to it (Debian/Ubuntu: apt-get install default-jre-headless; "
    "macOS: brew install openjdk; anywhere: pip install install-jdk, then "
    "python -c \"import jdk; print(jdk.install('21', jre=True))\")"
)


def executable() -> str:
    """The `java` that Spark will start: that of JAVA_HOME, else the first on PATH.

    Raises HiveBitmapError where there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if not found:
        where = f"JAVA_HOME={home} holds no bin/java" if home else "JAVA_HOME is not set and no java is on PATH"
        raise HiveBitmapError(f"Spark needs Java {OLDEST} or newer, and {where}; {_ADVICE}")
    return found


def version(java: str) -> int:
    """The feature release of `java`: 17 for 17.0.15, 8 for 1.8.0_402.

    Raises HiveBitmapError where it does not tell (macOS has a `java` that only says that there is none).
    """
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if told.returncode or not match:
        raise HiveBitmapError(f"{java} -version failed: {told.stderr.strip()}; {_ADVICE}")
    return int(match[1])


def require() -> None:
    """Raise HiveBitmapError unless Spark's Java is there and new enough."""
    java = executable()
    found = version(java)
    if found < OLDEST:
        raise HiveBitmapError(f"Spark needs Java {OLDEST} or newer, and {java} is Java {found}; {_ADVICE}")
