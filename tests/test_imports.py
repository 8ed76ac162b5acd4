"""Test the rules on imports: no cycles, subpackages only through their `__all__`, and no Spark in the core.

A subpackage is called a room, its `__init__` the front of the room. `__all__` of the front names what other rooms may
import.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hive_bitmap"
# A room, or a top-level module, may import itself and the lines above it, but not others of its own line.
LAYERS = [
    {"errors", "memory_budget"},
    {"columns", "durations", "java", "packages", "parallel", "session_cache", "versions", "stores"},
    {"bitmaps", "formats", "predicates"},
    {"metastore"},
    {"index", "tasks"},
    {"building", "selecting"},
    {"estimating", "hive2", "maintaining", "verifying"},
    {"planning"},
    {"explaining", "reading"},
    {"counts", "following", "sql"},
    {"catalyst"},
    {"advising", "querying"},
    {"session", "hiveserver"},
    {"cli"},
    {"__main__"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
MOST_MODULES = 20
# Modules that have the same name as another module or a room, and the reason.
SAME_NAMES = {
    "metastore/metastore.py": "the module by which the room is used, and called",
}
CORE = ["hiveserver.parser", "selecting.select", "planning.planner", "reading.offsets", "explaining.explain"]
PURE = ["bitmaps", "stores", *CORE, "sql.parse"]
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
ROOMS = sorted(path.parent for path in MODULES if path.name == "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(path: Path, tree: ast.AST) -> Iterator[str]:
    "Yield what the module `path` imports of hive_bitmap, also in functions: `room.module.name` or a prefix of it."
    home = ["hive_bitmap", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) + 1 - node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("hive_bitmap.") for name in names if name.startswith("hive_bitmap."))


def wrong_imports(path: Path, source: str) -> list[str]:
    own = part_of(path)
    parts = (name.split(".")[0] for name in imported_names(path, ast.parse(source)))
    return [
        part
        for part in parts
        if part not in (own, "__version__") and LAYER.get(part, len(LAYERS)) >= LAYER.get(own, len(LAYERS))
    ]


def front_of(room: str) -> set[str]:
    "Return the names in `__all__` of a room."
    for node in ast.parse((PACKAGE / room / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    return set()


def imports_past_the_front(path: Path, source: str) -> list[str]:
    "Return the imports of a module from other rooms that are not in the `__all__` of these rooms."
    names = (name.split(".") for name in imported_names(path, ast.parse(source)))
    return [
        ".".join(name)
        for name in names
        if len(name) > 1
        and name[0] != part_of(path)
        and (PACKAGE / name[0]).is_dir()
        and name[1] not in front_of(name[0])
    ]


def module_named(name: str) -> str:
    "Return the module of an imported name, which may itself be a module."
    parts = name.split(".")
    while parts and not (PACKAGE / "/".join(parts)).with_suffix(".py").is_file():
        if (PACKAGE / "/".join(parts) / "__init__.py").is_file():
            break
        parts.pop()
    return ".".join(parts)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    assert wrong_imports(path, path.read_text()) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_are_imported_through_their_fronts(path: Path) -> None:
    assert imports_past_the_front(path, path.read_text()) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_front_has_a_docstring_and_exports_existing_names(room: Path) -> None:
    front = import_module(f"hive_bitmap.{room.name}")
    assert len(front.__doc__ or "") > 60
    assert front_of(room.name) or room.name == "cli", "no __all__"  # cli is the program, which no room imports
    absent = [name for name in front_of(room.name) if not (room / f"{name}.py").is_file() and not hasattr(front, name)]
    assert absent == []


def test_fronts_load_no_spark() -> None:
    fronts = ", ".join(f"hive_bitmap.{room.name}" for room in ROOMS)
    code = f"import sys, {fronts}\nprint('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_imports_have_no_cycle() -> None:
    graph = {}
    for path in MODULES:
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        found_in = imported_names(path, ast.parse(path.read_text()))
        graph[name] = {module_named(found) for found in found_in} - {name, ""}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the cycle


def test_rooms_stay_small() -> None:
    assert {room.name: count for room in ROOMS if (count := len(list(room.glob("*.py"))) - 1) > MOST_MODULES} == {}
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_MODULES


def test_module_names_are_unique() -> None:
    modules = [path for path in MODULES if path.name != "__init__.py"]
    named = Counter([*(path.stem for path in modules), *(room.name for room in ROOMS)])
    twice = [path for path in modules if named[path.stem] > 1]
    assert [str(path.relative_to(PACKAGE)) for path in twice] == sorted(SAME_NAMES)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("index/catalog.py", "from hive_bitmap.planning import planner", ["planning"]),
        ("index/catalog.py", "def f():\n    import hive_bitmap.sql.commands", ["sql"]),
        ("bitmaps/gap.py", "from ..formats import parquet", ["formats"]),
        ("bitmaps/gap.py", "from hive_bitmap import session, errors", ["session"]),
        ("planning/planner.py", "from . import prices\nfrom .. import unheard_of", ["unheard_of"]),
        ("cli.py", "import pyspark\nfrom hive_bitmap.sql import commands\nfrom hive_bitmap.session import session", []),
    ],
)
def test_the_rule_sees_every_way_of_importing(module: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(PACKAGE / module, source) == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from hive_bitmap.building import build, refresh", ["building.refresh"]),
        ("from hive_bitmap.building.refresh import Refresh", ["building.refresh.Refresh"]),
        ("def f():\n    import hive_bitmap.verifying.audit", ["verifying.audit"]),
        ("from hive_bitmap import building, stores\nfrom hive_bitmap.cli import output", []),
    ],
)
def test_the_rule_sees_imports_past_a_front(source: str, wrong: list[str]) -> None:
    assert imports_past_the_front(PACKAGE / "cli/sql.py", source) == wrong


@pytest.mark.parametrize("module", PURE)
def test_the_core_loads_no_spark(module: str) -> None:
    code = (
        f"import sys, hive_bitmap.{module}\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_package_itself_loads_no_spark() -> None:
    code = "import sys, hive_bitmap\nprint('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
