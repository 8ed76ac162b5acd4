"""Which small neighbours are merged: segments of an index by size, shards of a segment by how full they are.

Both are pure. The sizes of segments make tiers, each four times as large as the one before; four segments of one tier
become one. So an index has a few dozen segments, however often it is refreshed, and a byte of it is written once a
tier.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

SMALLEST_TIER = 1 << 20  # bytes of an index; all smaller segments are in one tier
TIER_FACTOR = 4
LARGE_SEGMENT = 256 << 20  # larger ones are not merged, unless the index is so large that it would have many of them
MOST_LARGE = 8  # segments of the largest size, about


@dataclass(frozen=True)
class Sized:
    """A segment, or what becomes one: its bytes, its place among others, and who may read it."""

    bytes: float
    place: float = 0.0
    readers: Hashable = None


def largest(total: float) -> float:
    """Return the size that merged segments have at most, in an index of `total` bytes."""
    return max(LARGE_SEGMENT, total / MOST_LARGE)


def tier(size: float) -> int:
    """Return the tier of a segment by its bytes.

    >>> [tier(size << 20) for size in (0, 1, 3, 4, 15, 16)]
    [0, 0, 0, 1, 1, 2]
    """
    found = 0
    while size >= SMALLEST_TIER * TIER_FACTOR ** (found + 1):
        found += 1
    return found


def merged(segments: Sequence[Sized], *, all_small: bool = False) -> list[list[int]]:
    """Return which of these segments become one: groups of their positions, each of two or more.

    Only segments with the same readers are merged, in the order of their places. With `all_small` all neighbours are
    merged that together are not too large.
    """
    most = largest(sum(one.bytes for one in segments))
    groups: list[list[int]] = []
    for readers in dict.fromkeys(one.readers for one in segments):
        own = [number for number, one in enumerate(segments) if one.readers == readers]
        own.sort(key=lambda number: (segments[number].place, number))
        found = _fitting([[number] for number in own], segments, most) if all_small else _by_tiers(own, segments, most)
        groups += [group for group in found if len(group) > 1]
    return groups


def _by_tiers(own: Sequence[int], segments: Sequence[Sized], most: float) -> list[list[int]]:
    groups = [[number] for number in own]
    level = 0
    while any(tier(_bytes(group, segments)) >= level for group in groups):
        of_tier = [group for group in groups if tier(_bytes(group, segments)) == level]
        level += 1
        if len(of_tier) < TIER_FACTOR:
            continue
        joined = _fitting(of_tier, segments, most)
        others = [group for group in groups if group not in of_tier]
        groups = sorted([*others, *joined], key=lambda group: own.index(group[0]))
    return groups


def _fitting(groups: Sequence[list[int]], segments: Sequence[Sized], most: float) -> list[list[int]]:
    """Join neighbours, as long as they are not larger than `most` together."""
    joined: list[list[int]] = []
    for group in groups:
        if joined and _bytes([*joined[-1], *group], segments) <= most:
            joined[-1] = [*joined[-1], *group]
        else:
            joined.append(list(group))
    return joined


def _bytes(group: Sequence[int], segments: Sequence[Sized]) -> float:
    return sum(segments[number].bytes for number in group)


def neighbours(shards: Sequence[int], fill: Sequence[float], paths: Sequence[frozenset[str]]) -> list[list[int]]:
    """Return groups of neighbouring shards that together fill no more than one shard, and have no path in common.

    `fill` is how full each shard is, 1 for a full one, `paths` are those of its files that other shards may have too. A
    shard without such a neighbour is in no group. Each group but the last fills more than half a shard, so that its
    result is rarely merged again.
    """
    groups: list[list[int]] = [[]]
    filled, taken = 0.0, frozenset[str]()
    for shard in shards:
        if filled + fill[shard] > 1 or not taken.isdisjoint(paths[shard]):
            groups.append([])
            filled, taken = 0.0, frozenset()
        groups[-1].append(shard)
        filled += fill[shard]
        taken |= paths[shard]
    return [group for group in groups if len(group) > 1]
