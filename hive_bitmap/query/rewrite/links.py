"""Columns of two scans that a query demands to be equal: `f.k = d.k`, USING, `f.k IN (SELECT d.k ..)`, EXISTS.

A link says of a scan that a row of it only matters if it has the value that some row of another scan has; where the
other scan is narrowed by what is demanded of it, some row of those that are left.

Why that is so: an equality that `demands` notes for a scan is one without which a row of it matters to nobody. A row
that has no equal among the rows of the other scan fails it beside each of them, and beside the NULLs that an outer join
may put in their place; so it fails it always, as it would a condition on itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hive_bitmap.query.names import path_at
from hive_bitmap.query.rewrite.demands import ScanDemands
from hive_bitmap.query.rewrite.tree import Block, Conjunct, CteUse, Derived, Join, Scan, Source
from hive_bitmap.query.rewrite.words import Words
from hive_bitmap.query.tokens import tokenize

Path = tuple[str, ...]
_OUTER = ("RIGHT", "FULL")


@dataclass(frozen=True)
class Link:
    """Dotted names: of a column of the scan, and of one of another scan. They count if both scans have such columns.

    And if no source that is `nearer` to where they stand has a column named as `path` begins: that would be a struct.
    """

    path: Path
    other: ScanDemands
    other_path: Path
    nearer: tuple[Source, ...] = ()


def links(words: Words, one: ScanDemands, all_scans: Sequence[ScanDemands]) -> Iterator[Link]:
    """The links of a scan to other scans of its statement."""
    by_scan = {other.scan: other for other in all_scans if other.scan is not one.scan}
    for demand in one.demands:
        if demand.conjunct is not None:
            if not _is_outer(one.block):
                near = [by_scan[source] for source in demand.sight if isinstance(source, Scan) and source in by_scan]
                yield from _equalities(words, one, demand.conjunct, near)
            yield from _memberships(words, demand.conjunct, list(by_scan.values()))
            yield from _existences(words, one, demand.conjunct, list(by_scan.values()))
    if not _is_outer(one.block):
        yield from _merged(one, by_scan)


def _equalities(words: Words, one: ScanDemands, conjunct: Conjunct, near: Sequence[ScanDemands]) -> Iterator[Link]:
    sides = _sides(words, conjunct)
    if sides is None or (_merges(one.block) and min(map(len, sides)) < 2):
        return
    for path, other_path in (sides, sides[::-1]):
        yield from (Link(path, other, other_path) for other in near)


def _memberships(words: Words, conjunct: Conjunct, others: Sequence[ScanDemands]) -> Iterator[Link]:
    path, after = path_at(words.tokens[: conjunct.end], conjunct.start)
    if not path or words.key(after) != "IN" or words.closers.get(after + 1) != conjunct.end - 1:
        return
    for other in others:
        chosen = (other.block.outputs or {}).values()
        if _is_all(other.block, after + 2, conjunct.end - 1) and len(chosen) == 1 and _in_sight(other):
            tokens = tokenize(next(iter(chosen)))
            other_path, _ = path_at(tokens, 0)
            if len(other_path) > 1 or not _merges(other.block):
                yield Link(tuple(path), other, tuple(other_path))


def _existences(words: Words, one: ScanDemands, conjunct: Conjunct, others: Sequence[ScanDemands]) -> Iterator[Link]:
    """Of a subquery all of whose rows satisfy an equality with a column of the scan, named by the scan's name.

    One that calls functions may be an aggregate, which has a row even of no rows.
    """
    start, end = conjunct.start + 2, conjunct.end - 1
    if words.key(conjunct.start) != "EXISTS" or words.closers.get(conjunct.start + 1) != end:
        return
    for other in others:
        block = other.block
        cut = any(words.key(at) in ("ORDER", "LIMIT", "OFFSET") for at in words.outer(block.start, block.end))
        rows = block.plain and not cut and not _selects_calls(words, block) and not _merges(block)
        if not rows or not _is_all(block, start, end) or not _in_sight(other) or _hides(block, one.scan.alias):
            continue
        for inner in block.where:
            sides = _sides(words, inner)
            for path, other_path in () if sides is None else (sides, sides[::-1]):
                if len(path) == 2 and path[0] == one.scan.alias:
                    yield Link(path, other, other_path, tuple(join.source for join in _joins(block)))


def _merged(one: ScanDemands, by_scan: dict[Scan, ScanDemands]) -> Iterator[Link]:
    """Of USING, which merges with the leftmost column of that name.

    Joins that NATURAL makes are left alone, for only Spark knows by what.
    """
    for join, left, nearer in _merging(one.block):
        pairs = [(join.source, left), *([(left, join.source)] if join.kind in ("INNER", "SEMI") else [])]
        for source, other in pairs:
            if source is one.scan and isinstance(other, Scan) and other in by_scan:
                yield from (Link((name,), by_scan[other], (name,), nearer) for name in join.merged)


def _merging(block: Block) -> Iterator[tuple[Join, Source, tuple[Source, ...]]]:
    """Each join with each inner source left of it in its item, and the sources of FROM that stand before that one."""
    joins = _joins(block)
    start = 0
    for item in block.items:
        for place in range(start, start + len(item)):
            for left in range(start, place):
                if joins[left].kind == "INNER":
                    yield joins[place], joins[left].source, tuple(join.source for join in joins[:left])
        start += len(item)


def _sides(words: Words, conjunct: Conjunct) -> tuple[Path, Path] | None:
    """The two names of `name = name`."""
    tokens = words.tokens[: conjunct.end]
    left, after = path_at(tokens, conjunct.start)
    if not left or words.key(after) not in ("=", "=="):
        return None
    right, end = path_at(tokens, after + 1)
    return (tuple(left), tuple(right)) if right and end == conjunct.end else None


def _in_sight(one: ScanDemands) -> bool:
    """Whether a name outside FROM may mean a column of the scan: not behind SEMI or ANTI JOIN."""
    return all(join.kind not in ("SEMI", "ANTI") for join in _joins(one.block) if join.source is one.scan)


def _is_all(block: Block, start: int, end: int) -> bool:
    """Whether a block is all that stands between two places: no part of a set operation, and behind no WITH."""
    return (block.start, block.end) == (start, end)


def _selects_calls(words: Words, block: Block) -> bool:
    """Whether a function is called before FROM."""
    last = max(at for at in words.outer(block.start, block.end) if words.key(at) == "FROM")
    brackets = (at for at in range(block.start + 1, last) if words.key(at) == "(")
    return any(words.tokens[at - 1].kind in ("word", "name") for at in brackets)


def _hides(block: Block, alias: str) -> bool:
    """Whether a name with this qualifier may mean something in the block itself."""
    sources = [join.source for join in _joins(block)]
    known = [source for source in sources if isinstance(source, (Scan, Derived, CteUse))]
    return len(known) < len(sources) or any(source.alias == alias for source in known)


def _merges(block: Block) -> bool:
    return any(join.merged for join in _joins(block))


def _is_outer(block: Block) -> bool:
    return any(join.kind in _OUTER for join in _joins(block))


def _joins(block: Block) -> list[Join]:
    return [join for item in block.items for join in item]
