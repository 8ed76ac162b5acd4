"""Show a plan as one self-contained HTML page.

The page has no script and no link, and follows the reader's preference for light or dark. Every text from the plan is
escaped. A cell of the block map is one block or several adjacent blocks. The colour of a cell shows its share of
selected rows, on a logarithmic scale from a thousandth to all rows. The tooltip of a cell has the file, the blocks, the
offset, the size and the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from html import escape
from importlib.resources import files
from itertools import groupby

import numpy as np

from hive_bitmap.core.explaining.blockmap import BlockMap, Cells, MapRow, block_map
from hive_bitmap.core.explaining.measures import deleted, measures, of_all, percent, read_by_answer, seconds, size
from hive_bitmap.core.planning.plan import Plan

# Number of cells that a browser lays out without a pause; if there are more blocks, neighbours share a cell.
MAX_CELLS = 20_000
MAX_FILES = 2_000
LEVELS = 9
# Most cells that share the width of the map; if there are more, they are small squares in several lines.
FEW_CELLS = 24
MOST_HEIGHT = 90  # most em of a frame


class ShownPlan(Plan):
    """A plan that a notebook displays as HTML."""

    @classmethod
    def of(cls, plan: Plan) -> ShownPlan:
        """Return a ShownPlan with the fields of a plan."""
        return cls(**{field.name: getattr(plan, field.name) for field in fields(plan)})

    def _repr_html_(self) -> str:
        return shown(self)


def to_html(plan: Plan) -> str:
    """Return the plan as a complete HTML document."""
    return page(f"{plan.table}: {plan.predicate or 'all rows'}", body(plan))


def page(title: str, lines: Iterable[str], kind: str = "") -> str:
    """Return a complete HTML document with these lines as its body.

    `kind` is the CSS class of the body element; "" for none.
    """
    style = (files(__package__) / "explain.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body class="{kind}">',
            *lines,
            "</body>\n</html>\n",
        ]
    )


def fragment(lines: Iterable[str], height: int = 0) -> str:
    """Return lines of HTML as an iframe to embed in another page.

    The other page may be a notebook. The frame has its own styles, runs no script and loads nothing. `height` is the
    height of the frame in em; 0 means the estimated height of the content, at most MOST_HEIGHT. Readers can scroll and
    resize the frame.
    """
    whole = page("hive_bitmap", lines, "frame")
    return (
        f'<iframe srcdoc="{escape(whole)}" sandbox="" title="hive_bitmap" '
        f'style="width:100%;height:{height or _height(whole)}em;border:0;border-radius:6px;resize:vertical"></iframe>'
    )


def _height(page: str) -> int:
    """Estimate the height of a page on a wide screen, in em."""
    parts = {'class="tiles"': 9, "<h2": 5, "<tr": 3, 'class="file': 2, 'class="cost"': 2, "<pre": 16}
    return min(14 + sum(high * page.count(part) for part, high in parts.items()), MOST_HEIGHT)


def shown(plan: Plan) -> str:
    """Return the plan as an iframe to embed in another page (`fragment`)."""
    return fragment(body(plan))


def body(plan: Plan) -> Iterator[str]:
    """Yield the HTML lines of the body of a plan's page."""
    yield from _header(plan)
    yield from _tiles(plan)
    yield from _indexes(plan)
    yield from _costs(plan)
    yield from _map(plan)
    yield f'<p class="soft">{deleted(plan.deleted)}</p>' if plan.deleted else ""


def _header(plan: Plan) -> Iterator[str]:
    yield f"<h1>{escape(plan.table)}</h1>"
    yield f'<p class="predicate"><code>{escape(plan.predicate or "all rows")}</code></p>'
    yield f'<p class="strategy"><span class="badge">{escape(plan.strategy)}</span>{escape(plan.reason)}</p>'
    if plan.index_bytes:
        yield f'<p class="soft">{size(plan.index_bytes)} of the indexes decoded</p>'


def _tiles(plan: Plan) -> Iterator[str]:
    yield '<div class="tiles">'
    for word, amount, total, share in measures(plan):
        yield (
            f'<div class="tile"><div class="word">{word}</div><div class="kept">{escape(share)}</div>'
            f'<div class="all">{_of(amount, total)}</div>{_meter(_percent(share))}</div>'
        )
    yield "</div>"
    if read := read_by_answer(plan):
        yield f'<p class="soft">{read}</p>'


def _indexes(plan: Plan) -> Iterator[str]:
    yield '<h2>Indexes</h2>\n<div class="card wide"><table>'
    if not plan.indexes:
        yield "<tr><td>This table has none.</td></tr>"
    for index in plan.indexes:
        mark, name, state = ("✓", "used", "used") if index.used else ("✗", "unused", "not used")
        yield (
            f'<tr class="{name}"><td><span class="mark">{mark}</span> {escape(index.name)}</td>'
            f"<td>({escape(', '.join(index.columns))})</td><td>{escape(index.encoding or index.type)}</td>"
            f"<td>{state}{escape(': ' + index.reason if index.reason else '')}</td></tr>"
        )
    yield "</table></div>"


def _costs(plan: Plan) -> Iterator[str]:
    if not plan.costs:
        return
    most = max(plan.costs.values()) or 1
    yield '<h2>Estimated time of each strategy</h2>\n<div class="card">'
    for strategy, cost in sorted(plan.costs.items(), key=lambda item: item[1]):
        chosen = " chosen" if strategy == plan.strategy else ""
        yield (
            f'<div class="cost{chosen}"><span>{escape(strategy)}</span>{_meter(100 * cost / most)}'
            f"<span>{seconds(cost)}</span></div>"
        )
    yield "</div>"


def _map(plan: Plan) -> Iterator[str]:
    if not len(plan.files):
        return
    files = min(len(plan.files), MAX_FILES)
    drawn = block_map(plan, files, max(1, MAX_CELLS // files if len(plan.blocks) > MAX_CELLS else MAX_CELLS))
    yield "<h2>Block map</h2>"
    yield from _legend(drawn)
    yield '<div class="card">'
    for partition, rows in groupby(drawn.rows, key=lambda row: row.partition):
        if partition:
            yield f'<div class="partition">{escape(partition)}</div>'
        yield from (_file(row) for row in rows)
    yield "</div>"
    if drawn.more:
        yield f'<p class="soft">and {drawn.more:,} more files, {drawn.kept_more:,} of them kept</p>'


def _legend(drawn: BlockMap) -> Iterator[str]:
    grouped = max((int(row.cells.blocks.max()) for row in drawn.rows if len(row.cells)), default=1)
    cell = "a cell is a block" if grouped == 1 else f"a cell is up to {grouped:,} blocks"
    yield f'<div class="legend"><span>a row is a file, {cell}</span><span><i></i> no row selected</span>'
    yield '<span>0.1 % <b class="ramp"></b> all rows selected</span>'
    if any(row.state != "fresh" for row in drawn.rows):
        yield '<span><i class="whole legend-whole"></i> stale or not indexed</span>'
    yield "</div>"


def _file(row: MapRow) -> str:
    selected, rows = int(row.cells.selected.sum()), int(row.cells.rows.sum())
    if row.state != "fresh":
        name, tail = "file unsure", ("read whole: " if row.scanned else "") + row.state
        tip = f"{row.name}\n{size(row.size)}, {row.state}" + (f": {row.reason}" if row.reason else "")
        cells: Iterable[str] = [f'<i class="whole" data-tip="{escape(tip)}"></i>']
    else:
        name, tail = "file" if selected else "file nothing", of_all(selected, rows)
        cells = _cells(row.name, row.cells)
    few = " few" if len(row.cells) <= FEW_CELLS else ""
    return (
        f'<div class="{name}"><span class="name" title="{escape(row.path)}">{escape(row.name)}</span>'
        f'<span class="cells{few}">{"".join(cells)}</span>'
        f'<span class="tail" title="{escape(row.reason or "")}">{escape(tail)}</span></div>'
    )


def _cells(name: str, cells: Cells) -> Iterator[str]:
    # The logarithms of the shares 0.001 to 1 are mapped to the levels 1 to 9. Level 0 means no selected row.
    scale = (np.log10(np.maximum(cells.share(), 1e-3)) + 3) / 3
    levels = np.where(cells.selected == 0, 0, 1 + np.rint(np.minimum(scale, 1) * (LEVELS - 1)).astype(int))
    columns = (levels, cells.first, cells.blocks, cells.offset, cells.length, cells.rows, cells.selected)
    for level, first, count, offset, length, rows, selected in zip(*(array.tolist() for array in columns), strict=True):
        blocks = f"block {first + 1:,}" if count == 1 else f"blocks {first + 1:,} to {first + count:,}"
        share = f"{of_all(selected, rows)} ({percent(selected, rows)})"
        tip = f"{name}\n{blocks}, from byte {offset:,}, {size(length)}\n{share}"
        yield f'<i class="h{level}" data-tip="{escape(tip)}"></i>'


def _of(part: str, total: str) -> str:
    return "not known" if part == total == "-" else f"{part} of {total}"


def _percent(share: str) -> float:
    """Parse a share such as "12 %" or "<0.1 %" to percent; 0 for "-"."""
    number = share.strip("<> %")
    return float(number) if number != "-" else 0.0


def _meter(width: float) -> str:
    return f'<div class="meter"><b style="width:{width:.2f}%"></b></div>'
