"""Simulate a whole shard from a few sampled blocks.

This estimates the size of a COMPACT index. The size of a COMPACT index is not proportional to the number of blocks, as
it has one row for each key and file: the more blocks of a file hold a key, the less space each of them takes. A key
that occurs in several of the sampled blocks is put into the same share of the blocks of the shard. Of keys that occur
in only one sampled block, the table has more than the sample shows. Chao's estimator of the number of species estimates
their number from the numbers of keys that occur once and twice, and so the number of blocks that hold each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.definition import BUCKET, OFFSET

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]
MOST_ROWS = 1 << 20  # most rows of the simulated index; limits memory and time
MOST_DRAWN = 1 << 24  # most random numbers, one for each key and block; limits memory and time
NEARLY_ALL = 0.95  # a block with more than this share of the recurring keys counts as holding all of them
# Simulated blocks have realistic offsets, since their bytes decide how well the offsets compress.
_BLOCK_BYTES = 8_000_000


def resampled(
    rows: pa.Table, keys: Sequence[str], sampled: int, blocks: int, files: float
) -> tuple[float, list[tuple[pa.Table, float]]]:
    """Simulate the rows of a shard, given the sorted rows of `sampled` blocks.

    The shard has `blocks` blocks in `files` files. `rows` has the columns `keys`, `_bucketname` and `_offset`, and any
    others, and one row for each key and block. Return the number of blocks that were simulated, fewer than `blocks` if
    the result would be too large, and tables of these columns, without others, sorted like a shard. Each table comes
    with a weight: the factor to multiply its size by.
    """
    counted = rows.select(keys).group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    counts: Longs = counted["count_all"].to_numpy()  # the number of sampled blocks that hold each key
    distinct = counted.drop_columns(["count_all"])
    block = _blocks(rows)
    per_file = max(1, round(blocks / files))
    often, once = np.flatnonzero(counts > 1), np.flatnonzero(counts == 1)
    blocks = max(1, min(blocks, MOST_ROWS * sampled // max(1, rows.num_rows), MOST_DRAWN // max(1, len(often))))
    key_of_row = np.repeat(np.arange(len(counts)), counts)
    recurs = counts[key_of_row] > 1
    member = np.zeros((len(often), sampled), bool)
    member[np.searchsorted(often, key_of_row[recurs]), block[recurs]] = True
    key, where = _spread(member, blocks)
    recurring = _table(distinct, often[key], where, per_file)
    key, where, species = _scattered(block[~recurs], int((counts == 2).sum()), sampled, blocks)
    single = _table(distinct, once[key], where, per_file)
    return blocks, [(recurring, 1.0), (single, species / max(1, len(once)))]


def _blocks(rows: pa.Table) -> Longs:
    """Return the number of each row's sampled block."""
    bucket = pc.rank(rows[BUCKET.name], tiebreaker="dense").to_numpy().astype(np.int64)
    _, offset = np.unique(rows[OFFSET.name].to_numpy(), return_inverse=True)
    _, block = np.unique(bucket * (int(offset.max(initial=0)) + 1) + offset, return_inverse=True)
    return block


def _spread(member: Flags, blocks: int) -> tuple[Longs, Longs]:
    """Return pairs of key and block for recurring keys.

    `member[key, block]` says whether a sampled block holds a key. As in the sample, some blocks hold nearly all keys,
    and others do not. In the blocks of either kind a key occurs at random, as often as in the sampled blocks of that
    kind.
    """
    full = member.mean(0) > NEARLY_ALL if len(member) else np.zeros(member.shape[1], bool)
    like_full = full[np.arange(blocks) * len(full) // blocks]
    random = np.random.default_rng(1)
    held = np.zeros((len(member), blocks), bool)
    for alike, targets in ((full, like_full), (~full, ~like_full)):
        if alike.any():
            drawn = random.integers(0, alike.sum(), (len(member), targets.sum()), np.uint32)
            held[:, targets] = drawn < member[:, alike].sum(1)[:, np.newaxis]
    key, block = np.nonzero(held)
    return key, block


def _scattered(block: Longs, twice: int, sampled: int, blocks: int) -> tuple[Longs, Longs, float]:
    """Return pairs of key and block for keys that occur once.

    Also return the estimated number of such keys in the shard. `block` is the sampled block of each key, `twice` the
    number of keys that occur in two blocks. Each key keeps one block that corresponds to its sampled block, so that
    keys of one block stay together; its other blocks are random.
    """
    once = len(block)
    pairs = once * blocks / sampled
    species = min(once * (1 + (once - 1) / (2 * twice + 2)), pairs)
    each = np.diff((np.arange(once + 1) * pairs / max(species, 1)).astype(np.int64))
    more = np.repeat(np.arange(once), np.maximum(each - 1, 0))
    at = np.random.default_rng(1).integers(0, blocks, len(more))
    placed = np.unique(np.concatenate([np.arange(once) * blocks + block * blocks // sampled, more * blocks + at]))
    return placed // blocks, placed % blocks, species


def _table(keys: pa.Table, key: Longs, block: Longs, per_file: int) -> pa.Table:
    """Return a row for each pair of key and block.

    A key is a row number in `keys`.
    """
    file, place = np.divmod(np.arange(int(block.max(initial=0)) + 1), per_file)
    path = pa.array([f"file:/warehouse/part-{number:032}.parquet" for number in range(int(file[-1]) + 1)])
    jitter = np.random.default_rng(2).integers(0, _BLOCK_BYTES // 100, len(file)) * (place > 0)
    offset = 4 + place * _BLOCK_BYTES + jitter
    rows = keys.take(pa.array(key))
    rows = rows.append_column(BUCKET, path.take(pa.array(file[block])))
    return rows.append_column(OFFSET, pa.array(offset[block]))
