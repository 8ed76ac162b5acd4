"""What only Spark can read of a table, and how little of it Spark's own reader can be told to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hive_bitmap.columns import Column
from hive_bitmap.errors import Undecodable
from hive_bitmap.formats import FORMATS
from hive_bitmap.formats.key_values import KeyColumn
from hive_bitmap.metastore import jvm_reader, serde
from hive_bitmap.planning.planner import EngineSkips
from hive_bitmap.planning.request import ResolvedTable
from hive_bitmap.selecting.candidates import WholeFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_WHOLE_FILES = 500  # more files to be read whole than this are not opened one by one to see whether they can be
_NO_ARROW = re.compile(r"\binterval (year|month)")  # types that a task of ours cannot hand to Spark


def engine_skips(spark: SparkSession, resolved: ResolvedTable, columns: Sequence[Column]) -> EngineSkips:
    """The smallest part of the table that Spark's reader can be told not to read, where these columns are needed.

    Files are left out by a condition on `_metadata.file_path`; tasks of ours, which return rows of the same columns,
    check that they are unchanged.
    """
    base = resolved.base
    if resolved.native:
        return EngineSkips.BLOCKS
    if serde.read_properties(base):
        return EngineSkips.SPLITS if jvm_reader.available(spark) else EngineSkips.NOTHING
    has_path = jvm_reader.available(spark) or base.provider != "hive"
    hidden = any(column.name.lower() == "_metadata" for column in (*base.columns, *base.partition_columns))
    checked = not any(_NO_ARROW.search(column.type) for column in columns)
    return EngineSkips.FILES if has_path and not hidden and checked else EngineSkips.NOTHING


def why_unreadable(
    format: str,
    columns: Sequence[KeyColumn],
    whole: Sequence[WholeFile],
    needed: Sequence[Column],
    known: Sequence[str],
) -> dict[str, str]:
    """Why only Spark can read some of these `columns`, by path of the file, or by "" where it holds of all files.

    `whole` are the files to be read whole, `needed` the columns of the table that the request needs; `known` are
    the partition columns whose values have an Arrow type.
    """
    read = {*known, *(column.name for column in columns)}
    if missing := [column.name for column in needed if column.name not in read]:
        return {"": f"only Spark can read the values of partition column {missing[0]!r}"}
    if defaulted := [column.name for column in needed if column.default]:
        return {"": f"only Spark knows the default value of column {defaulted[0]!r}"}
    if len(whole) > MOST_WHOLE_FILES:
        return {"": f"{len(whole)} files are not indexed as they are now"}
    return _undecodable(format, columns, whole)


def _undecodable(format: str, columns: Sequence[KeyColumn], whole: Sequence[WholeFile]) -> dict[str, str]:
    reasons = {}
    for file in whole:
        path = file.status.path
        try:
            spark_only = FORMATS[format].spark_only_columns(FORMATS[format].open_file(path), columns)
            if spark_only:
                reasons[path] = f"only Spark can read {path}: {next(iter(spark_only.values()))}"
        except (Undecodable, FileNotFoundError) as e:
            reasons[path] = f"only Spark can read {path}: {e}"
    return reasons
