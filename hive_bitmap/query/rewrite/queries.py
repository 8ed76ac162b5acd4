"""From words to the tree of a query: its blocks and clauses, cut by Spark's keywords outside brackets.

Spark lets most keywords be names too. What does not fit in the order of clauses, or is not known here, is Unsupported,
and the query runs as it is; a keyword that was a name leaves an operator without operand, which no predicate can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from hive_bitmap.errors import Unsupported
from hive_bitmap.query.rewrite.conditions import conjuncts
from hive_bitmap.query.rewrite.relations import from_items
from hive_bitmap.query.rewrite.selected import has_star, outputs, row
from hive_bitmap.query.rewrite.tree import Block, Cte, Join, Query
from hive_bitmap.query.rewrite.words import QUERY_WORDS, Words

Scope = Mapping[str, Cte]
_SET_WORDS = ("UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS")
_TAIL_WORDS = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW")
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING")
_COUNTING = ("COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "DISTINCT")
_MANY_GROUPS = ("ROLLUP", "CUBE", "GROUPING", "ALL")
_UNSTABLE = (
    "RAND",
    "RANDN",
    "RANDOM",
    "RANDSTR",
    "UNIFORM",
    "UUID",
    "SHUFFLE",
    "MONOTONICALLY_INCREASING_ID",
    "SPARK_PARTITION_ID",
)
_STRANGE = ("LATERAL", "PIVOT", "UNPIVOT", "QUALIFY", "TABLESAMPLE", "MATCH_RECOGNIZE", "INTO")


def statement(words: Words) -> Query:
    """The query of a statement: SELECT or WITH, INSERT INTO .. or CREATE TABLE .. AS. Raises Unsupported for others."""
    first, second = words.key(0), words.key(1)
    if first in QUERY_WORDS or words.opens_query(0):
        return query(words, 0, words.end, {})
    if (first, second) in (("INSERT", "INTO"), ("CREATE", "TABLE")):
        for at in words.outer(2, words.end):
            begins = words.key(at) in QUERY_WORDS or words.opens_query(at)
            if begins and (first == "INSERT" or words.key(at - 1) == "AS"):
                return query(words, at, words.end, {})
    raise Unsupported(f"a statement that begins with {first} {second} is left to Spark")


def query(words: Words, at: int, end: int, scope: Scope) -> Query:
    """The query between two places, with these common table expressions in sight."""
    ctes: list[Cte] = []
    if words.key(at) == "WITH":
        at = _read_ctes(words, at, scope, ctes)
        scope = {**scope, **{cte.name: cte for cte in ctes}}
    arms: list[Block | Query] = []
    while True:
        arm, at = _arm(words, at, end, scope)
        arms.append(arm)
        if at == end or words.key(at) not in _SET_WORDS:
            break
        at += 1
        at += words.key(at) in ("ALL", "DISTINCT")
    _check_tail(words, at, end)
    if len(arms) == 1 and isinstance(arms[0], Block):
        arms = [_with_tail(words, arms[0], at, end)]
    cut = any(words.key(place) in ("LIMIT", "OFFSET") for place in words.outer(at, end))
    return Query(tuple(ctes), tuple(arms), cut, tuple(subqueries(words, at, end, scope)))


def subqueries(words: Words, at: int, end: int, scope: Scope) -> Iterator[Query]:
    """The queries in brackets between two places, the outermost ones."""
    while at < end:
        if words.key(at) == "(" and words.key(at + 1) in QUERY_WORDS:
            found = query(words, at + 1, words.closers[at], scope)
            yield _of_exists(found) if words.key(at - 1) == "EXISTS" else found
            at = words.closers[at]
        at += 1


def _of_exists(found: Query) -> Query:
    """The query with its one block so marked; of set operations some count the rows of each."""
    [first, *others] = found.arms
    return found if others or not isinstance(first, Block) else replace(found, arms=(replace(first, exists=True),))


def _read_ctes(words: Words, at: int, scope: Scope, ctes: list[Cte]) -> int:
    """Read `WITH name [(columns)] [AS] (query), ..`; each sees those before it."""
    while True:
        at += 1
        name, at = words.name(at), at + 1
        renamed = words.key(at) == "(" and not words.opens_query(at)
        if renamed:
            at = words.closers[at] + 1
        at += words.key(at) == "AS"
        if not name or not words.opens_query(at):
            raise Unsupported("a common table expression that is not understood")
        close = words.closers[at]
        inner = query(words, at + 1, close, {**scope, **{cte.name: cte for cte in ctes}})
        ctes.append(Cte(name, inner, renamed, _named(words, name) - 1))
        at = close + 1
        if words.key(at) != ",":
            return at


def _named(words: Words, name: str) -> int:
    """How often the text names a common table expression, its definition included."""
    places = (at for at in range(words.end) if words.name(at) == name)
    return sum(words.key(at + 1) != "." and words.key(at - 1) not in (".", "AS") for at in places)


def _arm(words: Words, at: int, end: int, scope: Scope) -> tuple[Block | Query, int]:
    if words.opens_query(at):
        close = words.closers[at]
        return query(words, at + 1, close, scope), close + 1
    if words.key(at) == "SELECT":
        return _block(words, at, end, scope)
    raise Unsupported(f"a query that begins with {words.key(at) or 'nothing'} is not understood")


def _block(words: Words, start: int, end: int, scope: Scope) -> tuple[Block, int]:
    clauses, end = _clauses(words, start, end)
    stops = [*sorted(clauses.values()), end]
    spans = {clause: (place + 1, stops[stops.index(place) + 1]) for clause, place in clauses.items()}
    first, last = spans["SELECT"]
    items = from_items(words, *spans["FROM"], scope, partial(query, words, scope=scope)) if "FROM" in spans else ()
    where = conjuncts(words, *spans["WHERE"]) if "WHERE" in spans else ()
    chosen = first + _quantified(words, first, last)
    whole = not any(words.key(place) == "OVER" for place in range(first, last))
    stable = whole and not any(words.key(place) in _UNSTABLE for place in range(first, last))
    plain = whole and not {"GROUP", "HAVING"} & set(clauses)
    block = Block(
        items,
        where,
        has_star(words, start, end),
        outputs(words, chosen, last),
        plain and words.key(first) not in ("DISTINCT", "ALL"),
        not plain or any(words.key(place) in _COUNTING for place in range(first, last)),
        start,
        end,
        tuple(subquery for span in _expressions(spans, items) for subquery in subqueries(words, *span, scope)),
        row(words, chosen, last),
        plain and stable,
        _grouped(words, *spans["GROUP"]) if stable and "GROUP" in spans else frozenset(),
    )
    return block, end


def _quantified(words: Words, at: int, end: int) -> bool:
    """Whether a select list begins with DISTINCT or ALL; of `SELECT all FROM t` Spark takes FROM for a column."""
    if words.key(at) not in ("DISTINCT", "ALL"):
        return False
    if at + 1 == end or words.key(at + 1) in (",", ".", "AS"):
        raise Unsupported(f"{words.key(at)} may be a column")
    return True


def _grouped(words: Words, at: int, end: int) -> frozenset[str]:
    """The plain columns of GROUP BY, as text, if each row is in one group only."""
    if any(words.key(place) in _MANY_GROUPS for place in range(at, end)):
        return frozenset()
    return frozenset(item.source for item in row(words, at + 1, end) or () if item.source)


def _with_tail(words: Words, block: Block, at: int, end: int) -> Block:
    limited = any(words.key(place) == "LIMIT" for place in words.outer(at, end))
    return replace(block, end=end, counts=block.counts or limited)


def _expressions(spans: Mapping[str, tuple[int, int]], items: Sequence[Sequence[Join]]) -> Iterator[tuple[int, int]]:
    """The spans of a block that hold expressions: of FROM only what stands behind ON."""
    yield from (span for clause, span in spans.items() if clause != "FROM")
    yield from ((one.start, one.end) for item in items for join in item for one in join.on)


def _clauses(words: Words, start: int, end: int) -> tuple[dict[str, int], int]:
    """Where each clause of a SELECT begins, and where the block ends."""
    found = {"SELECT": start}
    for at in words.outer(start + 1, end):
        key = words.key(at)
        if key in _STRANGE:
            raise Unsupported(f"{key} is not understood")
        if _is_set_operation(words, at) or (key in _TAIL_WORDS and words.begins_clause(at)):
            return found, at
        if key in _CLAUSES and words.begins_clause(at):
            if _CLAUSES.index(key) <= _CLAUSES.index(list(found)[-1]):
                raise Unsupported(f"{key} stands where it should not")
            found[key] = at
    return found, end


def _is_set_operation(words: Words, at: int) -> bool:
    """Whether a query follows; `* EXCEPT (a)` is none."""
    after = at + 1 + (words.key(at + 1) in ("ALL", "DISTINCT"))
    begins = words.key(after) in (*QUERY_WORDS, "VALUES", "TABLE", "FROM") or words.opens_query(after)
    return words.key(at) in _SET_WORDS and begins


def _check_tail(words: Words, at: int, end: int) -> None:
    if at == end:
        return
    strange = [p for p in words.outer(at, end) if words.key(p) in ("FROM", "WHERE", "SELECT", "JOIN", *_SET_WORDS)]
    if words.key(at) not in _TAIL_WORDS or any(words.begins_clause(place) for place in strange):
        raise Unsupported(f"{words.tokens[at].text} is not understood there")
