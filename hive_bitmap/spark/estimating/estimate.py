"""Estimate an index by indexing a sample of blocks and scaling up the result.

An index of adjacent equal keys is smaller than an index of scattered keys. In the same block, one column may have
adjacent keys and another column scattered keys, so each index has its own sample. The result is multiplied by the bytes
of the key columns in all blocks, and divided by their bytes in the sampled blocks. The footers of the files have these
numbers.

A file that crashes the process that reads it is treated as a file without blocks, because a build leaves it out, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hive_bitmap.core import stores
from hive_bitmap.core.explaining.measures import seconds, size
from hive_bitmap.core.explaining.reports import Report, Reports
from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.index.definition import Definition, define
from hive_bitmap.core.indexing import computed_keys
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.listings.file_listing import format_of, require_plain_options
from hive_bitmap.core.planning import settings
from hive_bitmap.core.samples.extrapolate import (
    BaseTable,
    build_seconds,
    index_bytes,
    spread,
    spread_of_values,
    stored_rows,
    usefulness,
)
from hive_bitmap.core.samples.sampling import (
    FooterItem,
    Sample,
    SampleItem,
    choose_blocks,
    measure,
    no_blocks,
    not_indexed,
    read_footer,
)
from hive_bitmap.core.samples.verdict import Candidate, Queries, verdict
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import InvalidProperty
from hive_bitmap.spark.building import key_expressions, staging
from hive_bitmap.spark.building.file_groups import GROUP_BYTES, count_shards
from hive_bitmap.spark.building.key_expressions import SparkKey
from hive_bitmap.spark.metastore import metastore, permission, session_settings
from hive_bitmap.spark.metastore.base_files import Source, sources
from hive_bitmap.spark.tasks.children import Died
from hive_bitmap.spark.tasks.distribution import in_surviving_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Longs = npt.NDArray[np.int64]
TASK_BLOCKS = 8  # fewest sampled blocks of a task: fewer hardly show how often keys recur


def footers(spark: SparkSession, items: Sequence[FooterItem]) -> list[tuple[Longs, Longs]]:
    """Read the footers of files in tasks.

    Return the result of `sampling.read_footer` for each item. If a file crashes the process that reads it, the result
    has no blocks.
    """
    results = in_surviving_tasks(spark, items, read_footer)
    return [
        no_blocks(item) if isinstance(result, Died) else result for item, result in zip(items, results, strict=True)
    ]


def samples(spark: SparkSession, items: Sequence[SampleItem]) -> list[Sample]:
    """Measure samples in tasks.

    Return the result of `sampling.measure` for each item. If reading its blocks crashes the process, the result is
    `not_indexed` with the reason.
    """
    results = in_surviving_tasks(spark, items, measure)
    return [not_indexed(result.reason) if isinstance(result, Died) else result for result in results]


@dataclass(frozen=True, kw_only=True)
class Estimate(Report):
    """The estimate of one index.

    `columns` are in the order of the table; keys that are expressions follow, by their names. `files`, `rows` and
    `blocks_total` are the numbers of files, rows and blocks (with rows) of the table. `distinct_keys`, counted in the
    sampled blocks, is a lower bound. `index_bytes` is the size of shards and cardinalities, `base_bytes` the size of
    all files of the table. `seconds` is the time that the tasks of a build would take. `usefulness` is a sentence on
    what an equality predicate would skip.

    Six fields are shares, from 0 to 1, of the blocks or of the rows that have a key:

    * `share_of_blocks` and `share_of_rows`: an average key; 1 if no sampled block can be indexed
    * `blocks_of_values` and `rows_of_values`: the average over the requested `values` (see `estimate`); None if the
      sample has none of them
    * `rare_blocks` and `rare_rows`: a key that is rarer than 90 % of the keys; None if no sampled block can be
      indexed

    `verdict` says whether the index is worth it, and why.
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
    files: int
    rows: int
    share_of_blocks: float
    share_of_rows: float
    blocks_of_values: float | None = None
    rows_of_values: float | None = None
    rare_blocks: float | None = None
    rare_rows: float | None = None
    verdict: str = ""

    @property
    def rows_per_key(self) -> float:
        """The average number of rows of a key, at least one."""
        return max(self.rows * self.share_of_rows, 1.0)

    @property
    def share_of_size(self) -> float:
        """The size of the index divided by the size of the table."""
        return self.index_bytes / max(self.base_bytes, 1)

    def __repr__(self) -> str:
        return f"Estimate({' '.join(str(self).split())})"

    def _cells(self) -> dict[str, str]:
        return {
            "columns": ", ".join(self.columns),
            "size": f"{size(self.index_bytes)} of {size(self.base_bytes)}",
            "keys": f"≥ {self.distinct_keys:,}",
            "rows a key": f"{self.rows_per_key:,.1f}",
            "built in": seconds(self.seconds),
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        share = f"{self.share_of_size:.0%} of the table" if self.share_of_size >= 0.01 else "<1% of the table"
        return (
            f"({', '.join(self.columns)}): {size(self.index_bytes)}, {share}; at least {self.distinct_keys:,} keys, of "
            f"{self.rows_per_key:,.1f} rows on average; built in some {seconds(self.seconds)}\n  {self.verdict}"
        )


@dataclass(frozen=True, kw_only=True)
class _Footers:
    """What the footers of a table's files show.

    The table has b blocks with rows, in file order. There are i indexes.
    """

    paths: tuple[str, ...]  # files of the table
    bytes: int  # total size of the files
    file: Longs  # b: number of the block's file in `paths`
    number: Longs  # b: number of the block in its file
    rows: Longs  # b: rows of the block
    size: Longs  # (i, b): bytes of the key columns of an index in a block
    shards: int  # number of shards that a build would write


def estimate(
    spark: SparkSession,
    table: str,
    columns: Sequence[SparkKey | Sequence[SparkKey]],
    *,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    sample: float = 0.05,
    values: Mapping[str, Collection[str]] | None = None,
) -> list[Estimate]:
    """Estimate the size, build time and usefulness of indexes.

    `columns` has an item for each index, as in `build`. The footers of all files are read, and a sample of the blocks
    is indexed: the share `sample` of all blocks, but at least four blocks. Keys that are expressions are computed for
    the files of these blocks. Each index is estimated as if it were built alone; built together with large indexes, it
    may get more shards.

    `values` maps a column name in lower case, or an expression as Spark resolves it, to texts that queries compare this
    column or expression with. An index on only this column or expression gets an estimate for these texts, too
    (`Estimate.blocks_of_values`, `Estimate.rows_of_values`).

    Raise NotFound, Unsupported or InvalidProperty as `build` does, and NotPermitted if only Spark may read the table.
    """
    if not 0 < sample <= 1:
        raise InvalidProperty(f"sample is {sample}, but must be a share of the blocks above 0 and at most 1")
    base = metastore.describe(spark, table)
    options = ReadOptions(format_of(base), base.columns, metastore.time_zone(spark))
    require_plain_options(base)
    items = key_expressions.resolved_items(spark, base, columns)
    definitions = [define(base, item, type=type, encoding=encoding, compression=compression) for item in items]
    keys = sorted({column.name for definition in definitions for column in definition.source_columns})
    permission.require_reading(spark, base, keys, "an estimate")
    files, queries = sources(spark, base), _queries(spark, base)
    with ExitStack() as stack:
        if format_of(base) in LAYOUTS:  # the blocks of these files are known only after Spark has read them
            staged = stack.enter_context(staging.in_scratch(spark, base, files, definitions))
            options = replace(options, staging=staged)
        footers = _read_footers(spark, files, definitions, options)
        blocks_of = [_sampled_blocks(footers, number, sample, queries.cores) for number in range(len(definitions))]
        computed = [] if options.staging else _computed_files(files, footers, definitions, blocks_of)
        if computed:
            staged = stack.enter_context(staging.in_scratch(spark, base, computed, definitions))
            options = replace(options, staging=staged)
        return _estimates(spark, footers, blocks_of, definitions, options, values or {}, queries)


def _computed_files(
    base_files: Sequence[Source],
    footers: _Footers,
    definitions: Sequence[Definition],
    blocks_of: Sequence[Sequence[Longs]],
) -> list[Source]:
    """Return the files in which key expressions have to be computed.

    These are the files with sampled blocks of indexes that have expressions as keys. `blocks_of` has a list for each
    index: the sampled blocks of each task.
    """
    paths = {
        footers.paths[footers.file[block]]
        for definition, tasks in zip(definitions, blocks_of, strict=True)
        for blocks in tasks
        for block in blocks
        if definition.expressions
    }
    chosen = (
        replace(source, files=tuple(file for file in source.files if file.path in paths)) for source in base_files
    )
    return [source for source in chosen if source.files]


def _estimates(
    spark: SparkSession,
    footers: _Footers,
    blocks_of: Sequence[Sequence[Longs]],
    definitions: Sequence[Definition],
    options: ReadOptions,
    values: Mapping[str, Collection[str]],
    queries: Queries,
) -> list[Estimate]:
    work = [
        [
            replace(_item(footers, options, definition, number, blocks), values=_values_of(definition, values))
            for blocks in blocks_of[number]
        ]
        for number, definition in enumerate(definitions)
    ]
    measured = iter(samples(spark, [item for items in work for item in items]))
    sampled = [[next(measured) for _ in items] for items in work]
    computing = _computing_seconds(footers, definitions, options)
    return Reports(
        _estimate(definition, number, footers, sampled[number], computing[number], queries)
        for number, definition in enumerate(definitions)
    )


def _computing_seconds(footers: _Footers, definitions: Sequence[Definition], options: ReadOptions) -> list[float]:
    """Return the estimated task seconds to compute the key expressions of each index.

    The time that was measured for the sampled files is scaled up to the rows of the table, and divided among the
    indexes in proportion to the columns in their expressions.
    """
    sources = {column for definition in definitions for e in definition.expressions for column in e.columns}
    if not sources or not options.staging:
        return [0.0] * len(definitions)
    taken = computed_keys.seconds_by_path(options.staging)
    is_computed = np.isin(footers.file, [number for number, path in enumerate(footers.paths) if path in taken])
    scale = int(footers.rows.sum()) / max(int(footers.rows[is_computed].sum()), 1)
    shares = (len({column for e in definition.expressions for column in e.columns}) for definition in definitions)
    return [sum(taken.values()) * scale * share / len(sources) for share in shares]


def _read_footers(
    spark: SparkSession, base_files: Sequence[Source], definitions: Sequence[Definition], options: ReadOptions
) -> _Footers:
    """Read the footers of all files; an unreadable file has no blocks."""
    files = [file for source in base_files for file in source.files]
    columns = tuple(definition.source_columns for definition in definitions)
    read = footers(spark, [FooterItem(file.path, columns, options) for file in files])
    filled = [np.flatnonzero(rows) for rows, _ in read]
    none = [np.zeros(0, np.int64)]
    return _Footers(
        paths=tuple(file.path for file in files),
        bytes=sum(file.size for file in files),
        file=np.repeat(np.arange(len(files)), [len(blocks) for blocks in filled]),
        number=np.concatenate(none + filled),
        rows=np.concatenate(none + [rows[blocks] for (rows, _), blocks in zip(read, filled, strict=True)]),
        size=np.concatenate(
            [np.zeros((len(columns), 0), np.int64)]
            + [size[:, blocks] for (_, size), blocks in zip(read, filled, strict=True)],
            axis=1,
        ),
        shards=count_shards(base_files, parallelism(spark)),
    )


def _sampled_blocks(footers: _Footers, index: int, sample: float, cores: int) -> list[Longs]:
    """Choose the blocks to sample for an index, and divide them among tasks.

    `index` is the position of the index, and `sample` the share of the blocks to choose. The result has an array for
    each task: the positions of its blocks in `footers`. The tasks keep the index's share of the `cores` busy, unless a
    task would get fewer than TASK_BLOCKS blocks. On average, a task reads no more bytes than a task of a build would.
    """
    chosen = choose_blocks(footers.rows, footers.size[index], sample)
    read = footers.bytes * len(chosen) / max(1, len(footers.rows))
    busy = min(cores // len(footers.size), len(chosen) // TASK_BLOCKS)
    tasks = min(len(chosen), max(math.ceil(read / GROUP_BYTES), busy, 1))
    return [chosen[task::tasks] for task in range(tasks)]


def _values_of(definition: Definition, values: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    names = [*(c.name.lower() for c in definition.plain_columns), *(e.canonical for e in definition.expressions)]
    return tuple(sorted(values.get(names[0], ()))) if len(names) == 1 else ()


def _item(footers: _Footers, options: ReadOptions, definition: Definition, index: int, blocks: Longs) -> SampleItem:
    return SampleItem(
        definition=definition,
        blocks=tuple((footers.paths[footers.file[n]], int(footers.number[n])) for n in blocks),
        size=int(footers.size[index][blocks].sum()),
        shard_blocks=math.ceil(len(footers.rows) / footers.shards),
        shard_files=len(np.unique(footers.file)) / footers.shards,
        read_options=options,
    )


def _queries(spark: SparkSession, base: Table) -> Queries:
    ours = settings.read(session_settings.settings(spark))
    return Queries(
        format=format_of(base),
        width=len(base.columns),
        store=stores.estimated_speed_of(base.location),
        cores=parallelism(spark),
        answer_bytes=ours.answer_bytes,
        driver_read_bytes=ours.driver_read_bytes,
    )


def _estimate(
    definition: Definition,
    index: int,
    footers: _Footers,
    samples: Sequence[Sample],
    computing: float,
    queries: Queries,
) -> Estimate:
    workers = max(1, min(footers.shards, queries.cores))
    base = BaseTable(len(footers.rows), int(footers.size[index].sum()), footers.shards, workers)
    key_spread, of_values = spread(base, samples), spread_of_values(samples)
    rows, bytes_of_index = int(footers.rows.sum()), index_bytes(base, samples)
    indexed = [sample for sample in samples if sample.blocks]
    rare_blocks = min((sample.rare_blocks / sample.blocks for sample in indexed), default=None)
    rare_rows = min((sample.rare_rows / max(sample.rows, 1) for sample in indexed), default=None)
    if key_spread is not None and rare_rows is not None:  # a few of many blocks do not show how rare a key is
        rare_rows = min(rare_rows, key_spread.of_rows)
    return Estimate(
        columns=definition.key_texts,
        encoding=definition.encoding,
        blocks_sampled=sum(sample.blocks for sample in samples),
        blocks_total=base.blocks,
        distinct_keys=max((sample.keys for sample in samples), default=0),
        index_bytes=bytes_of_index,
        base_bytes=footers.bytes,
        seconds=build_seconds(base, samples) + computing / workers,
        usefulness=usefulness(base, samples, key_spread),
        files=len(footers.paths),
        rows=rows,
        share_of_blocks=1.0 if key_spread is None else key_spread.of_blocks,
        share_of_rows=1.0 if key_spread is None else key_spread.of_rows,
        blocks_of_values=None if of_values is None else of_values.of_blocks,
        rows_of_values=None if of_values is None else of_values.of_rows,
        rare_blocks=rare_blocks,
        rare_rows=rare_rows,
        verdict=verdict(
            Candidate(
                rows=rows,
                keys=1.0 if key_spread is None else 1 / key_spread.of_rows,
                index_bytes=bytes_of_index,
                base_bytes=footers.bytes,
                rare_rows=rare_rows,
                rare_blocks=rare_blocks,
                blocks=base.blocks,
                files=len(footers.paths),
                key_bytes=max((sample.key_bytes for sample in indexed), default=0.0),
                partials=stored_rows(base, samples) if definition.counts_files else 0.0,
                counts_rows=definition.counts_rows,
                queries=queries,
            )
        ),
    )
