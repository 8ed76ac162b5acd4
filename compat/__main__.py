"""Build the wheel once, run `smoke.py` in each environment, and print a table of entry points by versions.

The exit status is 1 if an entry point failed anywhere, or an environment could not be made.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from compat.environments import LOWEST, RELEASES, Environment, Unavailable, build_wheel, environment
from compat.smoke import ENTRIES, GROUPS

SECONDS = 900  # for the entry points of one process
KEPT = ("PATH", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
INSTALLED = "installed"  # the row of what is there before any entry point: the wheel, and no broken requirement


@dataclass(frozen=True)
class Outcome:
    """What became of an entry point: how long it took, and why it failed, empty if it did not."""

    seconds: float
    error: str = ""


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make compat", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"such as 4.1, 4.0.1, {LOWEST}")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    said = parser.parse_args()
    console = Console(stderr=True)
    found: dict[str, dict[str, Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="hive_bitmap-compat-") as work:
        wheel = build_wheel(Path(work))
        for name in said.versions or [*RELEASES, LOWEST]:
            started = time.monotonic()
            try:
                with environment(name, wheel, said.python) as place:
                    found[_title(place)] = _smoke(place, Path(work) / name)
            except Unavailable as e:
                found[name] = {INSTALLED: Outcome(time.monotonic() - started, str(e))}
            console.print(f"{name}: {time.monotonic() - started:.0f} s", highlight=False)
    _print(found)
    return int(any(outcome.error for outcomes in found.values() for outcome in outcomes.values()))


def _title(place: Environment) -> str:
    return f"{LOWEST} ({place.pyspark})" if place.name == LOWEST else place.pyspark


def _smoke(place: Environment, folder: Path) -> dict[str, Outcome]:
    """Every entry point in an environment, in a folder that is no checkout."""
    folder.mkdir()
    script = folder / "smoke.py"
    shutil.copy(Path(__file__).with_name("smoke.py"), script)
    outcomes = {INSTALLED: _installed(place, folder)}
    for group in GROUPS:
        home = folder / group
        home.mkdir()
        report = home / "report"
        report.touch()
        with (home / "log").open("wb") as log:
            try:
                subprocess.run(
                    [place.python, script, group, report],
                    cwd=home,
                    env=_environment(place),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                log.write(f"\nended after {SECONDS} s".encode())
        for line in report.read_text().splitlines():
            told = json.loads(line)
            outcomes[told["name"]] = Outcome(told["seconds"], told["error"])
        end = (home / "log").read_text(errors="replace")[-1500:]
        for entry in ENTRIES:
            if entry.group == group and entry.name not in outcomes:
                outcomes[entry.name] = Outcome(0, f"its process ended before: {end}")
    return outcomes


def _environment(place: Environment) -> dict[str, str]:
    """Of this process's variables those that no Spark, Hadoop, Hive or Python is told anything by."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # The quick compiler alone: the processes end before the better one pays.
    tuned = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    return {**kept, "PATH": f"{place.python.parent}:{kept['PATH']}", "SPARK_SUBMIT_OPTS": tuned}


def _installed(place: Environment, folder: Path) -> Outcome:
    started, problems = time.monotonic(), []
    for arguments in (["-m", "pip", "show", "hive_bitmap"], ["-m", "pip", "check"]):
        done = subprocess.run([place.python, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            problems.append(f"pip {arguments[2]}: {(done.stdout + done.stderr).strip()}")
    return Outcome(time.monotonic() - started, "; ".join(problems))


def _print(found: Mapping[str, Mapping[str, Outcome]]) -> None:
    """The table, and below it why what failed did."""
    console = Console(width=max(100, 30 + 18 * len(found)), highlight=False)
    console.print("seconds of each entry point, by the version of PySpark")
    table = Table()
    table.add_column("entry point")
    for name in found:
        table.add_column(name, justify="right")
    for row in (INSTALLED, *(entry.name for entry in ENTRIES)):
        table.add_row(row, *(_cell(outcomes.get(row)) for outcomes in found.values()))
    console.print(table)
    for name, outcomes in found.items():
        for row, outcome in outcomes.items():
            if outcome.error:
                console.print(f"{name}, {row}: {outcome.error}", markup=False)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "[dim]not run[/dim]"
    return "[red]FAILED[/red]" if outcome.error else f"✓ {outcome.seconds:.1f}"


if __name__ == "__main__":
    sys.exit(main())
