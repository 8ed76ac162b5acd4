"""Many small waits at once: listings, manifests and links of thousands of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

THREADS = 16  # a store answers that many questions of one client at once; local disks need fewer
Item = TypeVar("Item")
Result = TypeVar("Result")


def each(function: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> list[Result]:
    """The result of the function for each item, in their order; raises what the first of them raised."""
    found = list(items)
    if len(found) < 2 or threads < 2:
        return [function(item) for item in found]
    contexts = [copy_context() for _ in found]  # a thread reaches stores as the one that waits for it
    with ThreadPoolExecutor(min(threads, len(found))) as pool:
        return list(pool.map(lambda context, item: context.run(function, item), contexts, found))
