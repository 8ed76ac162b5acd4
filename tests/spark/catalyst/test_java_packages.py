"""Rules for the Java sources: a package has a purpose and few classes; neither packages nor classes form cycles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

JAVA = Path(__file__).parents[3] / "jvm"
ROOT = "hive_bitmap.catalyst"
# A package may import those before it.
ORDER = [
    f"{ROOT}.{name}"
    for name in ("spark", "keys", "reading", "lake", "observing", "python", "queries", "statements", "following")
] + [ROOT]
MOST_CLASSES = 20
CLASSES = sorted(path for path in JAVA.rglob("*.java") if path.name != "package-info.java")
NAMED = re.compile(r"\b(hive_bitmap(?:\.[a-z_]+)+)\.(?:[A-Z]\w*|\*)")
# Strings and comments name classes without depending on them.
NO_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.S)


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(JAVA).parts)


def packages_used(source: str) -> set[str]:
    """Return the packages of hive_bitmap that a source imports from, or names a class of in full."""
    return set(NAMED.findall(source))


def uses(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return which of the other classes of a package each of its classes names, given their sources by class."""
    words = {name: set(re.findall(r"\w+", NO_CODE.sub(" ", source))) for name, source in sources.items()}
    return {name: (words[name] & set(sources)) - {name} for name in sources}


def in_cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the nodes that depend on themselves through others."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [*graph[start]]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += graph[node]
        return found

    return sorted(node for node in graph if node in reached(node))


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


@pytest.mark.parametrize("package", ORDER)
def test_classes_of_a_package_do_not_depend_in_cycles(package: str) -> None:
    graph = uses({path.stem: path.read_text() for path in CLASSES if package_of(path) == package})
    assert in_cycles(graph) == []


def test_a_cycle_is_found_and_comments_are_none() -> None:
    sources = {
        "A": "class A { B b; }",
        "B": "/** Like {@link D}. */ class B { C c; }",
        "C": "class C { A a; } // D",
        "D": 'class D { A a; String s = "\\" D"; }',
    }
    assert uses(sources) == {"A": {"B"}, "B": {"C"}, "C": {"A"}, "D": {"A"}}
    assert in_cycles(uses(sources)) == ["A", "B", "C"]


def test_a_class_that_is_named_in_full_is_seen() -> None:
    assert packages_used("import hive_bitmap.catalyst.spark.Scala; new hive_bitmap.catalyst.Bridge();") == {
        f"{ROOT}.spark",
        ROOT,
    }
