"""Rules for the Java sources: each package has a purpose and few classes, and imports only packages before it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hive_bitmap

JAVA = Path(hive_bitmap.__file__).parent / "catalyst" / "java"
ROOT = "hive_bitmap.catalyst"
# A package may import those before it.
ORDER = [f"{ROOT}.spark", f"{ROOT}.reading", f"{ROOT}.queries", f"{ROOT}.statements", ROOT]
MOST_CLASSES = 20
CLASSES = sorted(path for path in JAVA.rglob("*.java") if path.name != "package-info.java")
NAMED = re.compile(r"\b(hive_bitmap(?:\.[a-z_]+)+)\.(?:[A-Z]\w*|\*)")


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(JAVA).parts)


def packages_used(source: str) -> set[str]:
    """Return the packages of hive_bitmap that a source imports from, or names a class of in full."""
    return set(NAMED.findall(source))


def test_the_packages_are_these_and_small() -> None:
    packages = [package_of(path) for path in CLASSES]
    assert set(packages) == set(ORDER)
    assert {one: packages.count(one) for one in ORDER if packages.count(one) > MOST_CLASSES} == {}


@pytest.mark.parametrize("package", ORDER)
def test_a_package_says_what_it_is_for(package: str) -> None:
    said = (JAVA / package.replace(".", "/") / "package-info.java").read_text()
    assert said.startswith("/**") and said.endswith(f"package {package};\n") and len(said) > 120


@pytest.mark.parametrize("path", CLASSES, ids=lambda path: path.stem)
def test_imports_go_one_way(path: Path) -> None:
    source, package = path.read_text(), package_of(path)
    assert source.startswith(f"package {package};")
    later = ORDER[ORDER.index(package) + 1 :]
    assert sorted(packages_used(source) & set(later)) == []


def test_a_class_that_is_named_in_full_is_seen() -> None:
    assert packages_used('import hive_bitmap.catalyst.spark.Scala; new hive_bitmap.catalyst.Bridge();') == {
        f"{ROOT}.spark",
        ROOT,
    }
