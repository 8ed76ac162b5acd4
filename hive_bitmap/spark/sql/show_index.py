"""Make the rows of SHOW INDEX, and of CREATE, REBUILD, REFRESH and DROP INDEX.

SHOW INDEX has Hive's six columns for the indexes of a table, and openLooKeng's eleven columns for a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from hive_bitmap.core.explaining.measures import size
from hive_bitmap.core.index import manifest
from hive_bitmap.core.index.aggregate_columns import texts
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.table_info import full_name, in_spark, quote
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.maintaining.show import IndexStatus, show
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RESULT_COLUMNS = (
    ("index", "string"),
    ("files", "bigint"),
    ("rows", "bigint"),
    ("bytes", "bigint"),
    ("seconds", "double"),
)
Row: TypeAlias = tuple[str, int, int, int, float]
Held: TypeAlias = tuple[int, int, int]  # files and rows that an index covers, and its bytes
NOTHING_HELD: Held = (0, 0, 0)
HIVE_COLUMNS = ("idx_name", "tab_name", "col_names", "idx_tab_name", "idx_type", "comment")
OPENLOOKENG_COLUMNS = (
    "Index Name",
    "User",
    "Table Name",
    "Index Columns",
    "Index Type",
    "Index Size",
    "Index Status",
    "Partitions",
    "Index Properties",
    "Memory Usage (Coordinator Only)",
    "Disk Usage (Coordinator Only)",
)
_PARTITIONS_WIDTH = 70  # characters in a line of the column Partitions
_NOTHING_CACHED = "0 B"  # unlike in openLooKeng, no coordinator caches indexes in memory or on its disk


def built(reports: Iterable[BuildReport]) -> list[Row]:
    """Return the rows that a build statement shows.

    A row has the number of files that were read, the indexed rows, the bytes of the index, and the seconds.
    """
    return [
        (report.definition.name, report.files_read, report.base_rows, report.index_bytes, round(report.seconds, 3))
        for report in reports
    ]


def held(spark: SparkSession, index: Index) -> Held:
    """Return how many files and rows an index covers, and its bytes.

    Files of an untrusted index are not read, and damaged segments are not counted.
    """
    if not index.trusted:
        return NOTHING_HELD
    manifests = [content for content in map_parallel(_manifest, catalog.segments(spark, index)) if content]
    return (
        sum(content.files.num_rows for content in manifests),
        sum(pc.sum(pc.list_flatten(content.files["rows"])).as_py() or 0 for content in manifests),
        sum(
            pc.sum(pc.add(content.shards["size"], content.shards["cardinality_size"])).as_py() or 0
            for content in manifests
        ),
    )


def _manifest(folder: str) -> Manifest | None:
    try:
        return manifest.read(folder)
    except CorruptIndex:
        return None


def hive_listing(spark: SparkSession, table: str) -> DataFrame:
    """Return the indexes of a table in Hive's columns.

    Raise NotFound for an unknown table.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    rows = [
        (d.name, base.name, ", ".join(d.key_texts), d.pointer, d.type.lower(), d.comment)
        for d in (index.definition for index in indexes)
    ]
    return spark.createDataFrame(rows, _string_schema(HIVE_COLUMNS))


def openlookeng_listing(spark: SparkSession, database: str, name: str | None) -> DataFrame:
    """Return the indexes of a database in openLooKeng's columns.

    If a table or one of its index tables is in the database, all indexes of the table are included. Each index is shown
    with its current state. With `name`, return only the indexes of that name.
    """
    definitions = [index.definition for index in catalog.indexes_of_database(spark, database)]
    selected = [definition for definition in definitions if name is None or definition.name == name]
    tables = sorted({(definition.catalog, definition.database, definition.table) for definition in selected})
    rows = [
        _row(spark, status, spark.catalog.tableExists(table))
        for table in (in_spark(*names, catalog=catalog) for catalog, *names in tables)
        for status in show(spark, table)
        if name is None or status.definition.name == name
    ]
    return spark.createDataFrame(sorted(rows), _string_schema(OPENLOOKENG_COLUMNS))


def _row(spark: SparkSession, status: IndexStatus, table_exists: bool) -> tuple[str, ...]:
    definition = status.definition
    return (
        definition.name,
        _owner(spark, definition),
        full_name(definition.catalog or spark.catalog.currentCatalog(), definition.database, definition.table),
        ",".join(definition.key_texts),
        definition.type,
        size(status.index_bytes),
        state(status) if table_exists else "Table Deleted",
        partitions(status),
        properties(definition),
        _NOTHING_CACHED,
        _NOTHING_CACHED,
    )


def state(status: IndexStatus) -> str:
    """Return openLooKeng's word for the state of an index."""
    return "Out-of-sync" if status.problem or status.stale or status.unindexed or status.gone else "OK"


def partitions(status: IndexStatus) -> str:
    """Return the names of the partitions that an index is limited to.

    The names are separated by commas, in lines of at most _PARTITIONS_WIDTH characters. The text is `all` for an
    unlimited index.
    """
    if not status.definition.where:
        return "all"
    names = ",".join(partition.name for partition in status.partitions)
    return "\n".join(names[at : at + _PARTITIONS_WIDTH] for at in range(0, len(names), _PARTITIONS_WIDTH))


def properties(definition: Definition) -> str:
    """Return the properties of an index as `name=value`, separated by commas.

    User-defined properties come last.
    """
    pairs = {"encoding": definition.encoding} if definition.has_bitmaps else {}
    pairs |= {"compression": definition.compression, "enabled": str(definition.enabled).lower()}
    if definition.auto_refresh:
        pairs |= {"auto_refresh": "true", "refresh_interval": definition.refresh_interval}
    if definition.keep_removed:
        pairs |= {"keep_removed": definition.keep_removed}
    if definition.aggregates:
        pairs |= {"aggregates": texts(definition.aggregates)}
    return ",".join(f"{key}={value}" for key, value in (pairs | dict(definition.properties)).items())


def _owner(spark: SparkSession, definition: Definition) -> str:
    """Return the owner of the index table; "" if the metastore has none."""
    [table] = metastore.describe_many(spark, definition.index_table_database, [definition.index_table])
    return table.owner


def _string_schema(columns: tuple[str, ...]) -> str:
    return ", ".join(f"{quote(name)} string" for name in columns)
