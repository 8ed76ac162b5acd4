"""Entry points of a build: Spark tasks index base files and write shards, the driver writes manifests and publishes.

A rebuild reads only new and changed base files and keeps the rest of the index. There is no shuffle, and nothing that
grows with the number of rows is sent to the driver. A generation is published only when it is complete; a failure
before that leaves the published one untouched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.explaining.measures import seconds, size
from hive_bitmap.core.explaining.reports import Report, Reports
from hive_bitmap.core.index import deletion, listing_digest, markers, roots
from hive_bitmap.core.index.definition import REFRESH_INTERVAL, Definition, define, flag, require_distinct
from hive_bitmap.core.index.key_columns import require_keys
from hive_bitmap.core.index.manifest import FILES, SHARDS
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import BuildFailed, InvalidProperty, StoreError, Unsupported
from hive_bitmap.spark.building import attempts, partition_change
from hive_bitmap.spark.building.attempts import ProgressCallback
from hive_bitmap.spark.building.build_scope import BuildPlan, plan_attachment, plan_creation, plan_rebuild, plan_refresh
from hive_bitmap.spark.building.partition_change import Content
from hive_bitmap.spark.building.publish import Switch, drop_remains, publish
from hive_bitmap.spark.building.refresh import from_scratch
from hive_bitmap.spark.metastore import base_files as sources
from hive_bitmap.spark.metastore import metastore, permission
from hive_bitmap.spark.metastore.base_files import Spec
from hive_bitmap.spark.metastore.file_listing import format_of, require_no_stream, require_plain_options
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog, locations, trust
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
AUTO_UPDATE = "hive.optimize.index.autoupdate"  # Hive's setting, for the default of auto_refresh


@dataclass(frozen=True, kw_only=True)
class BuildReport(Report):
    """What a build did for one index, and what the index contains afterwards, for the partitions that were in scope.

    Sizes are in bytes; `index_rows` counts rows of the index table. `files_read` base files of `bytes_read` bytes were
    indexed; `shards_kept` of the shards were kept unchanged. `changed` counts base files that were added, changed or
    deleted while the build ran; until the next rebuild, queries read the added and changed ones whole. `unindexed`
    lists the files that could not be indexed, as pairs of path and reason. `untouched` counts the partitions that a
    refresh knew to be up to date, and whose files and shards are in none of the other numbers.
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
    untouched: int = 0

    def __repr__(self) -> str:
        return f"BuildReport({self})"

    def __str__(self) -> str:
        of = f"{self.definition.name} on {self.definition.full_table}"
        if self.untouched and not self.base_files:
            return f"{of}: up to date, nothing to read; looked at in {seconds(self.seconds)}"
        read = f"{self.files_read:,} files of {size(self.bytes_read)} read in {seconds(self.seconds)}"
        has = f"{self.base_rows:,} rows indexed in {size(self.index_bytes)}"
        left = f"; {len(self.unindexed):,} files could not be indexed" if self.unindexed else ""
        rest = f"; {self.untouched:,} other partitions are up to date" if self.untouched else ""
        return f"{of}: {read}; {has}{left}{rest}"

    def _cells(self) -> dict[str, str]:
        return {
            "index": self.definition.name,
            "table": self.definition.full_table,
            "columns": ", ".join(self.definition.column_names),
            "files read": f"{self.files_read:,}, {size(self.bytes_read)}",
            "rows indexed": "up to date" if self.untouched and not self.base_files else f"{self.base_rows:,}",
            "size": size(self.index_bytes),
            "not indexed": f"{len(self.unindexed):,} files" if self.unindexed else "",
            "time": seconds(self.seconds),
        }


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
    auto_refresh: bool | None = None,
    refresh_interval: str = REFRESH_INTERVAL,
    keep_removed: str = "",
    properties: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> list[BuildReport]:
    """Create indexes on a table and build them in one pass, one index for each item of `columns`.

    An item is a column name, or a sequence of column names for a composite key. `name`, `index_table` and `location`
    can only be given for a single item. With `deferred` the indexes are registered but cover no files until they are
    rebuilt. `where`, a condition on the partition columns, limits them to the partitions for which it is true. With
    `if_not_exists` an item is skipped if an index of its name exists. With `auto_refresh` the indexes are refreshed
    after writes, at most once in `refresh_interval`; None: if `hive.optimize.index.autoupdate` of the session is true
    and the index can be. `keep_removed`, such as `7 days`, is how long the index keeps what it knows of files that a
    Delta or Iceberg table no longer has, for queries of older versions. `properties` are user-defined names and values,
    which are stored and shown. Raise NotFound, AlreadyExists, Unsupported, InvalidProperty or InvalidPredicate before
    anything is written, and BuildFailed if the job or the publishing fails.
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
    follows = _follows_by_default(spark, type, deferred=deferred) if auto_refresh is None else auto_refresh
    items = [[item] if isinstance(item, str) else list(item) for item in columns]
    require_keys(base, [name for item in items for name in item])
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
            where=where or "",
            auto_refresh=follows,
            refresh_interval=refresh_interval,
            keep_removed=keep_removed,
            properties=properties,
        )
        if if_not_exists and any(index.definition.name == definition.name for index in indexes):
            continue
        catalog.require_free(spark, base, indexes, definition)
        _warn_of_equal(definition, indexes)
        definitions.append(locations.with_root(spark, definition, location))
    require_distinct(definitions)
    if not definitions:
        return Reports()
    keys = sorted({name for definition in definitions for name in definition.column_names})
    permission.require_reading(spark, base, keys, "CREATE INDEX")
    planned = plan_creation(spark, base, definitions)
    if deferred:
        empty = tuple(replace(change, refresh=from_scratch(())) for change in planned.changes)
        planned = replace(planned, changes=empty)
    return _run(spark, planned, True, progress, started)


def _warn_of_equal(definition: Definition, indexes: Iterable[Index]) -> None:
    """Log which other index of the table answers the same queries: both take space and refreshes."""
    for index in indexes:
        if index.trusted and _tells(index.definition) == _tells(definition):
            log.warning(
                "index %s has the same columns as index %s: queries need only one of them",
                definition.name,
                index.definition.name,
            )


def _tells(index: Definition) -> tuple[frozenset[str], bool, str]:
    """Return what queries can learn from an index: two that have this in common answer the same ones."""
    return frozenset(index.column_names), index.has_bitmaps, index.where


def _follows_by_default(spark: SparkSession, type: str, *, deferred: bool) -> bool:
    """Return the `auto_refresh` of a new index for which none is given: Hive's own setting, where that is possible."""
    said = spark.conf.get(AUTO_UPDATE, None) or "false"
    return not deferred and type.upper() != "COMPACT" and flag(AUTO_UPDATE, said)


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
    """Bring indexes of a table up to date in one pass: all of them, or those named.

    New and changed base files are read; what the index holds of the others is kept. Partitions that are up to date stay
    unchanged. `partition`, values of some or all partition columns, limits the rebuild to the partitions that have
    them. With `full` everything is built from scratch; with `compact` small shards are merged, without reading base
    files. In a copied metastore, the first rebuild of an index builds all of it in a folder of its own. Raise NotFound,
    Unsupported if the table or a column has changed since it was indexed, and BuildFailed.
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
    """Bring indexes of a table up to date like `rebuild`, but look only at partitions that seem to have changed.

    The metastore keeps with each partition of an index a digest of the base files that its generation covers. If the
    listing of the base partition has the same digest, that listing is all that is read for it: no manifest, no marker.
    So a refresh does not see a damaged or missing shard, nor a file that a stranger put into an index folder: queries
    see damage and read those base files whole, `verify` tells, and `rebuild` repairs, a flipped bit only with `full`.
    Nor does it merge small shards of a partition that did not change. A partition without a digest, as in the index of
    an earlier version, is looked at as by `rebuild`, and gets one. A Spark Connect client can record the digest of an
    unpartitioned table only: what it builds of another is looked at by the next refresh on a classic session.

    `partitions` are specs, values of some or all partition columns as the metastore writes them: only partitions that
    match one of them are looked at; if there are none, all. A spec may match nothing, as that of a partition that was
    dropped meanwhile. A change of the encoding waits for a refresh or rebuild of all partitions. In a copied metastore,
    the first refresh that finds a change is a `rebuild` of all partitions. Raise as `rebuild`.
    """
    started = time.monotonic()
    planned = plan_refresh(spark, table, names, partitions)
    if planned.is_empty:
        return Reports(_report(planned, number, (), 0, started) for number in range(len(planned.scopes)))
    if locations.any_elsewhere(spark, [scope.definition for scope in planned.scopes]):
        planned = plan_rebuild(spark, table, names, None, full=False, compact=False)
    return _rebuild(spark, planned, progress, started)


def attach(
    spark: SparkSession,
    base: Table,
    definitions: Sequence[Definition],
    former: Sequence[Index],
    progress: ProgressCallback | None = None,
) -> list[BuildReport]:
    """Build new indexes of a table from those it had under a former name, whose shards are linked or rewritten.

    Base files that are as they were indexed are not read, also if their folder was moved. The former indexes stay as
    they are. Raise BuildFailed, and Unsupported if the table has base files, and none that a former index knows.
    """
    planned = plan_attachment(spark, base, definitions, former)
    refreshes = [change.refresh for change in planned.changes]
    if any(one.read for one in refreshes) and not any(one.files.num_rows for one in refreshes):
        names = ", ".join(index.definition.name for index in former)
        raise Unsupported(f"no file of table {base.full_name} is one that index {names} knows: it is another table")
    return _run(spark, planned, True, progress, time.monotonic())


def _rebuild(
    spark: SparkSession, planned: BuildPlan, progress: ProgressCallback | None, started: float
) -> list[BuildReport]:
    try:
        for scope in planned.scopes:
            locations.require_own(spark, planned.base, scope.definition)
    except (OSError, StoreError) as e:
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    return _run(spark, planned, False, progress, started)


def _run(
    spark: SparkSession, planned: BuildPlan, created: bool, progress: ProgressCallback | None, started: float
) -> list[BuildReport]:
    in_work: list[str] = []
    try:
        return _carry_out(spark, planned, created, progress, started, in_work)
    finally:
        markers.end_work(in_work)


def _carry_out(
    spark: SparkSession,
    planned: BuildPlan,
    created: bool,
    progress: ProgressCallback | None,
    started: float,
    in_work: list[str],
) -> list[BuildReport]:
    """Carry out a plan; add to `in_work` the folders in which this build is at work."""
    base, mine = planned.base, metastore_id(spark)
    try:
        for scope in planned.scopes:
            roots.claim(scope.definition, mine)
            in_work.append(scope.definition.root)
        planned, reports = attempts.index_files(spark, planned, progress, mine, in_work)
        contents = partition_change.finish(planned.changes, reports)
        changed = sources.changed(base, planned.sources)
    except (OSError, StoreError) as e:
        _delete_unfinished(planned, created, mine)
        raise BuildFailed(f"the build failed, the published index is untouched: {e}") from e
    except BaseException:
        _delete_unfinished(planned, created, mine)
        raise
    publish(spark, base, [_switch(planned, number, contents, created) for number in range(len(planned.scopes))])
    for scope in planned.scopes:
        if scope.remains:
            drop_remains(spark, scope.elsewhere or scope.definition)
    if attempts.to_build(planned) or created:
        _warn_of_untrusted(spark, planned)
    return Reports(_report(planned, number, contents, changed, started) for number in range(len(planned.scopes)))


def _warn_of_untrusted(spark: SparkSession, planned: BuildPlan) -> None:
    """Log which of the indexes that were built queries will not use, because this user does not own the table."""
    built = {scope.definition.index_table: scope.definition for scope in planned.scopes}
    why_not = trust.by_base(spark, planned.base)
    for table in metastore.describe_many(spark, planned.base.database, list(built)):
        if why := why_not(table, built.get(table.name)):
            log.warning("built, but not used by queries: %s", why)


def _delete_unfinished(planned: BuildPlan, created: bool, mine: str) -> None:
    """Delete the generations that were begun, and the roots of new indexes; what fails is left to `clean`."""
    attempts.delete_begun(planned, mine)
    try:
        for scope in planned.scopes:
            if created or scope.elsewhere is not None:
                deletion.remove_root(scope.definition, mine)
    except (OSError, StoreError) as e:
        log.warning("files of the failed build could not be deleted and are left to clean: %s", e)


def _switch(planned: BuildPlan, number: int, contents: Sequence[Content], created: bool) -> Switch:
    """Return the metastore changes for one index; partitions that are up to date and recorded so stay unchanged."""
    scope = planned.scopes[number]
    own = [(c, content) for c, content in zip(planned.changes, contents, strict=True) if c.index == number]
    listings = {
        c.source.values: listing_digest.of_manifest(c.generation, scope.definition, content.files, planned.schema_crc)
        for c, content in own
    }
    return Switch(
        definition=scope.definition,
        folders={c.source.values: c.folder for c, _ in own if not c.refresh.up_to_date},
        listings={values: digest for values, digest in listings.items() if scope.recorded(values) != digest},
        dropped=planned.dropped(number),
        created=created,
        former=scope.elsewhere,
    )


def _report(planned: BuildPlan, number: int, contents: Sequence[Content], changed: int, started: float) -> BuildReport:
    scope, changes = planned.scopes[number], planned.changes_of(number)
    own = [content for content, change in zip(contents, planned.changes, strict=True) if change.index == number]
    files = pa.concat_tables([FILES.empty_table(), *(content.files for content in own)])
    shards = pa.concat_tables([SHARDS.empty_table(), *(content.shards for content in own)])
    unindexed = files.filter(pc.not_equal(files["reason"], "")).select(["path", "reason"]).to_pylist()
    for file in unindexed:
        log.warning("index %s leaves %s unindexed: %s", scope.definition.name, file["path"], file["reason"])
    return BuildReport(
        definition=scope.definition,
        base_files=sum(len(change.source.files) for change in changes),
        base_bytes=sum(file.size for change in changes for file in change.source.files),
        base_rows=_sum(pc.list_flatten(files["rows"])),
        shards=shards.num_rows,
        index_rows=_sum(shards["rows"]),
        index_bytes=_sum(shards["size"]) + _sum(shards["cardinality_size"]),
        files_read=sum(len(change.refresh.read) for change in changes),
        bytes_read=sum(file.size for change in changes for file in change.refresh.read),
        shards_kept=sum(len(change.refresh.linked) for change in changes),
        partitions_dropped=len(planned.dropped(number)),
        changed=changed,
        seconds=time.monotonic() - started,
        unindexed=tuple((file["path"], file["reason"]) for file in unindexed),
        untouched=scope.untouched,
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return pc.sum(numbers).as_py() or 0
