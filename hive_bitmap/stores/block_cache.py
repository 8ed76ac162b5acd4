"""Files that never change, the shards and manifests of indexes: what was read of one is kept in memory, and on disk
where a cache folder is named (`cached`).

It is read in blocks, so that a small shard, and what belongs together in a large one, is a single request.
"""

from __future__ import annotations

from threading import Lock

from cachetools import LRUCache

from hive_bitmap.stores import cached
from hive_bitmap.stores.options import Options, current
from hive_bitmap.stores.store import Store

BLOCK = 4 << 20


class _Kept:
    def __init__(self) -> None:
        self.lock = Lock()
        self.blocks: LRUCache[tuple[str, int], bytes] = LRUCache(1, len)

    def resized(self, size: int) -> None:
        """Give the memory another size; what is kept is dropped where that changes."""
        if self.blocks.maxsize != size:
            self.blocks = LRUCache(size, len)


_kept = _Kept()


def read(store: Store, path: str, size: int, start: int, length: int) -> bytes:
    """Bytes of a file of `size` bytes that never changes. Neighbouring blocks that are not kept are one request."""
    options = current()
    first, last = start // BLOCK, (start + length - 1) // BLOCK
    with _kept.lock:
        _kept.resized(options.number("memory") << 20)
        found = {block: _kept.blocks.get((path, block)) for block in range(first, last + 1)}
    for block in [block for block, content in found.items() if content is None]:
        found[block] = _on_disk(options, path, size, block)
    missing = [block for block, content in found.items() if content is None]
    for run_first, run_last in _runs(missing):
        content = store.read_range(path, run_first * BLOCK, min((run_last + 1) * BLOCK, size) - run_first * BLOCK)
        for block in range(run_first, run_last + 1):
            at = (block - run_first) * BLOCK
            found[block] = content[at : at + BLOCK]
            _keep((path, block), content[at : at + BLOCK])
            cached.put(options, _name(path, size, block), content[at : at + BLOCK])
    joined = b"".join(content for content in found.values() if content is not None)
    return joined[start - first * BLOCK :][:length]


def _on_disk(options: Options, path: str, size: int, block: int) -> bytes | None:
    content = cached.get(options, _name(path, size, block))
    if content is None or len(content) != min(BLOCK, size - block * BLOCK):
        return None
    _keep((path, block), content)
    return content


def _name(path: str, size: int, block: int) -> str:
    return f"{block} of {size} {path}"


def forget() -> None:
    """Let go of all that is kept."""
    with _kept.lock:
        _kept.blocks.clear()


def _keep(where: tuple[str, int], content: bytes) -> None:
    with _kept.lock:
        if len(content) <= _kept.blocks.maxsize // 4:
            _kept.blocks[where] = content


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """
    >>> _runs([1, 2, 4])
    [(1, 2), (4, 4)]
    """
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block - 1:
            runs[-1] = runs[-1][0], block
        else:
            runs.append((block, block))
    return runs
