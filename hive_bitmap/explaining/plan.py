"""The plan of a query as a value: the strategy, the reason, and the files, blocks and rows to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hive_bitmap.selecting.candidates import LookupResults

INDEX_ONLY, ROWS, BLOCKS, FILES, FULL_SCAN = "index only", "rows", "blocks", "files", "full scan"
STRATEGIES = (INDEX_ONLY, ROWS, BLOCKS, FILES, FULL_SCAN)
REASONS = {
    "no_index": "the table has no usable index",
    "not_tested": "the condition tests no indexed column, or a grouping column is not indexed",
    "not_counted": "the aggregation cannot be computed from keys and their counts",
    "not_understood": "the condition on the indexed columns is not understood",
    "not_fresh": "every file is new or changed since the index was built",
    "not_selective": "a full scan costs no more",
    "too_large": "the keys of an answer would take more memory than hive_bitmap.answer_bytes",
    "too_small": "Spark reads all of it in less time than planning takes",
    "unsupported": "the table, its layout or a setting of the session is not supported",
    "cached": "the rows are in the session's cache",
    "off": "a setting switches indexes off, or forces a full scan",
    "away": "the Python process of the server, which decides, is starting or has ended",
    "late": "planning took longer than hive_bitmap.planning_seconds",
    "store": "the store of the files fails or denies access",
    "error": "something failed; the log has the details",
}
# The base files of the partitions that pruning kept, a row for each.
FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),  # as in `a=1/b=x`; empty where the table has none
        ("state", pa.string()),  # fresh, stale or unindexed
        ("reason", pa.string()),  # why the file is not fresh, if that is known
        ("size", pa.int64()),  # bytes
        ("scanned", pa.bool_()),  # it is read whole: it is not fresh, or the index is damaged
        ("blocks", pa.int32()),  # the number of its blocks in the index; 0 if it is read whole
    ]
)
# The blocks of the fresh files, a row for each, in the order of the files.
BLOCKS_SCHEMA = pa.schema(
    [
        ("file", pa.int32()),  # the row of its file in `files`
        ("offset", pa.int64()),  # `_offset` of the index table
        ("length", pa.int64()),  # bytes
        ("rows", pa.int64()),
        ("selected", pa.int64()),  # the number of rows that may match
    ]
)

_REASON_WITHOUT_FIGURES = "the cheapest way; figures are not told, for hive_bitmap.engine_reads_only is true"


@dataclass(frozen=True)
class IndexUse:
    """Whether a plan uses an index, and why. `encoding` is None for the type COMPACT, which has no bitmaps."""

    name: str
    columns: tuple[str, ...]
    encoding: str | None
    used: bool
    reason: str


@dataclass(frozen=True)
class Plan:
    """How a query is answered, and why; `str()` of it is what EXPLAIN prints.

    `strategy` is one of STRATEGIES, `reason` a sentence that says why; for a full scan, `code` is a key of REASONS.
    `files` and `blocks` have the schemas FILES_SCHEMA and BLOCKS_SCHEMA. If no index serves the query, no file was
    looked at: both are empty and the figures are None. `rows_total` is None also if a file is read whole, and
    `rows_selected` if only an upper bound is known. A file that is read whole counts as one block. `bytes_total` and
    `bytes_selected` are bytes of base files, `index_bytes` bytes of the bitmaps that were decoded. `costs` has the
    estimated seconds of each possible strategy. `deleted` is the number of files that are in the index and no longer in
    the table.
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
    deleted: int | None = None
    code: str = ""
    candidates: LookupResults | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        # Imported here, because explain imports this module, and because only printing needs rich.
        from hive_bitmap.explaining.explain import to_text

        return to_text(self)

    @property
    def without_figures(self) -> Plan:
        """The plan for somebody who must not learn how many rows there are: what is done, and no figures."""
        reason = self.reason if self.code not in ("", "not_selective") else _REASON_WITHOUT_FIGURES
        return Plan(self.table, self.predicate, self.strategy, reason, self.indexes, code=self.code)

    @property
    def looked_up(self) -> bool:
        """Whether files and blocks were looked at; if not, `files` is empty and the figures are None."""
        return self.blocks_total is not None
