"""Run I/O operations in threads, such as listings for thousands of partitions or reads from remote stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

THREADS = 16  # stores serve so many requests of a client at once; local disks need fewer
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> list[Result]:
    """Return function(item) for each item, in order; raise the error of the first item that failed."""
    found = list(items)
    if len(found) < 2 or threads < 2:
        return [function(item) for item in found]
    contexts = [copy_context() for _ in found]  # threads use the store settings of the calling thread
    with ThreadPoolExecutor(min(threads, len(found))) as pool:
        return list(pool.map(lambda context, item: context.run(function, item), contexts, found))


def prefetched(function: Callable[[Item], Result], items: Iterable[Item], most: int) -> Iterator[Result]:
    """Yield function(item) for each item, in order, and compute results ahead of the consumer.

    At most `most` results are in progress or not yet consumed; with 1, items are processed one after the other without
    threads. Raises the error of the first item that failed, after the other items in progress have ended.
    """
    if most < 2:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(most) as pool:
        for item in items:
            if len(waiting) == most:
                yield waiting.popleft().result()
            waiting.append(pool.submit(copy_context().run, function, item))
        while waiting:
            yield waiting.popleft().result()


def batches(items: Iterable[Item], weight: Callable[[Item], float], most: int, heaviest: float) -> Iterator[list[Item]]:
    """Cut the items, in order, into lists of at most `most` items with a total weight of at most `heaviest`.

    An item that is heavier than that gets a list of its own.

    >>> list(batches([1, 2, 3, 9, 1, 1, 1, 1], float, 3, 5))
    [[1, 2], [3], [9], [1, 1, 1], [1]]
    """
    together: list[Item] = []
    total = 0.0
    for item in items:
        more = weight(item)
        if together and (len(together) == most or total + more > heaviest):
            yield together
            together, total = [], 0.0
        together.append(item)
        total += more
    if together:
        yield together
