"""Many small waits at once: listings, manifests and links of thousands of partitions, files of a store far away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def ahead(function: Callable[[Item], Result], items: Iterable[Item], most: int) -> Iterator[Result]:
    """The result of the function for each item, in their order; while one is used, the next ones are worked on.

    No more than `most` items are under way or done but not yet used: with 1 they are done one after the other, without
    threads. Raises what the first of them raised; the others are waited for then.
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
    """The items in order, those in one list that may be worked on at the same time.

    A list has no more than `most`, and together these weigh no more than `heaviest`: an item that alone weighs more has
    a list of its own.

    >>> list(batches([1, 2, 3, 9, 1, 1, 1, 1], float, 3, 5))
    [[1, 2], [3], [9], [1, 1, 1], [1]]
    """
    together: list[Item] = []
    held = 0.0
    for item in items:
        more = weight(item)
        if together and (len(together) == most or held + more > heaviest):
            yield together
            together, held = [], 0.0
        together.append(item)
        held += more
    if together:
        yield together
