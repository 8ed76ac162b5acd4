"""From the keys of a few sampled blocks to those of a whole shard, for what does not grow with the blocks alone.

A COMPACT index has a row a key and file: the more blocks of a file hold a key, the less each of them takes. A key that
several of the sampled blocks hold is put into the same share of the blocks of the shard. Of those that only one holds
there are more than were met: Chao's estimate of a number of species, from those that were met once and twice, tells how
many, and so in how many blocks each of them is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.index.definition import BUCKET, OFFSET

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]
MOST_ROWS = 1 << 20  # of an index: bounds memory and time, as does
MOST_DRAWN = 1 << 24  # pairs of a key and a block that may hold it
NEARLY_ALL = 0.95  # of the keys that several blocks hold
_BLOCK_BYTES = 8_000_000  # as such numbers are: how well they compress depends on their bytes


def resampled(
    rows: pa.Table, keys: Sequence[str], sampled: int, blocks: int, files: float
) -> tuple[float, list[tuple[pa.Table, float]]]:
    """Rows of a shard of so many blocks and files, without bitmaps; `rows` are those of `sampled` blocks, sorted.

    `rows` has the columns `keys`, `_bucketname` and `_offset`, and any others, a row a key and block. First comes of
    how many blocks the result is: fewer, where it would be too large. Then tables of these columns, sorted as a shard
    is, each with the number of times that it has to be counted.
    """
    met = rows.select(keys).group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    held: Longs = met["count_all"].to_numpy()
    block = _blocks(rows)
    per_file = max(1, round(blocks / files))
    names = met.drop_columns(["count_all"])
    often, once = np.flatnonzero(held > 1), np.flatnonzero(held == 1)
    blocks = max(1, min(blocks, MOST_ROWS * sampled // max(1, rows.num_rows), MOST_DRAWN // max(1, len(often))))
    of = np.repeat(np.arange(len(held)), held)
    member = np.zeros((len(often), sampled), bool)
    member[np.searchsorted(often, of[held[of] > 1]), block[held[of] > 1]] = True
    key, where = _spread(member, blocks)
    many = _table(names, often[key], where, per_file)
    key, where, species = _scattered(block[held[of] == 1], int((held == 2).sum()), sampled, blocks)
    return blocks, [(many, 1.0), (_table(names, once[key], where, per_file), species / max(1, len(once)))]


def _blocks(rows: pa.Table) -> Longs:
    """The number of the sampled block that each row is of."""
    bucket = pc.rank(rows[BUCKET.name], tiebreaker="dense").to_numpy().astype(np.int64)
    _, offset = np.unique(rows[OFFSET.name].to_numpy(), return_inverse=True)
    _, block = np.unique(bucket * (int(offset.max(initial=0)) + 1) + offset, return_inverse=True)
    return block


def _spread(member: Flags, blocks: int) -> tuple[Longs, Longs]:
    """Pairs of key and block for keys that are in the sampled blocks that `member` says (a row a key, a column each).

    Where a block holds nearly all keys, others like it do; in the rest a key is at random as often as in the sample.
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
    """Pairs of key and block for keys that were met once, in these sampled blocks, and how many such keys there are.

    One place of each key is like that in the sample, where those of a block may be neighbours; others are at random.
    """
    once = len(block)
    pairs = once * blocks / sampled
    species = min(once * (1 + (once - 1) / (2 * twice + 2)), pairs)
    each = np.diff((np.arange(once + 1) * pairs / max(species, 1)).astype(np.int64))
    more = np.repeat(np.arange(once), np.maximum(each - 1, 0))
    at = np.random.default_rng(1).integers(0, blocks, len(more))
    found = np.unique(np.concatenate([np.arange(once) * blocks + block * blocks // sampled, more * blocks + at]))
    return found // blocks, found % blocks, species


def _table(keys: pa.Table, key: Longs, block: Longs, per_file: int) -> pa.Table:
    """A row a pair of a key, by its number, and a block."""
    file, place = np.divmod(np.arange(int(block.max(initial=0)) + 1), per_file)
    path = pa.array([f"file:/warehouse/part-{number:032}.parquet" for number in range(int(file[-1]) + 1)])
    offset = (
        4 + place * _BLOCK_BYTES + np.random.default_rng(2).integers(0, _BLOCK_BYTES // 100, len(file)) * (place > 0)
    )
    held = keys.take(pa.array(key))
    held = held.append_column(BUCKET, path.take(pa.array(file[block])))
    return held.append_column(OFFSET, pa.array(offset[block]))
