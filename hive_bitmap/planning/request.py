"""A request for the rows of a table, its resolved table, and how Spark alone would answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.columns import Column, find
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.index.catalog import Index
from hive_bitmap.metastore import metastore, table_info
from hive_bitmap.metastore.table_info import Table, Values, name_parts, quote
from hive_bitmap.planning.strategy import Strategy
from hive_bitmap.predicates.nodes import Predicate, SparkLeaf
from hive_bitmap.predicates.spark_conditions import require_characters, satisfying
from hive_bitmap.stores import FileStatus

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for rows of a table, or, with `count`, for their number."""

    table: str
    predicate: str | None  # Spark SQL; None: all rows
    columns: tuple[str, ...] | None = None  # to fetch; None: all
    count: bool = False
    strategy: Strategy | None = None  # forced by the caller; None: the cheapest
    must_pay: bool = False  # skip the lookup where even its best outcome is no quicker than Spark alone
    keys: tuple[str, ...] = ()  # grouping columns of a count
    grouping_sets: tuple[tuple[str, ...], ...] = ()  # GROUPING SETS of a count: rows are counted by each of them

    @classmethod
    def of(
        cls, table: str, predicate: str | None, columns: Sequence[str] | None = None, *, strategy: str | None = None
    ) -> Request:
        """Return the request of a caller for rows, whose strategy is a name. Raises NotFound for one that is none."""
        return cls(
            table=table,
            predicate=predicate,
            columns=None if columns is None else tuple(columns),
            strategy=None if strategy is None else Strategy.named(strategy),
        )

    def counted(self, keys: Sequence[str] = ()) -> Request:
        """Return the request for the number of these rows, by the values of the keys."""
        return replace(self, count=True, keys=tuple(keys))


Evaluate = Callable[[SparkLeaf, Column, pa.Array], pa.Array | None]


@dataclass(frozen=True, kw_only=True)
class ResolvedTable:
    """The table of a request, with its indexes, the settings of the session, and the parsed predicate.

    `evaluate(leaf, column, keys)` has Spark return those keys of a column for which a leaf is TRUE, or None if it
    cannot tell; `cores` is how many tasks run at the same time. `planned` is true if the request is a scan in a plan of
    Spark's optimizer, which knows more: `partitions` are the values and files of the partitions that it reads (None if
    it does not say), and `native` tells whether its reader can be given the blocks to read.
    """

    base: Table
    indexes: tuple[Index, ...]
    settings: Mapping[str, str] = field(repr=False)  # secrets of stores may be among them
    predicate: Predicate
    evaluate: Evaluate
    cores: int
    partitions: tuple[tuple[Values, tuple[FileStatus, ...]], ...] | None = None
    native: bool = False
    planned: bool = False


def analysed(spark: SparkSession, request: Request, table: Callable[[], DataFrame] | None = None) -> DataFrame:
    """Return the DataFrame by which Spark alone answers the request; `table` gives that of its table.

    Raises NotFound and InvalidPredicate, with Spark's text.
    """
    from pyspark.errors import AnalysisException, ParseException

    name_parts(request.table)  # raises NotFound for text that is no table name, before the JVM sees it
    try:
        frame = spark.table(request.table) if table is None else table()
        if request.predicate is not None:
            frame = satisfying(frame, request.predicate)
        if request.columns is not None:
            frame = frame.select(*map(quote, request.columns))
        frame.schema  # noqa: B018 - Spark Connect analyses when it is asked for the schema
        return frame
    except AnalysisException as e:
        _require_names(spark, request)
        if isinstance(e, ParseException):
            require_sql(spark, request)  # its error has the position in the user's text, without our parentheses
        raise _refused(request, e) from e


def _require_names(spark: SparkSession, request: Request) -> None:
    """Raise NotFound if the table, or a column to fetch, does not exist."""
    base = metastore.describe(spark, request.table)
    for name in request.columns or ():
        find((*base.columns, *base.partition_columns), name, f"table {base.full_name}")


def require_sql(spark: SparkSession, request: Request) -> None:
    """Raise InvalidPredicate, with Spark's text, if Spark refuses the predicate as written."""
    from pyspark.errors import AnalysisException

    require_characters(str(request.predicate))
    try:
        spark.table(request.table).where(str(request.predicate)).schema  # noqa: B018 - as above
    except AnalysisException as e:
        raise _refused(request, e) from e


def _refused(request: Request, error: AnalysisException) -> InvalidPredicate:
    said = table_info.error_message(error)
    return InvalidPredicate(f"Spark refuses {request.predicate!r} on table {request.table}: {said}")
