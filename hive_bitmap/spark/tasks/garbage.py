"""Keep loaded modules out of the garbage collections that PySpark makes between tasks.

A Python worker collects garbage after each task, before it takes the next one:
https://github.com/apache/spark/blob/v4.0.0/python/pyspark/daemon.py (`gc.collect()` in `manager`). With the modules of
hive_bitmap, Arrow and DuckDB it would visit some 75,000 objects each time, which takes 15 to 30 ms.
"""

from __future__ import annotations

import atexit
import gc
import sys
from functools import cache


def freeze_modules() -> None:
    """Exempt all objects of this process from garbage collection.

    It does so once for each set of loaded modules.
    """
    _freeze(len(sys.modules))


@cache
def _freeze(modules: int) -> None:
    gc.collect()
    gc.freeze()


atexit.register(gc.unfreeze)  # an interpreter that ends frees its modules; DuckDB reports those that it cannot free
