"""Building: base files are grouped, tasks write a shard a group and index, the driver writes manifests and publishes.

Nothing is shuffled and nothing that grows with the rows comes to the driver. A generation is published when all of it
is there; whatever happens before leaves the published one untouched.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.errors import BuildFailed, NotFound
from hive_bitmap.formats import storage
from hive_bitmap.formats.storage import FileStatus
from hive_bitmap.index import catalog, generation, manifest, metastore
from hive_bitmap.index.catalog import Values
from hive_bitmap.index.definition import Definition, define, schema_crc
from hive_bitmap.index.group import Group, ShardReport, index_group
from hive_bitmap.index.listing import base_files, format_of
from hive_bitmap.index.manifest import SHARDS
from hive_bitmap.index.metastore import Table
from hive_bitmap.index.progress import Done, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
GROUP_BYTES = 512 << 20  # base files of one shard: bounds a task's memory and a lookup's number of shards
SMALL_GROUP_BYTES = 8 << 20  # no group is made smaller than this for the sake of parallel tasks
TASKS_PER_CORE = 2


@dataclass(frozen=True)
class BuildReport:
    """What one index got: sizes in bytes, rows of the index table, and the base files left out, with reasons."""

    definition: Definition
    base_files: int
    base_bytes: int
    base_rows: int
    shards: int
    index_rows: int
    index_bytes: int
    seconds: float
    unindexed: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """The base files of one partition as they were listed."""

    values: Values
    folder: str
    files: tuple[FileStatus, ...]


def build(
    spark: SparkSession,
    table: str,
    columns: Sequence[str | Sequence[str]],
    *,
    name: str | None = None,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    index_table: str | None = None,
    location: str | None = None,
    comment: str = "",
    deferred: bool = False,
    progress: Callable[[Done], None] | None = None,
) -> list[BuildReport]:
    """Create indexes on a table and build them in one pass, one index for each item of `columns`.

    An item is a column, or several columns for one composite key. `name`, `index_table` and `location` need a single
    item. With `deferred` the indexes are registered but cover nothing until they are rebuilt. Raises NotFound,
    AlreadyExists, Unsupported or InvalidProperty before anything is written, and BuildFailed if the job fails.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    format_of(base)
    items = [[item] if isinstance(item, str) else list(item) for item in columns]
    definitions = []
    for item in items:
        definition = define(
            base,
            item,
            name=name,
            type=type,
            encoding=encoding,
            compression=compression,
            index_table=index_table,
            comment=comment,
        )
        catalog.require_free(spark, base, indexes, definition)
        definitions.append(catalog.place(spark, definition, location))
    catalog.require_distinct(definitions)
    return _run(spark, base, definitions, None, deferred, progress)


def rebuild(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partition: Mapping[str, str | None] | None = None,
    progress: Callable[[Done], None] | None = None,
) -> list[BuildReport]:
    """Build existing indexes of a table anew, in one pass: all of them, or those named.

    `partition` names every partition column with its value and limits the work to that partition.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    wanted = [catalog.named(base, indexes, name) for name in names] if names else indexes
    definitions = [index.definition for index in wanted]
    if not definitions:
        raise NotFound(f"table {base.full_name} has no index to rebuild")
    for definition in definitions:
        catalog.require_same_columns(base, definition)
    return _run(spark, base, definitions, partition, False, progress)


def sources(spark: SparkSession, base: Table) -> list[Source]:
    """The base files of each partition, or of the whole table under the key ()."""
    if not base.partition_columns:
        return [Source((), base.location, tuple(base_files(base.location)))]
    return [
        Source(partition.values, partition.location, tuple(base_files(partition.location)))
        for partition in metastore.partitions(spark, base)
    ]


def _run(
    spark: SparkSession,
    base: Table,
    definitions: Sequence[Definition],
    partition: Mapping[str, str | None] | None,
    deferred: bool,
    progress: Callable[[Done], None] | None,
) -> list[BuildReport]:
    started = time.monotonic()
    found = sources(spark, base)
    if partition is not None:
        found = [_one_partition(base, found, partition)]
    name = generation.new_name()
    folders = [
        {source.values: f"{catalog.generation_parent(base, d, source.values)}/{name}" for source in found}
        for d in definitions
    ]
    made = [folder for each in folders for folder in each.values()]
    try:
        for each in folders:
            for source in found:
                generation.start(each[source.values], source.folder)
        groups = [] if deferred else _groups(spark, base, definitions, folders, found)
        reports = _index(spark, groups, progress)
        for index, each in enumerate(folders):
            _write_manifests(each, found, [report for report in reports if report.index == index])
    except OSError as e:
        _discard(made)
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    except BaseException:
        _discard(made)
        raise
    for definition, each in zip(definitions, folders, strict=True):
        catalog.publish(spark, base, definition, each, whole=partition is None)
    spark.catalog.refreshTable(base.sql_name)  # a full scan of this session must not know less than the index
    seconds = time.monotonic() - started
    return [_report(d, [r for r in reports if r.index == i], found, seconds) for i, d in enumerate(definitions)]


def _one_partition(base: Table, found: Sequence[Source], wanted: Mapping[str, str | None]) -> Source:
    names = [column.name for column in base.partition_columns]
    asked = {name.lower(): value for name, value in wanted.items()}
    for source in found:
        if {name.lower(): value for name, value in zip(names, source.values, strict=True)} == asked:
            return source
    spec = ", ".join(f"{name}={value}" for name, value in wanted.items())
    raise NotFound(f"partition ({spec}) does not exist in table {base.full_name}")


def _groups(
    spark: SparkSession,
    base: Table,
    definitions: Sequence[Definition],
    folders: Sequence[Mapping[Values, str]],
    found: Sequence[Source],
) -> list[Group]:
    zone = metastore.time_zone(spark)
    crc = schema_crc(base.columns, zone)
    return [
        Group(
            partition,
            tuple(file.path for file in files),
            format_of(base),
            base.columns,
            crc,
            zone,
            tuple(definitions),
            tuple(each[found[partition].values] for each in folders),
        )
        for partition, files in cuts(spark, found)
    ]


def cuts(spark: SparkSession, found: Sequence[Source]) -> Iterator[tuple[int, Sequence[FileStatus]]]:
    """The base files of each shard that a build makes, with the number of their partition in `found`."""
    total = sum(file.size for source in found for file in source.files)
    target = min(GROUP_BYTES, max(SMALL_GROUP_BYTES, total // (parallelism(spark) * TASKS_PER_CORE)))
    for partition, source in enumerate(found):
        for files in _cut(source.files, target):
            yield partition, files


def _cut(files: Sequence[FileStatus], target: int) -> Iterator[Sequence[FileStatus]]:
    """Files in order, in groups of about equal size, about `target` bytes."""
    total = sum(file.size for file in files)
    each = total / max(round(total / target), 1)
    before, number = 0, 0
    group: list[FileStatus] = []
    for file in files:
        if group and before + file.size / 2 > each * (number + 1):
            yield group
            group, number = [], number + 1
        group.append(file)
        before += file.size
    if group:
        yield group


def _index(spark: SparkSession, groups: Sequence[Group], progress: Callable[[Done], None] | None) -> list[ShardReport]:
    if not groups:
        return []
    files = sum(len(group.paths) for group in groups)
    from pyspark.errors import PySparkException

    with watched(spark, files, progress) as counter:
        tasks = partial(_index_batches, counter=counter)
        try:
            rows = distribute(spark, groups).mapInArrow(tasks, "report binary").collect()
        except PySparkException as e:
            raise BuildFailed(f"the build failed, the published index is untouched: {_cause(e)}") from e
    return [pickle.loads(row[0]) for row in rows]


def distribute(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A DataFrame of one binary column with pickled items, spread over at most TASKS_PER_CORE tasks a core."""
    tasks = min(len(items), parallelism(spark) * TASKS_PER_CORE)
    cuts = [len(items) * task // tasks for task in range(tasks + 1)]
    batches = [
        pa.record_batch([pa.array([pickle.dumps(item) for item in items[start:end]], pa.binary())], ["item"])
        for start, end in pairwise(cuts)
    ]
    return spark.createDataFrame(pa.Table.from_batches(batches))  # a partition a batch


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once."""
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or metastore.default_parallelism(spark))


def _index_batches(batches: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for item in batch.column(0):
            group: Group = pickle.loads(item.as_py())
            reports = index_group(group)
            if counter is not None:
                mine = [report for report in reports if report.index == 0]
                size = sum(size for report in mine for size in report.files["size"].to_pylist() if size > 0)
                counter.add((len(group.paths), sum(report.base_rows for report in mine), size))
            yield pa.record_batch([pa.array([pickle.dumps(report) for report in reports], pa.binary())], ["report"])


def _write_manifests(folders: Mapping[Values, str], found: Sequence[Source], reports: Sequence[ShardReport]) -> None:
    for partition, source in enumerate(found):
        mine = [report for report in reports if report.partition == partition]
        shards = [(r.shard, r.written.size, r.shard_rows, r.written.cardinality_size) for r in mine if r.shard]
        columns = list(zip(*shards, strict=True)) or [()] * len(SHARDS)
        table = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SHARDS, strict=True)], schema=SHARDS)
        sums = {name: each for report in mine for name, each in report.written.sums.items()}
        manifest.write(folders[source.values], [report.files for report in mine], table, sums)


def _discard(folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            storage.delete_folder(folder)


def _report(
    definition: Definition, reports: Sequence[ShardReport], found: Sequence[Source], seconds: float
) -> BuildReport:
    left_out = tuple(
        (row["path"], row["reason"])
        for report in reports
        for row in report.files.select(["path", "reason"]).to_pylist()
        if row["reason"]
    )
    for path, reason in left_out:
        log.warning("index %s leaves %s unindexed: %s", definition.name, path, reason)
    return BuildReport(
        definition,
        sum(len(source.files) for source in found),
        sum(file.size for source in found for file in source.files),
        sum(report.base_rows for report in reports),
        sum(report.shard is not None for report in reports),
        sum(report.shard_rows for report in reports),
        sum(report.written.size + report.written.cardinality_size for report in reports),
        seconds,
        left_out,
    )


def _cause(error: Exception) -> str:
    """The last line that names an error: what a Spark task's Python traceback ends in."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.partition(":")[0] and not line.startswith("at ")]
    return (named or lines or [type(error).__name__])[-1]
