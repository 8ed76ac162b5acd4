"""Have Spark compute the expressions of a build: keys, and values to aggregate.

Keys and values to aggregate have separate jobs. A job reads the columns of its expressions from the base files, as a
build reads keys: physical rows, in the order of the file, and only values that Spark reads in the same way. Spark
evaluates the expressions over these rows, under the settings that the indexes record. Tasks write the results to
scratch files, one for each base file. There is no shuffle, so the rows keep their order. If a key fails for a row, the
file of this row stays unindexed; if an aggregated expression fails, its aggregates are NULL for the file. Fingerprints
are taken before Spark starts to read, so that a change of a file during the read is detected.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.formats.key_values import arrow_type
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.indexing.computed_keys import COMPUTED, LIST, MEASURED_LIST
from hive_bitmap.core.indexing.staged_values import ReadOptions, write_list
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import BuildFailed, FileChanged, Undecodable, Unsupported
from hive_bitmap.spark.building.build_job import WorkerDied
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.metastore import jvm_reader
from hive_bitmap.spark.tasks import worker_python
from hive_bitmap.spark.tasks.distribution import distribute, failure, is_worker_death, received, with_store_settings
from hive_bitmap.spark.versions import feature_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, REASON = "hive_bitmap file", "hive_bitmap reason"
FAILS = " fails"  # what `KeyExpressions.java` adds to the name of a key
PARTS = "path string, part string, reason string, failed array<string>, seconds double"
MOST_ROWS = 1 << 16  # rows that are sent to Spark at a time
_NAMES = pa.list_(pa.string())


def compute(
    spark: SparkSession,
    base: Table,
    files: Collection[str],
    definitions: Sequence[Definition],
    options: ReadOptions,
    folder: str,
) -> None:
    """Compute the expressions of indexes for base files, and write the values into `folder`.

    `files` are the paths of the files. Keys are computed first, then values to aggregate, in a separate job: if a
    column of a file cannot be read, no expression of the same job has values for this file. Raise BuildFailed, or
    WorkerDied if a Python worker ended. Raise Unsupported if this session cannot compute the expressions as they were
    defined.
    """
    prints = fingerprint.take_all(sorted(files))
    write_values = partial(_write_values, spark, base, prints, options, folder)
    if keys := {e.name: e for definition in definitions for e in definition.expressions}:
        write_values(list(keys.values()), LIST, [e.description for e in keys.values()])
    aggregated = {e.values_name: e for definition in definitions for e in definition.aggregated_expressions}
    if aggregated:
        version = feature_version(spark)
        current = [e for e in aggregated.values() if e.spark == version and set(e.columns) <= set(base.columns)]
        write_values(current, MEASURED_LIST, [e.values_description for e in current])


def _write_values(
    spark: SparkSession,
    base: Table,
    prints: Mapping[str, Fingerprint],
    options: ReadOptions,
    folder: str,
    expressions: Sequence[KeyExpression],
    list_name: str,
    described: Sequence[Mapping[str, Any]],
) -> None:
    """Compute expressions over base files; write the values, and a list of the files.

    `prints` are the fingerprints of the files, by path. `described` are the expressions in the form that
    `KeyExpressions.java` takes. Without expressions, the list says that the values of the files are unknown. Raise the
    errors of `compute`.
    """
    if not expressions:
        nothing = {"part": "", "reason": "its columns have changed", "failed": [], "seconds": 0.0}
        write_list(f"{folder}/{list_name}", COMPUTED, [(taken, nothing) for taken in prints.values()])
        return
    sources = list(dict.fromkeys(column for expression in expressions for column in expression.columns))
    try:
        values = _evaluated(spark, list(prints), sources, described, options)
        task = with_store_settings(spark, write, names=[each["name"] for each in described], folder=folder)
        rows = worker_python.map_in_arrow(values, task, PARTS).collect() if prints else []
    except Unsupported:
        raise
    except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
        failed = WorkerDied if is_worker_death(e) else BuildFailed
        raise failed(f"Spark cannot compute expressions of table {base.full_name}: {failure(spark, e)}") from e
    of_path = {row["path"]: row.asDict() for row in rows}
    write_list(f"{folder}/{list_name}", COMPUTED, [(f, of_path[f.path]) for f in prints.values() if f.path in of_path])


def _evaluated(
    spark: SparkSession,
    paths: Sequence[str],
    sources: Sequence[Column],
    described: Sequence[Mapping[str, Any]],
    options: ReadOptions,
) -> DataFrame:
    """Return the rows of base files, with the values of expressions.

    Raise Unsupported on a Spark Connect client, and if Spark cannot compute an expression as it was defined.
    """
    from pyspark.sql import DataFrame

    if not jvm_reader.available(spark):
        raise Unsupported("a Spark Connect client cannot compute expressions of an index: use a classic session")
    # TIMESTAMP is another type in sessions that set spark.sql.timestampType
    types = {column.name: "timestamp_ltz" if column.type == "timestamp" else column.type for column in sources}
    fields = [f"{quote(FILE)} string", f"{quote(REASON)} string", *(f"{quote(n)} {type}" for n, type in types.items())]
    task = with_store_settings(spark, read, columns=list(sources), options=options)
    rows = worker_python.map_in_arrow(distribute(spark, paths), task, ", ".join(fields))
    try:
        frame = bridge(spark).withKeys(spark._jsparkSession, cast(Any, rows)._jdf, json.dumps(described))
    except Exception as e:
        raise Unsupported(java_message(e)) from e
    return DataFrame(frame, spark)


def java_message(error: Exception) -> str:
    """Return the message of a Java exception that py4j raised; raise any other error."""
    java = getattr(error, "java_exception", None)
    if java is None:
        raise error
    return str(java.getMessage())


def read(
    batches: Iterable[pa.RecordBatch], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Inside a task: yield columns of each file, then an end row.

    An end row has a text in the column REASON: why the columns could not be read, or "" if they were read.
    """
    schema = pa.schema(
        [(FILE, pa.string()), (REASON, pa.string()), *((c.name, arrow_type(c)) for c in options.key_columns(columns))]
    )
    for path in received(batches):
        reason = ""
        try:
            for rows in _rows(path, columns, options):
                arrays = [_plain(rows[field.name], field.type) for field in list(schema)[2:]]
                table = pa.Table.from_arrays(
                    [pa.repeat(path, len(rows)), pa.nulls(len(rows), pa.string()), *arrays], schema=schema
                )
                yield from table.combine_chunks().to_batches(MOST_ROWS)
        except FileNotFoundError:
            reason = "it is gone"
        except (Undecodable, FileChanged, pa.ArrowException) as e:
            reason = str(e)
        end = [pa.array([path]), pa.array([reason]), *(pa.nulls(1, field.type) for field in list(schema)[2:])]
        yield pa.RecordBatch.from_arrays(end, schema=schema)


def _plain(values: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """Return values that are not dictionary-encoded."""
    return values if values.type == type else pc.cast(values, type)


def _rows(path: str, columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.Table]:
    format = options.file_format()
    handle = format.open_file(path)
    format.rehearse(handle, options.key_columns(options.schema))
    for block, rows in enumerate(format.blocks(handle).rows.tolist()):
        if rows:
            yield format.key_columns(handle, block, options.key_columns(columns))


def write(batches: Iterable[pa.RecordBatch], names: Sequence[str], folder: str) -> Iterator[pa.RecordBatch]:
    """Inside a task: write the values of each file to a scratch file.

    Yield a row for each base file: its path; the name of its scratch file, "" if no values were written; why its
    columns could not be read, "" if they were read; the names of the expressions that fail for at least one row; and
    the seconds since the previous file.
    """
    texts = [(name, pa.string()) for name in ("path", "part", "reason")]
    schema = pa.schema([*texts, ("failed", _NAMES), ("seconds", pa.float64())])
    started = time.perf_counter()
    for path, runs in groupby(_runs(batches), key=lambda run: run[0]):
        part, reason, failed = _write_file((rows for _, rows in runs), names, folder)
        seconds, started = time.perf_counter() - started, time.perf_counter()
        row = {"path": path, "part": part, "reason": reason, "failed": failed, "seconds": seconds}
        yield pa.RecordBatch.from_pylist([row], schema)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut batches where the rows of another file begin.

    Yield each part with the path of its file.
    """
    for batch in batches:
        start, runs = 0, pc.run_end_encode(batch.column(FILE))
        for end, path in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            yield path, batch.slice(start, end - start)
            start = end


def _write_file(runs: Iterable[pa.RecordBatch], names: Sequence[str], folder: str) -> tuple[str, str, list[str]]:
    part, reason, failed = f"{uuid4().hex}.parquet", "", set[str]()
    writer: pq.ParquetWriter | None = None
    with ExitStack() as stack:
        for run in runs:
            ends = run.column(REASON)
            reason = "".join(filter(None, (reason, *ends.drop_null().to_pylist())))
            rows = run.filter(pc.is_null(ends))
            failed |= {name for name in names if pc.any(rows.column(f"{name}{FAILS}")).as_py()}
            values = rows.select(list(names))
            if values.num_rows and writer is None:
                sink = stack.enter_context(stores.open_output(f"{folder}/{part}", private=True))
                writer = stack.enter_context(pq.ParquetWriter(sink, values.schema, compression="lz4"))
            if values.num_rows and writer is not None:
                writer.write_batch(values)
    return part if writer is not None else "", reason, sorted(failed)
