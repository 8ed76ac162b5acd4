"""What a caller asks of a table, and how Spark by itself would answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.index.catalog import Index
from hive_bitmap.metastore import metastore, table_info
from hive_bitmap.metastore.table_info import Table, Values, quote
from hive_bitmap.predicates.nodes import Predicate, SparkLeaf
from hive_bitmap.predicates.spark_conditions import require_characters, satisfying
from hive_bitmap.stores import FileStatus

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Request:
    """What a caller asked for: rows of a table, or, with `count`, how many there are."""

    table: str
    predicate: str | None  # Spark SQL; None: all rows
    columns: tuple[str, ...] | None = None  # to fetch; None: all
    count: bool = False
    strategy: str | None = None  # that the caller chose, one of STRATEGIES; None: the cheapest
    must_pay: bool = False  # look nothing up where even the best outcome is no quicker than Spark alone
    keys: tuple[str, ...] = ()  # columns by which rows are counted
    grouping_sets: tuple[tuple[str, ...], ...] = ()  # sets of columns, by each of which rows are counted


Evaluate = Callable[[SparkLeaf, Column, pa.Array], pa.Array | None]


@dataclass(frozen=True)
class ResolvedTable:
    """The table of a request: its indexes, the settings of the session, the predicate as a tree.

    `evaluate` gives those keys of a column of which a leaf is TRUE, None if that cannot be told; `cores` is how many
    tasks run at once. Where Spark's optimizer asks (`planned`), it is a scan of a plan, of which Spark tells more:
    `partitions` are the values and files of those that it reads, None where it does not say, and `native` whether its
    reader can be told blocks.
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


def analysed(spark: SparkSession, request: Request) -> DataFrame:
    """The request as Spark itself would answer it; raises NotFound and InvalidPredicate in Spark's words."""
    from pyspark.errors import AnalysisException, ParseException

    metastore.table_name(request.table)  # what is none is told before Java gets it
    try:
        frame = spark.table(request.table)
        if request.predicate is not None:
            frame = satisfying(frame, request.predicate)
        if request.columns is not None:
            frame = frame.select(*map(quote, request.columns))
        frame.schema  # noqa: B018 - Spark Connect analyses when it is asked for the schema
        return frame
    except AnalysisException as e:
        if isinstance(e, ParseException):
            require_sql(spark, request)  # it tells the place without the brackets
        raise _refused(request, e) from e


def require_sql(spark: SparkSession, request: Request) -> None:
    """Raise InvalidPredicate, in Spark's words, for a predicate that it refuses as it is written."""
    from pyspark.errors import AnalysisException

    require_characters(str(request.predicate))
    try:
        spark.table(request.table).where(str(request.predicate)).schema  # noqa: B018 - as above
    except AnalysisException as e:
        raise _refused(request, e) from e


def _refused(request: Request, error: AnalysisException) -> InvalidPredicate:
    said = table_info.refusal(error)
    return InvalidPredicate(f"Spark refuses {request.predicate!r} on table {request.table}: {said}")
