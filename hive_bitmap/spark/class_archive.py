"""Start the JVM of a session from a class archive (class data sharing).

Spark loads some 20,000 classes before it has answered its first query. With an archive, the JVM maps these classes
instead of parsing and verifying them, which halves the work of a start. `archive_making` makes an archive for one Java
and one set of jars. The name of the archive has a digest of the Java and the jars, and the size of the archive. The
JVM compares Java and jars again, and ignores an archive that does not fit. A damaged archive would crash the JVM, so
this module compares the size, and the JVM the checksums.
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
# The JVM logs to the standard output; Java 25 reports harmless problems of an archive as errors.
QUIET = "-Xlog:disable"


def options() -> tuple[str, ...]:
    """Return the JVM options to start from the archive; none without an archive."""
    base = place()
    archive = None if base is None else find(base)
    return () if archive is None else (f'"-XX:SharedArchiveFile={archive}"', "-XX:+VerifySharedSpaces", QUIET)


def place() -> Path | None:
    """Return where the archive for the current Java and jars belongs.

    The path lacks the ending `-SIZE.jsa`, which `named` adds, and the archive need not exist. Return None if no archive
    can be made for this Java and these jars, or if the user has switched archives off.
    """
    folder, spark_home = _folder(), _spark_home()
    if folder is None or spark_home is None or "SPARK_REMOTE" in os.environ:
        return None
    # The JVM archives nothing if a nonempty folder is on its class path, and Spark puts this folder there.
    if "SPARK_CONF_DIR" in os.environ or (spark_home / "conf").exists():
        return None
    try:
        digest = sha256("\n".join(_identities(Path(java.executable()), spark_home / "jars")).encode())
    except (OSError, HiveBitmapError):  # another kind of Java, or none: Spark reports it
        return None
    return folder / f"spark-{digest.hexdigest()[:16]}"


def named(base: Path, size: int) -> Path:
    """Return the path of an archive of `size` bytes.

    `base` is the path without size and suffix, as `place` returns it.
    """
    return base.with_name(f"{base.name}-{size}.jsa")


def find(base: Path) -> Path | None:
    """Return the path of the archive whose path begins with `base` (see `named`).

    Return None if there is no archive, if it is incomplete, or if another user owns it or can write it.
    """
    for path in base.parent.glob(f"{base.name}-*.jsa"):
        if _is_ours(path) and path == named(base, path.stat().st_size):
            return path
    return None


def _folder() -> Path | None:
    """Return the folder of archives.

    The environment variable VARIABLE names it; by default, it is in the user's cache folder. Return None if the
    variable is "".
    """
    configured = os.environ.get(VARIABLE)
    if configured is not None:
        return Path(configured).absolute() if configured else None
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(caches) / "hive-bitmap"


def _spark_home() -> Path | None:
    """Return the folder of the Spark that PySpark starts, or None."""
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _identities(executable: Path, jars: Path) -> Iterator[str]:
    """Yield path, size and modification time of a Java and of Spark's jars.

    `executable` is the `java` program, and `jars` the folder of the jars. The JVM compares the same values.
    """
    for file in (executable.resolve().parent.parent / "lib" / "modules", *sorted(jars.glob("*.jar"))):
        status = file.stat()
        yield f"{file} {status.st_size} {status.st_mtime_ns}"


def _is_ours(path: Path) -> bool:
    """Return whether a file exists and only this user can write it.

    A file that others can write might make the JVM run their code.
    """
    try:
        statuses = [os.stat(path), os.stat(path.parent)]
    except OSError:
        return False
    return all(
        status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for status in statuses
    )
