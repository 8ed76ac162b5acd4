"""Find out what only Spark can read, and leave it to Spark.

Only Spark reads partition columns whose values have no Arrow type, columns with default values, and base files whose
current version is in no index. This module also says how finely Spark's own reader can skip data.

Tasks run on other machines, with another Python and other permissions. Before a plan relies on tasks, a small job
checks whether each task can reach a file. The answer is cached for each session and store: for an hour if tasks can
reach the file, otherwise for five minutes. Without this check, a query that Spark alone can answer would fail if tasks
cannot read the files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.listings import serde
from hive_bitmap.core.planning.planner import EngineSkips
from hive_bitmap.core.selecting.candidates import WholeFile
from hive_bitmap.core.stores.paths import parts
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.spark.preparing.request import ResolvedTable
from hive_bitmap.spark.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD, BAD = 3600.0, 300.0  # seconds for which an answer is cached
# Why tasks cannot open files of a store, by the store; "" if they can.
_why_not: TtlCache[tuple[str, str], str] = TtlCache(most=64)
log = logging.getLogger(__name__)
_logged: LRUCache[str, bool] = LRUCache(256)
_lock = Lock()


def engine_skips(resolved: ResolvedTable) -> EngineSkips:
    """Return what parts of a file Spark's reader can skip: blocks, splits or nothing."""
    if resolved.narrows:
        return EngineSkips.BLOCKS
    return EngineSkips.SPLITS if serde.read_properties(resolved.base) else EngineSkips.NOTHING


def why_unreadable(
    columns: Sequence[KeyColumn], whole: Sequence[WholeFile], needed: Sequence[Column], typed: Sequence[str]
) -> dict[str, str]:
    """Return, by path, why only Spark can read a file.

    The path "" stands for all files. `needed` are the columns of the table that the request needs. `columns` are the
    data columns that tasks can read, and `typed` are the partition columns whose values have an Arrow type. `whole` are
    the files to be read whole. Only Spark reads `whole`, because no build has opened the current version of these
    files: C++ that reads a damaged footer may end the process.
    """
    readable = {*typed, *(column.name for column in columns)}
    if missing := [column.name for column in needed if column.name not in readable]:
        return {"": f"only Spark can read the values of partition column {missing[0]!r}"}
    if defaulted := [column.name for column in needed if column.default]:
        return {"": f"only Spark knows the default value of column {defaulted[0]!r}"}
    return {file.status.path: _why_whole(file) for file in whole}


def _why_whole(file: WholeFile) -> str:
    return f"only Spark reads {file.status.path}: {file.reason or 'no index has its current version'}"


def require_readable(spark: SparkSession, settings: Mapping[str, str], path: str) -> None:
    """Raise StoreError if tasks cannot reach the file at this path.

    The answer is cached for the store of the file. No job runs if the answer is cached, or if tasks run on the driver's
    machine.
    """
    if settings.get("spark.master", "").startswith("local"):
        return
    store = parts(path)[:2]
    if _why_not.get(spark, store, GOOD) == "":
        return
    reason = _why_not.get(spark, store, BAD)
    if reason is None:
        reason = _open_in_tasks(spark, path)
        _why_not.put(spark, store, reason)
    if reason:
        raise StoreError(f"tasks cannot read the files of {'://'.join(store)}: {reason}")


def _open_in_tasks(spark: SparkSession, path: str) -> str:
    """Return why tasks cannot open a file; "" if they can."""
    from hive_bitmap.spark.tasks.distribution import cause, in_tasks, parallelism  # loads what tasks need

    try:
        in_tasks(spark, [path] * parallelism(spark), _open)
    except Exception as e:  # noqa: BLE001 - py4j's errors have no base class that can be imported without py4j
        return cause(e) or type(e).__name__
    return ""


def _open(path: str) -> None:
    """Check, inside a task, that the machine of the task can reach a file.

    A local file must exist. A file of a remote store may have been deleted in the meantime.
    """
    try:
        stores.status(path)
    except FileNotFoundError as e:
        if stores.is_local(path):
            raise StoreError(f"{path} does not exist on the machines where tasks run") from e


def fallback_reason(error: HiveBitmapError) -> str:
    """Return the reason why an error leaves a query to Spark.

    An error of a store is logged the first time it occurs.
    """
    reason = str(error)
    if isinstance(error, StoreError):
        with _lock:
            is_new = reason not in _logged
            _logged[reason] = True
        if is_new:
            log.warning("queries are left to Spark alone: %s", reason)
    return reason
