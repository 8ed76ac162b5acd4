"""A Spark data source: `CREATE TEMPORARY VIEW v USING hive_bitmap OPTIONS (table 'db.t', predicate '..')`.

The predicate is an option of the view, and `pushFilters` is not overridden: Spark 4.1 to 4.3 keeps what was pushed down
for one scan and uses it in other scans of the same view. Tasks filter the rows that they read by the predicate again,
with Arrow, so predicates that only Spark can evaluate are refused. As with a view over a path, the files are those that
existed when the view was first read; reading fails if any was added, removed or changed since.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hive_bitmap import stores
from hive_bitmap.errors import FileChanged, InvalidProperty, Unsupported
from hive_bitmap.metastore.file_listing import base_files, is_visible
from hive_bitmap.planning.planner import DIRECT_STRATEGY
from hive_bitmap.planning.prepare import prepare
from hive_bitmap.planning.request import Request, analysed
from hive_bitmap.predicates.matching import matches
from hive_bitmap.predicates.nodes import TRUE, And, Constant, Or, Predicate, SparkLeaf, Unknown, leaves_of
from hive_bitmap.reading.read_task import read_task
from hive_bitmap.reading.scan import tasks_of
from hive_bitmap.selecting.lookup_units import Flags
from hive_bitmap.sql import driver_link
from hive_bitmap.stores import FileStatus
from hive_bitmap.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "hive_bitmap"
OPTIONS = ("table", "predicate")


@dataclass(frozen=True)
class Piece(InputPartition):
    """The work of a task: run a pickled ReadTask, or, if `task` is None, check that the table's files are unchanged.

    The check requires that `folders` contain exactly `files`, and that `below` are all folders `depth` levels below
    `home`, the table's own folder.
    """

    task: bytes | None
    tree: Predicate = TRUE
    folders: tuple[str, ...] = ()
    files: frozenset[FileStatus] = frozenset()
    home: str = ""
    depth: int = 0
    below: frozenset[str] = frozenset()


def register(spark: SparkSession) -> None:
    """Register the data source: `USING hive_bitmap OPTIONS (table, predicate)` in SQL text of this session.

    Plans are made in this process, which has to run for as long as the views are used.
    """
    address, secret = driver_link.serve(lambda *question: _answer(spark, *question))
    spark.dataSource.register(type("Registered", (BitmapSource,), {"address": address, "secret": secret}))


class BitmapSource(DataSource):
    """The rows of a table of which a predicate is TRUE, read through its indexes."""

    address: driver_link.Address
    secret: bytes

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType.fromJson(driver_link.ask(self.address, self.secret, "schema", *self._wanted()))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BitmapReader(schema, self.address, self.secret, *self._wanted())

    def _wanted(self) -> tuple[str, str]:
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown or not all(self.options.get(name) for name in OPTIONS):
            raise InvalidProperty(f"USING {NAME} takes the options table and predicate; got {', '.join(self.options)}")
        return self.options["table"], self.options["predicate"]


class BitmapReader(DataSourceReader):
    """Reads the pieces that the driver planned."""

    def __init__(
        self, schema: StructType, address: driver_link.Address, secret: bytes, table: str, predicate: str
    ) -> None:
        self.schema, self.address, self.secret = schema, address, secret
        self.table, self.predicate = table, predicate

    def partitions(self) -> Sequence[InputPartition]:
        return list(driver_link.ask(self.address, self.secret, "pieces", self.table, self.predicate))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        if partition.task is None:
            _require_same_files(self.table, partition)
            return
        schema = arrow_schema(self.schema)
        for batch in read_task(pickle.loads(partition.task)):
            matching = batch.filter(pa.array(_true(partition.tree, batch)))
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(matching.columns, schema, strict=True)],
                schema=schema,
            )


def _answer(spark: SparkSession, wanted: str, table: str, predicate: str) -> Any:
    """Return the table's schema if `wanted` is "schema", else the pieces to read."""
    request = Request(table, predicate)
    schema = analysed(spark, request).schema
    return schema.jsonValue() if wanted == "schema" else _pieces(spark, request)


def _pieces(spark: SparkSession, request: Request) -> list[Piece]:
    prepared = prepare(spark, request)
    reading, hint = prepared.reading, f"use SELECT .. FROM {request.table} WHERE {request.predicate}"
    if reading is None:
        raise Unsupported(f"{request.table} cannot be read through its indexes ({prepared.plan.reason}): {hint}")
    if DIRECT_STRATEGY.get(reading.format) not in prepared.plan.costs:
        raise Unsupported(f"only Spark's own reader can read files of {request.table} ({prepared.plan.reason}): {hint}")
    base = reading.resolved.base
    tree = reading.resolved.predicate
    if any(isinstance(leaf, (Unknown, SparkLeaf)) for leaf in leaves_of(tree)):
        raise Unsupported(f"only Spark can evaluate {request.predicate!r}: {hint}")
    files = frozenset(file for partition in reading.results.partitions for file in partition.files)
    folders, depth = {file.path.rpartition("/")[0] for file in files}, len(base.partition_columns)
    folders |= set() if depth else {base.location}
    checks = Piece(
        None, TRUE, tuple(sorted(folders)), files, base.location, depth, frozenset(_below(base.location, depth))
    )
    return [checks, *(Piece(pickle.dumps(task), tree) for task in tasks_of(spark, reading))]


def _require_same_files(table: str, piece: Piece) -> None:
    now = {file for folder in piece.folders for file in base_files(folder)}
    if now != piece.files or _below(piece.home, piece.depth) != piece.below:
        raise FileChanged(f"files of {table} changed since the view was first read: CREATE OR REPLACE the view")


def _below(folder: str, depth: int) -> set[str]:
    """Return the visible folders `depth` levels below a folder, where Hive and Spark put partitions by default."""
    if not depth or not stores.exists(folder):
        return {folder}
    names = [name for name in stores.listing(folder).folders if is_visible(name)]
    return set().union(*(_below(f"{folder}/{name}", depth - 1) for name in names))


def _true(node: Predicate, rows: pa.RecordBatch) -> Flags:
    """Return a flag for each row: whether the predicate is TRUE of it."""
    match node:
        case Constant(value):
            return np.full(rows.num_rows, value is True)
        case And(children):
            return reduce(np.logical_and, (_true(child, rows) for child in children))
        case Or(children):
            return reduce(np.logical_or, (_true(child, rows) for child in children))
        case Unknown() | SparkLeaf():
            raise TypeError(f"only Spark can evaluate {node.text}")
    return matches(node, rows.column(node.column))
