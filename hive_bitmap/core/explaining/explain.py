"""Show a plan as text or HTML for people, or as JSON for programs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hive_bitmap.core.explaining.blockmap import BlockMap, MapRow, block_map
from hive_bitmap.core.explaining.explain_html import to_html
from hive_bitmap.core.explaining.measures import deleted, measures, of_all, percent, read_by_answer, seconds, size
from hive_bitmap.core.planning.plan import IndexUse, Plan

__all__ = ["to_html", "to_json", "to_text"]

MAX_FILES = 40
# The shade of a cell shows its share of selected rows: none, less than each of LIMITS, or more.
SHADES = "·░▒▓█"
LIMITS = (0.01, 0.1, 0.5)
STYLES = ("bright_black", "color(31)", "color(37)", "color(178)", "color(208)")
MARK = "?"
# The width of the text to the right of the map (`read whole: unindexed`, `12,345 of 336,776 rows`), and of the gaps.
TAIL_WIDTH = 32


def to_text(plan: Plan, width: int | None = None, color: bool = False) -> str:
    """Return the plan as lines of text.

    A line has at most `width` characters; the default is the terminal's width, or 100. `color` adds ANSI colours.
    """
    columns = width or shutil.get_terminal_size((100, 24)).columns
    console = Console(
        width=columns,
        force_terminal=color,
        color_system="256" if color else None,
        legacy_windows=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(_page(plan, columns))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values.

    The result has the fields of the plan except `candidates`; `files` and `blocks` are lists of objects. `files_total`
    is the number of all files, and `files_selected` the number of files that the plan reads. Both are None if nothing
    was looked up. `factors` has the learnt factors for prices, `spark` for Spark's readers and `own` for ours;
    `factors` is None if no read was measured.
    """
    learnt = plan.factors
    return {
        "table": plan.table,
        "predicate": plan.predicate,
        "strategy": plan.strategy,
        "reason": plan.reason,
        "code": plan.code or "",
        "indexes": [
            {"name": i.name, "columns": list(i.columns), "encoding": i.encoding, "used": i.used, "reason": i.reason}
            for i in plan.indexes
        ],
        "files_total": len(plan.files) if plan.looked_up else None,
        "files_selected": int(plan.kept_files.sum()) if plan.looked_up else None,
        "blocks_total": plan.blocks_total,
        "blocks_selected": plan.blocks_selected,
        "rows_total": plan.rows_total,
        "rows_selected": plan.rows_selected,
        "bytes_total": plan.bytes_total,
        "bytes_selected": plan.bytes_selected,
        "index_bytes": plan.index_bytes,
        "costs": dict(plan.costs),
        "factors": {"spark": asdict(learnt.spark), "own": asdict(learnt.own)} if str(learnt) else None,
        "deleted": plan.deleted,
        "in_driver": plan.in_driver,
        "first": None if plan.first is None else str(plan.first),
        "row_tasks": plan.row_tasks,
        "files": plan.files.to_pylist(),
        "blocks": plan.blocks.to_pylist(),
    }


def _page(plan: Plan, width: int) -> Group:
    parts: list[RenderableType] = [_header(plan), "", _indexes(plan.indexes), "", _measures(plan)]
    if read := read_by_answer(plan):
        parts.append(Text(read, "dim"))
    if len(plan.files):
        parts += ["", *_map(plan, width)]
    if plan.deleted:
        parts += ["", Text(deleted(plan.deleted), style="yellow")]
    return Group(*parts)


def _header(plan: Plan) -> Table:
    grid = _grid()
    grid.add_row(Text("table", "dim"), Text(plan.table, "bold"))
    grid.add_row(Text("predicate", "dim"), Text(plan.predicate or "none: all rows"))
    grid.add_row(Text("strategy", "dim"), Text.assemble((plan.strategy, "bold green"), f": {plan.reason}"))
    if plan.index_bytes:
        grid.add_row(Text("lookup", "dim"), Text(f"{size(plan.index_bytes)} of the indexes decoded"))
    if plan.costs:
        grid.add_row(Text("estimates", "dim"), _costs(plan))
    if learnt := str(plan.factors):
        grid.add_row(Text("learnt", "dim"), Text(learnt))
    return grid


def _costs(plan: Plan) -> Text:
    line = Text()
    for strategy, cost in sorted(plan.costs.items(), key=lambda item: item[1]):
        if line:
            line.append(" · ", "dim")
        line.append(f"{strategy} {seconds(cost)}", "bold" if strategy == plan.strategy else "")
    return line


def _indexes(indexes: Iterable[IndexUse]) -> RenderableType:
    grid = _grid()
    for index in indexes:
        mark, style = ("✓", "green") if index.used else ("✗", "bright_black")
        columns = ", ".join(index.columns)
        state = "used" if index.used else "not used"
        grid.add_row(
            Text.assemble((f"{mark} ", style), (index.name, "bold" if index.used else "")),
            Text(f"({columns}) {index.encoding or index.type}", "dim"),
            Text(f"{state}: {index.reason}" if index.reason else state),
        )
    return grid if grid.row_count else Text("no index on this table", style="yellow")


def _measures(plan: Plan) -> Table:
    grid = _grid()
    for column in grid.columns:
        column.justify = "right"
    grid.add_row("", *(Text(word, "dim") for word in ("kept", "of all", "share")))
    for word, read, total, share in measures(plan):
        grid.add_row(Text(word, "dim"), Text(read, "bold"), total, share)
    return grid


def _map(plan: Plan, width: int) -> list[RenderableType]:
    label_width = max(12, width // 4)
    partitioned = any(plan.files["partition"].unique().to_pylist())
    drawn = block_map(plan, MAX_FILES, max(8, width - (1 + partitioned) * label_width - TAIL_WIDTH))
    thickness = 2 if max((len(row.cells) for row in drawn.rows), default=0) <= label_width // 2 else 1
    grid = _grid(no_wrap=True)
    for row in drawn.rows:
        label = [Text(_shorten(row.partition, label_width), "dim")] if partitioned else []
        grid.add_row(*label, Text(_shorten(row.name, label_width)), _strip(row, thickness), _tail(row))
    return [Text(f"block map: one row per file, {_cell_words(drawn)}", "dim"), _legend(drawn), grid, *_left_out(drawn)]


def _strip(row: MapRow, thickness: int) -> Text:
    """Draw the cells of a file, each as `thickness` characters.

    A cell is a block or several adjacent blocks. Its shade shows its share of selected rows. A file without cells is
    drawn as MARK, or not at all if the file is fresh.
    """
    if not len(row.cells):
        return Text(MARK * 2 * thickness if row.state != "fresh" else "", "yellow")
    share = row.cells.share()
    levels = np.where(row.cells.selected == 0, 0, 1 + np.searchsorted(LIMITS, share, side="right"))
    strip = Text()
    for level in levels.tolist():
        strip.append(SHADES[level] * thickness, STYLES[level])
    return strip


def _tail(row: MapRow) -> Text:
    if row.state != "fresh":
        whole = "read whole: " if row.scanned else ""
        return Text(f"{whole}{row.state}" + (f", {row.reason}" if row.reason else ""), "yellow")
    selected, rows = int(row.cells.selected.sum()), int(row.cells.rows.sum())
    return Text(of_all(selected, rows) + (f", {row.reason}" if row.reason else ""), "" if selected else "bright_black")


def _cell_words(drawn: BlockMap) -> str:
    most = max((int(row.cells.blocks.max()) for row in drawn.rows if len(row.cells)), default=1)
    return "one cell per block" if most == 1 else f"one cell for up to {most:,} blocks"


def _legend(drawn: BlockMap) -> Text:
    legend = Text("selected rows: ", "dim")
    words = ["none", *(f"<{percent(limit, 1)}" for limit in LIMITS), "more"]
    for shade, style, word in zip(SHADES, STYLES, words, strict=True):
        legend.append(shade, f"not dim {style}").append(f" {word}  ")
    if any(row.state != "fresh" for row in drawn.rows):
        legend.append(MARK, "not dim yellow").append(" stale or not indexed")
    return legend


def _left_out(drawn: BlockMap) -> list[RenderableType]:
    if not drawn.more:
        return []
    return [Text(f"… and {drawn.more:,} more files, {drawn.kept_more:,} of them kept", "dim")]


def _grid(no_wrap: bool = False) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        grid.add_column(no_wrap=no_wrap)
    return grid


def _shorten(text: str, width: int) -> str:
    """Shorten a text to at most `width` characters by leaving out its middle.

    >>> _shorten("part-00000-6f1c-c000.snappy.parquet", 20)
    'part-00000-6f…arquet'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]
