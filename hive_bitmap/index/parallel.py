"""Many small waits at once: listings, manifests and links of thousands of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 16  # a store answers that many questions of one client at once; local disks need fewer
Item = TypeVar("Item")
Result = TypeVar("Result")


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The result of the function for each item, in their order; raises what the first of them raised."""
    found = list(items)
    if len(found) < 2:
        return [function(item) for item in found]
    with ThreadPoolExecutor(min(THREADS, len(found))) as pool:
        return list(pool.map(function, found))
