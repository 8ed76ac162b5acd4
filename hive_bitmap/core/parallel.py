"""Run I/O operations, such as listings and reads of remote files, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

THREADS = 16  # requests that a store serves at once for a client; local disks need fewer threads
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> list[Result]:
    """Return function(item) for each item, in order, computed in threads.

    At most `threads` threads are used. Raises the error of the first item that failed.
    """
    queued = list(items)
    if len(queued) < 2 or threads < 2:
        return [function(item) for item in queued]
    contexts = [copy_context() for _ in queued]  # threads use the store settings of the calling thread
    with ThreadPoolExecutor(min(threads, len(queued))) as pool:
        return list(pool.map(lambda context, item: context.run(function, item), contexts, queued))


def prefetched(function: Callable[[Item], Result], items: Iterable[Item], most: int) -> Iterator[Result]:
    """Yield function(item) for each item, in order, computed ahead in threads.

    At most `most` items are in progress or not yet consumed. If `most` is 1, no threads are used. Raises the error of
    the first item that failed, after the other items in progress have ended.
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


def ahead(items: Iterator[Item], pool: ThreadPoolExecutor) -> Iterator[Item]:
    """Yield the items of an iterator, each computed ahead by a thread.

    A thread of `pool` computes the next item while the caller works on the current item. Raises the errors of the
    iterator.
    """

    def following() -> Future[list[Item]]:
        return pool.submit(copy_context().run, lambda: list(islice(items, 1)))

    waiting = following()
    while following_items := waiting.result():
        waiting = following()
        yield following_items[0]


def batches(items: Iterable[Item], weight: Callable[[Item], float], most: int, heaviest: float) -> Iterator[list[Item]]:
    """Cut the items, in order, into batches of limited weight.

    A batch has at most `most` items with a total weight of at most `heaviest`. An item that is heavier than `heaviest`
    gets a batch of its own.

    >>> list(batches([1, 2, 3, 9, 1, 1, 1, 1], float, 3, 5))
    [[1, 2], [3], [9], [1, 1, 1], [1]]
    """
    batch: list[Item] = []
    total = 0.0
    for item in items:
        more = weight(item)
        if batch and (len(batch) == most or total + more > heaviest):
            yield batch
            batch, total = [], 0.0
        batch.append(item)
        total += more
    if batch:
        yield batch
