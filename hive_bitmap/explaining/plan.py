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
FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("size", pa.int64()),
        ("scanned", pa.bool_()),
        ("blocks", pa.int32()),
    ]
)
BLOCKS_SCHEMA = pa.schema(
    [
        ("file", pa.int32()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("rows", pa.int64()),
        ("selected", pa.int64()),
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
    """How a query is answered. Bytes are of base files; `files` and `blocks` have the schemas of this module.

    Figures are None where nothing was looked at, for no index serves the query. `rows_selected` is None also where it
    is only an upper bound, `rows_total` where files are not indexed. `deleted` counts files that the index knows and
    that are gone. `code` is the reason for a full scan in a word, a key of REASONS. `str()` is EXPLAIN.
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
        from hive_bitmap.explaining.explain import to_text

        return to_text(self)

    @property
    def looked_up(self) -> bool:
        """Whether files and blocks were looked at: else there is nothing in `files`, and figures are None."""
        return self.blocks_total is not None
