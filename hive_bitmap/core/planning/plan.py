"""The plan of a query: its strategy, the reason, and what is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.planning.learnt_prices import FROZEN, Factors
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.first_rows import FirstRows
from hive_bitmap.core.selecting.lookup_units import Flags, Longs

# One row for each base file of the partitions that remain after pruning.
FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),  # as in `a=1/b=x`; empty where the table has none
        ("state", pa.string()),  # fresh, stale or unindexed
        ("reason", pa.string()),  # why the file is not fresh, if that is known
        ("size", pa.int64()),  # bytes
        ("scanned", pa.bool_()),  # whether the file is read whole: it is not fresh, or the index is damaged
        ("blocks", pa.int32()),  # the number of the file's blocks in the index; 0 if the file is read whole
    ]
)
# One row for each block of the fresh files, in the order of the files.
BLOCKS_SCHEMA = pa.schema(
    [
        ("file", pa.int32()),  # the row of the block's file in `files`
        ("offset", pa.int64()),  # `_offset` of the index table
        ("length", pa.int64()),  # bytes
        ("rows", pa.int64()),
        ("selected", pa.int64()),  # the number of rows that may match
    ]
)

_REASON_WITHOUT_FIGURES = "the cheapest way; figures are hidden, because hive_bitmap.engine_reads_only is true"


@dataclass(frozen=True, kw_only=True)
class IndexUse:
    """Whether a plan uses an index, and why.

    `encoding` is None for the types COMPACT and AGGREGATE, which have no bitmaps.
    """

    name: str
    columns: tuple[str, ...]
    encoding: str | None
    used: bool
    reason: str
    type: str = "BITMAP"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a query is answered, and why.

    `str()` of a plan is a summary; `explaining.explain` shows the whole plan. `predicate` is the text of the condition;
    None for all rows. `reason` is a sentence. `code` is the Reason for a full scan; None for other strategies, and for
    a full scan that the planner has chosen by its costs. `costs` has the estimated seconds of each possible strategy.
    These seconds were computed with the learnt `factors`.

    `files` and `blocks` have the schemas FILES_SCHEMA and BLOCKS_SCHEMA. A file that is read whole counts as one block.
    The figures are the numbers of blocks, rows and bytes, in total and selected. `bytes_total` and `bytes_selected` are
    bytes of base files, `index_bytes` bytes of decoded bitmaps. If no index serves the query, `files` and `blocks` are
    empty, and the figures are None. `rows_total` is also None if a file is read whole. `rows_selected` is also None if
    only an upper bound is known. `deleted` is the number of indexed files that are no longer in the table.

    If a full scan was chosen from a sample of the partitions, the plan has no files and blocks, and no figures except
    perhaps `rows_total`.

    `in_driver` is for the strategy `rows`: the process that planned the query reads the rows, instead of tasks.
    `row_tasks` is the best number of tasks for reading the rows. `first` describes the first rows that a sorted query
    needs. `first` is set only if blocks without such rows were left out; these blocks then have no selected rows.
    `candidates` are the results of the lookups; None without a lookup.
    """

    table: str
    predicate: str | None
    strategy: Strategy
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
    costs: Mapping[Strategy, float] = field(default_factory=dict)
    deleted: int | None = None
    in_driver: bool = False
    row_tasks: int | None = None
    factors: Factors = FROZEN
    code: Reason | None = None
    first: FirstRows | None = None
    candidates: LookupResults | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        read = f", {_of(self.blocks_selected, self.blocks_total, 'blocks')}" if self.looked_up else ""
        return f"Plan({self.table} where {self.predicate or 'TRUE'}: {self.strategy}{read}; {self.reason})"

    def __str__(self) -> str:
        lines = [f"{self.table} where {self.predicate or 'TRUE'}", f"{self.strategy}: {self.reason}"]
        for use in self.indexes:
            state = "used" if use.used else "not used"
            lines.append(f"index {use.name} ({', '.join(use.columns)}): {state}" + f": {use.reason}" * bool(use.reason))
        if self.looked_up:
            lines.append(f"reads {_of(self.blocks_selected, self.blocks_total, 'blocks')} of {len(self.files):,} files")
            lines.append(f"finds {_of(self.rows_selected, self.rows_total, 'rows')}")
        if self.costs:
            lines.append("estimates " + ", ".join(f"{name} {cost:.3f} s" for name, cost in self.costs.items()))
        return "\n".join(lines)

    @property
    def without_figures(self) -> Plan:
        """The plan without figures.

        It is for users who must not learn numbers of rows. Only the table, the predicate, the strategy, the indexes and
        the reason remain. A reason that may contain figures is replaced by a general reason.
        """
        reason = self.reason if self.code not in (None, Reason.NOT_SELECTIVE, Reason.LIMIT) else _REASON_WITHOUT_FIGURES
        return Plan(
            table=self.table,
            predicate=self.predicate,
            strategy=self.strategy,
            reason=reason,
            indexes=self.indexes,
            code=self.code,
        )

    @property
    def rows_scanned(self) -> int | None:
        """The number of rows that a complete scan by Spark returns.

        Spark may stop the scan early. The number is None if it is unknown, and for strategies other than `full scan`,
        `files` and `blocks`.
        """
        if self.strategy is Strategy.FULL_SCAN:
            return self.rows_total
        if self.strategy not in (Strategy.FILES, Strategy.BLOCKS) or self.rows_total is None:
            return None
        chosen = self.blocks["selected"].to_numpy() > 0
        if self.strategy is Strategy.FILES:
            file = self.blocks["file"].to_numpy()
            chosen = np.isin(file, file[chosen])
        return int(self.blocks["rows"].to_numpy()[chosen].sum())

    @property
    def scanned_files(self) -> Flags:
        """Whether each file is read whole."""
        flags: Flags = _integers(self.files["scanned"]).astype(bool)
        return flags

    @property
    def kept_files(self) -> Flags:
        """Whether each file is read, either whole or for its selected rows.

        With the strategy `index only`, the result is `scanned_files`. It leaves out the looked-up files that Spark
        reads because the index does not select exactly their matching rows.
        """
        flags = self.scanned_files
        if self.strategy != Strategy.INDEX_ONLY:
            flags[_integers(self.blocks["file"])[_integers(self.blocks["selected"]) > 0]] = True
        return flags

    @property
    def kept_blocks(self) -> int | None:
        """The number of blocks to read.

        These are the blocks with a selected row. A file that is read whole counts as one block. With the strategy
        `index only`, only the files that are read whole are counted. The number is None if no index was looked up.
        """
        return int(self.scanned_files.sum()) if self.strategy == Strategy.INDEX_ONLY else self.blocks_selected

    @property
    def looked_up(self) -> bool:
        """Whether an index was looked up.

        Without a lookup, `files` is empty and `blocks_total` is None.
        """
        return self.blocks_total is not None


def _integers(column: pa.ChunkedArray) -> Longs:
    """Return a numeric or boolean column as integers; NULL becomes 0."""
    values: Longs = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return values


def _of(part: int | None, whole: int | None, what: str) -> str:
    """Return a text such as `3 of 10 blocks`.

    `part` and `whole` are the numbers; None is an unknown number, for which the text has the word "some". `what` is the
    plural noun.
    """
    texts = ["some" if number is None else f"{number:,}" for number in (part, whole)]
    return f"{texts[0]} of {texts[1]} {what}"
