"""Make the plan of a query: choose the cheapest strategy.

The index must never make a query slower, so each strategy has a price. A full scan is chosen if it is nearly as cheap
as the cheapest other strategy. All functions are pure. Prices follow from what the indexes record about files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.nested_types import NestedType, why_spark_only
from hive_bitmap.core.planning.learnt_prices import FROZEN, Factors
from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA, FILES_SCHEMA, IndexUse, Plan
from hive_bitmap.core.planning.prices import (
    CLEARLY_CHEAPER,
    MOST_SPLIT_BYTES,
    OPEN_BYTES,
    Prices,
    Reads,
    reads,
)
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.stores.speed import LOCAL, Speed

FEW_BYTES = 0.1  # least saved share of the bytes that the reason of a plan mentions
_FRESH, _UNINDEXED = Freshness.FRESH.value, Freshness.UNINDEXED.value
MOST_DRIVER_ROWS = 50_000  # most rows that are read by the process that planned a query


class EngineSkips(Enum):
    """The smallest part of a table that Spark's own reader can skip."""

    NOTHING = "nothing"
    SPLITS = "splits"  # of formats that only Spark reads
    BLOCKS = "blocks"  # row groups of Parquet, stripes of ORC


@dataclass(frozen=True, kw_only=True)
class PlanInputs:
    """The facts that prices depend on, besides the results of lookups.

    `cores` is the number of tasks that run at the same time. `columns` are the data columns to read, in lower case.
    `unkeyed` are the columns to read whose type cannot be a key's type. `nested` has the types of the `unkeyed` columns
    that tasks may read. `schemas` are the `definition.known_schemas` of the table. `predicate` is None if the query has
    no condition. `count` says that the query needs only the number of rows; `sums` says that it also needs sums of
    partial aggregates.

    `unreadable` maps paths of files to the reasons why only Spark can read these files; the path "" stands for all
    files. `share` is the share of the files' bytes that the columns take. `width` is the number of all data columns,
    `store` the speed of the files' store. The looked-up files may be a sample: `scale` is the bytes of the table
    divided by the bytes of the looked-up files.
    """

    table: str
    predicate: str | None  # as the user wrote it
    format: str  # a key of FORMATS
    cores: int
    columns: frozenset[str] = frozenset()
    unkeyed: frozenset[str] = frozenset()
    nested: Mapping[str, NestedType] = field(default_factory=dict)
    schemas: Mapping[int, frozenset[str]] = field(default_factory=dict)
    count: bool = False
    sums: bool = False
    unreadable: Mapping[str, str] = field(default_factory=dict)
    engine_skips: EngineSkips = EngineSkips.NOTHING
    engine_reads_only: bool = False  # the setting hive_bitmap.engine_reads_only
    share: float = 1.0
    width: int = 0  # 0: unknown
    store: Speed = LOCAL
    factors: Factors = FROZEN  # learnt factors of the prices
    limit: int | None = None  # the number of selected rows after which Spark stops reading; None: it reads all
    scale: float = 1.0
    driver_read_bytes: int = 0  # most bytes of rows that this process itself may read
    answer_seconds: float = 0.0  # for a count: the time to compute the answer from the index
    spark_count_seconds: float = 0.0  # for a count: the least time that Spark takes

    @property
    def prices(self) -> Prices:
        return Prices(self.format, self.cores, self.store, self.factors)


def full_scan(
    table: str, predicate: str | None, reason: str, indexes: tuple[IndexUse, ...] = (), code: Reason | None = None
) -> Plan:
    """Return a plan that reads everything.

    `reason` is the reason as a sentence; `code` is the same reason as a code, or None if it has no code. `indexes` says
    why each index is not used.
    """
    return Plan(
        table=table, predicate=predicate, strategy=Strategy.FULL_SCAN, reason=reason, indexes=indexes, code=code
    )


def make_plan(inputs: PlanInputs, uses: tuple[IndexUse, ...], work: LookupResults) -> Plan:
    """Return the plan with the cheapest strategy.

    `uses` says for each index whether it is used, and why. `work` has the results of the lookups.
    """
    files, blocks = _tables(work)
    selected, rows, lengths = (blocks[name].to_numpy() for name in ("selected", "rows", "length"))
    read = reads(inputs.format, files, blocks, splits=inputs.engine_skips is EngineSkips.SPLITS, columns=inputs.width)
    whole_files = files.num_rows - _read_by_index(files)
    exact = not whole_files and all(result.exact.all() for result in work.results)
    figures = {
        "blocks_total": blocks.num_rows + whole_files,
        "blocks_selected": int((selected > 0).sum()) + whole_files,
        "rows_total": int(rows.sum()) if not whole_files else None,
        "rows_selected": read.rows if exact else None,
        "bytes_total": read.total,
        "bytes_selected": int(lengths[selected > 0].sum()) + read.whole,
        "index_bytes": sum(result.index_bytes for result in work.results),
        "deleted": work.deleted,
    }
    engine_only = _why_engine_only(inputs, work)
    all_reads = read.times(inputs.scale)
    in_driver = is_read_by_driver(inputs, all_reads)
    costs, impossible = strategy_costs(
        inputs,
        all_reads,
        exact=exact,
        is_sure=_is_sure(inputs, work),
        left=_left_to_spark(work) if inputs.sums else None,
        engine_only=engine_only,
        in_driver=in_driver,
    )
    stops = inputs.limit is not None and _stops_early(inputs, all_reads, costs)
    if stops:
        strategy, reason = Strategy.FULL_SCAN, _why_stopped(inputs, all_reads)
    else:
        strategy, reason = _choose(inputs, costs, impossible, figures, blocks)
    if strategy == Strategy.FULL_SCAN and work.whole_files:
        reason += f"; {_why_whole(work, files.num_rows)}"
    return Plan(
        table=inputs.table,
        predicate=inputs.predicate,
        strategy=strategy,
        reason=reason,
        indexes=uses,
        files=files,
        blocks=blocks,
        costs=costs,
        in_driver=in_driver,
        row_tasks=inputs.prices.direct_tasks(all_reads, inputs.share),
        code=Reason.LIMIT if stops else None,
        factors=inputs.factors,
        candidates=work,
        **figures,
    )


def needs_file(result: LookupResult, lookup: Lookup) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each looked-up file whether it has a selected row."""
    return np.bincount(lookup.unit.file, result.counts, len(lookup.unit.paths)) > 0


def _tables(work: LookupResults) -> tuple[pa.Table, pa.Table]:
    files: list[pa.Table] = []
    blocks: list[pa.Table] = []
    names, first = [partition.name for partition in work.partitions], 0
    for lookup, result in work.pairs():
        unit = lookup.unit
        damages = [str(result.damaged.get(number, "")) for number in range(len(unit.paths))]
        states = [_UNINDEXED if damage else _FRESH for damage in damages]
        counts = np.bincount(unit.file, minlength=len(unit.paths))
        partitions = [names[partition] for partition in lookup.partitions]
        is_damaged = [bool(damage) for damage in damages]
        files.append(_files([unit.paths, partitions, states, damages, lookup.sizes, is_damaged, counts]))
        blocks.append(
            pa.Table.from_arrays(
                [
                    pa.array(unit.file + first, pa.int32()),
                    *map(pa.array, (unit.offset, unit.length, unit.rows, result.counts)),
                ],
                schema=BLOCKS_SCHEMA,
            )
        )
        first += len(unit.paths)
    whole = [
        (file.status.path, names[file.partition], file.freshness.value, file.reason, file.status.size, True, 0)
        for file in work.whole_files
    ]
    files.append(_files(list(zip(*whole, strict=True)) or [()] * len(FILES_SCHEMA)))
    return pa.concat_tables(files).combine_chunks(), pa.concat_tables([BLOCKS_SCHEMA.empty_table(), *blocks])


def _files(columns: Sequence[Any]) -> pa.Table:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, FILES_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=FILES_SCHEMA)


def _read_by_index(files: pa.Table) -> int:
    return int((~files["scanned"].to_numpy(zero_copy_only=False)).sum())


def strategy_costs(
    inputs: PlanInputs,
    read: Reads,
    *,
    exact: bool,
    is_sure: bool = False,
    engine_only: str | None = None,
    in_driver: bool = False,
    left: tuple[int, int] | None = None,
) -> tuple[dict[Strategy, float], dict[Strategy, str]]:
    """Return the price in seconds of each possible strategy.

    The second result has the reasons why other strategies are impossible. `read` is how much is read. With `exact`, the
    index selects exactly the matching rows. With `is_sure`, the query only asks whether there is a matching row, and
    the index certainly has one; then no file needs to be read. `engine_only` says why only Spark can read the files; it
    is None if our tasks can read the files, too. With `in_driver`, this process reads the selected rows, instead of
    tasks.

    If the query needs sums, `left` has the bytes and the number of the files that Spark aggregates. Unless the whole
    answer comes from the index, the price of the full scan is then at most the price of scanning only the files that
    may have matching rows, or of reading only the selected rows. The reason is that Spark, too, may skip all other
    files.
    """
    prices, share, limit = inputs.prices, inputs.share, inputs.limit
    narrowed = read.until(limit, narrowed=True)
    first = read.until(limit)
    costs = {Strategy.FULL_SCAN: _prices_of_first(inputs, read, first).full_scan(first, share)}
    impossible = {}
    direct_price = prices.direct(read, share)
    if inputs.count:
        if limit is None:
            costs[Strategy.FULL_SCAN] = max(costs[Strategy.FULL_SCAN], inputs.spark_count_seconds)
        if engine_only is None:
            is_complete = is_sure or (exact and not read.whole)
            if left is not None and not is_complete:
                size, files = left
                aggregated = prices.scan(share * size, files, read.values_per_byte)
                costs[Strategy.INDEX_ONLY] = inputs.answer_seconds + aggregated
                narrow_scan = prices.scan(share * read.needed, read.opened, read.values_per_byte)
                costs[Strategy.FULL_SCAN] = min(costs[Strategy.FULL_SCAN], narrow_scan, direct_price)
            else:
                costs[Strategy.INDEX_ONLY] = inputs.answer_seconds + (0.0 if is_complete else direct_price)
        else:
            impossible[Strategy.INDEX_ONLY] = engine_only
        return costs, impossible
    if inputs.engine_skips is EngineSkips.SPLITS:
        costs[Strategy.BLOCKS] = prices.engine(narrowed, share)
        return costs, impossible
    if engine_only is None:
        costs[Strategy.ROWS] = prices.driver(read, share) if in_driver else direct_price
    if inputs.engine_skips is EngineSkips.BLOCKS:
        prices = _prices_of_first(inputs, read, narrowed)
        costs[Strategy.BLOCKS] = prices.native(narrowed, share)
        costs[Strategy.FILES] = prices.native_files(narrowed, share)
    elif engine_only is not None:
        impossible[Strategy.ROWS] = engine_only
    return costs, impossible


def _is_sure(inputs: PlanInputs, work: LookupResults) -> bool:
    """Return whether a count with a limit certainly finds a row.

    The result is true if there is a looked-up file with selected rows, all of which match. The result is false for a
    count without a limit, which needs all rows.
    """
    if not inputs.count or inputs.limit is None:
        return False
    return any(bool((needs_file(result, lookup) & result.exact).any()) for lookup, result in work.pairs())


def _prices_of_first(inputs: PlanInputs, read: Reads, first: Reads) -> Prices:
    """Return the prices of a scan that ends at the limit of rows.

    `read` is everything that the scan could read, and `first` what it reads until the limit. With a limit, Spark begins
    with a single task. Spark runs more tasks only if the split of the first task has too few rows.
    """
    split = min(MOST_SPLIT_BYTES, (read.total + read.files * OPEN_BYTES) / inputs.cores)
    is_one_task = inputs.limit is not None and first.total + first.files * OPEN_BYTES <= split
    return replace(inputs.prices, cores=1) if is_one_task else inputs.prices


def _stops_early(inputs: PlanInputs, read: Reads, costs: Mapping[Strategy, float]) -> bool:
    """Return whether to leave a query to Spark's scan, which ends early.

    The result is false if Spark's own scan reads everything before it reaches the limit of rows. Otherwise, the result
    is true if the scan ends too soon for any index to speed it up, or if no strategy is clearly cheaper. `costs` has
    the price of each possible strategy.
    """
    first = read.until(inputs.limit)
    if first.total >= read.total:
        return False
    native = inputs.engine_skips is EngineSkips.BLOCKS
    size, prices = inputs.share * first.total, _prices_of_first(inputs, read, first)
    if prices.is_too_small(size, first.files, read.values_per_byte, native=native):
        return True
    return min(costs.values()) > CLEARLY_CHEAPER * costs[Strategy.FULL_SCAN]


def _why_stopped(inputs: PlanInputs, read: Reads) -> str:
    share = read.until(inputs.limit).total / max(read.total, 1)
    return f"Spark stops once it has the first rows, after reading about {max(share, 0.001):.1%} of the table"


def is_read_by_driver(inputs: PlanInputs, read: Reads) -> bool:
    """Return whether reading the selected rows in this process is faster than in tasks.

    The result can be true only for at most MOST_DRIVER_ROWS selected rows, of at most `driver_read_bytes` bytes.
    """
    most, bytes_of_rows = inputs.driver_read_bytes, inputs.share * read.blocks * read.rows / max(read.rows_of_blocks, 1)
    if inputs.count or read.whole or not most or bytes_of_rows > most or read.rows > MOST_DRIVER_ROWS:
        return False
    return inputs.prices.driver(read, inputs.share) < inputs.prices.direct(read, inputs.share)


def _left_to_spark(work: LookupResults) -> tuple[int, int]:
    """Return the bytes and the number of the files that Spark aggregates.

    If partial aggregates are added up, Spark aggregates the files that are read whole, and the looked-up files in which
    not every selected row matches.
    """
    sizes = [np.array([file.status.size for file in work.whole_files], np.int64)]
    sizes += [lookup.sizes[needs_file(result, lookup) & ~result.exact] for lookup, result in work.pairs()]
    left = np.concatenate(sizes)
    return int(left.sum()), len(left)


def _why_engine_only(inputs: PlanInputs, work: LookupResults) -> str | None:
    """Return why only Spark can read the files of the plan.

    Return None if our tasks can read the files. If sums are requested, no task reads files.
    """
    if inputs.engine_reads_only:
        return "hive_bitmap.engine_reads_only is true"
    for lookup, result in () if inputs.sums else work.pairs():
        opened = needs_file(result, lookup) & ~result.exact if inputs.count else needs_file(result, lookup)
        for file in np.flatnonzero(opened).tolist():
            if why := _why_spark_only(inputs, lookup, file):
                return why
    return next(iter(inputs.unreadable.values()), None)


def _why_whole(work: LookupResults, files: int) -> str:
    """Describe how many files are read whole, and the most frequent reason.

    `files` is the number of all files.
    """
    whole = work.whole_files
    [(why, _)] = Counter(file.reason for file in whole).most_common(1)
    are = "is" if len(whole) == 1 else "are"
    return f"{len(whole):,} of {files:,} files {are} not fresh in the index" + (f" ({why})" if why else "")


def _why_spark_only(inputs: PlanInputs, lookup: Lookup, file: int) -> str:
    """Return why only Spark can read the needed columns of a file.

    Return "" if our tasks can read these columns. `file` is the position of the file in the lookup. If a column was
    added after the file was indexed, and the file surely lacks the column, our tasks read NULL.
    """
    schema = inputs.schemas.get(lookup.schema_crc(file))
    if schema is None:
        return "columns of the table were changed, moved or dropped since the index was built"
    if columns := sorted(lookup.spark_only[file] & inputs.columns - inputs.nested.keys()):
        return f"only Spark reads column {columns[0]!r} of these files correctly"
    marks = lookup.nested_marks(file) if inputs.nested else frozenset()
    if reasons := [why for column, type in inputs.nested.items() if (why := why_spark_only(column, type, marks))]:
        return reasons[0]
    added, foreign = inputs.columns - schema, lookup.foreign(file)
    doubtful = added if foreign is None else added & (foreign | inputs.unkeyed)
    return f"column {min(doubtful)!r} was added since the index was built" if doubtful else ""


def _choose(
    inputs: PlanInputs,
    costs: Mapping[Strategy, float],
    impossible: Mapping[Strategy, str],
    figures: Mapping[str, int | None],
    blocks: pa.Table,
) -> tuple[Strategy, str]:
    """Return the cheapest strategy, and a sentence with the reason.

    `costs` has the price of each possible strategy, and `impossible` says why other strategies are impossible.
    `figures` has numbers of the plan, such as its selected rows and bytes, by field of `Plan`. `blocks` (BLOCKS_SCHEMA)
    are the looked-up blocks. The reason says how many blocks and rows are selected, or how many bytes are saved.
    """
    selected, rows = blocks["selected"].to_numpy(), int(blocks["rows"].to_numpy().sum())
    matching, holding = int(selected.sum()), int((selected > 0).sum())
    cheapest = min(costs, key=lambda strategy: costs[strategy])
    price, scan_price = costs[cheapest], costs[Strategy.FULL_SCAN]
    if cheapest == Strategy.INDEX_ONLY:
        partly = "of which only some rows are selected" if figures["rows_total"] is not None else "that are not fresh"
        exception = f", except for files {partly}" if figures["rows_selected"] is None else ""
        return Strategy.INDEX_ONLY, f"the index holds the answer{exception}"
    if cheapest == Strategy.FULL_SCAN or price > CLEARLY_CHEAPER * scan_price:
        why = "; ".join(f"{strategy}: {reason}" for strategy, reason in impossible.items())
        why_not = f"{matching:,} of {rows:,} rows are selected, which lie in {holding:,} of {len(selected):,} blocks"
        why_not = why_not if rows else "no file is fresh in the index"
        return Strategy.FULL_SCAN, f"{why_not}: reading all costs no more" + (f" ({why})" if why else "")
    saved = 1 - (figures["bytes_selected"] or 0) / max(figures["bytes_total"] or 0, 1)
    if saved < FEW_BYTES and cheapest == Strategy.ROWS:
        return cheapest, f"{matching:,} of {rows:,} indexed rows are read, and only the parts with them are decoded"
    return cheapest, f"{saved:.0%} of the bytes need not be read"
