"""The page of assurance against the campaigns: its commands run tests that there are, with options that they have."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PAGE = (HOME / "docs/assurance.md").read_text()
MAKEFILE = (HOME / "Makefile").read_text()
COMMANDS = sorted(set(re.findall(r"`(make [a-z]+ [^`]*)`", PAGE)))
OPTIONS = {"--long", "--seed"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_can_be_run(command: str) -> None:
    _, target, *settings = shlex.split(command)
    [recipe] = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    for name, _, value in (setting.partition("=") for setting in settings):
        assert f"$({name})" in recipe or f"$(or $({name})," in recipe, name
        if name == "T":
            paths = [word for word in value.split() if word.startswith("tests/")]
            assert paths and all((HOME / path).exists() for path in paths)
            assert {word for word in value.split() if word.startswith("--")} <= OPTIONS


def test_every_campaign_is_on_the_page() -> None:
    marked = [
        path
        for path in (HOME / "tests").rglob("test_*.py")
        if re.search(r"^pytestmark.*random", path.read_text(), re.M)
    ]
    campaigns = [path for path in marked if path.parent.name in ("campaigns", "sparksql")]
    assert campaigns
    for path in campaigns:
        assert f"{path.relative_to(HOME)}" in PAGE


def test_each_row_of_the_page_is_whole() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert all(line.count(" | ") + line.count("| |") >= 5 for line in rows), rows
