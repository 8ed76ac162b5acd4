"""Plan the slots of an index, which are the partitions of its index table.

A slot points at a segment, or at the empty folder of the index. A build publishes segments by changing the locations of
slots in one call of the metastore. New slots are added before this call, and slots are never dropped. So a query that
lists the slots always sees all segments of one build.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from hive_bitmap.core.index import generation_names
from hive_bitmap.core.index.definition import Definition

Slots = Mapping[int, str]  # the folder of each slot, by number


@dataclass(frozen=True)
class Moves:
    """The changes of slots that publish segments.

    `added` has the numbers of new slots, which are added first and point at the empty folder. `moved` has the new
    folders of all slots that change, by the number of the slot. `vacated` has the numbers of the slots that lose a
    segment. A session that can only change slots one by one empties the slots in `vacated` before it changes other
    slots.
    """

    added: tuple[int, ...]
    vacated: tuple[int, ...]
    moved: Mapping[int, str]


def segments(slots: Slots, definition: Definition) -> list[str]:
    """Return the distinct folders of the segments of an index, the oldest name first."""
    return sorted(
        {folder for folder in slots.values() if generation_names.belongs_to(folder, definition)}, key=seniority
    )


def foreign(slots: Slots, definition: Definition) -> list[int]:
    """Return the slots that point at foreign folders.

    The segments of the index and its empty folder are not foreign.
    """
    empty = generation_names.empty_folder(definition.root)
    return [
        number
        for number, folder in sorted(slots.items())
        if folder != empty and not generation_names.belongs_to(folder, definition)
    ]


def repeated(slots: Slots) -> list[int]:
    """Return the slots whose segment already has a slot with a smaller number.

    SQL queries of the index table read the rows of such a segment twice.

    >>> segment = "r/generation-20260101T000000-00000000"
    >>> repeated({0: segment, 1: "r/empty", 2: "r/empty", 3: segment})
    [3]
    """
    first: dict[str, int] = {}
    return [
        number
        for number, folder in sorted(slots.items())
        if generation_names.is_generation(folder) and first.setdefault(folder, number) != number
    ]


def seniority(folder: str) -> str:
    """Return a key to sort segments by age, the oldest first.

    The key is the name of the segment's folder, which begins with the time of the segment's build.
    """
    return folder.rpartition("/")[2]


def plan_moves(slots: Slots, empty: str, new: Sequence[str], gone: Collection[str]) -> Moves:
    """Plan the slots of new segments, and vacate the slots of removed segments.

    `new` and `gone` are the folders of new and of removed segments. `empty` is the empty folder of the index. New
    segments take the slots of removed segments, then empty slots, then added slots. The name of a segment determines
    which empty slot it takes, so that two builders rarely choose the same slot. A segment in two slots keeps the first.

    >>> plan_moves({0: "a", 1: "b", 2: "empty"}, "empty", ["c"], ["a", "b"])
    Moves(added=(), vacated=(0, 1), moved={0: 'c', 1: 'empty'})
    """
    superfluous = set(repeated(slots))
    vacated = [number for number, folder in sorted(slots.items()) if folder in gone or number in superfluous]
    placed = set(slots.values())
    to_place = [folder for folder in dict.fromkeys(new) if folder not in placed]
    free = [number for number, folder in sorted(slots.items()) if folder == empty]
    if free and to_place:
        at = int.from_bytes(seniority(to_place[0])[-8:].encode(), "big") % len(free)
        free = free[at:] + free[:at]
    lacking = max(len(to_place) - len(vacated) - len(free), 0)
    added = tuple(islice((number for number in count() if number not in slots), lacking))
    moved = dict.fromkeys(vacated, empty) | dict(zip((*vacated, *free, *added), to_place, strict=False))
    return Moves(added=added, vacated=tuple(vacated), moved=moved)
