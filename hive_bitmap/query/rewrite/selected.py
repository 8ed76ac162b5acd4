"""What a SELECT gives out: whether a star takes every column, and the plain columns by their names."""

from __future__ import annotations

from collections.abc import Mapping

from hive_bitmap.query.deterministic import word_problem
from hive_bitmap.query.names import Names
from hive_bitmap.query.rewrite.tree import NAMES_OF_ALL, Item
from hive_bitmap.query.rewrite.words import Words

_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_NO_NAMES = Names((), None)
_BEFORE_STAR = ("(", ",", ".", "SELECT", "DISTINCT", "ALL")


def has_star(words: Words, at: int, end: int) -> bool:
    """Whether a star stands for columns anywhere in a block, its subqueries aside; that of count(*) stands for none."""
    while at < end:
        if words.opens_query(at):
            at = words.closers[at]
        elif words.key(at) == "*" and words.key(at - 1) in _BEFORE_STAR:
            counted = (words.key(at - 2), words.key(at - 1), words.key(at + 1)) == ("COUNT", "(", ")")
            if not counted:
                return True
        at += 1
    return False


def outputs(words: Words, at: int, end: int) -> Mapping[str, str] | None:
    """The source of each plain column that is selected, by its name in the result; None for `SELECT *`.

    Names that two items have are left out, and so is all where a star stands beside other items.
    """
    if end - at == 1 and words.key(at) == "*":
        return None
    found: dict[str, str] = {}
    twice = set()
    for start, stop in _items(words, at, end):
        if words.key(stop - 1) == "*":
            return {}
        name = words.name(stop - 1)
        if name in found:
            twice.add(name)
        last = _column_end(words, start, stop)
        found[name] = words.source(start, last) if last else ""
    return {name: source for name, source in found.items() if name and source and name not in twice}


def row(words: Words, at: int, end: int) -> tuple[Item, ...] | None:
    """What is selected, by position; None where an item may be several columns, as those of generators are."""
    found = []
    for start, stop in _items(words, at, end):
        last = _column_end(words, start, stop)
        if words.key(stop - 1) == "*" and (start == stop - 1 or (words.name(start) and start == stop - 3)):
            found.append(Item(NAMES_OF_ALL, words.name(start)))
        elif last or all(_is_one_value(words, place) for place in range(start, stop)):
            found.append(Item(words.name(stop - 1), words.source(start, last) if last else ""))
        else:
            return None
    return tuple(found)


def _is_one_value(words: Words, at: int) -> bool:
    """Whether a word neither calls a function that is not known nor is a star that takes columns."""
    if words.key(at) == "*" and words.key(at - 1) in _BEFORE_STAR:
        return words.key(at - 2) == "COUNT"
    called = words.key(at + 1) == "(" and words.tokens[at].kind in ("word", "name")
    known = words.key(at) in _AGGREGATES or not word_problem(words.tokens[at : at + 1], "", True, _NO_NAMES)
    return known or not called


def _items(words: Words, at: int, end: int) -> list[tuple[int, int]]:
    commas = [place for place in words.outer(at, end) if words.key(place) == ","]
    return list(zip([at, *(comma + 1 for comma in commas)], [*commas, end], strict=True))


def _column_end(words: Words, at: int, end: int) -> int:
    """Where the dotted name that is all of an item ends, `AS name` aside; 0 for any other item."""
    stop = at + 1
    while stop + 1 < end and words.key(stop) == ".":
        stop += 2
    is_name = all(words.name(place) for place in range(at, stop, 2))
    alias = stop + (words.key(stop) == "AS" and stop < end)
    return stop if is_name and (alias >= end or (alias == end - 1 and bool(words.name(alias)))) else 0
