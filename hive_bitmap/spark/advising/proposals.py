"""Present advice as a value, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar

from hive_bitmap.core.explaining.explain_html import fragment
from hive_bitmap.core.explaining.measures import counted, moment, seconds, size
from hive_bitmap.core.explaining.reports import Field, figure, texts_of


def time_of(at: float | None) -> str:
    """Format a time in UTC, given in seconds since 1970; None becomes a dash."""
    return "-" if at is None else moment(at)


def named(columns: Sequence[Sequence[str]]) -> str:
    """Format indexes as text, by their columns.

    >>> named([("day",), ("shop", "product")])
    '(day), (shop, product)'
    """
    return ", ".join(f"({', '.join(names)})" for names in columns)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed index, or several indexes that only together answer queries.

    `columns` and `statements` have an item for each index. The gains are in addition to existing indexes and earlier
    proposals. `queries` is the number of observed queries that would have gained. `bytes_saved` are the bytes of base
    files that these queries would not have read. `seconds_saved` is the saved time, estimated by the planner's prices.
    `index_bytes` and `build_seconds` are estimates.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        Field("table", "table"),
        Field("columns", "index", named),
        figure("queries"),
        figure("bytes_saved", "bytes saved", size),
        figure("seconds_saved", "time saved", seconds),
        figure("index_bytes", "size", size),
        figure("build_seconds", "build", seconds),
        Field("statements"),
    )

    table: str
    columns: tuple[tuple[str, ...], ...]
    queries: int
    bytes_saved: int
    seconds_saved: float
    index_bytes: int
    build_seconds: float
    statements: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Indexes of one table that would serve queries but are not proposed.

    `columns` has an entry for each index; `why` is a sentence.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        Field("table", "table"),
        Field("columns", "left out", named),
        Field("why", "why"),
    )

    table: str
    columns: tuple[tuple[str, ...], ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class UnusedIndex:
    """An index that no observed query used.

    `built` is the time when its last build began, in seconds since 1970; None if it was never built.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        Field("table", "table"),
        Field("index", "unused index"),
        Field("columns", "columns", lambda columns: named([columns])),
        figure("index_bytes", "size", size),
        Field("built", "last build", time_of),
    )

    table: str
    index: str
    columns: tuple[str, ...]
    index_bytes: int
    built: float | None


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice about indexes, from the observed scans of tables.

    `queries` is the number of these scans. `since` is the time from which they were observed, in seconds since 1970;
    None if nothing was recorded. `proposals` are a set of indexes to create, in the order in which they were chosen;
    the gain of a proposal is in addition to earlier proposals. `left_out` are the other considered indexes, by reason.
    `unused` are indexes that no query used. `notes` are other sentences, for example on what could not be considered,
    and on indexes that would answer sums.
    """

    queries: int
    since: float | None
    proposals: tuple[Proposal, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    unused: tuple[UnusedIndex, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A sentence on the total scans, gain and cost; "" without scans."""
        if not self.queries:
            return ""
        seen = f"{counted(self.queries, 'scan')} seen since {time_of(self.since)}"
        if not self.proposals:
            return f"{seen}; no further index is worth its build"
        saved = math.fsum(proposal.seconds_saved for proposal in self.proposals)
        cost = math.fsum(proposal.build_seconds for proposal in self.proposals)
        number = sum(len(proposal.columns) for proposal in self.proposals)
        return (
            f"{seen}; {'1 index' if number == 1 else f'{number} indexes'} would have saved "
            f"{seconds(saved)}, at {size(sum(proposal.index_bytes for proposal in self.proposals))} and "
            f"{seconds(cost)} of builds"
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        rows = len(self.proposals) + len(self.left_out) + len(self.unused) + len(self.notes)
        statements = sum(len(proposal.statements) for proposal in self.proposals)
        return fragment(_html(self), min(12 + 3 * rows + 2 * statements, 60))


def _lines(advice: Advice) -> Iterator[str]:
    if advice.queries:
        yield advice.summary
    for number, step in enumerate(advice.proposals, 1):
        queries, more = "1 query" if step.queries == 1 else f"{step.queries:,} queries", " more" if number > 1 else ""
        yield (
            f"{number}. {step.table} {named(step.columns)}: saves {queries} {size(step.bytes_saved)} and "
            f"{seconds(step.seconds_saved)}{more}; takes {size(step.index_bytes)}, "
            f"built in {seconds(step.build_seconds)}"
        )
        yield from (f"   {statement};" for statement in step.statements)
    for omitted in advice.left_out:
        yield f"left out: {omitted.table} {named(omitted.columns)}: {omitted.why}"
    for unused in advice.unused:
        yield (
            f"{unused.table}: no query used index {unused.index} {named([unused.columns])}, of "
            f"{size(unused.index_bytes)}, last built {time_of(unused.built)}"
        )
    yield from advice.notes


def _html(advice: Advice) -> Iterator[str]:
    if advice.queries:
        yield f"<h1>{escape(advice.summary)}</h1>"
    if advice.proposals:
        yield "<h2>Indexes to create</h2>"
        yield from _table(
            ("", "table", "index", "queries", "bytes saved", "time saved", "size", "build"),
            ((f"{number}.", *texts_of(step).values()) for number, step in enumerate(advice.proposals, 1)),
        )
        statements = "\n".join(f"{statement};" for step in advice.proposals for statement in step.statements)
        yield f"<pre>{escape(statements)}</pre>"
    if advice.left_out:
        yield "<h2>Left out</h2>"
        yield from _table(("table", "index", "why"), (texts_of(omitted).values() for omitted in advice.left_out))
    if advice.unused:
        yield "<h2>Indexes that no query used</h2>"
        yield from _table(
            ("table", "index", "columns", "size", "last build"),
            (texts_of(index).values() for index in advice.unused),
        )
    yield from (f'<p class="soft">{escape(note)}</p>' for note in advice.notes)


def _table(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    yield f'<div class="card wide"><table><tr>{heads}</tr>'
    yield from (f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    yield "</table></div>"
