"""`make release`: build what a release consists of into dist/, and try it in an environment that has nothing else.

Publishing is the owner's: the last lines say how. The exit status is 1 where something is not as it should be.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from configparser import ConfigParser
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

HOME = Path(__file__).parents[1]
DIST = HOME / "dist"
RECIPE = HOME / "scripts/conda/meta.yaml"
LICENCES = """
from importlib.metadata import distributions
for one in distributions():
    said = one.metadata
    named = [text.rpartition(" :: ")[2] for text in said.get_all("Classifier", []) if text.startswith("License ::")]
    licence = said.get("License-Expression") or ", ".join(named) or (said.get("License") or "").partition("\\n")[0]
    print(said["Name"], one.version, licence or "not said", sep="\\t")
"""
STATEMENTS = """
CREATE TABLE t USING parquet AS SELECT id % 9 AS k, id AS v FROM range(1000);
CREATE INDEX by_k ON TABLE t (k) AS 'BITMAP';
SHOW INDEX ON t
"""
REMAINS = """
Ready in dist/. What remains is the owner's:
  git tag v{version} && git push origin v{version}
  twine upload dist/*.whl dist/*.tar.gz
  dist/meta.yaml: the recipe for conda-forge (staged-recipes, then the feedstock's bot)
  docker build --file docker/spark/Dockerfile --tag hive_bitmap/spark:{version} .
"""


class NotReady(Exception):
    """Why this is no release; the message says what to do."""


def main() -> int:
    """Return the exit status."""
    try:
        version = checked_version((HOME / "setup.cfg").read_text(), (HOME / "CHANGELOG.md").read_text())
        if not is_rehearsal():
            require_committed(version)
        if not (HOME / f"tests/golden/{version}.tar.gz").is_file():
            raise NotReady(f"tests/golden has no indexes of {version}, which later versions must read: make golden")
        if DIST.exists():
            shutil.rmtree(DIST)
        _run([sys.executable, "-m", "build", "--outdir", str(DIST), str(HOME)])
        [wheel], [source] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source)])
        with TemporaryDirectory(prefix="hive_bitmap-release-") as work:
            _try(wheel, version, Path(work))
        recipe = RECIPE.read_text().replace("@VERSION@", version)
        (DIST / RECIPE.name).write_text(recipe.replace("@SHA256@", hashlib.sha256(source.read_bytes()).hexdigest()))
    except NotReady as e:
        print(f"no release: {e}", file=sys.stderr)
        return 1
    print(REMAINS.format(version=version))
    return 0


def is_rehearsal() -> bool:
    """Return whether this is tried with what is neither dated nor committed yet."""
    return os.environ.get("REHEARSAL") == "1"


def checked_version(setup_cfg: str, changes: str) -> str:
    """Return the version of a setup.cfg, which the first heading of the changes must name as released.

    >>> checked_version("[metadata]\\nversion = 0.2.0\\n", "# Changes\\n\\n## 0.2.0 (2027-01-31)\\n\\n## 0.1.0\\n")
    '0.2.0'
    """
    config = ConfigParser(interpolation=None)
    config.read_string(setup_cfg)
    version = config["metadata"]["version"]
    first, said = (re.findall(r"^## (\S+)[^\S\n]*(.*?)\s*$", changes, re.MULTILINE) or [("nothing", "")])[0]
    if first != version:
        raise NotReady(f"setup.cfg has version {version}, and CHANGELOG.md begins with {first}: make them the same")
    if not _is_day(said) and not is_rehearsal():
        raise NotReady(
            f"CHANGELOG.md says of {version} {said or 'no date'}: give it the day, (2027-01-31); or rehearse: "
            "make release REHEARSAL=1"
        )
    return version


def _is_day(text: str) -> bool:
    try:
        return text == f"({date.fromisoformat(text[1:-1])})"
    except ValueError:
        return False


def require_committed(version: str) -> None:
    """Raise NotReady if git would tag something else than what is released."""
    if changed := _run(["git", "status", "--porcelain"]).strip():
        raise NotReady(f"these files are not committed:\n{changed}")
    if _run(["git", "tag", "--list", f"v{version}"]).strip():
        raise NotReady(f"tag v{version} is there already: raise the version in setup.cfg and CHANGELOG.md")


def licences(lines: Iterable[str], own: str) -> str:
    """Return the list of packages, versions and licences, for people, of lines with tabs between the three.

    >>> print(licences(["b\\t1\\tMIT", "hive_bitmap\\t0.1\\tApache-2.0", "a\\t2.0\\tnot said"], "hive_bitmap"), end="")
    a 2.0: not said
    b 1: MIT
    """
    found = sorted((line.split("\t") for line in lines if line), key=lambda fields: fields[0].lower())
    told = [f"{name} {version}: {licence}" for name, version, licence in found if name.replace("-", "_") != own]
    return "".join(f"{line}\n" for line in told)


def _try(wheel: Path, version: str, work: Path) -> None:
    """Install a wheel where nothing else is, list what came along, and build and ask an index."""
    environment = work / "environment"
    _run(["env", f"PYTHON={sys.executable}", "sh", str(HOME / "scripts/venv.sh"), str(environment)])
    python, program = environment / "bin/python", environment / "bin/hive-bitmap"
    listed = _run([str(python), "-c", LICENCES]).splitlines()  # pip and what it brings are no part of the package
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    added = [line for line in _run([str(python), "-c", LICENCES]).splitlines() if line not in listed]
    (DIST / "licences.txt").write_text(licences(added, "hive_bitmap"))
    here = [str(program), "--warehouse", str(work / "warehouse")]
    _expect(version, _run([str(program), "--version"], work))
    _run([*here, "doctor"], work)
    _expect("by_k", _run([*here, "sql", "-e", STATEMENTS], work))
    _expect(str(sum(number % 9 == 3 for number in range(1000))), _run([*here, "query", "t", "k = 3", "--count"], work))


def _expect(wanted: str, found: str) -> None:
    if wanted not in found.split():
        raise NotReady(f"{wanted!r} was expected of the installed wheel, and it printed: {found.strip()[-500:]}")


def _run(command: list[str], folder: Path = HOME) -> str:
    print("+", " ".join(command)[:150].partition("\n")[0], file=sys.stderr, flush=True)
    # Nothing of this checkout and its environment may help what is tried, but its Java.
    ours = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(
            f"{command[0]} ended with status {done.returncode}: {(done.stdout + done.stderr).strip()[-2000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
