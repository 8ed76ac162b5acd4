"""Compare the Python code of two commits but for names, docstrings, comments and texts.

`python scripts/same_code.py BEFORE [AFTER]` shows that a commit of words changes no behaviour: the syntax trees of each
file are equal once docstrings and texts are left out, and names are renamed one to one within the scope that binds
them (so a `found` may become `rows` in one function and `files` in another, but no two variables of a scope become
one). Printed for a reader to judge: texts that differ, and attributes and keywords that are renamed to more than one
name. Exit status 1 if anything else differs. AFTER is the working tree if absent.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)
BOUND = {ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest", ast.ExceptHandler: "name"}


class Differs(Exception):
    """Code that differs in more than names and texts."""


class Scope:
    """What binds names: a module, class, function, lambda or comprehension."""

    def __init__(self, number: int, node: ast.AST, outer: Scope | None) -> None:
        self.number, self.node, self.outer = number, node, outer
        self.names = set(_bound(node))

    def home(self, name: str) -> Scope:
        """Return the scope that binds a name; the module for a builtin."""
        scope = self
        while scope.outer is not None:
            hidden = isinstance(scope.node, ast.ClassDef) and scope is not self
            if name in scope.names and not hidden:
                return scope
            scope = scope.outer
        return scope


def _bound(scope: ast.AST) -> Iterator[str]:
    elsewhere: set[str] = set()
    names: list[str] = []
    if isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        args = scope.args
        names += [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if a]
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.append(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            elsewhere.update(node.names)
        elif type(node) in BOUND and getattr(node, BOUND[type(node)]):
            names.append(getattr(node, BOUND[type(node)]))
        if isinstance(node, COMPREHENSIONS):  # an assignment expression in it binds in the scope around it
            walrus = (inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
            names += walrus
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)
    if isinstance(scope, COMPREHENSIONS):
        names = [name for name in names if not any(_is_walrus(node, name) for node in ast.walk(scope))]
    return (name for name in names if name not in elsewhere)


def _is_walrus(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name) and node.target.id == name


class Comparison:
    """Two modules, walked side by side."""

    def __init__(self, old: str, new: str) -> None:
        self.renamed: dict[tuple[int, str], str] = {}
        self.back: dict[tuple[int, str], str] = {}
        self.members: dict[str, set[str]] = {}
        self.texts: list[tuple[str, str]] = []
        self._scopes = 0
        old_tree, new_tree = _without_imports(ast.parse(old)), _without_imports(ast.parse(new))
        self._node(old_tree, new_tree, Scope(0, old_tree, None), Scope(0, new_tree, None))

    def _name(self, old: str, new: str, old_scope: Scope, new_scope: Scope) -> None:
        old_home, new_home = old_scope.home(old).number, new_scope.home(new).number
        one_to_one = (
            self.renamed.setdefault((old_home, old), new) == new and self.back.setdefault((new_home, new), old) == old
        )
        is_builtin = old_home == 0 and hasattr(builtins, old)
        if old_home != new_home or not one_to_one or (is_builtin and old != new):
            raise Differs(f"{old} -> {new}")

    def _node(self, old: ast.AST, new: ast.AST, old_scope: Scope, new_scope: Scope) -> None:
        if type(old) is not type(new):
            raise Differs(f"{_shown(old)} -> {_shown(new)}")
        if isinstance(old, (ast.ClassDef, *FUNCTIONS)):
            self._name(old.name, new.name, old_scope, new_scope)
        if isinstance(old, SCOPES):
            self._scopes += 1
            old_scope, new_scope = Scope(self._scopes, old, old_scope), Scope(self._scopes, new, new_scope)
        if isinstance(old, (ast.Import, ast.ImportFrom)):
            if len(old.names) != len(new.names):
                raise Differs(f"{_shown(old)} -> {_shown(new)}")
            return
        for (field, before), (_, after) in zip(ast.iter_fields(old), ast.iter_fields(new), strict=True):
            self._field(old, field, before, after, old_scope, new_scope)

    def _field(self, node: ast.AST, field: str, before: object, after: object, *scopes: Scope) -> None:
        is_name = (isinstance(node, ast.Name) and field == "id") or (isinstance(node, ast.arg) and field == "arg")
        is_member = field == "attr" or field == "kwd_attrs" or (isinstance(node, ast.keyword) and field == "arg")
        if isinstance(node, ast.JoinedStr):
            before, after = self._text_of(before, after)
        if isinstance(before, str) and isinstance(after, str):
            if isinstance(node, ast.Constant):
                self.texts.append((before, after))
            elif is_name or BOUND.get(type(node)) == field:
                self._name(before, after, *scopes)
            elif is_member:
                self.members.setdefault(before, set()).add(after)
            elif not (isinstance(node, (ast.ClassDef, *FUNCTIONS)) and field == "name") and before != after:
                raise Differs(f"{before} -> {after}")
        elif isinstance(before, list) and isinstance(after, list):
            if field == "body" and before and isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
                before, after = _without_docstring(before), _without_docstring(after)
            if len(before) != len(after):
                raise Differs(f"{len(before)} nodes -> {len(after)} in {_shown(node)}")
            for old, new in zip(before, after, strict=True):
                self._field(node, field, old, new, *scopes)
        elif isinstance(before, ast.AST) and isinstance(after, ast.AST):
            self._node(before, after, *scopes)
        elif type(before) is not type(after) or before != after:
            raise Differs(f"{before!r} -> {after!r} in {_shown(node)}")

    def _text_of(self, before: object, after: object) -> tuple[object, object]:
        if not isinstance(before, list) or not isinstance(after, list):
            return before, after
        texts = ["{}".join(part.value for part in parts if isinstance(part, ast.Constant)) for parts in (before, after)]
        self.texts.append((texts[0], texts[1]))
        values = [[part for part in parts if not isinstance(part, ast.Constant)] for parts in (before, after)]
        return values[0], values[1]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body[0]:
        case ast.Expr(ast.Constant(str())):
            return body[1:]
    return body


def _without_imports(tree: ast.Module) -> ast.Module:
    """Leave only the number of imports: they are sorted by name, so renames move them, and they bind names only."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = ast.Constant(sum(len(node.names) for node in imports))
    tree.body = [*(node for node in tree.body if node not in imports), ast.Expr(imported)]
    return tree


def _shown(node: ast.AST) -> str:
    try:
        return ast.unparse(node).partition("\n")[0][:100]
    except (AttributeError, ValueError):
        return type(node).__name__


def _content(commit: str | None, path: str) -> str | None:
    if commit is None:
        file = Path(path)
        return file.read_text() if file.exists() else None
    shown = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=False)
    return shown.stdout if shown.returncode == 0 else None


def _compare(path: str, before: str | None, after: str | None) -> bool:
    """Print what differs in a file; return whether it is more than names and texts."""
    if before is None or after is None:
        print(f"{path}: {'added' if before is None else 'deleted'}")
        return True
    try:
        comparison = Comparison(before, after)
    except Differs as difference:
        print(f"{path}: other code: {difference}")
        return True
    for old, new in comparison.texts:
        if old != new:
            print(f"{path}: {old!r} -> {new!r}")
    for old, new_names in comparison.members.items():
        if len(new_names) > 1:
            print(f"{path}: .{old} -> {', '.join(sorted(new_names))}")
    return False


def main(before: str, after: str | None = None) -> int:
    """Compare all Python files that differ between two commits."""
    commits = [before] if after is None else [before, after]
    names = subprocess.run(
        ["git", "diff", "--name-only", *commits, "--", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split()
    different = sum([_compare(path, _content(before, path), _content(after, path)) for path in names])
    print(f"{len(names)} files differ, {different} in more than names, docstrings, comments and texts")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
