"""Cache remote files that never change, such as shards, in memory.

If a cache folder is set, the files are cached on disk too (`disk_cache`). Files are read in blocks of BLOCK bytes, so
that a small shard takes a single request, and so do adjacent parts of a large shard.
"""

from __future__ import annotations

from hive_bitmap.core.memory_budget import BUDGET, Cache
from hive_bitmap.core.stores import disk_cache
from hive_bitmap.core.stores.options import Options, current
from hive_bitmap.core.stores.store import Store

BLOCK = 4 << 20
_blocks: Cache[tuple[str, int], bytes] = Cache("index files of stores", len)


def read(store: Store, path: str, size: int, start: int, length: int) -> bytes:
    """Read a range of a file that never changes, through the cache.

    The file at `path` has `size` bytes. Return its `length` bytes from the position `start` on. Adjacent blocks that
    are not cached are read by one request.
    """
    options = current()
    first, last = start // BLOCK, (start + length - 1) // BLOCK
    BUDGET.resize(options.number("memory") << 20)
    contents = {block: _blocks.get((path, block)) for block in range(first, last + 1)}
    for block in [block for block, content in contents.items() if content is None]:
        contents[block] = _on_disk(options, path, size, block)
    missing = [block for block, content in contents.items() if content is None]
    for run_first, run_last in _runs(missing):
        content = store.read_range(path, run_first * BLOCK, min((run_last + 1) * BLOCK, size) - run_first * BLOCK)
        for block in range(run_first, run_last + 1):
            at = (block - run_first) * BLOCK
            contents[block] = content[at : at + BLOCK]
            _blocks.put((path, block), content[at : at + BLOCK])
            disk_cache.put(options, _name(path, size, block), content[at : at + BLOCK])
    joined = b"".join(content for content in contents.values() if content is not None)
    return joined[start - first * BLOCK :][:length]


def _on_disk(options: Options, path: str, size: int, block: int) -> bytes | None:
    content = disk_cache.get(options, _name(path, size, block))
    if content is None or len(content) != min(BLOCK, size - block * BLOCK):
        return None
    _blocks.put((path, block), content)
    return content


def _name(path: str, size: int, block: int) -> str:
    return f"{block} of {size} {path}"


def forget() -> None:
    """Empty the cache in memory."""
    _blocks.clear()


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run of consecutive numbers.

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
