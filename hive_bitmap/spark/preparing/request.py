"""Define a request for rows, or for the number of rows.

`ResolvedTable` is the table of a request with its indexes. `Engine` has the questions that a lookup asks Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.answering.group_summaries import GroupSummary
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import Measure
from hive_bitmap.core.predicates.nodes import Predicate, SparkLeaf
from hive_bitmap.core.selecting.first_rows import FirstRows
from hive_bitmap.core.selecting.lookup_units import DeletedRows
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.registry.catalog import Index


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for rows of a table, or with `count`, for the number of rows."""

    table: str
    predicate: str | None  # as SQL for people; None: all rows
    columns: tuple[str, ...]  # the columns that the query needs
    count: bool = False
    must_pay: bool = False  # skip the lookup if even its best outcome is no faster than Spark alone
    keys: tuple[str, ...] = ()  # grouping columns of a count
    grouping_sets: tuple[tuple[str, ...], ...] = ()  # GROUPING SETS of a count: rows are counted by each of them
    limit: int | None = None  # the number of rows after which Spark stops reading; None: it reads all
    nested: Mapping[str, str] = field(default_factory=dict)  # JSON of the types that the query reads, by column
    first: FirstRows | None = None  # the first rows, if a sorted query needs no others; None: it needs all
    extremes: frozenset[str] = frozenset()  # columns, each a grouping set by itself, of which MIN and MAX are enough
    summaries: frozenset[str] = (
        frozenset()
    )  # columns, each a grouping set by itself, of which `key_merge.summary` is enough
    group_summary: GroupSummary | None = None  # what is enough of its only grouping set, of two columns
    top: Top | None = None  # which groups the query needs, if its only grouping set is one column; None: all
    measures: tuple[Measure, ...] = ()  # columns whose aggregates are needed by key; one index must hold them

    def counted(self, keys: Sequence[str] = ()) -> Request:
        """Return a request for the number of this request's rows, by `keys`."""
        return replace(self, count=True, keys=tuple(keys))

    @property
    def mergeable(self) -> frozenset[str]:
        """The grouping columns, in lower case, whose groups are not all needed.

        Each of these columns is a grouping set of its own.
        """
        return self.summaries if self.top is None else frozenset(key.lower() for key in self.keys)


class Engine(Protocol):
    """The questions that a lookup asks Spark about a scan."""

    def satisfying(self, leaf: SparkLeaf, column: Column, keys: pa.Array) -> pa.Array | None:
        """Evaluate a leaf, and return the keys for which it is TRUE.

        Return None if Spark cannot evaluate the leaf.
        """

    def deleted(self, versions: Mapping[str, str]) -> Mapping[str, DeletedRows]:
        """Return the deleted rows of files, by path.

        `versions` has the version of each file's deletes; see `live_counts.without_deleted`.
        """

    def take_turn(self) -> None:
        """Wait until this plan may be continued.

        A plan continues without waiting as long as its query waits for it. Of the plans whose queries no longer wait,
        only one is continued at a time.
        """


class NoEngine:
    """An engine without Spark: it evaluates no leaf, and knows no deleted rows."""

    def satisfying(self, leaf: SparkLeaf, column: Column, keys: pa.Array) -> pa.Array | None:
        return None

    def deleted(self, versions: Mapping[str, str]) -> Mapping[str, DeletedRows]:
        return {}

    def take_turn(self) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class ResolvedTable:
    """The table of a scan in Spark's plan, with its indexes.

    `settings` are the settings of the session. `predicate` is the condition of the scan, and `engine` evaluates leaves
    of the predicate. `cores` is the number of tasks that run at the same time. `partitions` are the values and files of
    the partitions that Spark reads, or None if Spark does not list them. `native` says whether Spark's own Parquet or
    ORC reader reads the files. `split_bytes` is the size of the largest splits of Spark's own scan, which determines
    the order of the rows. `split_bytes` is 0 if the query sees no order, and None if the query sees an order that sizes
    do not determine.
    """

    base: Table
    indexes: tuple[Index, ...]
    settings: Mapping[str, str] = field(repr=False)  # secrets of stores may be among them
    predicate: Predicate
    cores: int
    engine: Engine = field(default_factory=NoEngine)
    partitions: tuple[tuple[Values, tuple[FileStatus, ...]], ...] | None = None
    native: bool = False
    split_bytes: int | None = 0

    def without_scan(self) -> ResolvedTable:
        """Return a copy to be kept after planning.

        The copy has no references to the scan and the listing of its files.
        """
        return replace(self, partitions=None, engine=NoEngine())

    @property
    def narrows(self) -> bool:
        """Whether Spark's own reader accepts a choice of files and blocks to read."""
        return self.native and self.partitions is not None
