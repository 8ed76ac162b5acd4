"""The tables that the scans of a query read, and whether their place in the text can be taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.index import catalog
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.query.prepare import INDEXES_REMEMBERED
from hive_bitmap.query.rewrite.demands import ScanDemands
from hive_bitmap.query.rewrite.tree import Scan
from hive_bitmap.query.rewrite.understood import names
from hive_bitmap.query.rewrite.words import Words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sql_name(scan: Scan) -> str:
    """The name of a scan's table, quoted."""
    return ".".join(map(quote, scan.name))


def in_own_catalog(spark: SparkSession, scan: Scan) -> bool:
    """Whether a name means a table of the session's own catalog."""
    named = scan.name[0] if len(scan.name) == 3 else spark.catalog.currentCatalog()
    return named.lower() == "spark_catalog"


def indexed(spark: SparkSession, one: ScanDemands, thorough: bool) -> tuple[Table, list[Index]] | None:
    """The table of a scan and its indexes; None if none can serve, or it is not one of the session's own catalog.

    `thorough` if indexes matter that no condition names.
    """
    name = sql_name(one.scan)
    wanted = names(one.demands) | {merged for item in one.block.items for join in item for merged in join.merged}
    if len(one.scan.name) > 3 or not (wanted or thorough):
        return None
    try:
        columns = catalog.indexed_columns(spark, name, INDEXES_REMEMBERED)
        if columns is not None and not (columns and thorough) and columns.isdisjoint(wanted):
            return None
        base, indexes = catalog.table_and_indexes(spark, name, INDEXES_REMEMBERED)
    except HiveBitmapError:  # Spark says what it says of such a name
        return None
    if not indexes or base.kind == "TEMPORARY" or not in_own_catalog(spark, one.scan):
        return None
    return base, indexes


def left_alone(spark: SparkSession, read: Words, one: ScanDemands, base: Table, conf: Mapping[str, str]) -> str:
    """Why nothing may take the place of a scan; empty if something may."""
    if '"' in read.text and conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false").lower() == "true":
        return "names may stand in double quotes"
    if not one.scan.aliased and _is_named_in_full(read, one.scan.alias):
        return "its columns are named behind its database"
    if spark.catalog.isCached(base.sql_name):
        return "the session has it in its cache"
    return ""


def _is_named_in_full(read: Words, name: str) -> bool:
    places = (at for at in range(read.end) if read.name(at) == name)
    return any(read.key(at - 1) == "." and read.key(at + 1) == "." for at in places)
