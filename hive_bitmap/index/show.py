"""The state of the indexes of a table: what each covers of the files that are there now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from hive_bitmap.errors import CorruptIndex
from hive_bitmap.index import catalog, manifest
from hive_bitmap.index.build import Source, sources
from hive_bitmap.index.catalog import Index, Values
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class IndexStatus:
    """One index: how many of the table's files it knows as they are now, how many changed, how many it does not know.

    `gone` counts files that it knows and that are no more; `index_bytes` and `index_rows` are of its shards.
    """

    definition: Definition
    fresh: int
    stale: int
    unindexed: int
    gone: int
    base_rows: int
    index_rows: int
    index_bytes: int


def show(spark: SparkSession, table: str) -> list[IndexStatus]:
    """The indexes of a table, by name; raises NotFound for an unknown table."""
    base, indexes = catalog.table_and_indexes(spark, table)
    found = sources(spark, base) if indexes else []
    return [_status(index, catalog.states(spark, index), found) for index in indexes]


def _status(index: Index, folders: dict[Values, str], found: list[Source]) -> IndexStatus:
    fresh = stale = unindexed = gone = rows = index_rows = size = 0
    for source in found:
        held = _manifest(folders.get(source.values))
        present = {file.path for file in source.files}
        for file in source.files:
            row = None if held is None else held.row_of.get(file.path)
            if held is None or row is None or held.shard_of[row] is None:
                unindexed += 1
            elif held.fingerprints[row].matches(file):
                fresh += 1
            else:
                stale += 1
        if held is not None:
            gone += sum(path not in present for path in held.row_of)
            rows += pc.sum(pc.list_flatten(held.files["rows"])).as_py() or 0
            index_rows += pc.sum(held.shards["rows"]).as_py() or 0
            size += pc.sum(pc.add(held.shards["size"], held.shards["cardinality_size"])).as_py() or 0
    return IndexStatus(index.definition, fresh, stale, unindexed, gone, rows, index_rows, size)


def _manifest(folder: str | None) -> Manifest | None:
    """A damaged manifest covers nothing."""
    try:
        return manifest.read(folder) if folder is not None else None
    except CorruptIndex:
        return None
