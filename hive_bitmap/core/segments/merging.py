"""Choose small neighbouring segments and shards to merge.

Segments are divided into tiers by size. The segments of a tier are four times as large as the segments of the preceding
tier, and four segments of one tier are merged into one segment. So an index has a few dozen segments, however often the
index is refreshed, and each byte is written once per tier. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

SMALLEST_TIER = 1 << 20  # bytes of an index; all smaller segments are in one tier
TIER_FACTOR = 4
LARGE_SEGMENT = 256 << 20  # most bytes of a merged segment, unless the index has more than MOST_LARGE times as many
MOST_LARGE = 8  # approximate number of segments of the largest size


@dataclass(frozen=True)
class Sized:
    """A segment, or a part of a new segment.

    Segments and parts are neighbours if they follow each other in the order of `place`. `readers` stands for the users
    who may read the segment: it is equal for equal sets of users.
    """

    bytes: float
    place: float = 0.0
    readers: Hashable = None


def largest(total: float) -> float:
    """Return the maximum bytes of a merged segment in an index of `total` bytes."""
    return max(LARGE_SEGMENT, total / MOST_LARGE)


def tier(size: float) -> int:
    """Return the tier of a segment by its bytes.

    >>> [tier(size << 20) for size in (0, 1, 3, 4, 15, 16)]
    [0, 0, 0, 1, 1, 2]
    """
    level = 0
    while size >= SMALLEST_TIER * TIER_FACTOR ** (level + 1):
        level += 1
    return level


def merged(segments: Sequence[Sized], *, all_small: bool = False) -> list[list[int]]:
    """Return groups of neighbouring segments to merge.

    A group is a list of positions in `segments`. It has two or more segments, which all have the same `readers`.
    Neighbours follow each other in the order of `place`. By default, TIER_FACTOR or more neighbours of one tier are
    merged. With `all_small`, neighbours of any tiers are merged. No group has more bytes than `largest` allows.
    """
    most = largest(sum(segment.bytes for segment in segments))
    groups: list[list[int]] = []
    for readers in dict.fromkeys(segment.readers for segment in segments):
        same = [number for number, segment in enumerate(segments) if segment.readers == readers]
        same.sort(key=lambda number: (segments[number].place, number))
        fits = _fitting([[number] for number in same], segments, most) if all_small else _by_tiers(same, segments, most)
        groups += [group for group in fits if len(group) > 1]
    return groups


def _by_tiers(numbers: Sequence[int], segments: Sequence[Sized], most: float) -> list[list[int]]:
    groups = [[number] for number in numbers]
    level = 0
    while any(tier(_bytes(group, segments)) >= level for group in groups):
        of_tier = [group for group in groups if tier(_bytes(group, segments)) == level]
        level += 1
        if len(of_tier) < TIER_FACTOR:
            continue
        joined = _fitting(of_tier, segments, most)
        unjoined = [group for group in groups if group not in of_tier]
        groups = sorted([*unjoined, *joined], key=lambda group: numbers.index(group[0]))
    return groups


def _fitting(groups: Sequence[list[int]], segments: Sequence[Sized], most: float) -> list[list[int]]:
    """Join neighbouring groups of segments up to `most` bytes."""
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
    """Group neighbouring shards that fit into one shard and share no path.

    `shards` has numbers of shards; neighbours follow each other in this order. `fill` and `paths` are indexed by these
    numbers. `fill` is 1 for a full shard. `paths` has the paths of the shard's files that may also be in other shards,
    because partitions share a folder. A shard without a fitting neighbour is in no group.

    A group ends if the next shard does not fit. If all shards are less than half full, such a group fills more than
    half a shard, so that a merged shard is rarely merged again. A group also ends if the next shard has one of its
    paths.
    """
    groups: list[list[int]] = [[]]
    filled, group_paths = 0.0, frozenset[str]()
    for shard in shards:
        if filled + fill[shard] > 1 or not group_paths.isdisjoint(paths[shard]):
            groups.append([])
            filled, group_paths = 0.0, frozenset()
        groups[-1].append(shard)
        filled += fill[shard]
        group_paths |= paths[shard]
    return [group for group in groups if len(group) > 1]
