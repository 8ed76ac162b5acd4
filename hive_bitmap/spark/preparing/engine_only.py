"""What only Spark can read of a table, and how little of it Spark's own reader can be told to read."""

from __future__ import annotations

from collections.abc import Sequence

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.planning.planner import EngineSkips
from hive_bitmap.core.selecting.candidates import WholeFile
from hive_bitmap.spark.metastore import serde
from hive_bitmap.spark.preparing.request import ResolvedTable


def engine_skips(resolved: ResolvedTable) -> EngineSkips:
    """The smallest part of the table that Spark's reader can be told not to read."""
    if resolved.narrows:
        return EngineSkips.BLOCKS
    return EngineSkips.SPLITS if serde.read_properties(resolved.base) else EngineSkips.NOTHING


def why_unreadable(
    columns: Sequence[KeyColumn], whole: Sequence[WholeFile], needed: Sequence[Column], known: Sequence[str]
) -> dict[str, str]:
    """Why only Spark can read some of these `columns`, by path of the file, or by "" where it holds of all files.

    `whole` are the files to be read whole, `needed` the columns of the table that the request needs; `known` are
    the partition columns whose values have an Arrow type. Only Spark reads the whole files: no build has opened them as
    they are now, or found that it can index them, and a damaged footer may end the process in which C++ reads it.
    """
    read = {*known, *(column.name for column in columns)}
    if missing := [column.name for column in needed if column.name not in read]:
        return {"": f"only Spark can read the values of partition column {missing[0]!r}"}
    if defaulted := [column.name for column in needed if column.default]:
        return {"": f"only Spark knows the default value of column {defaulted[0]!r}"}
    return {file.status.path: _why_whole(file) for file in whole}


def _why_whole(file: WholeFile) -> str:
    return f"only Spark reads {file.status.path}: {file.reason or 'no index knows it as it is now'}"
