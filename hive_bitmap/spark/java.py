"""Check the Java that Spark starts, and pass options to this Java.

A Java that is too old would make Spark fail with a stack trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from hive_bitmap.errors import HiveBitmapError

OLDEST = 17
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"  # the JVM's optimizing compiler pays only after some ten seconds
_OPTIONS = "SPARK_SUBMIT_OPTS"  # options of a driver's JVM, before those of Spark's configuration
_ADVICE = (
    f"install Java {OLDEST} or newer and set JAVA_HOME to it (Debian/Ubuntu: apt-get install default-jre-headless; "
    "macOS: brew install openjdk; anywhere: pip install install-jdk, then "
    "python -c \"import jdk; print(jdk.install('21', jre=True))\")"
)


def executable() -> str:
    """Return the path of the `java` that Spark will start.

    Spark starts the `java` of JAVA_HOME, otherwise the first `java` on PATH. Raises HiveBitmapError if neither exists.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if not path:
        where = f"JAVA_HOME={home} holds no bin/java" if home else "JAVA_HOME is not set and no java is on PATH"
        raise HiveBitmapError(f"Spark needs Java {OLDEST} or newer, but {where}; {_ADVICE}")
    return path


def version(java: str) -> int:
    """Return the feature release of `java`: 17 for 17.0.15, 8 for 1.8.0_402.

    Raises HiveBitmapError if `java` fails. For example, the stub of macOS only says that Java is not installed.
    """
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode or not match:
        raise HiveBitmapError(f"{java} -version failed: {done.stderr.strip()}; {_ADVICE}")
    return int(match[1])


def require() -> None:
    """Raise HiveBitmapError unless the Java that Spark will start is new enough."""
    java = executable()
    release = version(java)
    if release < OLDEST:
        raise HiveBitmapError(f"Spark needs Java {OLDEST} or newer, but {java} is Java {release}; {_ADVICE}")


@contextmanager
def started_with(*options: str) -> Iterator[None]:
    """Pass these options to a JVM that Spark starts inside the `with` block.

    Options in the environment and in Spark's settings come later in the command line, and have precedence: if an option
    has two values, Java takes the last value.
    """
    previous = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = " ".join([*options, *([previous] if previous else [])])
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = previous
