"""Read the columns and current files of an Iceberg table.

The Iceberg library of a classic session reads columns and files, through the public API of Iceberg's `Table` (version
1.12). A table cannot be indexed if Spark reads it by another relation than Iceberg's own.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import ICEBERG, Table, in_spark, raw_hadoop_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import jvm_reader, lake_tables
from hive_bitmap.spark.metastore.lake_tables import ICEBERG_CATALOGS, MOST_FILES, IcebergFacts, sentence
from hive_bitmap.spark.metastore.protocol import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOGS = ICEBERG_CATALOGS[1:]  # Iceberg's replacements of the session catalog
OF_SPARK = "org.apache.iceberg.spark.source.SparkTable"
OF_ROWS = "org.apache.iceberg.BaseTable"
NAME = re.compile(
    "[a-z0-9_]+"
)  # names that mean the same in catalogs that distinguish upper case and in those that do not


def described(spark: SparkSession, table: Table) -> Table:
    """Add the current metadata of Iceberg to a table.

    A table that is not an Iceberg table is returned unchanged.
    """
    if not lake_tables.is_iceberg(table) or not jvm_reader.available(spark):
        return table
    try:
        return _with_facts(spark, table)
    except Exception as e:  # noqa: BLE001 - an error of Spark, of this or another version of Iceberg, or of the table
        return lake_tables.unreadable(table, ICEBERG, e)


def table_of_catalog(spark: SparkSession, catalog: str, database: str, name: str) -> Table | None:
    """Return a table that is in an Iceberg catalog but not in the metastore.

    `catalog` is "" for the session catalog. Return None if the table does not exist, in a Spark Connect session, and
    for the session catalog if Iceberg does not replace it. If the table cannot be read, the result is marked as
    unreadable (`lake_tables.unreadable`).

    Catalogs treat some characters differently. For a name with such characters, the result is None for the session
    catalog; for another catalog, Unsupported is raised.
    """
    from pyspark.errors import AnalysisException

    replaces_session_catalog = spark.conf.get("spark.sql.catalog.spark_catalog", None) in SESSION_CATALOGS
    if not jvm_reader.available(spark) or (not catalog and not replaces_session_catalog):
        return None
    plain = Table(database=database, name=name, kind="EXTERNAL", provider=ICEBERG, catalog=catalog)
    if any(not NAME.fullmatch(part) for part in (database, name)):
        if not catalog:
            return None
        raise Unsupported(
            f"the name of table {plain.full_name} has characters other than a-z, 0-9 and _, which is not supported"
        )
    try:
        return _with_facts(spark, plain)
    except AnalysisException as e:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(e) or "SCHEMA_NOT_FOUND" in str(e):
            return None
        return lake_tables.unreadable(plain, ICEBERG, e)
    except Exception as e:  # noqa: BLE001 - as above
        return lake_tables.unreadable(plain, ICEBERG, e)


def live_files(spark: SparkSession, table: Table) -> tuple[FileStatus, ...]:
    """Return the current files of an Iceberg table, sorted by path.

    Raise Unsupported if the files cannot be listed, if there are more than MOST_FILES files, or if a file is listed
    twice.
    """
    name = in_spark(table.database, table.name, catalog=table.catalog)
    try:
        files = spark.table(f"{name}.data_files").select("file_path", "file_size_in_bytes")
        file_rows = files.limit(MOST_FILES + 1).toArrow()
    except Exception as e:
        raise Unsupported(f"the files of table {table.full_name} cannot be listed: {sentence(e)}") from e
    if file_rows.num_rows > MOST_FILES:
        raise Unsupported(f"table {table.full_name} has more than {MOST_FILES:,} files: rewrite_data_files first")
    default = _default_file_system(spark)
    paths, sizes = (column.to_pylist() for column in file_rows.columns)
    listed = [
        FileStatus(raw_hadoop_path(path, default), size, 0, IMMUTABLE) for path, size in zip(paths, sizes, strict=True)
    ]
    if len({file.path for file in listed}) < len(listed):
        raise Unsupported(f"table {table.full_name} lists a file twice, so its rows count twice")
    return tuple(sorted(listed, key=lambda file: file.path))


def removed_files(spark: SparkSession, table: Table, since: float) -> frozenset[str]:
    """Return the paths of the files removed from an Iceberg table since a time.

    `since` is in seconds since 1970. Files are removed by snapshots, and only snapshots that still exist are
    considered. A rollback removes no file. The result has at most MOST_FILES paths. Raises Unsupported if the table's
    metadata cannot be read.
    """
    name = in_spark(table.database, table.name, catalog=table.catalog)
    try:
        entries, snapshots = spark.table(f"{name}.all_entries"), spark.table(f"{name}.snapshots")
        then = datetime.fromtimestamp(since, timezone.utc)
        late = snapshots.where(snapshots.committed_at >= then).select("snapshot_id")
        removed = entries.where("status = 2 AND data_file.content = 0").join(late, "snapshot_id")
        paths = removed.selectExpr("data_file.file_path AS path").limit(MOST_FILES).toArrow()["path"].to_pylist()
    except Exception as e:
        raise Unsupported(f"the files of table {table.full_name} cannot be listed: {sentence(e)}") from e
    default = _default_file_system(spark)
    return frozenset(raw_hadoop_path(path, default) for path in paths)


def _with_facts(spark: SparkSession, table: Table) -> Table:
    _spark_table(spark, table).table().refresh()  # catalogs cache tables
    spark_table = _spark_table(spark, table)
    iceberg, properties = spark_table.table(), dict(spark_table.properties())
    jvm: Any = spark._jvm
    schemas, specs = jvm.org.apache.iceberg.SchemaParser, jvm.org.apache.iceberg.PartitionSpecParser
    facts = IcebergFacts(
        schema=str(schemas.toJson(iceberg.schema())),
        specs=tuple(str(specs.toJson(spec)) for spec in iceberg.specs().values()),
        format=iceberg.properties().get("write.format.default") or "parquet",
        version=str(properties.get("format-version")),
    )
    declared = str(spark_table.schema().json())
    shown = replace(
        table,
        kind="EXTERNAL",
        provider=ICEBERG,
        columns=tuple(columns_of(json.loads(declared))),
        location=raw_hadoop_path(str(iceberg.location()), _default_file_system(spark)),
        options={},
        properties={},
        declared=declared,
        owner=properties.get("owner") or table.owner,
    )
    return lake_tables.by_iceberg_facts(shown, facts)


def _spark_table(spark: SparkSession, table: Table) -> Any:
    """Return the object of Iceberg's class SparkTable for a table, from the JVM.

    Raise Unsupported if Spark reads the table by an object of another class.
    """
    relation: Any = spark.table(table.spark_name)._jdf.queryExecution().analyzed().collectLeaves().head()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation":
        raise Unsupported(f"Spark reads it by {relation.getClass().getSimpleName()}")
    iceberg_table = relation.table()
    if iceberg_table.getClass().getName() != OF_SPARK or iceberg_table.table().getClass().getName() != OF_ROWS:
        raise Unsupported(f"Spark reads it by {iceberg_table.getClass().getName()}")
    return iceberg_table


def _default_file_system(spark: SparkSession) -> str:
    jvm: Any = spark._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(hadoop).toString())
