"""The conjuncts of a condition: the parts between its outer ANDs, as they are written."""

from __future__ import annotations

from hive_bitmap.errors import Unsupported
from hive_bitmap.query.rewrite.tree import Conjunct
from hive_bitmap.query.rewrite.words import Words

_DANGLING = ("AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "DISTINCT")


def conjuncts(words: Words, at: int, end: int) -> tuple[Conjunct, ...]:
    """The conjuncts between two places, at least one.

    Raises Unsupported for what ends in an operator: a keyword behind it was a name.
    """
    cuts = _ands(words, at, end)
    spans = list(zip([at, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))
    if any(start >= stop for start, stop in spans) or not _may_end(words, end - 1):
        raise Unsupported("a condition that is not understood")
    return tuple(Conjunct(words.source(start, stop), start, stop) for start, stop in spans)


def _ands(words: Words, at: int, end: int) -> list[int]:
    """The places of the outer ANDs; none where there is an outer OR, of which they are parts."""
    found: list[int] = []
    cases = betweens = 0
    for place in words.outer(at, end):
        match words.key(place):
            case "CASE":
                cases += 1
            case "END":
                cases = max(0, cases - 1)
            case "BETWEEN" if not cases:
                betweens += 1
            case "AND" if not cases and betweens:
                betweens -= 1
            case "AND" if not cases:
                found.append(place)
            case "OR" if not cases:
                return []
    return found


def _may_end(words: Words, at: int) -> bool:
    token = words.tokens[at]
    return token.key in (")", "]", "?") or (token.kind != "symbol" and token.key not in _DANGLING)
