"""Run the tests that hold what attacks found (tests/attacks.py) on the package as it was, where they must fail.

Prints for each attack the tests that failed, passed, or could not run there because they call what did not exist. With
`--now` they run on this checkout, where they must pass. The exit status is 1 if an attack has no test that did so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from tests.attacks import ATTACKS, BEFORE  # noqa: E402 - from this checkout

NEW = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "unrecognized", "fixture '")
NEEDED_THEN = ("sqlglot>=26",)  # packages that the package needs no longer
SHOWN = 110  # characters of why a test failed


def main() -> int:
    """Run the tests and print a line for each attack. Returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--now", action="store_true", help="run the tests on this checkout")
    arguments.add_argument("attack", nargs="*", metavar="ATTACK", help="of these only, such as A1")
    given = arguments.parse_args()
    now, attacks = given.now, {name: ATTACKS[name] for name in given.attack or ATTACKS}
    named = {test for _, tests in attacks.values() for test in tests}
    if now:
        found = run(named, CHECKOUT)
    else:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "before"
            git("worktree", "add", "--detach", str(home), BEFORE)
            try:
                needed = Path(folder) / "needed"
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(needed), *NEEDED_THEN]
                subprocess.run(pip, check=True)
                shutil.rmtree(home / "tests")
                shutil.copytree(CHECKOUT / "tests", home / "tests")
                found = run(named, home, needed)
            finally:
                git("worktree", "remove", "--force", str(home))
    wanted = "passed" if now else "failed"
    missing = 0
    for attack, (what, tests) in attacks.items():
        outcomes = [one for test in tests for one in found.get(test, [("could not run", "not collected")])]
        counts = Counter(outcome for outcome, _ in outcomes)
        good = counts[wanted] and not (now and counts["failed"])
        missing += not good
        why = next((text for outcome, text in outcomes if outcome == wanted), outcomes[0][1])
        told = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        print(f"{attack:4} {'as wanted' if good else 'NOT SHOWN':10} {told}: {what}{' | ' + why if why else ''}")
    print(f"{len(attacks) - missing} of {len(attacks)} attacks have a test that {wanted}")
    return int(bool(missing))


def git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(CHECKOUT), *arguments], check=True, capture_output=True)


def run(named: set[str], home: Path, *more: Path) -> dict[str, list[tuple[str, str]]]:
    """Run the named tests on the package in a folder, with `more` folders of packages.

    Returns the outcomes and reasons of each.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    report = home / "build" / "red.xml"
    for file in sorted({name.partition("::")[0] for name in named}):
        of_file = [name for name in sorted(named) if name.partition("::")[0] == file]
        report.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--show-capture=no", f"--junitxml={report}", *of_file],
            cwd=home,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (home, *more)))},
            capture_output=True,
            check=False,
        )
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
        for case in cases:
            name = f"{case.get('classname', '')}.{case.get('name', '')}"
            for test in of_file:
                if is_of(name, test):
                    found.setdefault(test, []).append(outcome(case))
    return found


def is_of(name: str, test: str) -> bool:
    """Whether a case of the report is of a file, a class or a test, or is one case of a test, as pytest names them."""
    path, bracket, case = test.partition("[")
    dotted = path.replace(".py", "").replace("/", ".").replace("::", ".") + bracket + case
    return name == dotted or name.startswith((f"{dotted}.", f"{dotted}["))


def outcome(case: ET.Element) -> tuple[str, str]:
    """What became of a test, and why; one that calls what did not exist then shows nothing."""
    for without in (case.find("error"), case.find("skipped")):
        if without is not None:
            return "could not run", " ".join((without.get("message") or "").split())[-SHOWN:]
    failure = case.find("failure")
    if failure is None:
        return "passed", ""
    why = " ".join((failure.get("message") or "").split())
    return ("could not run" if why.startswith(NEW) else "failed"), why[:SHOWN]


if __name__ == "__main__":
    sys.exit(main())
