"""A request for the rows of a table, or for their number, and its resolved table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import Predicate, SparkLeaf
from hive_bitmap.core.selecting.live_counts import ReadDeleted
from hive_bitmap.core.selecting.lookup_units import DeletedRows
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.registry.catalog import Index


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for rows of a table, or, with `count`, for their number."""

    table: str
    predicate: str | None  # as SQL for people; None: all rows
    columns: tuple[str, ...]  # those that the query needs
    count: bool = False
    must_pay: bool = False  # skip the lookup where even its best outcome is no quicker than Spark alone
    keys: tuple[str, ...] = ()  # grouping columns of a count
    grouping_sets: tuple[tuple[str, ...], ...] = ()  # GROUPING SETS of a count: rows are counted by each of them
    limit: int | None = None  # after how many of the rows Spark stops reading; None: it reads all
    extremes: frozenset[str] = frozenset()  # grouping sets of one column, in lower case, whose MIN and MAX are enough

    def counted(self, keys: Sequence[str] = ()) -> Request:
        """Return the request for the number of these rows, by the values of the keys."""
        return replace(self, count=True, keys=tuple(keys))


Evaluate = Callable[[SparkLeaf, Column, pa.Array], pa.Array | None]


def _none_known(wanted: Mapping[str, str]) -> Mapping[str, DeletedRows]:
    return {}


def _not_evaluated(leaf: SparkLeaf, column: Column, keys: pa.Array) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class ResolvedTable:
    """The table of a scan in a plan of Spark's, with its indexes, the settings of the session, and the predicate.

    `evaluate(leaf, column, keys)` has Spark return those keys of a column for which a leaf is TRUE, or None if it
    cannot tell; `cores` is how many tasks run at the same time. `partitions` are the values and files of the partitions
    that Spark reads (None if it does not say), and `native` tells whether its own Parquet or ORC reader reads them.
    `deleted` tells which rows of files are deleted, of which the partitions say that some are. `split_bytes` is the
    size of the largest splits of Spark's own scan, by which it orders the rows; 0 if the query sees no order, None if
    it sees one and the sizes do not tell it.
    """

    base: Table
    indexes: tuple[Index, ...]
    settings: Mapping[str, str] = field(repr=False)  # secrets of stores may be among them
    predicate: Predicate
    evaluate: Evaluate
    cores: int
    partitions: tuple[tuple[Values, tuple[FileStatus, ...]], ...] | None = None
    native: bool = False
    deleted: ReadDeleted = _none_known
    split_bytes: int | None = 0

    def without_scan(self) -> ResolvedTable:
        """Return the same without the listing of the scan, and without the functions that ask Spark about it."""
        return replace(self, partitions=None, evaluate=_not_evaluated, deleted=_none_known)

    @property
    def narrows(self) -> bool:
        """Whether Spark's own reader can be told which files and blocks to read."""
        return self.native and self.partitions is not None
