"""What a query demands of the rows of each of its scans: conditions that every row satisfies which matters to it.

A scan may be narrowed to the rows that satisfy them; the conditions stay in the query. They are those of WHERE where a
row of the scan is a row of the FROM clause, and those of ON where a row that fails them joins nothing. Behind an outer
join a condition only counts if it is never TRUE of NULLs (`strict`), since narrowing makes more of these.

A name in a condition means the scan that has such a column: if two sources in sight had it, Spark would refuse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hive_bitmap.query.names import path_at
from hive_bitmap.query.rewrite.passing import Look, nothing, passed
from hive_bitmap.query.rewrite.tree import (
    NAMES_OF_ALL,
    Block,
    Conjunct,
    Cte,
    CteUse,
    Derived,
    Join,
    Opaque,
    Query,
    Scan,
    Source,
)
from hive_bitmap.query.tokens import Token, tokenize

_KEPT_LEFT = ("INNER", "LEFT", "SEMI", "ANTI")
_LEFT_OR_NULL = ("RIGHT", "FULL")  # joins that show NULL for what stands before them
_NO_NAMES = {"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "BETWEEN"}
_LITERAL_WORDS = {"DATE", "TIMESTAMP"}  # where a string follows


@dataclass(frozen=True)
class Demand:
    """A condition on the rows of a source; a `strict` one only counts if it is never TRUE of a row of NULLs.

    `conjunct` is where it is written, and `sight` are the sources that its names may mean there; none where it came
    from outside the block.
    """

    text: str
    strict: bool = False
    conjunct: Conjunct | None = None
    sight: tuple[Source, ...] = ()


@dataclass(frozen=True)
class ScanDemands:
    """A scan, the block that it stands in, what is demanded of its rows, and whether a star asks for all columns."""

    scan: Scan
    block: Block
    demands: tuple[Demand, ...]
    star: bool


@dataclass
class _Visible:
    """A source of a block; `nullable` if rows of NULLs may stand for it, `first` if it is the leftmost of its item."""

    source: Source
    first: bool
    nullable: bool = False


_Found = dict[Source, list[Demand]]


def scans(query: Query, look: Look = nothing) -> Iterator[ScanDemands]:
    """Every scan of a query, wherever it stands; `look` tells the columns of a table."""
    yield from _Reader(look).query(query, [()] * len(query.arms))


class _Reader:
    """Goes through a query from its result to its scans."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._uses: dict[Cte, list[Sequence[Sequence[Demand]]]] = defaultdict(list)  # what each use of it demands

    def query(self, query: Query, demands: Sequence[Sequence[Demand]]) -> Iterator[ScanDemands]:
        """The scans of a query, of each of whose arms this is demanded: of a block in the names that it has inside."""
        for arm, outer in zip(query.arms, demands, strict=True):
            if isinstance(arm, Block):
                yield from self._block(arm, outer)
            else:
                yield from self.query(arm, self._into(arm, outer, ""))
        for inside in query.inside:
            yield from self.query(inside, [()] * len(inside.arms))
        for cte in reversed(query.ctes):  # each is used by those behind it
            uses = self._uses[cte]
            nothing_known = len(uses) != cte.uses or not uses
            arms = [()] * len(cte.query.arms) if nothing_known else map(_of_any, zip(*uses, strict=True))
            yield from self.query(cte.query, list(arms))

    def _into(self, query: Query, demands: Sequence[Demand], alias: str) -> list[list[Demand]]:
        """What demands on the rows of a query of that alias mean inside it, of each arm: those on columns it passes on.

        Rows that share LIMIT or windows are left alone.
        """
        if query.cut or not demands:
            return [[] for _ in query.arms]
        texts = [
            [(demand, _inside(demand.text, names, alias)) for demand in demands] for names in passed(query, self._look)
        ]
        return [[Demand(text, demand.strict) for demand, text in arm if text] for arm in texts]

    def _block(self, block: Block, outer: Sequence[Demand]) -> Iterator[ScanDemands]:
        star = block.star or any(NAMES_OF_ALL in join.merged for item in block.items for join in item)
        found = _demanded(block, outer)
        for join in (join for item in block.items for join in item):
            demands = found[join.source]
            match join.source:
                case Scan() as scan:
                    yield ScanDemands(scan, block, tuple(demands), star)
                case Derived(query, alias, renamed):
                    yield from self.query(query, self._into(query, [] if renamed else demands, alias))
                case CteUse(cte, alias, renamed):
                    wanted = [] if renamed or cte.renamed else demands
                    self._uses[cte].append(self._into(cte.query, wanted, alias))
                case Opaque():
                    pass
        for inside in block.inside:
            yield from self.query(inside, [()] * len(inside.arms))


def _of_any(uses: Sequence[Sequence[Demand]]) -> Sequence[Demand]:
    """What is demanded of rows that one of several uses may take."""
    if len(uses) == 1:
        return uses[0]
    texts = [" AND ".join(f"({demand.text})" for demand in use) for use in uses]
    strict = any(demand.strict for use in uses for demand in use)
    return [Demand(" OR ".join(f"({text})" for text in texts), strict)] if all(texts) else ()


def _demanded(block: Block, outer: Sequence[Demand]) -> _Found:
    found: _Found = defaultdict(list)
    visible: list[_Visible] = []
    merged: frozenset[str] = frozenset()
    for item in block.items:
        for one in visible:  # unless ansi.relationPrecedence is set, a join joins what stands before the comma, too
            one.nullable |= any(join.kind in _LEFT_OR_NULL for join in item)
        visible += _joined(item, found)
        merged |= frozenset(name for join in item for name in join.merged)
    if any(join.kind not in _KEPT_LEFT and join.merged for item in block.items for join in item):
        for one in visible:
            one.first = False
    sight = tuple(one.source for one in visible)
    for demand in (*(Demand(one.text, False, one, sight) for one in block.where), *outer):
        _demand(found, visible, demand, merged)
    return found


def _joined(item: Sequence[Join], found: _Found) -> list[_Visible]:
    """The sources of an item that are in sight behind its joins, after what ON demands of each is noted."""
    visible: list[_Visible] = []
    merged: frozenset[str] = frozenset()
    for join in item:
        right = _Visible(join.source, not visible)
        reached = {"LEFT": [right], "ANTI": [right], "RIGHT": visible, "FULL": []}.get(join.kind, [*visible, right])
        if join.kind not in _KEPT_LEFT and join.merged:
            visible = [_Visible(one.source, False, one.nullable) for one in visible]
        sight = tuple(one.source for one in (*visible, right))
        for conjunct in join.on:
            _demand(found, reached, Demand(conjunct.text, False, conjunct, sight), merged)
        merged |= join.merged
        for one in visible:
            one.nullable |= join.kind in _LEFT_OR_NULL
        right.nullable = join.kind in ("LEFT", "FULL")
        if join.kind not in ("SEMI", "ANTI"):
            visible = [*visible, right]
    return visible


def _demand(found: _Found, sources: Sequence[_Visible], demand: Demand, merged: frozenset[str]) -> None:
    """Note a demand for each source whose columns its names may mean; a merged one is that of the leftmost source."""
    of_first = bool(merged) and _names_merged(demand.text, merged)
    for one in sources:
        if one.first or not of_first:
            found[one.source].append(replace(demand, strict=demand.strict or one.nullable))


def _names_merged(text: str, merged: frozenset[str]) -> bool:
    """Whether a bare word may be a column that USING or NATURAL merged."""
    tokens = tokenize(text)
    bare = (
        path_at(tokens, at)[0]
        for at, token in enumerate(tokens)
        if token.kind in ("word", "name") and (not at or tokens[at - 1].key != ".")
    )
    return any(len(path) == 1 and (path[0] in merged or NAMES_OF_ALL in merged) for path in bare)


def _inside(text: str, outputs: Mapping[str, str] | None, alias: str) -> str:
    """A condition in the names that a query has inside; empty where a name is not one that it passes on."""
    tokens = tokenize(text)
    pieces, copied, at = [], 0, 0
    while at < len(tokens):
        path, after = path_at(tokens, at)
        called = bool(path) and after < len(tokens) and tokens[after].key == "("
        no_name = len(path) == 1 and _is_no_name(tokens[at].key, tokens, after)
        if no_name and path[0] in (outputs or ()):
            return ""
        if path and not called and not no_name:
            if len(path) > 2 or (len(path) == 2 and path[0] != alias):
                return ""
            source = tokens[after - 1].text if outputs is None else outputs.get(path[-1], "")
            if not source:
                return ""
            pieces += [text[copied : tokens[at].start], source]
            copied = tokens[after - 1].end
        at = max(after, at + 1)
    return "".join([*pieces, text[copied:]])


def _is_no_name(key: str, tokens: Sequence[Token], after: int) -> bool:
    follows = tokens[after].kind if after < len(tokens) else ""
    return key in _NO_NAMES or (key in _LITERAL_WORDS and follows == "string")
