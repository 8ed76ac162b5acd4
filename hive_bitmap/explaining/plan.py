"""The plan of a query as a value: the strategy, why, and what is kept of all files, blocks and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hive_bitmap.selecting.candidates import LookupResults

INDEX_ONLY, ROWS, BLOCKS, FILES, FULL_SCAN = "index only", "rows", "blocks", "files", "full scan"
STRATEGIES = (INDEX_ONLY, ROWS, BLOCKS, FILES, FULL_SCAN)
REASONS = {
    "no_index": "the table has no index that can be used",
    "not_tested": "no index has a column that the condition tests, or a key that is counted",
    "not_understood": "what the condition says of the indexed columns is not understood",
    "not_fresh": "no file is indexed as it is now",
    "not_selective": "reading all costs no more",
    "too_small": "all of it is read in less time than planning takes",
    "unsupported": "the table, its layout or a setting of the session is not supported",
    "cached": "the rows are in the session's cache",
    "off": "a setting switches indexes off",
    "away": "the Python process of the server that decides is starting, or has ended",
    "late": "planning took longer than hive_bitmap.planning_seconds",
    "store": "the store of the files fails, or does not let us in",
    "error": "something failed; the log says what",
}
# Base files of the partitions that the predicate leaves, a row each.
FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),  # as in `a=1/b=x`; empty where the table has none
        ("state", pa.string()),  # fresh, stale or unindexed
        ("reason", pa.string()),  # why it is not fresh, as far as that is known
        ("size", pa.int64()),  # bytes
        ("scanned", pa.bool_()),  # it is read whole, for the index does not know it as it is, or is damaged
        ("blocks", pa.int32()),  # how many the index knows; 0 where it does not know the file
    ]
)
# Blocks of the files that the index knows as they are, a row each, in the order of the files.
BLOCKS_SCHEMA = pa.schema(
    [
        ("file", pa.int32()),  # row of the file in `files`
        ("offset", pa.int64()),  # the byte by which readers know the block
        ("length", pa.int64()),  # bytes
        ("rows", pa.int64()),
        ("selected", pa.int64()),  # how many of the rows may match
    ]
)


@dataclass(frozen=True)
class IndexUse:
    """Whether, and why, an index takes part in a plan. `encoding` is None where its type is COMPACT: no bitmaps."""

    name: str
    columns: tuple[str, ...]
    encoding: str | None
    used: bool
    reason: str


@dataclass(frozen=True)
class Plan:
    """How a query is answered, and why; `str()` of it is what EXPLAIN prints.

    `strategy` is one of STRATEGIES, `reason` says in a sentence why, and `code` is, of a full scan, a key of REASONS.
    `files` and `blocks` have FILES_SCHEMA and BLOCKS_SCHEMA. Figures are None where no index serves the query, so that
    no file was looked at; `rows_total` is None also where a file is read whole, `rows_selected` where only an upper
    bound is known. A file that is read whole counts as one block. `bytes_*` are bytes of base files, `index_bytes`
    those of bitmaps that were looked at. `costs` has estimated seconds by strategy, of those that are possible.
    `deleted` counts files that the index knows and that are gone.
    """

    table: str
    predicate: str | None
    strategy: str
    reason: str
    indexes: tuple[IndexUse, ...] = ()
    files: pa.Table = field(default_factory=FILES_SCHEMA.empty_table)
    blocks: pa.Table = field(default_factory=BLOCKS_SCHEMA.empty_table)
    blocks_total: int | None = None
    blocks_selected: int | None = None
    rows_total: int | None = None
    rows_selected: int | None = None
    bytes_total: int | None = None
    bytes_selected: int | None = None
    index_bytes: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)
    deleted: int = 0
    code: str = ""
    candidates: LookupResults | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        from hive_bitmap.explaining.explain import to_text  # late: only a plan that is printed needs rich

        return to_text(self)

    @property
    def looked_up(self) -> bool:
        """Whether files and blocks were looked at: else there is nothing in `files`, and figures are None."""
        return self.blocks_total is not None
