"""Compile the Java half of hive_bitmap, `jvm/`, into the jar that the package carries; no JDK is needed.

`python scripts/jar.py` rewrites the jar, `python scripts/jar.py --check` says whether it is what its sources give. The
compiler is Eclipse's (one jar of Maven Central), which runs on any Java 17 and compiles against the jars of PySpark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from hive_bitmap.spark import java  # noqa: E402 - from this checkout
from tests.servers import jars  # noqa: E402 - as above

HOME = CHECKOUT / "hive_bitmap" / "spark" / "catalyst"
SOURCES, JAR = CHECKOUT / "jvm", HOME / "hive-bitmap.jar"
COMPILER = "3.40.0"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip file can hold: the jar depends on nothing but its sources


def main() -> int:
    """Compile, and write or compare. Returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare with the jar that is there")
    check = arguments.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / JAR.name
        pack(compiled(Path(folder) / "classes"), built)
        if check:
            same = JAR.exists() and built.read_bytes() == JAR.read_bytes()
            print(f"{JAR.name} is {'' if same else 'NOT '}what its sources give")
            return 0 if same else 1
        JAR.write_bytes(built.read_bytes())
    print(f"{JAR}: {JAR.stat().st_size:,} bytes")
    return 0


def compiled(target: Path) -> Path:
    """The classes of all sources."""
    spark = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    sources = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.java"))
    options = ["--release", "17", "-g:lines,vars", "-proc:none", "-nowarn", "-encoding", "UTF-8", "-d", str(target)]
    done = subprocess.run(
        [java.executable(), "-jar", compiler(), *options, "-cp", os.pathsep.join(map(str, spark)), *sources],
        cwd=SOURCES,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)
    return target


def compiler() -> Path:
    """The compiler's jar, fetched once into the cache that the tests' servers use."""
    (jar,) = jars.resolve("ecj", [f"org.eclipse.jdt:ecj:{COMPILER}"]).glob("ecj-*.jar")
    return jar


def pack(classes: Path, jar: Path) -> None:
    """The classes and the settings, sorted and uncompressed, as a jar."""
    entries = {path.relative_to(classes).as_posix(): path for path in classes.rglob("*.class")}
    entries["hive_bitmap/settings.json"] = CHECKOUT / "hive_bitmap" / "core" / "planning" / "settings.json"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as archive:
        for name, path in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
