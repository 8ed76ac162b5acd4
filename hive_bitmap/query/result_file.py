"""Writing the compact-index result file of a predicate, for readers that take file names and offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from hive_bitmap.errors import Undecodable, Unsupported
from hive_bitmap.formats import FORMATS, LAYOUTS, storage
from hive_bitmap.index import listing, metastore
from hive_bitmap.index.sources import sources
from hive_bitmap.query.offsets import result_file, selected_offsets
from hive_bitmap.query.planner import Plan
from hive_bitmap.query.prepare import Request, analysed, prepare
from hive_bitmap.query.unit_offsets import unit_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_offsets(spark: SparkSession, table: str, predicate: str | None, path: str) -> Plan:
    """Write the result file of a predicate to `path` (a local path or a Hadoop path) and return the plan behind it.

    Every block that may hold a matching row is listed; files that no index knows as they are now are listed whole. A
    file without a line holds no match. Raises what `plan` raises, and Unsupported for a table whose blocks cannot be
    told or a path that a reader would misread; nothing is written then.
    """
    request = Request(table, predicate, ())
    analysed(spark, Request(table, predicate))
    prepared = prepare(spark, request)
    base = metastore.describe(spark, table)
    format = listing.format_of(base)
    if prepared.reading is None:
        whole = [file.path for source in sources(spark, base) for file in source.files]
    else:
        whole = [file.status.path for file in prepared.reading.work.whole]
    if format in LAYOUTS:
        found = unit_offsets(spark, format, prepared.reading, whole)
    else:
        found = selected_offsets(prepared.plan.files, prepared.plan.blocks, _all_offsets(format, whole))
    content = result_file(found)
    with storage.open_output(path if ":" in path.partition("/")[0] else "file:" + storage.absolute(path)) as sink:
        sink.write(content)
    return prepared.plan


def _all_offsets(format: str, paths: Iterable[str]) -> dict[str, list[int]]:
    offsets = {}
    for path in paths:
        try:
            blocks = FORMATS[format].blocks(FORMATS[format].open_file(path))
        except Undecodable as e:
            raise Unsupported(f"the blocks of {path} cannot be told: {e}") from e
        offsets[path] = blocks.offset[np.flatnonzero(blocks.rows)].tolist()
    return offsets
