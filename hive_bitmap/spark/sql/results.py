"""The results of CREATE, REBUILD, REFRESH and DROP INDEX: a row for each index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from hive_bitmap.core.index import manifest
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (("index", "string"), ("files", "bigint"), ("rows", "bigint"), ("bytes", "bigint"), ("seconds", "double"))
Row: TypeAlias = tuple[str, int, int, int, float]
Held: TypeAlias = tuple[int, int, int]  # files and rows that an index covers, and its bytes
NOTHING_HELD: Held = (0, 0, 0)


def built(reports: Iterable[BuildReport]) -> list[Row]:
    """Return the rows of a build: files that were read, rows that are indexed, bytes of the index, and seconds."""
    return [
        (one.definition.name, one.files_read, one.base_rows, one.index_bytes, round(one.seconds, 3)) for one in reports
    ]


def held(spark: SparkSession, index: Index) -> Held:
    """Return how many files and rows an index covers, and its bytes.

    Nothing is read of an index that is not trusted, and damaged segments are not counted.
    """
    if not index.trusted:
        return NOTHING_HELD
    found = [one for one in map_parallel(_manifest, catalog.segments(spark, index)) if one]
    return (
        sum(one.files.num_rows for one in found),
        sum(pc.sum(pc.list_flatten(one.files["rows"])).as_py() or 0 for one in found),
        sum(pc.sum(pc.add(one.shards["size"], one.shards["cardinality_size"])).as_py() or 0 for one in found),
    )


def _manifest(folder: str) -> Manifest | None:
    try:
        return manifest.read(folder)
    except CorruptIndex:
        return None
