"""Compare an index with its base table in a Spark job.

A task compares one shard. Base files that have changed since they were indexed are only counted, because queries read
these files whole. There are two kinds of problems: the index has wrong rows for an unchanged file, or SQL queries of
the index table would see rows that do not belong to the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.auditing.audit import ShardAudit, ShardItem, audit_shard
from hive_bitmap.core.auditing.base_file_check import RecordedFile, recorded_blocks, recorded_bounds
from hive_bitmap.core.auditing.compare import Problems
from hive_bitmap.core.auditing.stored_shard import StoredShard
from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, figure
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.index.definition import Definition, schema_crc, valid_schemas
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import format_of, is_visible
from hive_bitmap.core.segments.covered import Covered, Flags, Listing, numbered
from hive_bitmap.core.selecting.table_files import FileRecords
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.spark.building import staging
from hive_bitmap.spark.metastore import metastore, permission
from hive_bitmap.spark.metastore.base_files import Source, sources
from hive_bitmap.spark.registry import catalog, catalog_changes
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of comparing one index with its base table.

    `shards`, `files`, `blocks` and `rows` (of the base table) count what was compared. `stale` counts base files that
    have changed since they were indexed, `unindexed` base files that are not in the index, and `gone` deleted base
    files that are in the index. Such files are no problems, because queries do not use the index for them. `problems`
    describes the first 20 of `problem_count` problems.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        *INDEX_FIELDS,
        *map(figure, ("shards", "files", "blocks", "rows", "stale", "unindexed", "gone")),
        Field("ok"),
        figure("problem_count", "problems"),
        Field("problems", of=lambda verification: list(verification.problems)),
    )

    definition: Definition
    shards: int
    files: int
    blocks: int
    rows: int
    stale: int
    unindexed: int
    gone: int
    problems: tuple[str, ...]
    problem_count: int

    @property
    def ok(self) -> bool:
        """Whether the index is right about all unchanged base files."""
        return self.problem_count == 0


@dataclass(kw_only=True)
class _Tally:
    """What the driver knows about one index before shards are read.

    A tally counts stale, unindexed and gone files, and collects problems. `items` are the shards to compare.
    """

    index: Index
    items: list[ShardItem] = field(default_factory=list)
    stale: int = 0
    unindexed: int = 0
    gone: int = 0
    problems: Problems = field(default_factory=Problems)


def verify(spark: SparkSession, table: str, names: Sequence[str] = ()) -> list[Verification]:
    """Compare indexes of a table with the table.

    `names` are the indexes to compare; all indexes are compared if it is empty. Return a result for each index, sorted
    by name. Every block of every unchanged base file is read, and compared with all index rows of the block. A missing
    or damaged shard or manifest is a problem in the result. Raises NotFound for an unknown table or index, and
    NotPermitted if only Spark may read the table.
    """
    manifest.read.cache_clear()  # a cached manifest would hide later damage
    checksums.of_generation.cache_clear()
    base, indexes = catalog.table_and_indexes(spark, table)
    chosen = [catalog.named(base, indexes, name) for name in sorted({name.lower() for name in names})] or indexes
    definitions = [index.definition for index in chosen if not index.problem]
    keys = sorted({column.name for definition in definitions for column in definition.read_columns(base)})
    if keys:
        permission.require_reading(spark, base, keys, "verify")
    listed = sources(spark, base) if chosen else []
    tallies = [_tally(spark, base, number, index, listed) for number, index in enumerate(chosen)]
    items = [item for tally in tallies for item in tally.items]
    audits: list[ShardAudit] = []
    if items:
        compared = [tally.index.definition for tally in tallies if tally.items]
        with staging.in_scratch(spark, base, listed, compared) as staged:
            staged_items = [_staged(item, staged) for item in items]
            audits = in_tasks(spark, staged_items, audit_shard)
    return [_result(tally, [a for a in audits if a.index == number]) for number, tally in enumerate(tallies)]


def _staged(item: ShardItem, folder: str) -> ShardItem:
    """Return the work item with the folder in which Spark has staged values.

    `folder` is "" if tasks read all values themselves.
    """
    return replace(item, read_options=replace(item.read_options, staging=folder))


def _result(tally: _Tally, audits: Sequence[ShardAudit]) -> Verification:
    problems = tally.problems
    for audit in audits:
        problems.add_all(audit.problems)
    return Verification(
        definition=tally.index.definition,
        shards=len(audits),
        files=sum(audit.files for audit in audits),
        blocks=sum(audit.blocks for audit in audits),
        rows=sum(audit.rows for audit in audits),
        stale=tally.stale + sum(audit.stale for audit in audits),
        unindexed=tally.unindexed,
        gone=tally.gone,
        problems=tuple(problems.messages),
        problem_count=problems.count,
    )


def _tally(spark: SparkSession, base: Table, number: int, index: Index, listed: Sequence[Source]) -> _Tally:
    """Check the manifests of an index against the base files.

    `number` is the position of the index among the verified indexes. `listed` are the listed base files. The result has
    the problems so far, and the shards to compare.
    """
    tally = _Tally(index=index)
    files_of = {source.values: source.files for source in listed}
    try:
        catalog_changes.require_same_table(spark, base, index)
        if index.definition.is_former:
            raise Unsupported(index.problem)
    except Unsupported as e:  # queries do not use this index
        tally.problems.add(str(e))
        tally.unindexed = sum(len(files) for files in files_of.values())
        return tally
    zone = metastore.time_zone(spark)
    schemas = valid_schemas(format_of(base), base.columns, zone, serde.read_properties(base))
    manifests = []
    for folder in catalog.segments(spark, index):
        try:
            manifests.append(manifest.read(folder))
        except CorruptIndex as e:
            tally.problems.add(str(e))
    covered, listing = Covered.by(manifests), Listing.of(files_of.items())
    numbers = np.array([covered.numbers.get(values, -1) for values in listing.partitions], np.int64)
    records = FileRecords.of(covered, listing, numbers, schemas)
    tally.stale, tally.unindexed = int(records.stale.sum()), int((~records.indexed).sum())
    tally.gone = int(covered.files.num_rows - covered.after_another(np.ones(covered.files.num_rows, bool)).sum())
    tally.gone -= int((records.row >= 0).sum())
    fresh = np.zeros(covered.files.num_rows, bool)
    fresh[records.row[records.fresh]] = True
    _check_covered(tally.problems, covered)
    for number_of_segment, published in enumerate(manifests):
        _check_manifest(tally.problems, published)
        fresh_files = fresh[covered.segment == number_of_segment]
        shards = range(published.shards.num_rows)
        tally.items += [_item(base, number, index.definition, published, row, fresh_files, zone=zone) for row in shards]
    return tally


def _check_covered(problems: Problems, covered: Covered) -> None:
    """Report files that two segments cover.

    SQL queries of the index table would see the rows of these files twice.
    """
    for row in np.flatnonzero(covered.after_another(np.ones(covered.files.num_rows, bool))).tolist():
        folder = covered.segments[covered.segment[row]]
        problems.add(f"{covered.files['path'][row]} is in {folder} and in another segment: refresh the index")


def _check_manifest(problems: Problems, published: Manifest) -> None:
    """Check that a manifest is consistent and complete; add what is wrong to `problems`.

    The manifest must list all files that SQL queries of the index table would read.
    """
    partitions = numbered(published.files["values"])[1].tolist()
    files = list(zip(published.files["path"].to_pylist(), partitions, strict=True))
    for what, names in (("file", files), ("shard", [(name, 0) for name in published.shards["shard"].to_pylist()])):
        for (name, _), times in Counter(names).items():
            if times > 1:
                problems.add(f"manifest of {published.folder} lists {what} {name} {times} times")
    named = {shard for shard in published.files["shard"].to_pylist() if shard is not None}
    for name in sorted(named - set(published.sizes)):
        problems.add(f"manifest of {published.folder} says that shard {name} covers files, but does not list it")
    for name in sorted(set(checksums.read(published.folder)) - _summed(published)):
        problems.add(f"the checksums of {published.folder} have a file that the manifest does not name: {name}")
    _check_lines(problems, published)
    for file in stores.listing(published.folder).files:
        name = _name(file.path)
        if is_visible(name) and name not in published.sizes:
            problems.add(f"{file.path} is not in the manifest, but readers of the index table see its rows")


def _check_lines(problems: Problems, published: Manifest) -> None:
    """Check a manifest's copy, which consists of lines of JSON.

    Older builds have not written this copy.
    """
    sums = checksums.read(published.folder).get(manifest.LINES_NAME)
    if sums is None:
        return
    path = f"{published.folder}/{checksums.FOLDER}/{manifest.LINES_NAME}"
    try:
        with stores.open_input(path) as source:
            checksums.require(source.read_buffer(), sums)
    except OSError as e:
        problems.add(f"manifest {path} cannot be read: {e}")


def _summed(published: Manifest) -> set[str]:
    """Return the names of the files in a segment that must have checksums."""
    cardinalities = {_name(cardinalities_path(published.shard_path(shard))) for shard in published.sizes}
    return {manifest.FILES_NAME, manifest.SHARDS_NAME, manifest.LINES_NAME, *published.sizes, *cardinalities}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _item(
    base: Table,
    number: int,
    definition: Definition,
    published: Manifest,
    row: int,
    fresh: Flags,
    *,
    zone: str,
) -> ShardItem:
    """Return the work item for one shard.

    `row` is the position of the shard in the manifest, and `number` the position of the index among the verified
    indexes. `fresh` has a flag for each file of the manifest, set if the file is unchanged since it was indexed. `zone`
    is the time zone of Spark's JVM.
    """
    crc = schema_crc(base.columns, zone, serde.read_properties(base))
    shard = published.shards.slice(row, 1).to_pylist()[0]
    covered = pc.equal(published.files["shard"], shard["shard"]).fill_null(False)
    files = []
    for number_of_file in np.flatnonzero(covered.to_numpy(zero_copy_only=False)):
        file_row = published.files.slice(number_of_file, 1).to_pylist()[0]
        same_schema = file_row["schema_crc"] == crc
        spark_only = frozenset(file_row["indirect"]) if same_schema else None
        marks = file_row["nested"] if same_schema else None
        nested = None if marks is None else frozenset(marks)
        files.append(
            RecordedFile(
                Fingerprint.of(file_row),
                recorded_blocks(file_row),
                spark_only,
                fresh=bool(fresh[number_of_file]),
                nested=nested,
                bounds=recorded_bounds(file_row) if same_schema else {},
            )
        )
    path, sums = published.shard_path(shard["shard"]), checksums.read(published.folder)
    stored = StoredShard(
        definition=definition,
        path=path,
        size=shard["size"],
        rows=shard["rows"],
        cardinality_size=shard["cardinality_size"],
        sums=sums.get(shard["shard"]),
        cardinality_sums=sums.get(_name(cardinalities_path(path))),
    )
    return ShardItem(number, stored, tuple(files), ReadOptions(format_of(base), base.columns, zone))
