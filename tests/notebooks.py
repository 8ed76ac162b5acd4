"""Notebooks, run as Jupyter does: the cells one after the other, each showing its last expression.

`make notebook` runs docs/notebook.ipynb and keeps what its cells show; the site shows that, and a test compares it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.transcripts import terminal

Output = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Return a notebook; its cells have their sources as text."""
    book: dict[str, Any] = json.loads(path.read_text())
    return book


def run(source: str, names: dict[str, Any]) -> list[Output]:
    """Run a cell with these names, to which it may add some, and return its outputs in Jupyter's format."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[Output] = []
    if printed := out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if html := getattr(value, "_repr_html_", lambda: None)():
            data = {"text/html": html.splitlines(keepends=True), **data}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def write(path: Path) -> None:
    """Run a notebook in a folder of its own, and keep what it shows."""
    book, names = read(path), dict[str, Any]()
    with TemporaryDirectory() as folder, terminal(Path(folder)):
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = run("".join(cell["source"]), names)
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
