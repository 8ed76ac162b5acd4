"""What the source of the tests says: which tests there are, how they are marked, and which lane runs each of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HOME = Path(__file__).parents[1]
_LANES = {  # a marker -> the lane of its tests; the first marker that a test has counts
    "stores": "stores",
    "lake": "lake",
    "random": "soak",
    "servers": "servers",
    "hive": "servers",
    "contract": "test",
    "spark": "test-spark",
}
_Function = ast.FunctionDef


@dataclass(frozen=True)
class Test:
    """A test function: `path::name` or `path::class::name`, its markers, and the fixtures that it asks for."""

    name: str
    markers: frozenset[str]
    fixtures: frozenset[str]

    @property
    def lane(self) -> str:
        """The target of the Makefile that runs the test, or its cases that are marked as contract."""
        markers = self.markers | ({"spark"} if _uses_spark(self) else set())
        return next((lane for marker, lane in _LANES.items() if marker in markers), "test")


@cache
def tests_of(path: str) -> dict[str, Test]:
    """Return the tests of a file by their names."""
    tree = _tree(path)
    common = set().union(*(_marks(node.value) for node in tree.body if _is_assignment(node, "pytestmark")))
    found = {}
    for names, function, classes in _functions(tree, path):
        if function.name.startswith("test"):
            marks = set(common).union(*(_marks(one) for node in (*classes, function) for one in node.decorator_list))
            found[names] = Test(names, frozenset(marks), _fixtures(function))
    return found


def named_tests(name: str) -> list[Test]:
    """Return the tests that a name stands for: a file, a class, a function, or one case of it."""
    path, _, inside = name.partition("[")[0].partition("::")
    if not (HOME / path).is_file():
        return []
    wanted = f"{path}::{inside}" if inside else path
    return [test for test in tests_of(path).values() if test.name == wanted or test.name.startswith(f"{wanted}::")]


def all_tests() -> list[Test]:
    """Return all tests of the checkout."""
    paths = sorted((HOME / "tests").rglob("test_*.py"))
    return [test for path in paths for test in tests_of(path.relative_to(HOME).as_posix()).values()]


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((HOME / path).read_text())


def _functions(tree: ast.Module, path: str) -> list[tuple[str, _Function, tuple[ast.ClassDef, ...]]]:
    """Return functions with their names and classes; those under an `if` of the module, too."""
    found = []
    nodes: list[tuple[ast.stmt, str, tuple[ast.ClassDef, ...]]] = [(node, path, ()) for node in tree.body]
    while nodes:
        node, prefix, classes = nodes.pop(0)
        if isinstance(node, _Function):
            found.append((f"{prefix}::{node.name}", node, classes))
        elif isinstance(node, ast.ClassDef):
            nodes += [(inner, f"{prefix}::{node.name}", (*classes, node)) for inner in node.body]
        elif isinstance(node, ast.If):
            nodes += [(inner, prefix, classes) for inner in node.body]
    return found


def _marks(expression: ast.AST) -> set[str]:
    """Return the markers in an expression: `pytest.mark.x`, and `contract(cases, ..)` of tests/contract.py."""
    found = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "mark":
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "contract":
            found.add("contract")
    return found


def _is_assignment(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets)


def _fixtures(function: _Function) -> frozenset[str]:
    """Return the names of the arguments that are fixtures, and those of `usefixtures`."""
    found = {argument.arg for argument in function.args.args}
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = ast.unparse(decorator.func).rpartition(".")[2]
        if name == "usefixtures":
            found |= {str(ast.literal_eval(argument)) for argument in decorator.args}
        elif name == "parametrize" and "indirect" not in [one.arg for one in decorator.keywords]:
            names = ast.literal_eval(decorator.args[0])
            found -= set(names.replace(" ", "").split(",") if isinstance(names, str) else names)
    return frozenset(found)


def _uses_spark(test: Test) -> bool:
    """Whether a test asks for the shared session, itself or through fixtures."""
    fixtures = _known_fixtures(test.name.partition("::")[0])
    wanted, seen = set(test.fixtures), set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        wanted |= fixtures.get(name, frozenset()) - seen
    return "spark" in seen


@cache
def _known_fixtures(path: str) -> dict[str, frozenset[str]]:
    """Return the fixtures that the tests of a file may ask for, each with those that it asks for itself."""
    folders = [parent for parent in Path(path).parents if parent.parts]
    sources = ["tests/servers/fixtures.py", *(f"{folder}/conftest.py" for folder in reversed(folders)), path]
    return {
        function.name: _fixtures(function)
        for source in sources
        if (HOME / source).exists()
        for _, function, _ in _functions(_tree(source), source)
        if any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)
    }
