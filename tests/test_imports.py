"""Test the rules on imports: one way down floors and rooms, rooms only through `__all__`, no Spark in the core.

The package has floors, and these have rooms: packages of modules, and single modules. The `__init__` of a room is its
front; `__all__` of the front names what other rooms may import.
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

import hive_bitmap

PACKAGE = Path(__file__).parents[1] / "hive_bitmap"
# A room, or a module beside the rooms of a floor, imports itself and the lines above it, not others of its own line.
LAYERS = [
    {"errors", "core.lazy_modules", "core.memory_budget", "core.parallel"},
    {"core.columns", "core.durations", "core.nested_types", "core.stores"},
    {"core.bitmaps", "core.formats", "core.predicates"},
    {"core.table_info"},
    {"core.index"},
    {"core.segments"},
    {"core.selecting"},
    {"core.listings"},
    {"core.planning"},
    {"core.answering", "core.explaining", "core.grammar", "core.indexing"},
    {"core.auditing", "core.samples"},
    {"spark.java"},
    {
        "spark.class_archive",
        "spark.handled_errors",
        "spark.packages",
        "spark.session_cache",
        "spark.versions",
    },
    {"spark.jvm_bridge"},
    {"spark.metastore"},
    {"spark.registry", "spark.tasks"},
    {"spark.building"},
    {"spark.estimating", "spark.maintaining", "spark.verifying"},
    {"spark.preparing"},
    {"spark.reading"},
    {"spark.following", "spark.sql"},
    {"spark.catalyst"},
    {"spark.advising", "spark.querying"},
    {"spark.session"},
    {"spark.archive_making"},
    {"hive.hive2"},
    {"hive.hiveserver"},
    {"cli"},
    {"__main__"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
MOST_MODULES = 20
# Modules that have the same name as another module or a room, and the reason.
SAME_NAMES = {
    "spark/metastore/metastore.py": "the module by which the room is used, and called",
}
# What the helper of a server loads before the first question, and by the first count (`test_extension`). It loads these
# rooms when it builds, refreshes or runs statements.
HELPER = ["spark.catalyst.helper", "spark.catalyst.enabling"]
MOST_OF_HELPER = 109
MOST_AFTER_A_COUNT = 110
NOT_OF_HELPER = {
    *(f"core.{room}" for room in ("auditing", "explaining", "grammar", "indexing", "samples")),
    *(f"spark.{room}" for room in ("advising", "building", "estimating", "following", "maintaining", "querying")),
    *("spark.sql", "spark.verifying", "hive.hive2", "hive.hiveserver", "cli"),
}
# Modules of other floors that run where there is no Spark, or in a task, where it takes long to import.
WITHOUT_SPARK = ["hive.hiveserver.server_queries", "core.grammar.parse", "spark.reading.read_task"]
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
FRONTS = [path.parent for path in MODULES if path.name == "__init__.py"]
FLOORS = [PACKAGE / name for name in ("core", "spark", "hive")]
ROOMS = [folder for folder in FRONTS if folder not in FLOORS]


def dotted(path: Path) -> str:
    "Return the name of a module or package within hive_bitmap, as in an import."
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def part_of(name: str) -> str:
    "Return the room, or the module outside of rooms, to which an imported name belongs."
    names = name.split(".")
    return ".".join(names[:2]) if PACKAGE / names[0] in FLOORS else names[0]


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
    own = part_of(dotted(path))
    parts = (part_of(name) for name in imported_names(path, ast.parse(source)))
    return [
        part
        for part in parts
        if part not in (own, "__version__") and LAYER.get(part, len(LAYERS)) >= LAYER.get(own, len(LAYERS))
    ]


def front_of(room: Path) -> set[str]:
    "Return the names in `__all__` of a room."
    for node in ast.parse((room / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    return set()


def imports_past_the_front(path: Path, source: str) -> list[str]:
    "Return the imports of a module from other rooms that are not in the `__all__` of these rooms."
    past = []
    for name in imported_names(path, ast.parse(source)):
        part = part_of(name)
        room, inside = PACKAGE / part.replace(".", "/"), name.removeprefix(f"{part}.").split(".")[0]
        if name != part != part_of(dotted(path)) and room.is_dir() and inside not in front_of(room):
            past.append(name)
    return past


def module_named(name: str) -> str:
    "Return the module of an imported name, which may itself be a module."
    parts = name.split(".")
    while parts and not (PACKAGE / "/".join(parts)).with_suffix(".py").is_file():
        if (PACKAGE / "/".join(parts) / "__init__.py").is_file():
            break
        parts.pop()
    return ".".join(parts)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_go_one_way(path: Path) -> None:
    assert path.parent in FLOORS or wrong_imports(path, path.read_text()) == []


def test_every_part_has_its_place() -> None:
    parts = {part_of(dotted(path)) for path in MODULES} - {floor.name for floor in FLOORS}
    assert parts == set(LAYER)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_rooms_are_imported_through_their_fronts(path: Path) -> None:
    assert imports_past_the_front(path, path.read_text()) == []


@pytest.mark.parametrize("room", FRONTS, ids=dotted)
def test_a_front_has_a_docstring_and_exports_existing_names(room: Path) -> None:
    front = import_module(f"hive_bitmap.{dotted(room)}")
    assert len(front.__doc__ or "") > 60
    # cli is the program, which no room imports
    assert room in FLOORS or front_of(room) or room.name == "cli", "no __all__"
    absent = [name for name in front_of(room) if not (room / f"{name}.py").is_file() and not hasattr(front, name)]
    assert absent == []


def test_fronts_load_no_spark() -> None:
    fronts = ", ".join(f"hive_bitmap.{dotted(room)}" for room in FRONTS)
    code = f"import sys, {fronts}\nprint('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_imports_have_no_cycle() -> None:
    graph = {}
    for path in MODULES:
        names = imported_names(path, ast.parse(path.read_text()))
        graph[dotted(path)] = {module_named(name) for name in names} - {dotted(path), ""}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the cycle


def test_rooms_stay_small() -> None:
    assert {dotted(room): count for room in FRONTS if (count := len(list(room.glob("*.py"))) - 1) > MOST_MODULES} == {}
    assert sorted(path.name for path in PACKAGE.glob("*.py")) == ["__init__.py", "__main__.py", "errors.py"]


def test_module_names_are_unique() -> None:
    modules = [path for path in MODULES if path.name != "__init__.py"]
    named = Counter([*(path.stem for path in modules), *(room.name for room in FRONTS)])
    twice = [path for path in modules if named[path.stem] > 1]
    assert [str(path.relative_to(PACKAGE)) for path in twice] == sorted(SAME_NAMES)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("core/index/shard.py", "from hive_bitmap.core.planning import planner", ["core.planning"]),
        ("core/index/shard.py", "def f():\n    import hive_bitmap.spark.sql.commands", ["spark.sql"]),
        ("core/bitmaps/gap.py", "from ..formats import parquet", ["core.formats"]),
        ("core/bitmaps/gap.py", "from hive_bitmap.spark import session", ["spark.session"]),
        (
            "spark/sql/create.py",
            "from hive_bitmap.hive.hive2 import ddl\nfrom hive_bitmap import errors",
            ["hive.hive2"],
        ),
        ("core/planning/planner.py", "from . import prices\nfrom ... import unheard_of", ["unheard_of"]),
        ("cli/sql.py", "import pyspark\nfrom hive_bitmap.spark.sql import commands", []),
    ],
)
def test_the_rule_sees_every_way_of_importing(module: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(PACKAGE / module, source) == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from hive_bitmap.spark.building import build, build_job", ["spark.building.build_job"]),
        ("from hive_bitmap.spark.building.build_job import Job", ["spark.building.build_job.Job"]),
        ("def f():\n    import hive_bitmap.spark.tasks.sockets", ["spark.tasks.sockets"]),
        ("from hive_bitmap.spark import building, session\nfrom hive_bitmap.cli import output", []),
    ],
)
def test_the_rule_sees_imports_past_a_front(source: str, wrong: list[str]) -> None:
    assert imports_past_the_front(PACKAGE / "cli/sql.py", source) == wrong


@pytest.mark.parametrize("path", [path for path in MODULES if path.is_relative_to(PACKAGE / "core")], ids=dotted)
def test_the_core_names_no_spark(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.split(".")[0] in ("pyspark", "py4j")], "also for types"


def test_the_core_loads_no_spark() -> None:
    core = [dotted(path) for path in MODULES if path.is_relative_to(PACKAGE / "core")]
    assert loaded_by(core) == "[]"


@pytest.mark.parametrize("module", WITHOUT_SPARK)
def test_these_modules_load_no_spark(module: str) -> None:
    assert loaded_by([module]) == "[]"


def loaded_by(modules: list[str]) -> str:
    "Return the list of Spark's modules that a Python has loaded after it imported these of ours, as text."
    code = (
        f"import sys, {', '.join(f'hive_bitmap.{module}' for module in modules)}\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_helper_loads_what_answers_queries() -> None:
    code = f"import sys, {', '.join(f'hive_bitmap.{module}' for module in HELPER)}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    names = [name.removeprefix("hive_bitmap.") for name in loaded if name.split(".")[0] == "hive_bitmap"]
    assert [name for name in names if part_of(name) in NOT_OF_HELPER] == []
    assert len(names) <= MOST_OF_HELPER


def test_public_names_live_where_type_checkers_find_them() -> None:
    front = PACKAGE / "__init__.py"
    assert sorted(hive_bitmap.__all__) == sorted(hive_bitmap._HOMES)
    homes = {f"{module}.{name}" for name, module in hive_bitmap._HOMES.items()}
    assert set(imported_names(front, ast.parse(front.read_text()))) == homes
    for name, module in hive_bitmap._HOMES.items():
        assert getattr(hive_bitmap, name).__module__ == f"hive_bitmap.{module}", name


def test_the_package_itself_loads_no_spark() -> None:
    code = "import sys, hive_bitmap\nprint('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
