"""The lanes of the Makefile run each test once, and turns run each case in the end."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

HOME = Path(__file__).parents[1]
MAKEFILE = (HOME / "Makefile").read_text()
VARIABLES = dict(re.findall(r"^([A-Z_]+) = (.*)$", MAKEFILE, re.MULTILINE))
EXPRESSIONS = {
    name.removeprefix("OF_").lower(): value.replace("$(ALONE)", VARIABLES["ALONE"])
    for name, value in VARIABLES.items()
    if name.startswith("OF_")
}
MARKERS = ("spark", "contract", "random", "servers", "hive", "stores", "lake")

CASES = """
import pytest

@pytest.mark.turn(3)
@pytest.mark.parametrize("case", range(7))
def test_turn(case):
    pass

def test_always():
    pass
"""
SPARKS = """
import pytest

@pytest.mark.turn(2)
@pytest.mark.spark
@pytest.mark.parametrize("case", range(3))
def test_turn(case):
    pass

@pytest.mark.turn(2)
@pytest.mark.contract
@pytest.mark.spark
@pytest.mark.parametrize("case", range(2))
def test_promise(case):
    pass

@pytest.mark.random
@pytest.mark.spark
def test_random():
    pass
"""


def lanes_of(markers: set[str]) -> list[str]:
    return [
        name
        for name, expression in EXPRESSIONS.items()
        if Expression.compile(expression).evaluate(lambda marker, **_: marker in markers)
    ]


@pytest.mark.parametrize("number", range(len(MARKERS) + 1))
def test_each_test_is_in_one_lane(number: int) -> None:
    """Tests of lakes have a lane that runs another program with all of them."""
    assert EXPRESSIONS.keys() == {"test", "spark", "servers", "soak", "stores"}
    for markers in map(set, itertools.combinations(MARKERS, number)):
        if {"stores", "lake"} <= markers:
            continue  # no test is both
        wanted = [] if "lake" in markers else ["one"]
        assert ["one" for _ in lanes_of(markers)] == wanted, markers


def test_the_contract_is_in_make_test() -> None:
    assert lanes_of({"spark", "contract"}) == lanes_of(set()) == ["test"]


def run(folder: Path, *options: str, sample: str, cases: str = CASES, files: int = 1) -> list[str]:
    """Return the names of the tests that a run of so many files of these cases runs."""
    for number in range(files):
        (folder / f"test_{number}.py").write_text(cases)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    turn(n)\n    spark\n    contract\n    random\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.lanes", "-p", "no:cacheprovider", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env={"PYTHONPATH": str(HOME), "PATH": "", **({"SAMPLE": sample} if sample else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    return lines if files > 1 else [line.partition("::")[2] for line in lines]


def test_turns_run_each_case_in_the_end(tmp_path: Path) -> None:
    everything = ["test_always", *(f"test_turn[{case}]" for case in range(7))]
    assert sorted(run(tmp_path, sample="5")) == everything
    turns = [run(tmp_path, "--turns", sample=sample) for sample in ("6", "7", "8")]
    assert all("test_always" in turn for turn in turns)
    assert sorted(case for turn in turns for case in turn if case != "test_always") == everything[1:]
    assert run(tmp_path, "--turns", sample="9") == turns[0]


def test_files_with_spark_take_turns_and_random_tests_always_run(tmp_path: Path) -> None:
    turns = [run(tmp_path, "--turns", sample=str(number), cases=SPARKS, files=6) for number in range(4)]
    promises = [case for turn in turns[:3] for case in turn if "test_promise" in case]
    assert sorted(promises) == [f"test_{file}.py::test_promise[{case}]" for file in range(6) for case in range(2)]
    others = [case for turn in turns for case in turn if "test_turn" in case]
    assert sorted(others) == [f"test_{file}.py::test_turn[{case}]" for file in range(6) for case in range(3)]
    assert all(len([case for case in turn if "test_random" in case]) == 6 for turn in turns)


def test_without_git_the_sample_is_0_and_what_is_no_number_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "--turns", sample="") == run(tmp_path, "--turns", sample="0")
    with pytest.raises(ValueError, match="SAMPLE=x is not a number"):
        run(tmp_path, "--turns", sample="x")
