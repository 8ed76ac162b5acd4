"""What a query is made of, as far as its scans are concerned: blocks, their sources, and how these are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

NAMES_OF_ALL = "*"  # what NATURAL JOIN merges: any name


@dataclass(frozen=True)
class Conjunct:
    """A condition that a clause demands, as text, with the scope's names in it, and the places of its words."""

    text: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, eq=False)
class Scan:
    """A table, or view, that FROM names: the name's parts in lower case, where it stands, and its name in the block."""

    name: tuple[str, ...]
    start: int  # offsets of the name in the text
    end: int
    alias: str
    aliased: bool


@dataclass(frozen=True, eq=False)
class Derived:
    """A query in parentheses that FROM holds; `renamed` if the alias gives its columns other names."""

    query: Query
    alias: str
    renamed: bool


@dataclass(frozen=True, eq=False)
class CteUse:
    """A common table expression that FROM names."""

    cte: Cte
    alias: str
    renamed: bool


@dataclass(frozen=True, eq=False)
class Opaque:
    """What else FROM may hold: its rows are left to Spark."""


Source = Scan | Derived | CteUse | Opaque


@dataclass(frozen=True)
class Join:
    """A source and how it joins what stands left of it: in the same item of FROM, or, as settings say, in all of FROM.

    `kind` is INNER (the first source too), LEFT, RIGHT, FULL, SEMI or ANTI. `merged` are the columns of USING.
    """

    kind: str
    source: Source
    on: tuple[Conjunct, ...] = ()
    merged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Item:
    """What a SELECT lists: its name, and if it is a plain column, that as text.

    The name is empty if only Spark knows it. A star is an item of that name, and `source` what stands before it.
    """

    name: str
    source: str


@dataclass(frozen=True)
class Block:
    """One SELECT. `items` are the sources between the commas of FROM, each with its joins.

    `outputs` are the plain columns among what it selects, by their name there, as text; None where a star selects all.
    `row` is what it selects by position, None where Spark alone knows. `passes` if a condition on what it selects may
    be asked of the rows that it selects from; else that is so of conditions on the columns `grouped`, as text.
    `plain` if each of its rows is one of the FROM clause, unchanged by the others; `counts` if it may hold aggregates,
    or ask for few rows. `start` and `end` are the places of its words, ORDER BY and LIMIT included. `exists` if it is
    only asked whether it has a row.
    """

    items: tuple[tuple[Join, ...], ...]
    where: tuple[Conjunct, ...]
    star: bool
    outputs: Mapping[str, str] | None
    plain: bool
    counts: bool
    start: int
    end: int
    inside: tuple[Query, ...]  # subqueries of its expressions
    row: tuple[Item, ...] | None = None
    passes: bool = False
    grouped: frozenset[str] = frozenset()
    exists: bool = False


@dataclass(frozen=True)
class Query:
    """Blocks and queries put together by set operations; `cut` if LIMIT or OFFSET may leave rows out."""

    ctes: tuple[Cte, ...]
    arms: tuple[Block | Query, ...]
    cut: bool
    inside: tuple[Query, ...] = ()


@dataclass(frozen=True, eq=False)
class Cte:
    """A common table expression; no more than `uses` places of the text can mean it."""

    name: str
    query: Query
    renamed: bool
    uses: int


def blocks(query: Query) -> Iterator[Block]:
    """Every block of a query, wherever it stands."""
    for inside in (*(cte.query for cte in query.ctes), *query.inside):
        yield from blocks(inside)
    for arm in query.arms:
        if isinstance(arm, Query):
            yield from blocks(arm)
            continue
        yield arm
        sources = (join.source for item in arm.items for join in item)
        for inside in (*(source.query for source in sources if isinstance(source, Derived)), *arm.inside):
            yield from blocks(inside)


def name_of(source: Source) -> str:
    """What a block calls a source; empty if it gives it no name."""
    return "" if isinstance(source, Opaque) else source.alias
