"""Find the parts of a table that only Spark can read.

Also say how finely Spark's own reader can skip data.
"""

from __future__ import annotations

from collections.abc import Sequence

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.planning.planner import EngineSkips
from hive_bitmap.core.selecting.candidates import WholeFile
from hive_bitmap.spark.metastore import serde
from hive_bitmap.spark.preparing.request import ResolvedTable


def engine_skips(resolved: ResolvedTable) -> EngineSkips:
    """Return the smallest unit that Spark's reader can skip."""
    if resolved.narrows:
        return EngineSkips.BLOCKS
    return EngineSkips.SPLITS if serde.read_properties(resolved.base) else EngineSkips.NOTHING


def why_unreadable(
    columns: Sequence[KeyColumn], whole: Sequence[WholeFile], needed: Sequence[Column], typed: Sequence[str]
) -> dict[str, str]:
    """Return why only Spark can read some files, by their path.

    The path "" stands for all files. `columns` are the data columns to read, `whole` the files to be read whole,
    `needed` the columns of the table that the request needs; `typed` are the partition columns whose values have an
    Arrow type. Only Spark reads the whole files: no build has opened their current version, or found that it can index
    them, and a damaged footer may end the process in which C++ reads it.
    """
    readable = {*typed, *(column.name for column in columns)}
    if missing := [column.name for column in needed if column.name not in readable]:
        return {"": f"only Spark can read the values of partition column {missing[0]!r}"}
    if defaulted := [column.name for column in needed if column.default]:
        return {"": f"only Spark knows the default value of column {defaulted[0]!r}"}
    return {file.status.path: _why_whole(file) for file in whole}


def _why_whole(file: WholeFile) -> str:
    return f"only Spark reads {file.status.path}: {file.reason or 'no index has its current version'}"
