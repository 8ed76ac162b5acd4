"""A block over a query in brackets (a view's too) that passes on rows and columns of one table, as one over the table.

`SELECT count(*) FROM (SELECT * FROM t WHERE a = 1) AS x WHERE b = 2` asks no more than a block over `t` with both
conditions. Columns must keep their names on the way, and what the inner queries hide stays hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.index.metastore import quote
from hive_bitmap.query.names import Names, path_at
from hive_bitmap.query.rewrite.demands import Demand
from hive_bitmap.query.rewrite.shape import clauses
from hive_bitmap.query.rewrite.tree import (
    NAMES_OF_ALL,
    Block,
    CteUse,
    Derived,
    Query,
    Scan,
    Source,
    blocks,
    name_of,
)
from hive_bitmap.query.rewrite.understood import serves
from hive_bitmap.query.rewrite.words import Words, read
from hive_bitmap.query.tokens import Token, tokenize

_NAMELESS = "hive_bitmap_rows"  # what a block calls a query to which it gives no name


@dataclass(frozen=True)
class Nest:
    """A block that asks for less than rows, `blocks[0]`, and those that it reads through, to that of the scan."""

    blocks: tuple[Block, ...]

    @property
    def block(self) -> Block:
        return self.blocks[0]

    @property
    def alias(self) -> str:
        """What the block calls its source."""
        return _alias(self.block)


def nests(query: Query) -> dict[Scan, Nest]:
    """The scans that are all that such a block reads, through one query in brackets or several."""
    found: dict[Scan, Nest] = {}
    for block in blocks(query):
        levels = tuple(_levels(block))
        scan = _source(levels[-1])
        if len(levels) > 1 and isinstance(scan, Scan) and (block.counts or block.exists):
            found.setdefault(scan, Nest(levels))
    return found


def flattened(words: Words, nest: Nest, table: str, columns: Sequence[Column]) -> str:
    """The outer block as one over `table`, which has these columns; raises Unsupported where that may differ."""
    if nest.block.star:
        raise Unsupported("a star stands for all columns")
    conditions = []
    exposed = {column.name.lower() for column in columns}
    padded = {column.name.lower() for column in columns if column.type.startswith("char(")}
    for block in reversed(nest.blocks[1:]):
        alias = _alias(block)
        names = Names(columns, alias)
        if not _is_sound(words, block, names, exposed):
            raise Unsupported("only Spark knows whether what the query inside names is there")
        texts = [conjunct.text for conjunct in block.where]
        served = all(serves(Demand(text), columns, alias) for text in texts)
        if not served or not all(_named(tokenize(text), names) <= exposed for text in texts):
            raise Unsupported("a condition inside is not understood")
        conditions += [names.unqualified(tokenize(text), text) for text in texts]
        exposed = _passed_on(block, names, exposed) - padded  # of CHAR Spark compares the table's own columns as such
    outer = read(words.source(nest.block.start, nest.block.end))
    found = clauses(outer)
    from_, behind = found["FROM"]
    around = [*outer.tokens[:from_], *outer.tokens[behind:]]
    if not _named(around, Names(columns, nest.alias)) <= exposed:
        raise Unsupported("it names a column that the query inside does not pass on as it is")
    if "WHERE" in found:
        at, behind = found["WHERE"]
        conditions.append(outer.source(at + 1, behind))
    where = f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
    rest = f" {outer.source(behind, outer.end)}" if behind < outer.end else ""
    return f"{outer.source(0, from_)} FROM {table} AS {quote(nest.alias)}{where}{rest}"


def _levels(block: Block) -> Iterator[Block]:
    """The block, and those that it reads through, as long as each only passes rows and plain columns on."""
    yield block
    source = _source(block)
    query = None
    if isinstance(source, Derived) and not source.renamed:
        query = source.query
    elif isinstance(source, CteUse) and not source.renamed and not source.cte.renamed and source.cte.uses == 1:
        query = source.cte.query
    if query is not None and len(query.arms) == 1 and not (query.ctes or query.cut or query.inside):
        [arm] = query.arms
        if isinstance(arm, Block) and _passes_on(arm):
            yield from _levels(arm)


def _source(block: Block) -> Source | None:
    """What a block reads, if that is all that it reads."""
    sources = [join.source for item in block.items for join in item]
    return sources[0] if len(sources) == 1 and not block.inside else None


def _passes_on(block: Block) -> bool:
    """Whether a block gives out its source's rows, each once, as plain columns."""
    return (
        block.passes
        and not block.counts
        and block.row is not None
        and all(item.source or item.name == NAMES_OF_ALL for item in block.row)
    )


def _is_sound(words: Words, block: Block, names: Names, exposed: set[str]) -> bool:
    """Whether all that a block selects are stars of its source and columns that it sees, and it sorts by nothing."""
    sorted_by = any(words.key(at) == "BY" for at in words.outer(block.start, block.end))
    stars = (item.source for item in block.row or () if item.name == NAMES_OF_ALL)
    columns = (_column(item.source, names) for item in block.row or () if item.name != NAMES_OF_ALL)
    return not sorted_by and {*stars} <= {"", _alias(block)} and {*columns} <= exposed


def _passed_on(block: Block, names: Names, exposed: set[str]) -> set[str]:
    """Of the names of columns that a block sees, those that mean the same outside; none beside a star."""
    if block.outputs is None:
        return exposed
    return {name for name, source in block.outputs.items() if name in exposed and _column(source, names) == name}


def _column(source: str, names: Names) -> str:
    """The name of the column that a dotted name means, in lower case; empty for a field of a struct."""
    column = names.resolve(path_at(tokenize(source), 0)[0])
    return column.name.lower() if column is not None else ""


def _named(tokens: Sequence[Token], names: Names) -> set[str]:
    """The columns that may be meant anywhere in these words, but for what AS names; those too whose fields are."""
    paths = (path_at(tokens, at)[0] for at in range(len(tokens)) if not at or tokens[at - 1].key != "AS")
    found = (names.resolve(path[:end]) for path in paths for end in range(1, len(path) + 1))
    return {column.name.lower() for column in found if column is not None}


def _alias(block: Block) -> str:
    source = _source(block)
    return (name_of(source) if source else "") or _NAMELESS
