"""A hook of MkDocs: pages that lie outside docs/ are part of the site, and links between the two are turned.

So is the notebook, as a page that shows what its cells show.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[1]
# Pages outside docs/, and where the site has them.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "bench.md",
}
NOTEBOOK = "notebook.ipynb"  # in docs/
_LINK = re.compile(r"\]\(([^):#\s]+)(#[^)]*)?\)")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages outside docs/ to those that MkDocs found."""
    from mkdocs.structure.files import File

    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(HOME / source).read_text()))
    book = json.loads((HOME / "docs" / NOTEBOOK).read_text())
    files.append(File.generated(config, NOTEBOOK.replace(".ipynb", ".md"), content=page_of(book)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The text of a page with links that lead to pages of the site."""
    sources = {place: source for source, place in OUTSIDE.items()}
    return turned(markdown, sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"), page.file.src_uri)


def page_of(notebook: dict[str, Any]) -> str:
    r"""A notebook as Markdown; what a cell shows is HTML if it can be, else text.

    >>> code = {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]}
    >>> page_of({"cells": [{"cell_type": "markdown", "source": ["# Sums"]}, code]})
    '# Sums\n\n```python\n1 + 1\n```\n\n```\n2\n```\n'
    """
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", [])})
            html, text = ("".join(data.get(kind, [])) for kind in ("text/html", "text/plain"))
            # Markdown takes an element that is one line as it is.
            parts.append(html.replace("\n", "&#10;") if html else f"```\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def turned(text: str, source: str, place: str) -> str:
    """The text of the file `source` of this folder, which the site has at `place`, with links as they are there.

    >>> turned("[a](docs/guide/life.md#create), [b](https://spark.apache.org)", "README.md", "index.md")
    '[a](guide/life.md#create), [b](https://spark.apache.org)'
    >>> turned("[a](../../CHANGELOG.md)", "docs/guide/life.md", "guide/life.md")
    '[a](../changes.md)'
    """

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        there = OUTSIDE.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{found[2] or ''})"

    return _LINK.sub(link, text)
