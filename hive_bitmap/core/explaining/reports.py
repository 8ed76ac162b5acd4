"""Show reports as tables in a notebook.

A table has a row for each report, and the style of the HTML page of a plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Generic, TypeVar

from hive_bitmap.core.explaining.explain_html import fragment

SHORT = 30  # characters of a cell that is not wrapped
MOST = 500  # rows of a table; further reports are only counted
_HEAD, _ROW, _ALL = 7, 4, 32  # heights in em


class Report(ABC):
    """A report on one index, which a notebook shows as a table of one row."""

    @abstractmethod
    def _cells(self) -> Mapping[str, str]:
        """Return the cells to show, by heading.

        All reports of a kind have the same headings.
        """

    def _repr_html_(self) -> str:
        return table([self])


Kind = TypeVar("Kind", bound=Report)


class Reports(list[Kind], Generic[Kind]):
    """A list of reports of one class, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return table(self)


def table(reports: Sequence[Report]) -> str:
    """Return a table of the reports as HTML to embed in another page."""
    rows = min(len(reports), MOST) + (len(reports) > MOST)
    return fragment(_lines(reports), min(_HEAD + _ROW * rows, _ALL))


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    if not reports:
        yield '<p class="soft">none</p>'
        return
    shown = [report._cells() for report in reports[:MOST]]
    heads = "".join(f"<th>{escape(name)}</th>" for name in shown[0])
    yield f'<div class="card wide reports"><table><tr>{heads}</tr>'
    for cells in shown:
        yield f"<tr>{''.join(map(_cell, cells.values()))}</tr>"
    yield "</table></div>"
    if len(reports) > MOST:
        yield f'<p class="soft">and {len(reports) - MOST:,} more</p>'


def _cell(text: str) -> str:
    return f'<td class="text">{escape(text)}</td>' if len(text) > SHORT else f"<td>{escape(text)}</td>"
