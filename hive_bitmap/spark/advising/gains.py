"""Compute what an index would save a query, by the planner's prices.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hive_bitmap.core.answering.answer_size import driver_bytes
from hive_bitmap.core.answering.count_budget import COUNT_PRICES, is_counted_by_index
from hive_bitmap.core.columns import Column
from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA, FILES_SCHEMA
from hive_bitmap.core.planning.planner import EngineSkips, PlanInputs, strategy_costs
from hive_bitmap.core.planning.prices import CLEARLY_CHEAPER, Prices, Reads, reads, share_of_bytes, waiting_seconds
from hive_bitmap.core.planning.settings import ANSWER_BYTES
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.samples.extrapolate import Spread
from hive_bitmap.core.stores.speed import LOCAL, Speed
from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Tally

MOST_BLOCKS = 4096  # most blocks for which gains are computed; larger tables are scaled down
RANGE_SHARE = 1 / 3  # assumed share of the keys that a range selects


@dataclass(frozen=True, kw_only=True)
class TableFigures:
    """The figures of a table and of a possible index, for estimating prices.

    The index would take `index_bytes`. `key` is the spread of an average key. `value` is the spread of an average
    value that queries compare the column with; None if these values are unknown.
    """

    format: str  # a key of FORMATS
    cores: int
    columns: Sequence[Column]
    bytes: int
    files: int
    blocks: int
    rows: int
    index_bytes: int
    key: Spread
    value: Spread | None = None
    store: Speed = LOCAL

    @property
    def engine_skips(self) -> EngineSkips:
        return EngineSkips.BLOCKS if self.format in ("parquet", "orc") else EngineSkips.SPLITS


@dataclass(frozen=True)
class Gain:
    """What an index saves: bytes of base files that are not read, and seconds."""

    bytes: int = 0
    seconds: float = 0.0

    def times(self, queries: int) -> Gain:
        """Return the gain of this many queries."""
        return Gain(self.bytes * queries, self.seconds * queries)


def gain_by_answers(tally: Tally, table: TableFigures, columns: int) -> Gain:
    """Return the gain of an index that answers an aggregation.

    `tally` has the figures of the queries with this aggregation, `table` the figures of the table and of the index.
    `columns` is the number of columns of the index. The gain is zero if Spark counts as fast, or if the keys of an
    answer would take too much memory.
    """
    rows, keys = table.rows, 1 / table.key.of_rows
    waits = waiting_seconds(table.files, table.cores, table.store)
    took = table.index_bytes * COUNT_PRICES.key_byte
    counted = is_counted_by_index(table.index_bytes, rows, columns, table.cores, waits)
    if not counted or driver_bytes(keys, 0) > ANSWER_BYTES:
        return Gain()
    took += COUNT_PRICES.answer_start + keys * COUNT_PRICES.key
    gained = gain(tally, table, None)
    return replace(gained, seconds=max(gained.seconds - tally.queries * took, 0))


def gain(tally: Tally, table: TableFigures, test: ColumnTest | None) -> Gain:
    """Return the gain of an index for the queries of one shape.

    `tally` has the figures of these queries; queries that an index already serves gain nothing. `table` has the
    figures of the table and of the index. The index narrows the scans by `test`, or if `test` is None, it answers the
    aggregation.
    """
    if tally.queries <= 0 or not table.bytes or not table.blocks:
        return Gain()
    size = (max(tally.bytes, 0) + max(tally.unsized, 0) * table.bytes) / tally.queries
    return _of_query(size, _share(tally, table.columns), table, test).times(tally.queries)


def _of_query(size: float, share: float, table: TableFigures, test: ColumnTest | None) -> Gain:
    scale = size / table.bytes
    files = max(round(table.files * scale), 1)
    native = table.engine_skips is EngineSkips.BLOCKS
    prices = Prices(table.format, table.cores, table.store)
    if prices.is_too_small(int(size * share), files, native=native):
        return Gain()
    inputs = PlanInputs(
        table="",
        predicate=None,
        format=table.format,
        cores=table.cores,
        count=test is None,
        engine_skips=table.engine_skips,
        share=share,
        store=table.store,
    )
    read = reads_of_test(table, test).times(scale)
    costs, _ = strategy_costs(inputs, read, exact=True)
    cheapest = min(costs, key=lambda strategy: costs[strategy])
    full = costs[Strategy.FULL_SCAN]
    if cheapest == Strategy.FULL_SCAN or costs[cheapest] > CLEARLY_CHEAPER * full:
        return Gain()
    return Gain(read.total - _bytes_read(cheapest, read), full - costs[cheapest])


def _bytes_read(strategy: Strategy, read: Reads) -> int:
    if strategy == Strategy.INDEX_ONLY:
        return 0
    return read.needed if strategy == Strategy.FILES else read.blocks


def reads_of_test(table: TableFigures, test: ColumnTest | None) -> Reads:
    """Estimate how much of a table is read if an index evaluates a test.

    The test is assumed to select average keys; an equality or IN selects average values of the spread `table.value`, if
    it is known. None stands for the lookup of one average key. The selected blocks are assumed to be spread evenly over
    the table. The totals in the result are those of the whole table, which would be read without the index.
    """
    rows, of_blocks = _selected(table, test)
    count = min(table.blocks, MOST_BLOCKS)
    selected = np.zeros(count, np.int64)
    chosen = min(max(round(of_blocks * count), 1), count)
    selected[np.arange(chosen) * count // chosen] = max(round(rows * count / table.blocks / chosen), 1)
    files = min(max(round(table.files * count / table.blocks), 1), count)
    file = np.arange(count) * files // count
    length, size = table.bytes // table.blocks, table.bytes * count // table.blocks // files
    offset = (np.arange(count) - np.searchsorted(file, file)) * length
    block_rows = np.full(count, max(table.rows // table.blocks, 1))
    blocks = [file, offset, np.full(count, length), np.maximum(block_rows, selected), selected]
    listed = [[""] * files, [""] * files, ["fresh"] * files, [""] * files, [size] * files, [False] * files, [0] * files]
    sampled_reads = reads(
        table.format,
        _arrow(listed, FILES_SCHEMA),
        _arrow(blocks, BLOCKS_SCHEMA),
        splits=table.engine_skips is EngineSkips.SPLITS,
        columns=len(table.columns),
    )
    opened = min(-(-sampled_reads.opened * table.files // sampled_reads.files), table.files)
    return replace(sampled_reads.times(table.blocks / count), total=table.bytes, files=table.files, opened=opened)


def _arrow(columns: Sequence[Any], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _selected(table: TableFigures, test: ColumnTest | None) -> tuple[float, float]:
    """Return how many rows a test selects, and the share of blocks with such rows.

    If `test` is None, one average key is looked up.
    """
    key, keys = table.key, 1.0
    if test is not None and test.kind is Kind.RANGE:
        keys = max(RANGE_SHARE / key.of_rows, 1)
    if test is not None and test.kind in (Kind.EQUALITY, Kind.IN):
        key, keys = table.value or key, max(test.values, 1)
    of_blocks = 1 - (1 - min(key.of_blocks, 1)) ** keys
    return table.rows * min(keys * key.of_rows, 1), of_blocks


def _share(tally: Tally, columns: Sequence[Column]) -> float:
    """Return the share of a table's bytes that an average query reads.

    The average is over the queries in `tally`, which have one shape. A query is assumed to read all rows of its
    columns. `columns` are all columns of the table, including columns that no query reads.
    """
    by_name = {column.name.lower(): column for column in columns}
    counted_columns = [(by_name[name], queries) for name, queries in tally.columns.items() if name in by_name]
    parts = sum(queries * share_of_bytes([column], columns) for column, queries in counted_columns)
    return min((tally.columns["*"] + parts) / max(tally.queries + tally.served, 1), 1.0)
