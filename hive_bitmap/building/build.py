"""Building: tasks index base files and write shards, the driver writes manifests and publishes.

A rebuild reads only what is new or changed; the rest of an index is taken over. Nothing is shuffled and nothing that
grows with the rows comes to the driver. A generation is published when all of it is there; whatever happens before
leaves the published one untouched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.building import build_job, partition_change, staging
from hive_bitmap.building.build_scope import Build, creation, refreshing
from hive_bitmap.building.file_groups import jobs
from hive_bitmap.building.partition_change import Change, Content
from hive_bitmap.building.progress import Done
from hive_bitmap.building.publish import Switch, publish
from hive_bitmap.building.refresh import anew
from hive_bitmap.errors import BuildFailed, StoreError
from hive_bitmap.index import catalog, generation
from hive_bitmap.index.definition import Definition, define
from hive_bitmap.index.manifest import FILES, SHARDS
from hive_bitmap.metastore import base_files as sources
from hive_bitmap.metastore import metastore
from hive_bitmap.metastore.base_files import Spec
from hive_bitmap.metastore.file_listing import format_of
from hive_bitmap.parallel import each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
Tell = Callable[[Done], None]


@dataclass(frozen=True)
class BuildReport:
    """What one index holds after a build, of the partitions that were looked at, and what the build did for it.

    Sizes are in bytes, `index_rows` rows of the index table. `files_read` base files of `bytes_read` were indexed,
    `shards_kept` of the shards taken over as they were. `changed` counts base files that arrived, changed or vanished
    while the build ran; until the next rebuild, queries read those that are not indexed as they are whole.
    `unindexed` are files left out, as pairs of path and reason.
    """

    definition: Definition
    base_files: int
    base_bytes: int
    base_rows: int
    shards: int
    index_rows: int
    index_bytes: int
    files_read: int
    bytes_read: int
    shards_kept: int
    partitions_dropped: int
    changed: int
    seconds: float
    unindexed: tuple[tuple[str, str], ...]


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
    where: str | None = None,
    if_not_exists: bool = False,
    properties: Mapping[str, str] | None = None,
    progress: Tell | None = None,
) -> list[BuildReport]:
    """Create indexes on a table and build them in one pass, one index for each item of `columns`.

    An item is a column, or several columns for one composite key. `name`, `index_table` and `location` need a single
    item. With `deferred` the indexes are registered but cover nothing until they are rebuilt. `where`, SQL over the
    partition columns, limits them to the partitions of which it is true. With `if_not_exists` an index whose name is
    taken by another is passed over. `properties` are the owner's own: kept and shown. Raises NotFound, AlreadyExists,
    Unsupported, InvalidProperty or InvalidPredicate before anything is written, and BuildFailed if the job fails.
    """
    started = time.monotonic()
    base, indexes = catalog.table_and_indexes(spark, table)
    format_of(base)
    definitions = []
    for item in columns:
        definition = define(
            base,
            [item] if isinstance(item, str) else list(item),
            name=name,
            type=type,
            encoding=encoding,
            compression=compression,
            index_table=index_table,
            comment=comment,
            where=where or "",
            properties=properties,
        )
        if if_not_exists and any(index.definition.name == definition.name for index in indexes):
            continue
        catalog.require_free(spark, base, indexes, definition)
        definitions.append(catalog.place(spark, definition, location))
    catalog.require_distinct(definitions)
    if not definitions:
        return []
    planned = creation(spark, base, definitions)
    if deferred:
        empty = tuple(replace(change, refresh=anew(())) for change in planned.changes)
        planned = replace(planned, changes=empty)
    return _run(spark, planned, True, progress, started)


def rebuild(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partition: Spec | None = None,
    full: bool = False,
    compact: bool = False,
    progress: Tell | None = None,
) -> list[BuildReport]:
    """Bring indexes of a table up to date in one pass: all of them, or those named.

    Files that are new or changed are read, what is known of the others is kept; partitions that need nothing stay as
    they are. `partition`, some or all partition columns with their values, limits the work to partitions that have
    them. With `full` all is built anew; with `compact` small shards are merged, without reading base files. Raises
    NotFound, Unsupported for a table or column that is no longer what was indexed, and BuildFailed.
    """
    started = time.monotonic()
    planned = refreshing(spark, table, names, partition, full, compact)
    return _run(spark, planned, False, progress, started)


def _run(
    spark: SparkSession, planned: Build, created: bool, progress: Tell | None, started: float
) -> list[BuildReport]:
    base, busy = planned.base, [change for change in planned.changes if not change.refresh.idle]
    try:
        each(partition_change.start, busy)
        with staging.for_build(spark, base, busy) as staged, ThreadPoolExecutor(1) as beside:
            # A full scan of this session must not know less than the index.
            refreshed = beside.submit(metastore.forget_files, spark, base)
            reports = build_job.run(spark, jobs(spark, base, busy, staged), progress)
            refreshed.result()
        contents = partition_change.finish(planned.changes, reports)
        changed = sources.changed(base, planned.found)
    except (OSError, StoreError) as e:
        _give_up(busy)
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    except BaseException:
        _give_up(busy)
        raise
    publish(spark, base, [_switch(planned, number, created) for number in range(len(planned.scopes))])
    return [_report(planned, number, contents, changed, started) for number in range(len(planned.scopes))]


def _give_up(busy: Sequence[Change]) -> None:
    """Delete what was begun; where the store does not let us, `clean` does it later."""
    try:
        generation.delete(change.folder for change in busy)
    except (OSError, StoreError) as e:
        log.warning("what the failed build has written stays until it is cleaned: %s", e)


def _switch(planned: Build, number: int, created: bool) -> Switch:
    """What the metastore has to be told of an index; partitions that need nothing stay as they are."""
    folders = {c.source.values: c.folder for c in planned.changes_of(number) if not c.refresh.idle}
    return Switch(planned.scopes[number].definition, folders, planned.gone(number), created)


def _report(planned: Build, number: int, contents: Sequence[Content], changed: int, started: float) -> BuildReport:
    scope, mine = planned.scopes[number], planned.changes_of(number)
    held = [content for content, change in zip(contents, planned.changes, strict=True) if change.index == number]
    files = pa.concat_tables([FILES.empty_table(), *(content.files for content in held)])
    shards = pa.concat_tables([SHARDS.empty_table(), *(content.shards for content in held)])
    left_out = files.filter(pc.not_equal(files["reason"], "")).select(["path", "reason"]).to_pylist()
    for file in left_out:
        log.warning("index %s leaves %s unindexed: %s", scope.definition.name, file["path"], file["reason"])
    return BuildReport(
        scope.definition,
        base_files=sum(len(change.source.files) for change in mine),
        base_bytes=sum(file.size for change in mine for file in change.source.files),
        base_rows=_sum(pc.list_flatten(files["rows"])),
        shards=shards.num_rows,
        index_rows=_sum(shards["rows"]),
        index_bytes=_sum(shards["size"]) + _sum(shards["cardinality_size"]),
        files_read=sum(len(change.refresh.read) for change in mine),
        bytes_read=sum(file.size for change in mine for file in change.refresh.read),
        shards_kept=sum(len(change.refresh.linked) for change in mine),
        partitions_dropped=len(planned.gone(number)),
        changed=changed,
        seconds=time.monotonic() - started,
        unindexed=tuple((file["path"], file["reason"]) for file in left_out),
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return pc.sum(numbers).as_py() or 0
