"""Read what Iceberg says of a table, through the Iceberg of the session: its columns, and the files that are its rows.

The relation that Spark makes of a table has Iceberg's own, which is asked by public methods of version 1.12; whatever
else it has is a table that cannot be indexed. Classic sessions only.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import Table, in_spark, raw_hadoop_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import jvm_reader, lake_tables
from hive_bitmap.spark.metastore.lake_tables import MOST_FILES, IcebergFacts, sentence
from hive_bitmap.spark.metastore.spark_schema import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOGS = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
SESSION_CATALOGS = CATALOGS[1:]  # those that Iceberg has for the place of the session's own
OF_SPARK = "org.apache.iceberg.spark.source.SparkTable"
OF_ROWS = "org.apache.iceberg.BaseTable"
NAME = re.compile("[a-z0-9_]+")  # names that mean the same in a catalog that knows upper case and in one that does not


def is_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether a catalog of the session, not its own one, is Iceberg's."""
    return spark.conf.get(f"spark.sql.catalog.{name}", None) in CATALOGS


def described(spark: SparkSession, table: Table) -> Table:
    """Return an Iceberg table with what Iceberg says of it now; any other table as it is."""
    if not lake_tables.is_iceberg(table) or not jvm_reader.available(spark):
        return table
    try:
        return _described(spark, table)
    except Exception as e:  # noqa: BLE001 - of Spark, of Iceberg, of another version of it, or of the table's own
        return lake_tables.unreadable(table, lake_tables.ICEBERG, e)


def table_of_catalog(spark: SparkSession, catalog: str, database: str, name: str) -> Table | None:
    """Return a table that only a catalog of Iceberg's knows, and the metastore does not; None if there is none.

    `catalog` is "" for the session's own one. Raises Unsupported for a name with characters that catalogs treat
    differently, and for a catalog that fails.
    """
    from pyspark.errors import AnalysisException

    own = spark.conf.get("spark.sql.catalog.spark_catalog", None) in SESSION_CATALOGS
    if not jvm_reader.available(spark) or (not catalog and not own):
        return None
    plain = Table(database=database, name=name, kind="EXTERNAL", provider=lake_tables.ICEBERG, catalog=catalog)
    if any(not NAME.fullmatch(part) for part in (database, name)):
        if not catalog:
            return None
        raise Unsupported(f"the name of table {plain.full_name} has other characters than a-z, 0-9 and _")
    try:
        return _described(spark, plain)
    except AnalysisException as e:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(e) or "SCHEMA_NOT_FOUND" in str(e):
            return None
        return lake_tables.unreadable(plain, lake_tables.ICEBERG, e)
    except Exception as e:  # noqa: BLE001 - as above
        return lake_tables.unreadable(plain, lake_tables.ICEBERG, e)


def live_files(spark: SparkSession, table: Table) -> tuple[FileStatus, ...]:
    """Return the files that are the rows of an Iceberg table now, sorted by path. Raises Unsupported."""
    name = in_spark(table.database, table.name, catalog=table.catalog)
    try:
        files = spark.table(f"{name}.data_files").select("file_path", "file_size_in_bytes")
        found = files.limit(MOST_FILES + 1).toArrow()
    except Exception as e:
        raise Unsupported(f"the files of table {table.full_name} cannot be listed: {sentence(e)}") from e
    if found.num_rows > MOST_FILES:
        raise Unsupported(f"table {table.full_name} has more than {MOST_FILES:,} files: rewrite_data_files first")
    default = _default_file_system(spark)
    paths, sizes = (column.to_pylist() for column in found.columns)
    listed = [
        FileStatus(raw_hadoop_path(path, default), size, 0, IMMUTABLE) for path, size in zip(paths, sizes, strict=True)
    ]
    if len({file.path for file in listed}) < len(listed):
        raise Unsupported(f"table {table.full_name} has a file twice, whose rows count twice")
    return tuple(sorted(listed, key=lambda file: file.path))


def removed_files(spark: SparkSession, table: Table, since: float) -> frozenset[str]:
    """Return the paths of the files that snapshots since then, in seconds since 1970, have removed from a table.

    Those of snapshots that are still there; a rollback removes no file. Raises Unsupported.
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


def _described(spark: SparkSession, table: Table) -> Table:
    _of_spark(spark, table).table().refresh()  # catalogs keep tables for a while
    of_spark = _of_spark(spark, table)
    iceberg, properties = of_spark.table(), dict(of_spark.properties())
    jvm: Any = spark._jvm
    schemas, specs = jvm.org.apache.iceberg.SchemaParser, jvm.org.apache.iceberg.PartitionSpecParser
    facts = IcebergFacts(
        schema=str(schemas.toJson(iceberg.schema())),
        specs=tuple(str(specs.toJson(spec)) for spec in iceberg.specs().values()),
        format=iceberg.properties().get("write.format.default") or "parquet",
        version=str(properties.get("format-version")),
    )
    declared = str(of_spark.schema().json())
    shown = replace(
        table,
        kind="EXTERNAL",
        provider=lake_tables.ICEBERG,
        columns=tuple(columns_of(json.loads(declared))),
        location=raw_hadoop_path(str(iceberg.location()), _default_file_system(spark)),
        options={},
        properties={},
        declared=declared,
        owner=properties.get("owner") or table.owner,
    )
    return lake_tables.by_iceberg_facts(shown, facts)


def _of_spark(spark: SparkSession, table: Table) -> Any:
    """Return Iceberg's table for Spark, an object of the JVM. Raises Unsupported."""
    relation: Any = spark.table(table.spark_name)._jdf.queryExecution().analyzed().collectLeaves().head()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation":
        raise Unsupported(f"Spark reads it by {relation.getClass().getSimpleName()}")
    found = relation.table()
    if found.getClass().getName() != OF_SPARK or found.table().getClass().getName() != OF_ROWS:
        raise Unsupported(f"Spark reads it by {found.getClass().getName()}")
    return found


def _default_file_system(spark: SparkSession) -> str:
    jvm: Any = spark._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(hadoop).toString())
