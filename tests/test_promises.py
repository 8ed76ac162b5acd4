"""The page of promises against the tests: each test that it names exists, in the lane that it names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.attacks import ATTACKS
from tests.contract import contract
from tests.suite import HOME, all_tests, named_tests

PAGE = (HOME / "docs/promises.md").read_text()
MAKEFILE = (HOME / "Makefile").read_text()
_TEST = re.compile(r"`((?:tests|compat)/[\w/]+\.py(?:::\w+)*)` \((\w[\w-]*)\)")
ROWS = [
    line for line in PAGE.splitlines() if line.startswith("| ") and not re.match(r"\| (?:promise|name|what) ", line)
]
NAMED = [(name, lane) for line in ROWS for name, lane in _TEST.findall(line)]
CAMPAIGNS = set(re.findall(r"^\| \*(.+?)\* \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize(("name", "lane"), sorted(set(NAMED)))
def test_a_test_of_the_page_exists_and_runs_in_its_lane(name: str, lane: str) -> None:
    assert re.search(rf"^{lane}:", MAKEFILE, re.MULTILINE), f"make has no target {lane}"
    if name.startswith("compat/"):
        assert (HOME / name).exists() and lane == "compat"
    else:
        assert lane in {test.lane for test in named_tests(name)}, f"{name} runs in none or another"


def test_each_row_names_a_test() -> None:
    assert len(ROWS) > 150
    assert [line for line in ROWS if not _TEST.search(line)] == []
    assert [line for line in ROWS if len(_TEST.findall(line)) != line.count(".py")] == []


def test_each_promise_names_campaigns_of_the_page() -> None:
    promises = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in ROWS if line.count(" | ") == 3]
    attacked = {name for *_, campaigns in promises for name in campaigns.strip(" |").split(", ") if name}
    assert len(promises) > 150 and attacked == CAMPAIGNS


def test_each_test_of_the_contract_is_on_the_page() -> None:
    named = {test.name for name, _ in NAMED for test in named_tests(name)}
    assert [test.name for test in all_tests() if "contract" in test.markers and test.name not in named] == []


def test_the_contract_needs_spark_and_no_server_store_or_lake() -> None:
    marked = [test for test in all_tests() if "contract" in test.markers]
    assert [test.name for test in marked if test.lane != "test"] == []
    unmarked = [replace(test, markers=test.markers - {"contract"}) for test in marked]
    assert [test.name for test in unmarked if test.lane == "test"] == [], "make test runs these anyway"


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_is_on_the_page_and_in_a_lane_without_servers(attack: str) -> None:
    [row] = [line for line in ROWS if line.startswith(f"| {attack} |")]
    named = {test.name for name, _ in _TEST.findall(row) for test in named_tests(name)}
    tests = [test for name in ATTACKS[attack][1] for test in named_tests(name)]
    assert {test.name for test in tests} <= named
    assert {test.lane for test in tests} & {"test", "test-spark"}


def test_cases_are_chosen_by_their_value_or_their_first() -> None:
    cases = contract([("a", 1), ("b", 2), "c"], "a", "c")
    assert [case for case in cases if isinstance(case, tuple) and not hasattr(case, "marks")] == [("b", 2)]
    assert [case.values for case in cases if hasattr(case, "marks")] == [("a", 1), ("c",)]
    with pytest.raises(ValueError, match=r"no case is \['d'\]"):
        contract(["a"], "a", "d")
