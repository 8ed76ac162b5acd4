"""What `make release` checks before it builds anything, and the recipe that it fills in."""

from __future__ import annotations

import doctest
import importlib.util
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

import hive_bitmap

HOME = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("release", HOME / "scripts/release.py")
assert _spec is not None and _spec.loader is not None
release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release)
OF_CONDA = {"duckdb": "python-duckdb"}  # names that differ there


def config() -> ConfigParser:
    found = ConfigParser(interpolation=None)
    found.read(HOME / "setup.cfg")
    return found


def test_what_its_functions_say_of_themselves() -> None:
    assert doctest.testmod(release).failed == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("## 0.2.0 (2027-01-31)\n## 0.1.0\n", "setup.cfg has version 0.1.0, and CHANGELOG.md begins with 0.2.0"),
        ("## 0.1.0 (not released)\n", "CHANGELOG.md says of 0.1.0 (not released): give it the day"),
        ("## 0.1.0 (2027-99-99)\n", "CHANGELOG.md says of 0.1.0 (2027-99-99): give it the day"),
        ("# Changes\n", "begins with nothing"),
    ],
)
def test_no_release_of_another_version_or_without_a_day(
    changes: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REHEARSAL", raising=False)
    with pytest.raises(release.NotReady, match=re.escape(said)):
        release.checked_version("[metadata]\nversion = 0.1.0\n", changes)


@pytest.mark.parametrize("heading", ["## 0.1.0 (2027-01-31)\n", "## 0.1.0 (2027-01-31) \r\n", "## 0.1.0  (2027-01-31)"])
def test_a_day_is_a_day_however_the_line_ends(heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REHEARSAL", raising=False)
    assert release.checked_version("[metadata]\nversion = 0.1.0\n", heading) == "0.1.0"


def test_a_rehearsal_needs_no_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REHEARSAL", "1")
    found = release.checked_version((HOME / "setup.cfg").read_text(), (HOME / "CHANGELOG.md").read_text())
    assert found == hive_bitmap.__version__


def test_the_recipe_needs_what_the_wheel_needs() -> None:
    recipe = release.RECIPE.read_text()
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    said = dict(re.findall(r"^    - (\S+) (\S+)$", run, re.MULTILINE))
    needed = dict(re.findall(r"^([\w.-]+)(\S*)$", config()["options"]["install_requires"], re.MULTILINE))
    wanted = {OF_CONDA.get(name, name): bounds for name, bounds in needed.items()}
    assert said == {**wanted, "python": config()["options"]["python_requires"], "openjdk": ">=17"}
    assert {"@VERSION@", "@SHA256@"} == set(re.findall(r"@\w+@", recipe))


def test_the_image_is_made_from_the_wheel() -> None:
    image = (HOME / "docker/spark/Dockerfile").read_text()
    for place in re.findall(r"^COPY (?!--from)(.*) \S+$", image, re.MULTILINE):
        for source in place.split():
            assert source.startswith("dist/hive_bitmap-") or (HOME / source).exists(), source
    assert "./hive_bitmap-*.whl" in image
