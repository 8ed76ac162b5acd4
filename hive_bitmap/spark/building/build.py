"""Create, rebuild and refresh indexes.

Spark tasks index base files and write shards; the driver writes manifests and publishes. A rebuild reads only new and
changed base files and keeps the rest of the index. There is no shuffle, and nothing that grows with the number of rows
is sent to the driver. Segments are published only when they are complete. If a build fails before it publishes, the
published index stays unchanged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.explaining.measures import seconds, size
from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, Report, Reports, figure, texts_of
from hive_bitmap.core.index import deletion, markers, roots
from hive_bitmap.core.index.definition import (
    INDEX_DATABASE,
    REFRESH_INTERVAL,
    Definition,
    define,
    flag,
    require_distinct,
)
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.indexing import segment_change
from hive_bitmap.core.listings.file_listing import format_of, require_no_stream, require_plain_options
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import BuildFailed, InvalidProperty, StoreError, Unsupported
from hive_bitmap.spark.building import attempts, key_expressions
from hive_bitmap.spark.building.attempts import ProgressCallback
from hive_bitmap.spark.building.build_scope import (
    BuildPlan,
    plan_attachment,
    plan_creation,
    plan_mending,
    plan_rebuild,
    plan_refresh,
    plan_removal,
)
from hive_bitmap.spark.building.key_expressions import SparkKey
from hive_bitmap.spark.building.publish import NotPublished, Publication, drop_remains, publish
from hive_bitmap.spark.metastore import base_files as sources
from hive_bitmap.spark.metastore import metastore, permission, session_settings
from hive_bitmap.spark.metastore.base_files import Spec
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog, catalog_changes, locations, trust
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
MOST_MENDINGS = 5  # most repairs after a build; the next build does the rest
AUTO_UPDATE = "hive.optimize.index.autoupdate"  # Hive's setting, which is the default of auto_refresh


@dataclass(frozen=True, kw_only=True)
class BuildReport(Report):
    """What a build did for one index, and what the index contains afterwards.

    `base_files` and `base_bytes` are the number and the bytes of the base files in the partitions that the build
    considers. `shards`, `index_rows` (rows of the index table), `index_bytes`, `base_rows` (indexed rows of the table)
    and `segments` describe the whole index. `files_read` base files of `bytes_read` bytes were indexed, and
    `shards_kept` shards were kept unchanged. `changed` counts base files that were added, changed or deleted while the
    build ran; until the next rebuild, queries read the added and changed files whole. `unindexed` has the files that
    could not be indexed, as pairs of path and reason. `untouched` counts the partitions in which no file was read, and
    `partitions_dropped` the partitions that lost all index rows.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        *INDEX_FIELDS,
        figure("base_files", "files"),
        figure("base_bytes", "of", size),
        figure("base_rows", "rows"),
        figure("files_read", "files read"),
        figure("bytes_read", "of", size),
        *map(Field, ("shards", "shards_kept", "partitions_dropped")),
        Field("changed_meanwhile", of="changed"),
        figure("index_rows", "index rows"),
        figure("index_bytes", "size", size),
        figure("seconds", "time", seconds, lambda report: round(report.seconds, 3)),
        figure(
            "unindexed",
            show=lambda files: str(len(files)),
            of=lambda report: [{"path": path, "reason": reason} for path, reason in report.unindexed],
        ),
    )

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
    untouched: int = 0
    segments: int = 0

    def __repr__(self) -> str:
        return f"BuildReport({self})"

    def __str__(self) -> str:
        name = f"{self.definition.name} on {self.definition.full_table}"
        read = f"{self.files_read:,} files of {size(self.bytes_read)} read in {seconds(self.seconds)}"
        has = f"{self.base_rows:,} rows indexed in {size(self.index_bytes)}"
        failures = f"; {len(self.unindexed):,} files could not be indexed" if self.unindexed else ""
        return f"{name}: {read}; {has}{failures}"

    def _cells(self) -> dict[str, str]:
        return texts_of(self, "index", "table", "columns") | {
            "files read": f"{self.files_read:,}, {size(self.bytes_read)}",
            "rows indexed": f"{self.base_rows:,}",
            "size": size(self.index_bytes),
            "not indexed": f"{len(self.unindexed):,} files" if self.unindexed else "",
            "time": seconds(self.seconds),
        }


def build(
    spark: SparkSession,
    table: str,
    columns: Sequence[SparkKey | Sequence[SparkKey]],
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
    auto_refresh: bool | None = None,
    refresh_interval: str = REFRESH_INTERVAL,
    keep_removed: str = "",
    aggregates: str = "",
    properties: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> list[BuildReport]:
    """Create indexes on a table and build them in one pass.

    There is one index for each item of `columns`. An item is a column name, or a sequence of column names for a
    composite key. In place of a name there may be an expression with a name, such as `date_trunc('HOUR', ts) AS hour`,
    or a Column of Spark with an alias. `name`, `index_table` and `location` can only be given for a single item. By
    default, the `name` consists of the column names. `type` is BITMAP, COMPACT or AGGREGATE, `encoding` is the encoding
    of the bitmaps, and `compression` the compression of the shards. `index_table` is `table` or `database.table`.
    Without it, the index table has its default name, and is in the database that the setting
    `hive_bitmap.index_database` names, or else in the database of the table. `location` is the root folder of the
    index; None stands for the default folder.

    With `deferred`, the indexes are registered but cover no files until they are rebuilt. `where`, a condition on the
    partition columns, limits the indexes to the partitions that satisfy the condition. With `if_not_exists`, an item is
    skipped if an index of its name exists. With `auto_refresh`, the indexes are refreshed after writes, at most once in
    `refresh_interval`. If `auto_refresh` is None, the indexes are refreshed if `hive.optimize.index.autoupdate` of the
    session is true and the index supports it. `keep_removed`, such as `7 days`, is how long the index keeps rows of
    files that a Delta or Iceberg table no longer has, for queries of older versions. With `aggregates`, such as
    `count(*), sum(amount), sum(price * n) AS revenue`, the rows of the index tables also hold these aggregates, for
    each key and block, or for each key and file (AGGREGATE). `comment` and the user-defined `properties` are stored and
    shown. `progress` is called with the state of the build, while it runs.

    Raise NotFound, AlreadyExists, Unsupported, InvalidProperty or InvalidPredicate before anything is written, and
    BuildFailed if the job or the publishing fails.
    """
    started = time.monotonic()
    metastore.require_hive(spark)
    if auto_refresh and deferred:
        raise InvalidProperty(
            "an index that is built later, WITH DEFERRED REBUILD, cannot follow its table from the start: set its "
            "auto_refresh to true after its first rebuild"
        )
    base, indexes = catalog.table_and_indexes(spark, table)
    format_of(base)
    require_plain_options(base)
    require_no_stream(base)
    index_database = session_settings.settings(spark).get(INDEX_DATABASE, "")
    follows = _follows_by_default(spark, type, deferred=deferred) if auto_refresh is None else auto_refresh
    definitions = []
    measured = key_expressions.resolved_aggregates(spark, base, aggregates)
    for item in key_expressions.resolved_items(spark, base, columns):
        definition = define(
            base,
            item,
            name=name,
            type=type,
            encoding=encoding,
            compression=compression,
            index_table=index_table,
            index_database=index_database,
            comment=comment,
            where=where or "",
            auto_refresh=follows,
            refresh_interval=refresh_interval,
            keep_removed=keep_removed,
            aggregates=aggregates,
            measured=measured,
            properties=properties,
        )
        if if_not_exists and any(index.definition.name == definition.name for index in indexes):
            continue
        catalog_changes.require_free(spark, base, indexes, definition)
        _warn_of_equal(definition, indexes)
        definitions.append(definition)
    if not definitions:
        return Reports()
    definitions = locations.with_roots(spark, definitions, location)
    require_distinct(definitions)
    keys = sorted({column.name for definition in definitions for column in definition.read_columns(base)})
    permission.require_reading(spark, base, keys, "CREATE INDEX")
    planned = plan_creation(spark, base, definitions)
    if deferred:
        planned = planned.without_files()
    return _run(spark, planned, True, progress, started)


def _warn_of_equal(definition: Definition, indexes: Iterable[Index]) -> None:
    """Warn of trusted indexes that answer the same queries as a new index.

    `definition` is the new index; `indexes` are the existing indexes of its table. A warning is logged for each.
    """
    for index in indexes:
        if index.trusted and _answered_queries(index.definition) == _answered_queries(definition):
            log.warning(
                "index %s has the same columns as index %s: queries need only one of them",
                definition.name,
                index.definition.name,
            )


def _answered_queries(index: Definition) -> tuple[frozenset[str], str, str]:
    """Return a value that is equal for indexes that answer equal queries."""
    return frozenset(index.key_names), index.type, index.where


def _follows_by_default(spark: SparkSession, type: str, *, deferred: bool) -> bool:
    """Return the default `auto_refresh` of a new index.

    The default is Hive's own setting, but false for a deferred index and for a COMPACT index.
    """
    setting = spark.conf.get(AUTO_UPDATE, None) or "false"
    return not deferred and type.upper() != "COMPACT" and flag(AUTO_UPDATE, setting)


def rebuild(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partition: Spec | None = None,
    full: bool = False,
    compact: bool = False,
    progress: ProgressCallback | None = None,
) -> list[BuildReport]:
    """Bring all or the named indexes of a table up to date.

    The indexes are built in one pass. New and changed base files are read; index rows of unchanged files are kept.
    `partition` has values of some or all partition columns, and limits the rebuild to the partitions with these values.
    With `full`, everything is built from scratch. With `compact`, small shards are merged, without reading base files.
    `progress` is called with the state of the build, while it runs. In a copied metastore, the first rebuild of an
    index builds all of it in a separate folder. Raise NotFound and BuildFailed. Raise Unsupported if an index no longer
    fits the table, for example after a change of an indexed column. If `names` are given, this error is raised before
    anything is built; otherwise it is raised after the other indexes have been built.
    """
    started = time.monotonic()
    return _rebuild(spark, plan_rebuild(spark, table, names, partition, full, compact), progress, started)


def refresh(
    spark: SparkSession,
    table: str,
    names: Sequence[str] = (),
    *,
    partitions: Sequence[Spec] = (),
    progress: ProgressCallback | None = None,
) -> list[BuildReport]:
    """Bring all or the named indexes of a table up to date after writes.

    A refresh differs from `rebuild` in two ways. First, it keeps index rows of deleted files until these rows are a
    fifth of their segment, or until the segment is a day old. Queries never count such rows, but SQL queries of the
    index table see them. Second, it uses manifests from the cache of this process, so it does not notice a manifest
    that was damaged in the meantime. Queries detect such damage and read the affected base files whole. `verify`
    reports the damage, and `rebuild` repairs it; a flipped bit needs `full`.

    `partitions` are specs: values of some or all partition columns, as the metastore writes them. Only partitions that
    match a spec are refreshed; without specs, all partitions are refreshed. A spec may match nothing, for example if
    its partition has just been dropped. A new encoding is applied only by a refresh or rebuild of all partitions. In a
    copied metastore, the first refresh is a `rebuild` of all partitions. `progress` is called as by `rebuild`, and the
    errors of `rebuild` are raised.
    """
    started = time.monotonic()
    planned = plan_refresh(spark, table, names, partitions)
    if planned.is_empty:
        planned.require_all()
        return Reports(_report(planned, number, (), 0, started) for number in range(len(planned.scopes)))
    return _rebuild(spark, planned, progress, started)


def remove_partitions(spark: SparkSession, table: str, name: str, partitions: Collection[Values]) -> None:
    """Remove the rows of partitions from the segments of an index.

    The index no longer covers these partitions. No base files are read. Raise the errors of `rebuild`.
    """
    planned = plan_removal(spark, table, name, partitions)
    if not planned.is_empty:
        _rebuild(spark, planned, None, time.monotonic())


def attach(
    spark: SparkSession,
    base: Table,
    definitions: Sequence[Definition],
    former: Sequence[Index],
    progress: ProgressCallback | None = None,
    *,
    is_same_table: bool = False,
) -> list[BuildReport]:
    """Build the indexes of a renamed table from the indexes of its old name.

    `definitions` are the new indexes, and `former` the old index for each, in the same order. Shards are linked or
    rewritten. Base files that are unchanged since they were indexed are not read, even if their folder was moved. The
    old indexes stay unchanged. `progress` is called with the state of the build, while it runs. `is_same_table` says
    that `base` certainly is the table with the old name. Otherwise, raise Unsupported if both the table and the old
    indexes have files, but no current file of the table is covered. Raise BuildFailed.
    """
    planned = plan_attachment(spark, base, definitions, former)
    segments = [change.segment for change in planned.changes]
    knows_files = any(scope.before.covered.files.num_rows for scope in planned.scopes)
    is_read_only = any(segment.read for segment in segments) and not any(segment.files.num_rows for segment in segments)
    if knows_files and is_read_only and not is_same_table:
        names = ", ".join(index.definition.name for index in former)
        raise Unsupported(f"no file of table {base.full_name} is covered by index {names}: it is another table")
    return _run(spark, planned, True, progress, time.monotonic())


def _rebuild(
    spark: SparkSession, planned: BuildPlan, progress: ProgressCallback | None, started: float
) -> list[BuildReport]:
    try:
        for scope in planned.scopes:
            locations.require_own(spark, planned.base, scope.definition)
    except (OSError, StoreError) as e:
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    reports = _run(spark, planned, False, progress, started)
    planned.require_all()
    return reports


def _run(
    spark: SparkSession, planned: BuildPlan, created: bool, progress: ProgressCallback | None, started: float
) -> list[BuildReport]:
    """Carry out a plan, with repairs after concurrent builds.

    `created` says whether the build creates its indexes. `started` is the start of the build, by `time.monotonic`.
    Return a report for each index.
    """
    contents, changed, is_alone = _carry_out(spark, planned, created, progress)
    for _ in range(MOST_MENDINGS if not is_alone else 0):
        mending = plan_mending(spark, planned)
        if mending.is_empty:
            break
        log.info("indexes of table %s are repaired, because another build has published", planned.base.full_name)
        _carry_out(spark, mending, False, None)
    for scope in planned.scopes:
        if scope.before.remains:
            drop_remains(spark, scope.before.elsewhere or scope.definition)
    if planned.changes or created:
        _warn_of_untrusted(spark, planned)
    return Reports(_report(planned, number, contents, changed, started) for number in range(len(planned.scopes)))


def _carry_out(
    spark: SparkSession, planned: BuildPlan, created: bool, progress: ProgressCallback | None
) -> tuple[Sequence[Manifest], int, bool]:
    """Carry out a plan, without repairs after concurrent builds.

    `created` says whether the build creates its indexes. Return the manifests of the new segments, the number of base
    files that have changed since the plan was made, and whether the indexes have exactly the planned segments.
    """
    in_work: list[str] = []
    base, this_metastore = planned.base, metastore_id(spark)
    try:
        for scope in planned.scopes:
            roots.claim(scope.definition, this_metastore)
            in_work.append(scope.definition.root)
        planned, reports = attempts.index_files(spark, planned, progress, this_metastore, in_work)
        contents = segment_change.finish(planned.changes, reports)
        changed = sources.changed(base, planned.sources)
        publications = [_publication(planned, number, created) for number in range(len(planned.scopes))]
        is_alone = publish(spark, base, publications, this_metastore)
        return contents, changed, is_alone
    except (OSError, StoreError) as e:
        _delete_unfinished(planned, created, this_metastore)
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    except BuildFailed as e:
        if not isinstance(e, NotPublished):  # after NotPublished, everything is deleted already
            _delete_unfinished(planned, created, this_metastore)
        raise
    except BaseException:
        _delete_unfinished(planned, created, this_metastore)
        raise
    finally:
        markers.end_work(in_work)


def _warn_of_untrusted(spark: SparkSession, planned: BuildPlan) -> None:
    """Log a warning for each built index that queries will not use.

    Queries do not trust the owner of such an index.
    """
    definitions = [scope.definition for scope in planned.scopes]
    built = {(definition.index_table_database, definition.index_table): definition for definition in definitions}
    why_not = trust.by_base(spark, planned.base)
    for table in catalog.described(spark, built):
        if why := why_not(table, built.get((table.database, table.name))):
            log.warning("built, but not used by queries: %s", why)


def _delete_unfinished(planned: BuildPlan, created: bool, this_metastore: str) -> None:
    """Delete the new segments of a failed build, and the roots of new indexes.

    `created` says whether the build creates its indexes. `this_metastore` is the id of this metastore. Files that
    cannot be deleted are left to `clean`.
    """
    attempts.delete_begun(planned, this_metastore)
    try:
        for scope in planned.scopes:
            if created or scope.before.elsewhere is not None:
                deletion.remove_root(scope.definition, this_metastore)
    except (OSError, StoreError) as e:
        log.warning("files of the failed build could not be deleted: run clean to delete them: %s", e)


def _publication(planned: BuildPlan, number: int, created: bool) -> Publication:
    """Return the metastore changes for one index of a plan.

    `created` says whether the build creates its indexes.
    """
    scope = planned.scopes[number]
    return Publication(
        definition=scope.definition,
        new=tuple(change.folder for change in planned.changes_of(number)),
        gone=scope.gone,
        unchanged=scope.kept,
        created=created,
        former=scope.before.elsewhere,
        stored=scope.before.stored,
    )


def _report(planned: BuildPlan, number: int, contents: Sequence[Manifest], changed: int, started: float) -> BuildReport:
    scope, changes = planned.scopes[number], planned.changes_of(number)
    pairs = zip(planned.changes, contents, strict=True) if contents else ()
    new_contents = [content for change, content in pairs if change.index == number]
    before = scope.before.covered
    kept_segments = [at for at, folder in enumerate(before.segments) if folder in scope.kept]
    kept_files = before.files.filter(pa.array(np.isin(before.segment, kept_segments)))
    kept_shards = before.shards.filter(pa.array(np.isin(before.shard_segment, kept_segments)))
    files = pa.concat_tables([kept_files, *(content.files for content in new_contents)])
    shards = pa.concat_tables([kept_shards, *(content.shards for content in new_contents)])
    unindexed = files.filter(pc.not_equal(files["reason"], "")).select(["path", "reason"]).to_pylist()
    for file in unindexed:
        log.warning("index %s leaves %s unindexed: %s", scope.definition.name, file["path"], file["reason"])
    read = [file for change in changes for file in change.read]
    return BuildReport(
        definition=scope.definition,
        base_files=len(scope.listing.files),
        base_bytes=int(scope.listing.sizes.sum()),
        base_rows=_sum(pc.list_flatten(files["rows"])),
        shards=shards.num_rows,
        index_rows=_sum(shards["rows"]),
        index_bytes=_sum(shards["size"]) + _sum(shards["cardinality_size"]),
        files_read=len(read),
        bytes_read=sum(file.status.size for file in read),
        shards_kept=kept_shards.num_rows + sum(len(change.segment.linked) for change in changes),
        partitions_dropped=len(scope.dropped),
        changed=changed,
        seconds=time.monotonic() - started,
        unindexed=tuple((file["path"], file["reason"]) for file in unindexed),
        untouched=len(scope.listing.partitions) - len({file.values for file in read}),
        segments=len(scope.kept) + len(changes),
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return pc.sum(numbers).as_py() or 0
