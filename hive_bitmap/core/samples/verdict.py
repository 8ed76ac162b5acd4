"""Judge whether an estimated index is worth its cost.

An index may be worth its cost for lookups and counts, for counts only, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from hive_bitmap.core.answering.answer_size import driver_bytes
from hive_bitmap.core.answering.count_budget import is_counted_by_index
from hive_bitmap.core.planning.planner import EngineSkips, PlanInputs, is_read_by_driver, strategy_costs
from hive_bitmap.core.planning.prices import Prices, Reads
from hive_bitmap.core.planning.settings import ANSWER_BYTES, DRIVER_READ_BYTES
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.stores.speed import LOCAL, Speed

MOST_PARTIALS = 0.25  # share of the table's rows; more rows of partial aggregates are not worth storing
NOT_WORTH_IT = "not worth it"  # how verdicts against an index begin
LARGE = 0.5  # share of the table's size; a larger index is not worth its space
ROWS_OF_A_KEY = 2.0  # with at most so many rows per key, the verdict is that about each row has its own key
FEW_ROWS, FEW_BLOCKS = 0.01, 0.5  # shares of rows and blocks; a rare key with at most these is worth looking up
LITTLE = 1.2  # a lookup gains little if it is faster than a scan by less than this factor
DOUBT = 1.5  # a table may have this many times the keys that a sample shows


@dataclass(frozen=True, kw_only=True)
class Queries:
    """The facts, besides the index, that determine the prices of queries.

    `width` is the number of columns of the table; `answer_bytes` and `driver_read_bytes` are limits of the session.
    """

    format: str = "parquet"  # a key of FORMATS
    width: int = 0
    store: Speed = LOCAL
    cores: int = 2
    answer_bytes: int = ANSWER_BYTES
    driver_read_bytes: int = DRIVER_READ_BYTES


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An estimated index and its table.

    The index has `keys` distinct keys with `key_bytes` bytes each. The table has `rows` rows in `blocks` blocks of
    `files` files. `rare_rows` and `rare_blocks` are the shares of rows and blocks that have a rare key; None if no
    block could be indexed. `index_bytes` and `base_bytes` are the sizes of the index and of the base files. `partials`
    is the number of rows of an AGGREGATE index; 0 for other types. `counts_rows` is false for a COMPACT index, which
    answers no counts.
    """

    rows: int
    keys: float
    index_bytes: int
    base_bytes: int
    rare_rows: float | None
    rare_blocks: float | None
    blocks: int
    files: int
    key_bytes: float = 8.0
    partials: float = 0.0
    counts_rows: bool = True
    queries: Queries = Queries()

    @property
    def counts(self) -> bool:
        """Whether the planner would count rows by key from the index alone."""
        is_small = driver_bytes(DOUBT * self.keys, self.key_bytes) <= self.queries.answer_bytes
        is_quicker = is_counted_by_index(self.index_bytes, self.rows, 1, self.queries.cores, keys=self.keys)
        return self.counts_rows and is_small and is_quicker


def verdict(index: Candidate) -> str:
    """Return the verdict in a sentence.

    >>> verdict(Candidate(rows=3_000_000, keys=4, index_bytes=10**6, base_bytes=10**8, rare_rows=0.001,
    ...     rare_blocks=1.0, blocks=64, files=8))
    'worth it: a rare key selects 0.1 % of the rows, and counts and groups come from the index'
    >>> verdict(Candidate(rows=200_000, keys=200_000, index_bytes=9 * 10**6, base_bytes=10**7, rare_rows=5e-6,
    ...     rare_blocks=0.01, blocks=64, files=8))
    'not worth it: the index takes 90 % of the size of the table'
    """
    if index.rare_rows is None or index.rare_blocks is None:
        return "unknown: no block could be indexed"
    partials = index.partials / max(index.rows, 1)
    if partials > MOST_PARTIALS:
        share = f"{min(partials, 1.0):.0%}".replace("%", " %")
        return f"not worth it: the index has {share} as many rows as the table, so its sums save little"
    size = index.index_bytes / max(index.base_bytes, 1)
    if size > LARGE:
        return f"not worth it: the index takes {size:.0%} of the size of the table".replace("%", " %")
    few = index.rare_rows <= FEW_ROWS or index.rare_blocks <= FEW_BLOCKS
    everywhere = f"even a rare key is in {index.rare_blocks:.0%} of the blocks".replace("%", " %")
    selects = f"a rare key selects {100 * index.rare_rows:.2g} % of the rows"
    if few and _is_one_block_a_file(index) and _gains_little(index, index.rare_rows, index.rare_blocks):
        lone = f"your files are one block each, and {everywhere}"
        if index.counts:
            return f"only for counts and groups; look-ups gain little: {lone}"
        return f"not worth it: look-ups gain little, because {lone}, and counts and groups by it are left to Spark"
    if few and index.counts:
        return f"worth it: {selects}, and counts and groups come from the index"
    if few and index.rows <= ROWS_OF_A_KEY * index.keys:
        return f"worth it to look up single rows, not for counts and groups: about each row has its own key ({selects})"
    if few:
        return f"worth it to look up rare keys, not for counts and groups by them: {selects}"
    if index.counts:
        return f"only for counts and groups: {everywhere}"
    return f"not worth it: {everywhere}"


def _is_one_block_a_file(index: Candidate) -> bool:
    return 1 < index.blocks <= index.files


def _gains_little(index: Candidate, rare_rows: float, rare_blocks: float) -> bool:
    """Return whether a lookup of a rare key gains little.

    The planner's prices show whether the lookup is hardly faster than a scan. `rare_rows` and `rare_blocks` are the
    shares of rows and blocks that have the key. Return False if at most the share FEW_BLOCKS of the blocks has the key.
    Return False also for a table so small that Spark's scan ends before a read through an index begins: a larger table
    with this layout may gain.
    """
    if rare_blocks <= FEW_BLOCKS or Prices(index.queries.format, index.queries.cores).is_too_small(
        index.base_bytes, native=True
    ):
        return False
    blocks, size = max(ceil(rare_blocks * index.blocks), 1), round(rare_blocks * index.base_bytes)
    read = Reads(
        total=index.base_bytes,
        whole=0,
        decoded=size,
        needed=size,
        rows=ceil(rare_rows * index.rows),
        rows_of_blocks=ceil(rare_blocks * index.rows),
        blocks=size,
        ranges=blocks,
        files=index.files,
        opened=blocks,
        values=index.rows * index.queries.width,
        stored=index.base_bytes,
        width=index.queries.width,
    )
    inputs = PlanInputs(
        table="",
        predicate=None,
        format=index.queries.format,
        cores=index.queries.cores,
        engine_skips=EngineSkips.BLOCKS if index.queries.format in ("parquet", "orc") else EngineSkips.SPLITS,
        store=index.queries.store,
        driver_read_bytes=index.queries.driver_read_bytes,
    )
    costs, _ = strategy_costs(inputs, read, exact=True, in_driver=is_read_by_driver(inputs, read))
    return costs[Strategy.FULL_SCAN] < LITTLE * min(costs.values())
