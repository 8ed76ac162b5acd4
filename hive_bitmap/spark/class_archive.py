"""The archive of classes from which the JVM of a session starts: class data sharing of the JVM.

Spark loads some 20,000 classes until it has answered its first query. From an archive they are mapped, not parsed and
verified, which halves the work of a start. An archive belongs to one Java and one set of jars and is named for them;
the JVM compares them once more, and does without an archive that does not fit. But a JVM crashes from one that is
damaged: its size, which its name has, is compared here, and the JVM compares its checksums. `archive_making` makes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java

VARIABLE = "HIVE_BITMAP_CLASS_ARCHIVES"
# The JVM writes what it logs of an archive to the standard output; Java 25 calls errors what keeps it from no class.
QUIET = "-Xlog:disable"


def options() -> tuple[str, ...]:
    """Return the options of a JVM that starts from the archive; none if there is no archive."""
    base = place()
    found = None if base is None else find(base)
    return () if found is None else (f'"-XX:SharedArchiveFile={found}"', "-XX:+VerifySharedSpaces", QUIET)


def place() -> Path | None:
    """Return the path, without its size and suffix, of the archive for the Java and the jars of this environment.

    None if no archive can be made for them, and if the user wants none.
    """
    folder, spark_home = _folder(), _spark_home()
    if folder is None or spark_home is None or "SPARK_REMOTE" in os.environ:
        return None
    # The JVM archives nothing if a folder that is not empty is on its class path, where Spark puts this one.
    if "SPARK_CONF_DIR" in os.environ or (spark_home / "conf").exists():
        return None
    try:
        digest = sha256("\n".join(_identities(Path(java.executable()), spark_home / "jars")).encode())
    except (OSError, HiveBitmapError):  # another kind of Java, or none: Spark tells
        return None
    return folder / f"spark-{digest.hexdigest()[:16]}"


def named(base: Path, size: int) -> Path:
    """Return the path of an archive of so many bytes."""
    return base.with_name(f"{base.name}-{size}.jsa")


def find(base: Path) -> Path | None:
    """Return the archive that lies at `base`, if it is whole and nobody else can have written it."""
    for path in base.parent.glob(f"{base.name}-*.jsa"):
        if _is_ours(path) and path == named(base, path.stat().st_size):
            return path
    return None


def _folder() -> Path | None:
    """Return the folder of archives: that of the variable, none if it is empty, else that of the user's caches."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named).absolute() if named else None
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(caches) / "hive-bitmap"


def _spark_home() -> Path | None:
    """Return the folder of the Spark that PySpark starts."""
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent


def _identities(executable: Path, jars: Path) -> Iterator[str]:
    """Yield what tells a Java and jars from others: the JVM compares sizes and times of change as well."""
    for file in (executable.resolve().parent.parent / "lib" / "modules", *sorted(jars.glob("*.jar"))):
        status = file.stat()
        yield f"{file} {status.st_size} {status.st_mtime_ns}"


def _is_ours(path: Path) -> bool:
    """Whether a file is there that only this user could write: it is code."""
    try:
        found = [os.stat(path), os.stat(path.parent)]
    except OSError:
        return False
    return all(one.st_uid == os.geteuid() and not one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in found)
