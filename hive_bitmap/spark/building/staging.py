"""Have Spark read base files that only Spark can read.

Spark writes their key columns to scratch files, which tasks read. Each split of a file becomes one scratch file, so
the scratch files have the rows in the order of the file if they are read in the order of the splits. Fingerprints are
taken before Spark starts to read, so that a change of a file during the read is detected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.index import deletion, fingerprint, generation, generation_names, markers, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.segment_change import Change
from hive_bitmap.core.indexing.staged_values import LIST, STAGED, ReadOptions, write_list
from hive_bitmap.core.listings.file_listing import format_of, why_unsupported
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import Table, Values, quote, string_expression
from hive_bitmap.errors import BuildFailed, Unsupported
from hive_bitmap.spark.building.computing import compute
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.metastore.metastore import is_cached
from hive_bitmap.spark.metastore.session_settings import settings
from hive_bitmap.spark.registry import locations
from hive_bitmap.spark.tasks import worker_python
from hive_bitmap.spark.tasks.distribution import failure, with_store_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, START = "hive_bitmap file", "hive_bitmap start"
PARTS = "path string, start bigint, part string"
MOST_NAMED = 1000  # most partitions in a WHERE; for more partitions Spark reads the whole table


def for_build(
    spark: SparkSession, base: Table, busy: Sequence[Change], fatal: Collection[str] = ()
) -> AbstractContextManager[str]:
    """Stage the files of a build; return the context manager of `staged`.

    `busy` are the new segments of the build; the values are staged in the first segment. Files in `fatal` are not read.
    """
    files: dict[Values, dict[str, FileStatus]] = defaultdict(dict)
    for change in busy:
        for file in change.read:
            if file.status.path in fatal:
                continue
            files[file.values][file.status.path] = file.status
    to_stage = [Source(values, "", tuple(by_path.values())) for values, by_path in files.items() if by_path]
    folder = busy[0].folder if busy else ""
    return staged(spark, base, to_stage, [change.definition for change in busy], folder)


@contextmanager
def in_scratch(
    spark: SparkSession, base: Table, sources: Sequence[Source], definitions: Sequence[Definition]
) -> Iterator[str]:
    """Stage files as `staged` does, in a new generation that is deleted afterwards.

    The generation lies in the root of the first index. If this index has no root yet, it lies where the root would be.
    """
    if not _is_needed(base, sources, definitions):
        yield ""
        return
    is_new, this_metastore = (
        not definitions[0].root or locations.any_elsewhere(spark, definitions[:1]),
        metastore_id(spark),
    )
    first = locations.with_root(spark, definitions[0], None) if is_new else roots.identified(definitions[0])
    if is_new:
        locations.require_apart_from(base, [first], [source.folder for source in sources])
    else:
        locations.require_own(spark, base, first)
    folder, in_work = f"{first.root}/{generation_names.new_name()}", []
    try:
        try:
            roots.claim(first, this_metastore)
            in_work = [first.root, folder]
            [access] = generation.accesses([(base.location, first.root)])
            generation.start(folder, access, first)
        except OSError as e:
            raise _no_place(base, e) from e
        with staged(spark, base, sources, [first, *definitions[1:]], folder) as staging_folder:
            yield staging_folder
    finally:
        markers.end_work(in_work)
        deletion.delete([folder], first, this_metastore)
        if is_new:
            deletion.remove_root(first, this_metastore)


@contextmanager
def staged(
    spark: SparkSession, base: Table, sources: Sequence[Source], definitions: Iterable[Definition], folder: str
) -> Iterator[str]:
    """Have Spark read what tasks cannot read, and compute expressions.

    Yield the folder with the values, or "" if tasks read all that they need themselves. The yielded folder lies in
    `folder`, a generation that has been started, and is deleted at the end of the block. Raise BuildFailed if Spark
    cannot read the table, and Unsupported if this session might read other files than the listed files.
    """
    definitions = list(definitions)
    if not _is_needed(base, sources, definitions):
        yield ""
        return
    is_read = format_of(base) in LAYOUTS
    why = "the table is cached" if is_cached(spark, base.spark_name) else why_unsupported(settings(spark), base)
    if is_read and why:
        raise Unsupported(f"table {base.full_name} has to be read through this session, but {why}")
    inner = f"{folder}/{deletion.STAGING}"
    try:
        stores.make_new_folder(inner)
    except FileExistsError as e:
        raise BuildFailed(f"nothing was built: {e}") from e
    except OSError as e:
        raise _no_place(base, e) from e
    try:
        names = dict.fromkeys(column.name for definition in definitions for column in definition.read_columns(base))
        if is_read:
            _stage(spark, base, sources, list(names), inner)
        if computed := [definition for definition in definitions if _has_expressions(definition)]:
            options = ReadOptions(format_of(base), base.columns, metastore.time_zone(spark), inner if is_read else "")
            compute(spark, base, {file.path for source in sources for file in source.files}, computed, options, inner)
        yield inner
    finally:
        deletion.delete_staging(inner, parent(folder))


def _is_needed(base: Table, sources: Sequence[Source], definitions: Sequence[Definition]) -> bool:
    """Return whether the files have values that tasks cannot read themselves."""
    if not any(source.files for source in sources):
        return False
    return format_of(base) in LAYOUTS or any(map(_has_expressions, definitions))


def _has_expressions(definition: Definition) -> bool:
    return bool(definition.expressions or definition.aggregated_expressions)


def _no_place(base: Table, error: OSError) -> Unsupported:
    return Unsupported(f"reading {base.full_name} through Spark needs a scratch folder, but {error}")


def _stage(spark: SparkSession, base: Table, sources: Sequence[Source], columns: Sequence[str], folder: str) -> None:
    files = [file.path for source in sources for file in source.files]
    prints = fingerprint.take_all(files)
    try:
        task = with_store_settings(spark, write, folder=folder)
        rows = worker_python.map_in_arrow(_values(spark, base, sources, columns), task, PARTS).collect()
    except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
        raise BuildFailed(f"Spark cannot read table {base.full_name}: {failure(spark, e)}") from e
    parts: dict[str, dict[int, str]] = {path: {} for path in prints}
    for path, start, part in rows:
        if path in parts:
            parts[path][start] = part  # partitions that share a folder give the same split more than once
    of_path = {path: {"parts": [starts[start] for start in sorted(starts)]} for path, starts in parts.items()}
    write_list(f"{folder}/{LIST}", STAGED, [(taken, of_path[path]) for path, taken in prints.items()])


def _values(spark: SparkSession, base: Table, sources: Sequence[Source], columns: Sequence[str]) -> DataFrame:
    """Return columns of at least the partitions in `sources`.

    Each row also has its file and the start of its split. If there are more than MOST_NAMED partitions in `sources`,
    the result has the rows of all partitions.
    """
    from pyspark.sql import functions as f

    frame = spark.table(base.spark_name)
    if base.partition_columns and len(sources) <= MOST_NAMED:
        frame = frame.where(" OR ".join(condition_on(base, source) for source in sources))
    return frame.select(
        *(f.col(quote(name)) for name in columns),
        f.input_file_name().alias(FILE),
        f.input_file_block_start().alias(START),
    )


def condition_on(base: Table, source: Source) -> str:
    """Return an SQL condition that is true for the rows of the partition `source`.

    Values are compared in the types of their columns, so the condition is also true for other partitions whose values
    are equal but written differently.
    """
    pairs = zip(base.partition_columns, source.values, strict=True)
    equal = (
        f"{quote(column.name)} <=> try_cast({'NULL' if value is None else string_expression(value)} AS {column.type})"
        for column, value in pairs
    )
    return f"({' AND '.join(equal)})"


def write(batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Inside a task: write each split's rows to a scratch file in `folder`.

    Yield for each scratch file its base file, the start of its split, and its name.
    """
    rows = (split for batch in batches for split in splits(batch))
    for (path, start), same_split in groupby(rows, key=lambda split: split[0]):
        name = f"{uuid4().hex}.parquet"
        first = next(same_split)[1]
        with (
            stores.open_output(f"{folder}/{name}", private=True) as sink,
            pq.ParquetWriter(sink, first.schema, compression="lz4") as writer,
        ):
            for batch in chain([first], (values for _, values in same_split)):
                writer.write_batch(batch)
        yield pa.record_batch([pa.array([path]), pa.array([start]), pa.array([name])], ["path", "start", "part"])


def splits(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Cut a batch by splits.

    For each split, yield (file, start of the split), and the rows without these two columns.
    """
    columns = [batch.column(name) for name in (FILE, START)]
    changed = np.zeros(batch.num_rows, bool)
    for column in columns:
        codes = column.dictionary_encode().indices.to_numpy()
        changed |= np.diff(codes, prepend=-1) != 0
    starts = [*np.flatnonzero(changed).tolist(), batch.num_rows]
    values = batch.drop_columns([FILE, START])
    for first, end in pairwise(starts):
        yield (columns[0][first].as_py(), columns[1][first].as_py()), values.slice(first, end - first)
