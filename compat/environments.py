"""Environments with nothing in them but the wheel and what it declares, made once and kept between runs.

They lie in $HIVE_BITMAP_CACHE (default ~/.cache/hive_bitmap), each named for what it holds: the version of Python, the
exact PySpark, and all that the wheel declares. Change one of them and another environment is made. The wheel itself is
installed anew at every run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.version import Version

from tests.servers import jars

RELEASES = ("4.0", "4.1", "4.2", "4.3")
LOWEST = "lowest"  # every package that the wheel declares in the oldest version that it declares
EXTRAS = ("connect", "hive")
TESTED_EXTRAS = ("connect", "hive", "test")  # of a checkout, for its own tests


class Unavailable(Exception):
    """An environment that cannot be made here; the message says why."""


@dataclass(frozen=True)
class Environment:
    """The name of a column of the table, the exact PySpark, and the Python of the environment."""

    name: str
    pyspark: str
    python: Path


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built into `folder`."""
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), "."], "the wheel cannot be built")
    (wheel,) = folder.glob("*.whl")
    return wheel


def requirements(wheel: Path) -> list[Requirement]:
    """What the wheel declares, with its extras; no extra of tests and developers."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    found = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    wanted = [{"extra": extra} for extra in ("", *EXTRAS)]
    return [need for need in found if need.marker is None or any(map(need.marker.evaluate, wanted))]


def lowest(needed: Sequence[Requirement]) -> list[str]:
    """Pins of the oldest versions that are declared.

    >>> lowest([Requirement("numpy>=2"), Requirement("pyspark[connect]<4.4,>=4.0")])
    ['numpy==2', 'pyspark[connect]==4.0']
    """
    pins = []
    for need in needed:
        bounds = [one.version for one in need.specifier if one.operator == ">="]
        if not bounds:
            raise Unavailable(f"setup.cfg declares no lower bound of {need.name}")
        pins.append(f"{need.name}{_extras(need)}=={bounds[0]}")
    return pins


@contextlib.contextmanager
def environment(name: str, wheel: Path, python: str) -> Iterator[Environment]:
    """The environment of this name, made if it is not there, with the wheel in it; nobody else's until the block ends.

    `name` is a release (`4.1`: its newest patch), an exact version, or LOWEST. Raises Unavailable.
    """
    needed = requirements(wheel)
    cache = jars.cache()
    if name == LOWEST:
        pins = lowest(needed)
        pyspark = next(pin.partition("==")[2] for pin in pins if pin.startswith("pyspark=="))
    else:
        pyspark = newest_patch(name, cache)
        pins = _pins(pyspark, needed)
    with _locked(cache / f"compat-{pyspark}-{_digest([_version(python), *sorted(pins)])}") as home:
        if not (home / "complete").exists():
            _make(home, pins, python)
        inside = home / "bin" / "python"
        _pip(inside, ["--force-reinstall", "--no-deps", str(wheel)])
        yield Environment(name, pyspark, inside)


def checkout_environment(release: str, python: str) -> Environment:
    """The environment with this release of PySpark and all that this checkout and its tests declare, made if it is
    not there. It has no hive_bitmap in it, and several runs may use it at once. Raises Unavailable.
    """
    cache = jars.cache()
    pyspark = newest_patch(release, cache)
    pins = _pins(pyspark, declared(Path("setup.cfg").read_text(), TESTED_EXTRAS))
    with _locked(cache / f"tests-{pyspark}-{_digest([_version(python), *sorted(pins)])}") as home:
        if not (home / "complete").exists():
            _make(home, pins, python)
        return Environment(release, pyspark, home / "bin" / "python")


def declared(setup_cfg: str, extras: Sequence[str]) -> list[Requirement]:
    """What a setup.cfg declares, with these extras.

    >>> text = "[options]\\ninstall_requires =\\n  numpy>=2\\n[options.extras_require]\\ntest =\\n  pytest\\n"
    >>> declared(text, ["test"])
    [<Requirement('numpy>=2')>, <Requirement('pytest')>]
    """
    config = ConfigParser(interpolation=None)
    config.read_string(setup_cfg)
    lists = [config["options"]["install_requires"], *(config["options.extras_require"][extra] for extra in extras)]
    return [Requirement(line) for text in lists for line in text.split("\n") if line.strip()]


def _pins(pyspark: str, needed: Sequence[Requirement]) -> list[str]:
    return [f"pyspark=={pyspark}", *(f"{need.name}{_extras(need)}{need.specifier}" for need in needed)]


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[Path]:
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield home


def newest_patch(release: str, cache: Path) -> str:
    """The newest patch of a release in the package index; where it does not answer, of those that were run here."""
    if release.count(".") > 1:
        return release
    command = [sys.executable, "-m", "pip", "index", "versions", "pyspark"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    text = told.stdout.partition("Available versions:")[2].partition("\n")[0]
    known = re.findall(r"[\d.]+", text) or [path.name.split("-")[1] for path in cache.glob("[ct]*-*-*.lock")]
    patches = [version for version in known if version.startswith(f"{release}.")]
    if not patches:
        raise Unavailable(f"no PySpark {release} can be had: {told.stderr.strip()[-300:]}")
    return max(patches, key=Version)


def _make(home: Path, pins: Sequence[str], python: str) -> None:
    """Make an environment; one that was left half made is made again."""
    print(f"making {home} (PySpark takes some 450 MB)", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    _run(["env", f"PYTHON={python}", "sh", "scripts/venv.sh", str(home)], "no virtual environment can be made")
    inside = home / "bin" / "python"
    _pip(inside, ["--upgrade", "pip"])
    _pip(inside, ["--prefer-binary", *pins])
    (home / "complete").touch()


def _pip(python: Path, arguments: Sequence[str]) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    _run(command, f"pip cannot install {' '.join(arguments)}")


def _run(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{problem}: {(done.stdout + done.stderr).strip()[-1500:]}")


def _version(python: str) -> str:
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _extras(need: Requirement) -> str:
    return f"[{','.join(sorted(need.extras))}]" if need.extras else ""


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
