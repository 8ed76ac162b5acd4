"""Read the columns and live files of a Delta table from its log.

This works in classic sessions. Spark's relation of a Delta table has the log. Public methods of the session's Delta
(4.0 to 4.4) read the log; no class of Delta is imported. A table with any other relation cannot be indexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import DELTA, Table, hadoop_path, raw_hadoop_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import jvm_reader, lake_tables
from hive_bitmap.spark.metastore.lake_tables import MOST_FILES, Facts, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEX_OF_LOG = "TahoeLogFileIndex"  # Delta's file index in a relation that is not planned yet


def described(spark: SparkSession, table: Table) -> Table:
    """Return a Delta table with its current columns; return other tables unchanged."""
    if table.provider.lower() != DELTA or not jvm_reader.available(spark):
        return table
    try:
        snapshot = _files_of_log(spark, table).getSnapshot()
        metadata, protocol = snapshot.metadata(), snapshot.protocol()
        configuration = jvm_reader.to_python(spark, metadata.configuration())
        features = protocol.readerFeatures()
        facts = Facts(
            schema=str(metadata.schemaString()),
            partitioned_by=tuple(jvm_reader.to_python(spark, metadata.partitionColumns())),
            mapping=configuration.get("delta.columnMapping.mode", "none"),
            features=tuple(jvm_reader.to_python(spark, features.get())) if features.isDefined() else (),
        )
        return lake_tables.by_facts(table, facts)
    except Exception as e:  # noqa: BLE001 - an error of Spark, of this or another version of Delta, or of the log
        return lake_tables.unreadable(table, DELTA, e)


def live_files(spark: SparkSession, table: Table) -> tuple[FileStatus, ...]:
    """Return the current files of a Delta table, sorted by path.

    Raise Unsupported if the log is unreadable, or if there are more than MOST_FILES files.
    """
    from pyspark.sql import DataFrame

    try:
        location = _files_of_log(spark, table)
        root = raw_hadoop_path(str(location.path().toString()))
        files = DataFrame(location.getSnapshot().allFiles().toDF(), spark).select("path", "size", "modificationTime")
        file_rows = files.limit(MOST_FILES + 1).toArrow()
    except Exception as e:  # as above
        raise Unsupported(f"the log of table {table.full_name} cannot be read: {sentence(e)}") from e
    if file_rows.num_rows > MOST_FILES:
        raise Unsupported(f"table {table.full_name} has more than {MOST_FILES:,} files: OPTIMIZE it first")
    paths, sizes, times = (column.to_pylist() for column in file_rows.columns)
    listed = zip(paths, sizes, times, strict=True)
    return tuple(sorted((_file(root, *row) for row in listed), key=lambda file: file.path))


def removed_files(spark: SparkSession, table: Table, since: float) -> frozenset[str]:
    """Return the paths of the files removed from a Delta table since a time.

    `since` is in seconds since 1970. The log keeps removed files for `delta.deletedFileRetentionDuration`. The result
    has at most MOST_FILES paths. Raises Unsupported if the log is unreadable.
    """
    from pyspark.sql import DataFrame

    try:
        location = _files_of_log(spark, table)
        root = raw_hadoop_path(str(location.path().toString()))
        removed = DataFrame(location.getSnapshot().tombstones().toDF(), spark)
        recent = removed.where(removed.deletionTimestamp >= int(since * 1000)).select("path").limit(MOST_FILES)
        return frozenset(_file(root, path, 0, 0).path for path in recent.toArrow()["path"].to_pylist())
    except Exception as e:  # as above
        raise Unsupported(f"the log of table {table.full_name} cannot be read: {sentence(e)}") from e


def _file(root: str, path: str, size: int, modified: int) -> FileStatus:
    """Return the status of a file that the log lists.

    `path` is a URI, which may be relative to the table's folder `root`. `size` is in bytes, and `modified` is the
    modification time in milliseconds since 1970.
    """
    decoded = unquote(path)
    absolute = ":" in path.partition("/")[0] or path.startswith("/")
    return FileStatus(hadoop_path(path) if absolute else f"{root}/{decoded}", size, modified, IMMUTABLE)


def _files_of_log(spark: SparkSession, table: Table) -> Any:
    """Return the `TahoeLogFileIndex` by which Delta lists a table's current files.

    Queries of the session use the same object. Raises Unsupported if the table's relation has no such object.
    """

    leaf: Any = spark.table(table.spark_name)._jdf.queryExecution().analyzed().collectLeaves().head()
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        raise Unsupported(f"Spark reads it by {leaf.getClass().getSimpleName()}")
    location = leaf.relation().location()
    if location.getClass().getSimpleName() != INDEX_OF_LOG:
        raise Unsupported(f"Spark reads it by {location.getClass().getSimpleName()}")
    return location
