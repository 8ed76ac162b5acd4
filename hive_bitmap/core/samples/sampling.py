"""Choose sample blocks of a table, and measure their indexing cost.

The cost is measured in Spark tasks. The footers show how many bytes the key columns of a block take per row. The blocks
are sorted by this number and divided into equal parts, and the block nearest to the mean of each part is chosen. So
blocks with adjacent equal keys and blocks with scattered keys are as frequent in the sample as in the table. The sample
is the same each time.

The size of a COMPACT or AGGREGATE index is not proportional to the number of blocks. Such an index has one row for each
key and file: the more blocks of a file hold a key, the less space each block takes. A whole shard is therefore
simulated. A key that occurs in several sampled blocks is put into the same share of the blocks of the shard. Keys that
occur in only one sampled block are more numerous in the table than in the sample. The number of such keys in the table
is estimated from the numbers of keys that occur in one and in two sampled blocks, by Chao's estimator of the number of
species. This estimate determines how many blocks of the shard hold such a key.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import shard
from hive_bitmap.core.index.definition import BUCKET, OFFSET, Definition
from hive_bitmap.core.indexing.computed_keys import KeyReader
from hive_bitmap.core.indexing.group_indexing import index_rows
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.errors import FileChanged, Undecodable

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]
MOST_ROWS = 1 << 20  # most rows of the simulated index; limits memory and time
MOST_DRAWN = 1 << 24  # most random numbers, one for each key and block; limits memory and time
NEARLY_ALL = 0.95  # a block with more than this share of the recurring keys is treated as holding all of them
# Simulated blocks have realistic offsets, since their bytes decide how well the offsets compress.
_BLOCK_BYTES = 8_000_000


def resampled(
    rows: pa.Table, keys: Sequence[str], sampled: int, blocks: int, files: float
) -> tuple[float, list[tuple[pa.Table, float]]]:
    """Simulate the rows of a shard, given the sorted index rows of `sampled` blocks.

    The shard has `blocks` blocks in `files` files. `rows` has the columns `keys`, `_bucketname` and `_offset`, and one
    row for each key and block. Return the number of simulated blocks, and pairs of a table and a weight. Fewer than
    `blocks` blocks are simulated if the result would be too large otherwise. The tables have the columns of `rows`, and
    are sorted like a shard. The size of each table must be multiplied by its weight.
    """
    numbers = [str(number) for number in range(len(keys))]  # a key may be named `count_all`
    numbered = rows.select(keys).rename_columns(numbers)
    counted = numbered.group_by(numbers, use_threads=False).aggregate([([], "count_all")])
    counts: Longs = counted["count_all"].to_numpy()  # the number of sampled blocks that hold each key
    distinct = counted.select(numbers).rename_columns(list(keys))
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
    """Number the sampled blocks, and return the number of each row's block."""
    bucket = pc.rank(rows[BUCKET.name], tiebreaker="dense").to_numpy().astype(np.int64)
    _, offset = np.unique(rows[OFFSET.name].to_numpy(), return_inverse=True)
    _, block = np.unique(bucket * (int(offset.max(initial=0)) + 1) + offset, return_inverse=True)
    return block


def _spread(member: Flags, blocks: int) -> tuple[Longs, Longs]:
    """Place keys that recur in the sample into a simulated shard.

    A recurring key occurs in several sampled blocks. `member[key, sampled block]` says whether a sampled block holds a
    key. `blocks` is the number of blocks of the simulated shard. Return the pairs of a key and a block of the shard
    that holds the key, as two arrays: the numbers of the keys, and the numbers of the blocks. As in the sample, there
    are two kinds of blocks: blocks with nearly all keys, and all other blocks. In each kind, a key is put into random
    blocks, with the same frequency as in the sample.
    """
    full = member.mean(0) > NEARLY_ALL if len(member) else np.zeros(member.shape[1], bool)
    like_full = full[np.arange(blocks) * len(full) // blocks]
    random = np.random.default_rng(1)
    holds = np.zeros((len(member), blocks), bool)
    for alike, targets in ((full, like_full), (~full, ~like_full)):
        if alike.any():
            drawn = random.integers(0, alike.sum(), (len(member), targets.sum()), np.uint32)
            holds[:, targets] = drawn < member[:, alike].sum(1)[:, np.newaxis]
    key, block = np.nonzero(holds)
    return key, block


def _scattered(block: Longs, twice: int, sampled: int, blocks: int) -> tuple[Longs, Longs, float]:
    """Place keys that do not recur into a simulated shard.

    Each of these keys occurs in only one sampled block. `block` has the number of the sampled block of each key, and
    `sampled` is the number of sampled blocks. `twice` is the number of keys that occur in exactly two sampled blocks.
    `blocks` is the number of blocks of the simulated shard. Each key is put into the block of the shard that
    corresponds to its sampled block, so that keys of one sampled block stay together, and into random other blocks.
    Return the pairs of a key and a block of the shard that holds the key, as two arrays (see `_spread`). The third
    result estimates how many such keys a real shard has.
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
    """Return an index row for each pair of key and block.

    `key` has the row number in `keys` of each pair's key, and `block` the number of its block. `per_file` is the number
    of blocks in a file.
    """
    file, place = np.divmod(np.arange(int(block.max(initial=0)) + 1), per_file)
    path = pa.array([f"file:/warehouse/part-{number:032}.parquet" for number in range(int(file[-1]) + 1)])
    jitter = np.random.default_rng(2).integers(0, _BLOCK_BYTES // 100, len(file)) * (place > 0)
    offset = 4 + place * _BLOCK_BYTES + jitter
    rows = keys.take(pa.array(key))
    rows = rows.append_column(BUCKET, path.take(pa.array(file[block])))
    return rows.append_column(OFFSET, pa.array(offset[block]))


RARE = 0.1  # the quantile that defines a rare key, among all keys ordered by their rows or blocks
FEWEST_BLOCKS = 4  # minimum of a sample: fewer blocks do not show how many blocks hold a key


@dataclass(frozen=True)
class FooterItem:
    """Work item of a task: the footer of a base file.

    `columns` has the key columns of each index. For a key that is an expression, the columns that the expression uses
    take its place.
    """

    path: str
    columns: tuple[tuple[Column, ...], ...]
    read_options: ReadOptions


@dataclass(frozen=True, kw_only=True)
class SampleItem:
    """Work item of a task: sampled blocks to index into one shard.

    `blocks` are pairs (path, number of the block in the file). The key columns of the blocks take `size` bytes. A shard
    of a build would have about `shard_blocks` blocks in `shard_files` files. `values` are texts of values that queries
    compare the column with; the task also counts in how many rows and blocks these values occur. `values` is empty for
    an index of several columns.
    """

    definition: Definition
    blocks: tuple[tuple[str, int], ...]
    size: int
    shard_blocks: int
    shard_files: float
    read_options: ReadOptions
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The size and write time of the index rows of sampled blocks.

    `rows` is the number of stored rows. `data` and `cardinalities` are bytes that grow with the table. In addition,
    each row group takes `group_overhead` bytes, and each cardinality file takes `cardinality_overhead` bytes. `groups`
    is the number of row groups that the index rows fill, which may be a fraction. `seconds` is the time to write the
    index rows. For an index without bitmaps, `rows`, `data`, `groups` and `seconds` are measured on a simulated whole
    shard, and divided in proportion to the sampled blocks.
    """

    rows: float = 0.0

    data: float = 0.0
    group_overhead: int = 0
    groups: float = 0.0
    cardinalities: int = 0
    cardinality_overhead: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The measurements of a task on sampled blocks.

    There are `blocks` blocks with `rows` rows, in which the key columns take `size` bytes. If the blocks could not be
    indexed, `blocks` is 0 and `reason` says why. `index_rows` is the number of pairs (key, block) with the key in the
    block. `recurrences` is the number of triples (key, block, other block) with the key in both blocks. `keys` is the
    number of distinct keys, `key_bytes` the mean size of a key in memory. A build would take `seconds` for these
    blocks. On average, one of `SampleItem.values` has `value_rows` rows in `value_blocks` blocks. A rare key, which is
    rarer than nine of ten keys, has `rare_rows` rows in `rare_blocks` blocks.
    """

    blocks: int
    size: int
    index_rows: int
    keys: int
    recurrences: int
    cost: Cost
    seconds: float
    reason: str = ""
    rows: int = 0
    value_rows: float = 0.0
    value_blocks: float = 0.0
    rare_rows: float = 0.0
    rare_blocks: float = 0.0
    key_bytes: float = 0.0


def read_footer(item: FooterItem) -> tuple[Longs, Longs]:
    """Read the footer of a file with b blocks, for i indexes.

    Return two arrays (int64): the number of rows of each block, of shape (b,), and the bytes of each index's key
    columns in each block, of shape (i, b). A file that cannot be read is treated as a file without blocks, because a
    build would not index it. Raise StoreError.
    """
    format = item.read_options.file_format()
    try:
        handle = format.open_file(item.path)
        blocks = format.blocks(handle)
    except (Undecodable, FileChanged, FileNotFoundError):
        return no_blocks(item)
    size = np.empty((len(item.columns), len(blocks)), np.int64)
    for index, columns in enumerate(item.columns):
        try:
            size[index] = format.column_bytes(handle, item.read_options.key_columns(columns))
        except Undecodable:
            size[index] = blocks.length
    return blocks.rows, size


def no_blocks(item: FooterItem) -> tuple[Longs, Longs]:
    """Return the result of `read_footer` for a file without blocks."""
    return np.zeros(0, np.int64), np.zeros((len(item.columns), 0), np.int64)


def choose_blocks(rows: Longs, size: Longs, share: float) -> Longs:
    """Choose blocks of a table as a sample.

    The sample has a `share` of the blocks, but at least FEWEST_BLOCKS, or all blocks if there are fewer. `rows` has the
    number of rows of each block, which is never 0. `size` has the bytes of the key columns in each block. Return the
    positions of the chosen blocks (int64), ascending.
    """
    count = min(len(rows), max(FEWEST_BLOCKS, int(len(rows) * share)))
    density = size / rows
    parts = np.array_split(np.argsort(density, kind="stable"), max(count, 1))
    nearest = [part[np.argmin(np.abs(density[part] - density[part].mean()))] for part in parts if len(part)]
    return np.sort(nearest).astype(np.int64)


def measure(item: SampleItem) -> Sample:
    """Index sampled blocks as a build does, and measure the cost.

    A shard is written into a temporary folder. If a block cannot be indexed, the result has the reason. Raise
    StoreError.
    """
    started = time.perf_counter()
    try:
        indexed = list(_index_rows(item))
    except (Undecodable, FileChanged, FileNotFoundError) as e:
        return not_indexed(str(e))
    parts, value_counts = [rows for rows, _ in indexed], [counts for _, counts in indexed]
    rows = shard.sort(pa.concat_tables(parts), item.definition.column_names)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        cost = _cost(f"file:{folder}/part.parquet", rows, item)
    keys, blocks, key_rows = _counted_keys(rows, item.definition)
    recurrences = int((blocks * (blocks - 1)).sum())
    return Sample(
        blocks=len(parts),
        size=item.size,
        index_rows=rows.num_rows,
        keys=len(blocks),
        recurrences=recurrences,
        cost=cost,
        seconds=seconds + cost.seconds,
        rows=sum(counts.rows for counts in value_counts),
        value_rows=sum(counts.value_rows for counts in value_counts),
        value_blocks=sum(counts.value_blocks for counts in value_counts),
        rare_rows=float(np.quantile(key_rows, RARE, method="lower")),
        rare_blocks=float(np.quantile(blocks, RARE, method="lower")),
        key_bytes=keys.nbytes / max(keys.num_rows, 1),
    )


def not_indexed(reason: str) -> Sample:
    """Return the sample for blocks that cannot be indexed."""
    return Sample(blocks=0, size=0, index_rows=0, keys=0, recurrences=0, cost=Cost(), seconds=0.0, reason=reason)


@dataclass(frozen=True)
class _ValueCounts:
    """How often the values of `SampleItem.values` occur in a block.

    `rows` is the number of rows of the block. `value_rows` is the mean number of rows of a value. `value_blocks` is the
    share of the values that occur in the block.
    """

    rows: int
    value_rows: float
    value_blocks: float


def _index_rows(item: SampleItem) -> Iterator[tuple[pa.Table, _ValueCounts]]:
    format = item.read_options.file_format()
    for path, block in item.blocks:
        handle = format.open_file(path)
        blocks = format.blocks(handle)
        keys = KeyReader.of(item.definition, item.read_options, path, handle, blocks).block(block)
        rows = index_rows(item.definition, keys, path, int(blocks.offset[block]))
        yield rows, _count_values(keys.column(0), item.values)


def _count_values(keys: pa.ChunkedArray, values: Sequence[str]) -> _ValueCounts:
    """Count how often some values occur among the keys of a block.

    `values` are the `SampleItem.values`. The counts in the result are 0 without `values`, and for keys of a type that
    Arrow cannot convert to text.
    """
    if not values:
        return _ValueCounts(len(keys), 0.0, 0.0)
    texts = pa.array(values, pa.string())
    try:
        counted = pc.value_counts(pc.cast(keys, pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _ValueCounts(len(keys), 0.0, 0.0)
    counts = counted.field("counts").filter(pc.is_in(counted.field("values"), value_set=texts))
    return _ValueCounts(len(keys), (pc.sum(counts).as_py() or 0) / len(values), len(counts) / len(values))


def _cost(path: str, rows: pa.Table, item: SampleItem) -> Cost:
    """Measure the cost of the index rows `rows` by writing shards to `path`.

    For an index without bitmaps, a whole shard is simulated and measured. Its rows, bytes, row groups and time are then
    multiplied by the share of its blocks that were sampled.
    """
    definition, keys, sampled = item.definition, item.definition.column_names, len(item.blocks)
    smallest = index_rows(definition, rows.select(keys).slice(0, 1), rows[BUCKET.name][0].as_py(), 4)
    if definition.has_bitmaps:
        return _written(path, rows, smallest, definition)
    blocks, parts = resampled(rows, keys, sampled, item.shard_blocks, item.shard_files)
    smallest = shard.compact(smallest, definition)
    costs = [
        (_written(path, shard.compact(_with_counts(part, definition), definition), smallest, definition), weight)
        for part, weight in parts
    ]
    share = sampled / blocks
    return Cost(
        rows=sum(cost.rows * weight for cost, weight in costs) * share,
        data=sum(cost.data * weight for cost, weight in costs) * share,
        group_overhead=max(cost.group_overhead for cost, _ in costs),
        groups=sum(cost.groups * weight for cost, weight in costs) * share,
        seconds=sum(cost.seconds * weight for cost, weight in costs) * share,
    )


def _with_counts(rows: pa.Table, definition: Definition) -> pa.Table:
    """Add the aggregates of an index to simulated index rows.

    The only aggregate of an estimated index is `count(*)`; it is 1 in each simulated row.
    """
    for field in definition.aggregate_fields:
        rows = rows.append_column(field, pa.array(np.ones(rows.num_rows, np.int64)))
    return rows


def _written(path: str, rows: pa.Table, smallest: pa.Table, definition: Definition) -> Cost:
    """Write index rows as a shard to `path`, and measure the cost.

    The overhead of a row group is measured as the size of a shard with the single row `smallest`.
    """
    started = time.perf_counter()
    written = shard.write(path, rows, definition)
    seconds = time.perf_counter() - started
    groups = _row_groups(path)
    overhead = shard.write(path, smallest, definition)
    return Cost(
        rows=rows.num_rows,
        data=max(written.size - groups * overhead.size, 0),
        group_overhead=overhead.size,
        groups=rows.nbytes / shard.ROW_GROUP_BYTES,
        cardinalities=written.cardinality_size - overhead.cardinality_size,
        cardinality_overhead=overhead.cardinality_size,
        seconds=seconds,
    )


def _counted_keys(rows: pa.Table, definition: Definition) -> tuple[pa.Table, Longs, Longs]:
    """Count the sampled blocks and base rows of each distinct key.

    `rows` are index rows. Return the distinct keys, the number of blocks that hold each key, and the number of base
    rows with each key.
    """
    names, many = list(definition.column_names), shard.CARDINALITY.name
    numbers = [str(number) for number in range(len(names))]  # a key may be named `count_all`
    numbered = rows.select([*names, many]).rename_columns([*numbers, many])
    counted = numbered.group_by(numbers).aggregate([([], "count_all"), (many, "sum")])
    keys = counted.select(numbers).rename_columns(names)
    return keys, counted["count_all"].to_numpy(), counted[f"{many}_sum"].to_numpy()


def _row_groups(path: str) -> int:
    with stores.open_input(path) as source:
        groups: int = pq.read_metadata(source).num_row_groups
        return groups
