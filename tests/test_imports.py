"""The house rules on imports: one way only, and no Spark where the brain is."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hive_bitmap"
# A part imports itself and what stands above it; parts on one line do not know each other.
LAYERS = [
    {"errors"},
    {"columns", "java", "packages", "versions", "stores"},
    {"bitmaps", "formats"},
    {"index"},
    {"query"},
    {"sql"},
    {"catalyst"},
    {"session", "hiveserver"},
    {"cli"},
    {"__main__"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
BRAIN = ["predicates", "select", "planner", "offsets", "explain"]
PURE = ["bitmaps", "stores", *(f"query.{name}" for name in BRAIN), "sql.parse"]
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path, source: str) -> Iterator[str]:
    "The parts of hive_bitmap that `source`, the text of `path`, imports anywhere, also lazily and for types only."
    home = ["hive_bitmap", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) + 1 - node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = (name.split(".")[1] for name in names if name.startswith("hive_bitmap."))
        yield from (part for part in parts if part != "__version__")


def wrong_imports(path: Path, source: str) -> list[str]:
    own = part_of(path)
    return [part for part in imported_parts(path, source) if part != own and LAYER.get(part, len(LAYERS)) >= LAYER[own]]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    assert wrong_imports(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("index/build.py", "from hive_bitmap.query import planner", ["query"]),
        ("index/build.py", "def f():\n    import hive_bitmap.sql.commands", ["sql"]),
        ("bitmaps/gap.py", "from ..formats import parquet", ["formats"]),
        ("bitmaps/gap.py", "from hive_bitmap import session, errors", ["session"]),
        ("query/planner.py", "from . import select\nfrom .. import unheard_of", ["unheard_of"]),
        ("cli.py", "import pyspark\nfrom hive_bitmap.sql import commands\nfrom hive_bitmap.session import session", []),
    ],
)
def test_the_rule_sees_every_way_of_importing(module: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(PACKAGE / module, source) == wrong


@pytest.mark.parametrize("module", PURE)
def test_no_spark_where_the_brain_is(module: str) -> None:
    code = (
        f"import sys, hive_bitmap.{module}\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_package_itself_loads_no_spark() -> None:
    code = "import sys, hive_bitmap\nprint('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
