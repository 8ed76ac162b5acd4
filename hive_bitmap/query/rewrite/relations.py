"""The FROM clause: its sources, and the joins that put them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hive_bitmap.errors import Unsupported
from hive_bitmap.query.names import path_at
from hive_bitmap.query.rewrite.conditions import conjuncts
from hive_bitmap.query.rewrite.tree import NAMES_OF_ALL, Cte, CteUse, Derived, Join, Opaque, Query, Scan, Source
from hive_bitmap.query.rewrite.words import Words

_KINDS = {
    (): "INNER",
    ("INNER",): "INNER",
    ("CROSS",): "INNER",
    ("LEFT",): "LEFT",
    ("LEFT", "OUTER"): "LEFT",
    ("RIGHT",): "RIGHT",
    ("RIGHT", "OUTER"): "RIGHT",
    ("FULL",): "FULL",
    ("FULL", "OUTER"): "FULL",
    ("SEMI",): "SEMI",
    ("LEFT", "SEMI"): "SEMI",
    ("ANTI",): "ANTI",
    ("LEFT", "ANTI"): "ANTI",
}
_JOIN_WORDS = {word for words in _KINDS for word in words} | {"NATURAL"}
_NO_ALIAS = _JOIN_WORDS | {"JOIN", "ON", "USING", "LATERAL", "TABLESAMPLE", "FOR", "VERSION", "TIMESTAMP", "WITH"}


def from_items(
    words: Words, at: int, end: int, scope: Mapping[str, Cte], inner: Callable[[int, int], Query]
) -> tuple[tuple[Join, ...], ...]:
    """The items between the commas of FROM, each with its joins; `inner` reads the query between two places."""
    commas = [place for place in words.outer(at, end) if words.key(place) == ","]
    spans = zip([at, *(comma + 1 for comma in commas)], [*commas, end], strict=True)
    reader = _Reader(words, scope, inner)
    return tuple(reader.item(start, stop) for start, stop in spans)


@dataclass(frozen=True)
class _Reader:
    words: Words
    scope: Mapping[str, Cte]
    inner: Callable[[int, int], Query]

    def item(self, at: int, end: int) -> tuple[Join, ...]:
        words = self.words
        starts = [at, *(_join_start(words, place) for place in words.outer(at, end) if words.key(place) == "JOIN")]
        spans = zip(starts, [*starts[1:], end], strict=True)
        return tuple(self._join(start, stop, first=start == at) for start, stop in spans)

    def _join(self, at: int, end: int, first: bool) -> Join:
        words, kind, natural = self.words, "INNER", False
        if not first:
            natural = words.key(at) == "NATURAL"
            join = next(place for place in range(at, end) if words.key(place) == "JOIN")
            said = tuple(words.key(place) for place in range(at + natural, join))
            if said not in _KINDS:
                raise Unsupported(f"{' '.join(said)} JOIN is not understood")
            kind, at = _KINDS[said], join + 1
        source, at = self._source(at, end)
        if at == end:
            return Join(kind, source, merged=frozenset({NAMES_OF_ALL} if natural else ()))
        if words.key(at) == "ON" and not first:
            return Join(kind, source, conjuncts(words, at + 1, end))
        if words.key(at) == "USING" and words.closers.get(at + 1) == end - 1 and not first:
            return Join(kind, source, merged=frozenset(words.name(place) for place in range(at + 2, end - 1, 2)))
        raise Unsupported(f"{words.tokens[at].text} is not understood in FROM")

    def _source(self, at: int, end: int) -> tuple[Source, int]:
        words = self.words
        parts, after = path_at(words.tokens, at)
        if words.opens_query(at):
            close = words.closers[at]
            alias, renamed, behind = _alias(words, close + 1, end)
            return Derived(self.inner(at + 1, close), alias, renamed), behind
        bracket = at if words.key(at) == "(" else after  # joins in brackets, or the arguments of a function
        if words.key(bracket) == "(" and bracket < end:
            return Opaque(), _alias(words, words.closers[bracket] + 1, end)[2]
        if not parts or after > end or words.key(at) in ("VALUES", "TABLE", "STREAM"):
            raise Unsupported(f"{words.tokens[at].text} is not understood in FROM")
        alias, renamed, behind = _alias(words, after, end)
        if len(parts) == 1 and parts[0] in self.scope:
            return CteUse(self.scope[parts[0]], alias or parts[0], renamed), behind
        if renamed:
            return Opaque(), behind
        start, stop = words.tokens[at].start, words.tokens[after - 1].end
        return Scan(tuple(parts), start, stop, alias or parts[-1], bool(alias)), behind


def _join_start(words: Words, at: int) -> int:
    """Where the words before JOIN begin that say its kind."""
    while words.key(at - 1) in _JOIN_WORDS:
        at -= 1
    return at


def _alias(words: Words, at: int, end: int) -> tuple[str, bool, int]:
    """The name behind a source, whether it gives the columns names too, and what place follows."""
    said = at < end and words.key(at) == "AS"
    at += said
    name = words.name(at) if at < end and (said or words.key(at) not in _NO_ALIAS) else ""
    if not name:
        return "", False, at
    if at + 1 < end and words.key(at + 1) == "(":
        return name, True, words.closers[at + 1] + 1
    return name, False, at + 1
