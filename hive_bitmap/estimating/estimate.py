"""Estimating an index before it is built: a few blocks are indexed as a build would, and what they took is scaled up.

Each index has a sample of its own, for a block whose keys lie together takes less than one where they are scattered,
and what is so for one column is not for another. The sample is scaled by the bytes that the key columns take in it and
in all blocks, as far as the footers of the files tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hive_bitmap.building import staging
from hive_bitmap.building.file_groups import GROUP_BYTES, count_shards
from hive_bitmap.errors import InvalidProperty
from hive_bitmap.estimating.extrapolate import BaseTable, build_seconds, index_bytes, usefulness
from hive_bitmap.estimating.sampling import Footer, Sample, SampleItem, choose, look, measure
from hive_bitmap.index.definition import Definition, define
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.base_files import Source, sources
from hive_bitmap.metastore.file_listing import format_of
from hive_bitmap.tasks.distribution import in_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Longs = npt.NDArray[np.int64]
TASK_BLOCKS = 8  # sampled blocks of a task at least: the fewer, the less is seen of how often keys recur


@dataclass(frozen=True)
class Estimate:
    """What an index would be: bytes of shards with their cardinalities, and seconds that the tasks of a build take.

    `columns` are in base-table order. `blocks_total` counts blocks that hold rows; `base_bytes` is all of the table's
    files. `distinct_keys`, of the sampled blocks, is a lower bound. `usefulness` says in a sentence what an equality
    would skip.
    """

    columns: tuple[str, ...]
    encoding: str
    blocks_sampled: int
    blocks_total: int
    distinct_keys: int
    index_bytes: int
    base_bytes: int
    seconds: float
    usefulness: str


@dataclass(frozen=True)
class _Table:
    """The base table, its b blocks that hold rows, in file order, and i indexes that are estimated."""

    paths: tuple[str, ...]  # of its files
    bytes: int  # of all of them
    file: Longs  # b: the number of the block's file in `paths`
    number: Longs  # b: that of the block in its file
    rows: Longs  # b
    size: Longs  # (i, b): the bytes that the columns of an index take in a block
    shards: int  # that a build would make


def estimate(
    spark: SparkSession,
    table: str,
    columns: Sequence[str | Sequence[str]],
    *,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    sample: float = 0.05,
) -> list[Estimate]:
    """What indexes on these columns would take and be good for; one estimate an item of `columns`, as in `build`.

    Indexes at most the share `sample` of the blocks (but four, where there are four) and reads the footers of all
    files. Each index is taken to be built alone: beside large ones it may be cut into more shards. Raises NotFound,
    Unsupported or InvalidProperty as `build` does.
    """
    if not 0 < sample <= 1:
        raise InvalidProperty(f"a sample is a share of the blocks between 0 and 1, not {sample}")
    base = metastore.describe(spark, table)
    format = format_of(base)
    items = [[item] if isinstance(item, str) else list(item) for item in columns]
    definitions = [define(base, item, type=type, encoding=encoding, compression=compression) for item in items]
    like = Footer("", format, tuple(d.columns for d in definitions), base.columns, metastore.time_zone(spark))
    found = sources(spark, base)
    with staging.in_scratch(spark, base, found, definitions) as staged:
        return _estimates(spark, found, definitions, replace(like, staging=staged), sample)


def _estimates(
    spark: SparkSession, found: Sequence[Source], definitions: Sequence[Definition], like: Footer, sample: float
) -> list[Estimate]:
    whole = _look_at(spark, found, like)
    cores = parallelism(spark)
    work = [
        [_item(whole, like, definition, number, some) for some in _shares(whole, number, sample, cores)]
        for number, definition in enumerate(definitions)
    ]
    measured = iter(in_tasks(spark, [item for items in work for item in items], measure))
    samples = [[next(measured) for _ in items] for items in work]
    return [_estimate(d, number, whole, samples[number], cores) for number, d in enumerate(definitions)]


def _look_at(spark: SparkSession, found: Sequence[Source], like: Footer) -> _Table:
    """The table as the footers of its files tell it; without files that cannot be read."""
    files = [file for source in found for file in source.files]
    looked = in_tasks(spark, [replace(like, path=file.path) for file in files], look)
    filled = [np.flatnonzero(rows) for rows, _ in looked]
    none = [np.zeros(0, np.int64)]
    return _Table(
        tuple(file.path for file in files),
        sum(file.size for file in files),
        np.repeat(np.arange(len(files)), [len(each) for each in filled]),
        np.concatenate(none + filled),
        np.concatenate(none + [rows[each] for (rows, _), each in zip(looked, filled, strict=True)]),
        np.concatenate(
            [np.zeros((len(like.columns), 0), np.int64)]
            + [size[:, each] for (_, size), each in zip(looked, filled, strict=True)],
            axis=1,
        ),
        count_shards(spark, found),
    )


def _shares(whole: _Table, index: int, sample: float, cores: int) -> list[Longs]:
    """The sampled blocks of an index, a part a task: as few as keep the cores busy, none larger than one of a build."""
    chosen = choose(whole.rows, whole.size[index], sample)
    read = whole.bytes * len(chosen) / max(1, len(whole.rows))
    busy = min(cores // len(whole.size), len(chosen) // TASK_BLOCKS)
    tasks = min(len(chosen), max(math.ceil(read / GROUP_BYTES), busy, 1))
    return [chosen[task::tasks] for task in range(tasks)]


def _item(whole: _Table, like: Footer, definition: Definition, index: int, blocks: Longs) -> SampleItem:
    return SampleItem(
        definition,
        tuple((whole.paths[whole.file[n]], int(whole.number[n])) for n in blocks),
        int(whole.size[index][blocks].sum()),
        math.ceil(len(whole.rows) / whole.shards),
        len(np.unique(whole.file)) / whole.shards,
        like.format,
        like.schema,
        like.time_zone,
        like.staging,
    )


def _estimate(definition: Definition, index: int, table: _Table, samples: Sequence[Sample], cores: int) -> Estimate:
    workers = max(1, min(table.shards, cores))
    whole = BaseTable(len(table.rows), int(table.size[index].sum()), table.shards, workers)
    return Estimate(
        definition.column_names,
        definition.encoding,
        sum(sample.blocks for sample in samples),
        whole.blocks,
        max((sample.keys for sample in samples), default=0),
        index_bytes(whole, samples),
        table.bytes,
        build_seconds(whole, samples),
        usefulness(whole, samples),
    )
