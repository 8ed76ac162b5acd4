"""Declare the fields of reports, and show reports as tables in a notebook.

The command line prints the same fields. A table in a notebook has a row for each report, in the style of the HTML page
of a plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hive_bitmap.core.explaining.explain_html import fragment
from hive_bitmap.core.explaining.measures import or_dash, thousands

SHORT = 30  # characters of a cell that is not wrapped
MOST = 500  # rows of a table; further reports are only counted
_HEAD, _ROW, _ALL = 7, 4, 32  # heights in em


@dataclass(frozen=True)
class Field:
    """A field of a report, for programs and as a column of tables.

    `of` is a function from the report to the value, or the name of an attribute of the report; "" stands for the
    attribute `name`. `show` formats the value for people. Tables have only the fields with a `heading`. The command
    line aligns a field to the right if `right` is true. `record_of` leaves out an `optional` field if its value is
    None.
    """

    name: str
    heading: str = ""
    show: Callable[[Any], str] = str
    right: bool = False
    of: Callable[[Any], Any] | str = ""
    optional: bool = False

    def value(self, report: object) -> Any:
        """Return the value of the field in a report."""
        return self.of(report) if callable(self.of) else attrgetter(self.of or self.name)(report)


def figure(
    name: str, heading: str = "", show: Callable[[Any], str] = thousands, of: Callable[[Any], Any] | str = ""
) -> Field:
    """Return a field for a number.

    The default heading is the name of the field. `show` formats the number. `of` is a function from the report to the
    number, or the name of an attribute.
    """
    return Field(name, heading or name, show, right=True, of=of)


class HasFields(Protocol):
    """A report that declares its fields.

    `_fields` has the fields in the order in which records (`record_of`) and tables show them.
    """

    _fields: ClassVar[tuple[Field, ...]]


# The fields of reports that have a `definition`. `encoding` is None for indexes without bitmaps. `next_encoding` is the
# encoding after the next rebuild, if it changes.
INDEX_FIELDS = (
    Field("index", "index", of="definition.name"),
    Field("table", of="definition.full_table"),
    Field("columns", "columns", ", ".join, of=lambda report: list(report.definition.key_texts)),
    Field("type", "type", of="definition.type"),
    Field("encoding", "encoding", or_dash, of="definition.bitmap_encoding"),
    Field("next_encoding", of=lambda report: report.definition.next_encoding or None, optional=True),
    Field("compression", of="definition.compression"),
    Field("aggregates", of=lambda report: [*map(str, report.definition.aggregates)] or None, optional=True),
    Field("properties", of=lambda report: dict(report.definition.properties) or None, optional=True),
    Field("index_table", of="definition.full_index_table"),
)


def record_of(report: HasFields) -> dict[str, Any]:
    """Return the values of a report's fields, by the name of the field."""
    values = ((field, field.value(report)) for field in report._fields)
    return {field.name: value for field, value in values if value is not None or not field.optional}


def columns_of(reports: Sequence[HasFields], names: Sequence[str] = ()) -> list[Field]:
    """Return the fields with these names, by default all fields with a heading.

    All reports must be of one kind. The result is empty if there are no reports.
    """
    if not reports:
        return []
    fields = {field.name: field for field in reports[0]._fields}
    return [fields[name] for name in names] or [field for field in fields.values() if field.heading]


def texts_of(report: HasFields, *names: str) -> dict[str, str]:
    """Return the texts of a report's fields, by heading.

    `names` are the names of the fields; by default, all fields with a heading are returned. A field without a heading
    is returned under its name.
    """
    return {field.heading or field.name: field.show(field.value(report)) for field in columns_of([report], names)}


class Report(ABC):
    """A report on one index.

    A notebook shows the report as a row of a table.
    """

    @abstractmethod
    def _cells(self) -> Mapping[str, str]:
        """Return the cells to show, by heading.

        All reports of a class have the same headings.
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
