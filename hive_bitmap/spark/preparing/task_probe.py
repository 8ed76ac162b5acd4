"""Probe whether tasks can open the files of a table.

Tasks run on other machines, with another Python and other permissions. Before a plan first relies on tasks, a small job
has each of them open a file, once for each session and store. Without this check the query would fail if tasks cannot
read the files, although Spark alone can answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.stores.paths import parts
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.session_cache import TtlCache
from hive_bitmap.spark.tasks.distribution import cause, in_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD, BAD = 3600.0, 300.0  # seconds for which an answer is cached
_good: TtlCache[tuple[str, str], bool] = TtlCache(most=64)
_bad: TtlCache[tuple[str, str], str] = TtlCache(most=64)


def require_readable(spark: SparkSession, settings: Mapping[str, str], path: str) -> None:
    """Raise StoreError if tasks cannot open the file at this path.

    No job runs if tasks run on the driver's machine.
    """
    if settings.get("spark.master", "").startswith("local"):
        return
    store = parts(path)[:2]
    if _good.get(spark, store, GOOD):
        return
    reason = _bad.get(spark, store, BAD)
    if reason is None:
        try:
            _open_in_tasks(spark, path)
        except StoreError as e:
            reason = str(e)
            _bad.put(spark, store, reason)
        else:
            _good.put(spark, store, True)
            return
    raise StoreError(f"tasks cannot read the files of {'://'.join(store)}: {reason}")


def _open_in_tasks(spark: SparkSession, path: str) -> None:
    try:
        in_tasks(spark, [path] * parallelism(spark), _open)
    except Exception as e:  # py4j's errors have no base class that can be imported without py4j
        raise StoreError(cause(e)) from e


def _open(path: str) -> None:
    """Request the status of a file from this task's machine.

    A file of a remote store may have been deleted by now; a local file must be there.
    """
    try:
        stores.status(path)
    except FileNotFoundError as e:
        if stores.is_local(path):
            raise StoreError(f"{path} does not exist on the machines where tasks run") from e
