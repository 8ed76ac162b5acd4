"""Define a request for rows, or for the number of rows.

`ResolvedTable` is the table of a request with its indexes. `PlannedRequest` has the indexes that were chosen for a
request. `Engine` has the questions that a lookup asks Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.answering.group_summaries import GroupSummary
from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.index.aggregate_columns import Measure
from hive_bitmap.core.listings import file_listing, serde
from hive_bitmap.core.nested_types import NestedType, read_types
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.index_choice import IndexChoice, choose, choose_cube, choose_for_sums
from hive_bitmap.core.planning.learnt_prices import FROZEN, PRICES, Factors
from hive_bitmap.core.planning.prices import share_of_bytes
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.predicates.nodes import (
    TRUE,
    Implied,
    IsNull,
    Predicate,
    SparkLeaf,
    Unknown,
    columns_of,
    leaves_of,
)
from hive_bitmap.core.selecting.first_rows import FirstRows
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, DeletedRows
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.registry.catalog import Index

UNKNOWN_TEST = 3  # a test that no index covers is assumed to keep one of so many rows


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for rows of a table, or for their number (`count`)."""

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

    `conf` has all settings of the session. `predicate` is the condition of the scan, and `engine` evaluates leaves of
    the predicate. `cores` is the number of tasks that run at the same time. `partitions` are the values and files of
    the partitions that Spark reads, or None if Spark does not list them. `native` says whether Spark's own Parquet or
    ORC reader reads the files. `split_bytes` is the size of the largest splits of Spark's own scan, which determines
    the order of the rows. `split_bytes` is 0 if the query sees no order, and None if the query sees an order that sizes
    do not determine.
    """

    base: Table
    indexes: tuple[Index, ...]
    conf: Mapping[str, str] = field(repr=False)  # secrets of stores may be among them
    cores: int
    predicate: Predicate = TRUE
    engine: Engine = field(default_factory=NoEngine)
    partitions: tuple[tuple[Values, tuple[FileStatus, ...]], ...] | None = None
    native: bool = False
    split_bytes: int | None = 0

    @cached_property
    def settings(self) -> Settings:
        """The settings of hive_bitmap in `conf`.

        Raises InvalidProperty for an invalid value.
        """
        return settings.read(self.conf)

    def without_scan(self) -> ResolvedTable:
        """Return a copy to be kept after planning.

        The copy has no references to the scan and the listing of its files.
        """
        return replace(self, partitions=None, engine=NoEngine())

    @property
    def narrows(self) -> bool:
        """Whether Spark's own reader accepts a choice of files and blocks to read."""
        return self.native and self.partitions is not None


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """A request with its table, settings and chosen indexes.

    No file has been looked at yet.
    """

    request: Request
    resolved: ResolvedTable
    format: str  # a key of FORMATS
    choice: IndexChoice

    @classmethod
    def of(cls, request: Request, resolved: ResolvedTable) -> PlannedRequest:
        """Combine a request with its table and indexes.

        Raises Unsupported for a format that has no indexes.
        """
        format = file_listing.format_of(resolved.base)
        return cls(request=request, resolved=resolved, format=format, choice=_choice(request, resolved))

    @property
    def settings(self) -> Settings:
        """The settings of hive_bitmap in the session."""
        return self.resolved.settings

    @cached_property
    def key_sets(self) -> list[list[str]]:
        """The grouping columns of each count, in lower case, without partition columns.

        The list is empty if the request reads rows.
        """
        request = self.request
        sets = (request.grouping_sets or (request.keys,)) if request.count else ()
        return [self.resolved.base.data_keys(keys) or ([ANY_KEY] if request.measures else []) for keys in sets]

    @property
    def mergeable(self) -> frozenset[str]:
        """The grouping columns, in lower case, whose keys may be counted by merging shards.

        Each of these columns is a grouping set of its own, and its groups are not all needed (`Request.mergeable`).
        There are none if sums are added up block by block, because several indexes serve the request.
        """
        is_by_block = self.request.measures and len({index.name for index in self.choice.by_column.values()}) > 1
        return frozenset() if is_by_block else self.request.mergeable

    @cached_property
    def needed(self) -> tuple[Column, ...]:
        """The columns that the request needs, in table order.

        If the request needs no data column, the result has one data column anyway.
        """
        base = self.resolved.base
        schema = (*base.columns, *base.partition_columns)
        computed = {e.name: [column.name for column in e.columns] for e in base.computed}
        keys = [name for key in self.request.keys for name in computed.get(key, [key])]
        aggregated = [name for measure in self.request.measures for name in measure.columns]
        names = (*keys, *aggregated) if self.request.count else self.request.columns
        requested = [find(schema, name, f"table {base.full_name}") for name in names]
        chosen = tuple(column for column in schema if column in requested)
        return chosen if any(c in base.columns for c in chosen) else (base.columns[0], *chosen)

    @cached_property
    def nested(self) -> dict[str, NestedType]:
        """The types of the nested columns that tasks may read, by lower-case name."""
        return read_types({name: json.loads(text) for name, text in self.request.nested.items()})

    @cached_property
    def share(self) -> float:
        """The rough share of the files' bytes that the needed columns take."""
        base = self.resolved.base
        columns = (*base.columns, *base.partition_columns)
        return 1.0 if serde.read_properties(base) else share_of_bytes(self.needed, columns)

    @cached_property
    def factors(self) -> Factors:
        """The learnt factors of prices, unless the session has frozen them."""
        return PRICES.factors(self.resolved.base.location, self.format) if self.settings.learn_prices else FROZEN

    @cached_property
    def limit(self) -> int | None:
        """The estimated number of selected rows after which Spark stops reading.

        The indexes select these rows. Spark rejects some of them by tests that no index covers, so the result is larger
        than the LIMIT of the query: each such test is assumed to keep a third of the rows. The result is None if Spark
        reads all rows.
        """
        if self.request.limit is None:
            return None
        covered = {*self.choice.by_column, *(column.name.lower() for column in self.resolved.base.partition_columns)}
        tests = [leaf for leaf in leaves_of(self.resolved.predicate) if not isinstance(leaf, IsNull)]
        uncovered = sum(not {column.lower() for column in columns_of(leaf)} <= covered for leaf in tests)
        uncovered += sum(isinstance(leaf, (Unknown, Implied)) for leaf in tests)
        return self.request.limit * UNKNOWN_TEST**uncovered


def _choice(request: Request, resolved: ResolvedTable) -> IndexChoice:
    """Choose the indexes that serve a request."""
    base, keys = resolved.base, resolved.base.data_keys(request.keys)
    indexes = [(index.definition, index.why_not) for index in resolved.indexes]
    partitioned_by = {column.name.lower() for column in base.partition_columns}
    if request.measures:
        choice = choose_for_sums(
            indexes, resolved.predicate, keys, request.measures, base.columns, partitioned_by=partitioned_by
        )
    elif request.count and (cube := choose_cube(indexes, resolved.predicate, keys, partitioned_by)) is not None:
        choice = cube
    else:
        has_condition = request.predicate is not None
        choice = choose(indexes, resolved.predicate, keys=keys, count=request.count, has_condition=has_condition)
    return choice.noting(
        {index.definition.name: index.unusable_key for index in resolved.indexes if index.unusable_key}
    )
