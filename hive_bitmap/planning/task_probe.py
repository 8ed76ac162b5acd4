"""Whether tasks can open the files of a table: they run on other machines, with another Python and other rights.

Asked once a session and store, by a small job, before tasks are first relied on: rows that they cannot read would end
the query, where Spark alone can answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.errors import StoreError
from hive_bitmap.session_cache import TtlCache
from hive_bitmap.stores.paths import parts
from hive_bitmap.tasks.distribution import cause, in_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD, BAD = 3600.0, 300.0  # seconds for which an answer holds
_good: TtlCache[tuple[str, str], bool] = TtlCache(most=64)
_bad: TtlCache[tuple[str, str], str] = TtlCache(most=64)


def require_readable(spark: SparkSession, settings: Mapping[str, str], path: str) -> None:
    """Raise StoreError where tasks cannot open the file at this path; none are asked where they run beside us."""
    if settings.get("spark.master", "").startswith("local"):
        return
    store = parts(path)[:2]
    if _good.get(spark, store, GOOD):
        return
    reason = _bad.get(spark, store, BAD)
    if reason is None:
        try:
            _ask(spark, path)
        except StoreError as e:
            reason = str(e)
            _bad.keep(spark, store, reason)
        else:
            _good.keep(spark, store, True)
            return
    raise StoreError(f"tasks cannot read the files of {'://'.join(store)}: {reason}")


def _ask(spark: SparkSession, path: str) -> None:
    try:
        in_tasks(spark, [path] * parallelism(spark), _open)
    except Exception as e:  # py4j's errors have no parent that is there without py4j
        raise StoreError(cause(e)) from e


def _open(path: str) -> None:
    """Open a file here; one that is gone meanwhile was not hidden from us, but on a disk that is not the driver's."""
    try:
        stores.status(path)
    except FileNotFoundError as e:
        if stores.is_local(path):
            raise StoreError(f"{path} is not there, where tasks run") from e
