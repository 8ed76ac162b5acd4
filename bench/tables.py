"""Tables that fit a terminal: no word is broken, and columns that do not fit come below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

FIGURE = 7  # characters of a figure that stays on a line with its unit: `12.3 ms`


def show(console: Console, table: Table) -> None:
    """Print a table, in parts where the console is too narrow."""
    for part in fitting(console, table):
        console.print(part)


def fitting(console: Console, table: Table) -> Iterator[Table]:
    """The table, as one or more that the console is wide enough for; each begins with the first column.

    Only a word that is wider than the console beside the first column is broken.
    """
    room, frame = console.width - 1, _frame(table)
    lead, *others = table.columns
    first = min(_widths(console, lead).minimum, room // 2)
    groups: list[list[Column]] = [[]]
    left = room - first - frame
    for column in others:
        needed = min(_widths(console, column).minimum, room - first - 2 * frame) + frame
        if needed > left and groups[-1]:
            groups.append([])
            left = room - first - frame
        groups[-1].append(column)
        left -= needed
    for number, group in enumerate(groups):
        part = _part(console, table, [lead, *group], room)
        part.title = table.title if number == 0 else None
        part.caption = table.caption if number == len(groups) - 1 else None
        yield part


def _frame(table: Table) -> int:
    """Characters of a column besides its text: a blank on either side, and the line of a box."""
    return 2 if table.box is None else 3


def _part(console: Console, table: Table, columns: Sequence[Column], room: int) -> Table:
    """Some columns of a table, each as wide as its longest word, and wider as far as there is room for whole lines."""
    measured = [_widths(console, column) for column in columns]
    room -= _frame(table) * len(columns)
    widths = [min(found.minimum, room) for found in measured]
    for number, found in enumerate(measured):
        widths[number] += max(0, min(found.maximum - widths[number], room - sum(widths)))
    part = Table(
        box=table.box,
        title_justify=table.title_justify,
        title_style=table.title_style,
        caption_justify=table.caption_justify,
    )
    for column, width in zip(columns, widths, strict=True):
        part.add_column(column.header, justify=column.justify, width=max(width, 1))
    rows = zip(*(column.cells for column in columns), strict=True)
    for row, shape in zip(rows, table.rows, strict=True):
        part.add_row(*row, end_section=shape.end_section)
    return part


def _widths(console: Console, column: Column) -> Measurement:
    """The widest word (minimum) and line (maximum) of a column, its heading included. A short figure is one word."""
    found = [Measurement.get(console, console.options, cell) for cell in (column.header, *column.cells)]
    figure = max((one.maximum for one in found[1:]), default=0)
    word = max(one.minimum for one in found)
    return Measurement(max(min(figure, FIGURE), word), max(one.maximum for one in found))
