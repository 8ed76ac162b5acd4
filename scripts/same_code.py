"""Compare the Python code of two commits but for names, docstrings, comments and texts.

`python scripts/same_code.py BEFORE [AFTER]` shows that a commit of words changes no behaviour: the syntax trees of each
file are equal once docstrings are left out and names are numbered in the order in which they first occur. Texts that
differ are printed, for a reader to judge. Exit status 1 if anything else differs. AFTER is the working tree if absent.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

NAME_FIELDS = {
    ast.Name: ("id",),
    ast.arg: ("arg",),
    ast.keyword: ("arg",),
    ast.Attribute: ("attr",),
    ast.FunctionDef: ("name",),
    ast.AsyncFunctionDef: ("name",),
    ast.ClassDef: ("name",),
    ast.ExceptHandler: ("name",),
    ast.alias: ("name", "asname"),
    ast.ImportFrom: ("module",),
    ast.MatchAs: ("name",),
    ast.MatchStar: ("name",),
    ast.MatchMapping: ("rest",),
}
HAS_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def normalized(code: str) -> tuple[str, list[str]]:
    """Return the tree of a module without docstrings, names numbered, and its texts in order."""
    tree = ast.parse(code)
    numbers: dict[str, str] = {}
    texts: list[str] = []

    def number(name: str) -> str:
        return ".".join(numbers.setdefault(part, f"n{len(numbers)}") for part in name.split("."))

    def visit(node: ast.AST) -> None:
        if isinstance(node, HAS_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            node.names.sort(key=lambda alias: alias.name)
        for field in NAME_FIELDS.get(type(node), ()):
            value = getattr(node, field)
            if value is not None:
                setattr(node, field, number(value))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [number(name) for name in node.names]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
            node.value = ""
        for child in ast.iter_child_nodes(node):
            visit(child)

    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    others = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    tree.body = others  # imports are sorted by name, so renames move them; they bind names only
    visit(tree)
    return f"{len(imports)} imports\n{ast.dump(tree, indent=1)}", texts


def _content(commit: str | None, path: str) -> str | None:
    if commit is None:
        file = Path(path)
        return file.read_text() if file.exists() else None
    found = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=False)
    return found.stdout if found.returncode == 0 else None


def main(before: str, after: str | None = None) -> int:
    """Compare all Python files that differ between two commits."""
    commits = [before] if after is None else [before, after]
    names = subprocess.run(
        ["git", "diff", "--name-only", *commits, "--", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split()
    different = 0
    for path in names:
        old, new = _content(before, path), _content(after, path)
        if old is None or new is None:
            print(f"{path}: {'added' if old is None else 'deleted'}")
            different += 1
            continue
        (old_tree, old_texts), (new_tree, new_texts) = normalized(old), normalized(new)
        if old_tree != new_tree:
            lines = zip(old_tree.splitlines(), new_tree.splitlines(), strict=False)
            where = next((f"{a.strip()} -> {b.strip()}" for a, b in lines if a != b), "one is longer")
            print(f"{path}: other code: {where}")
            different += 1
            continue
        for old_text, new_text in zip(old_texts, new_texts, strict=True):
            if old_text != new_text:
                print(f"{path}: {old_text!r} -> {new_text!r}")
    print(f"{len(names)} files differ, {different} in more than names, docstrings, comments and texts")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
