"""Bitmap indexes for Hive and Spark tables::

    import hive_bitmap
    spark = hive_bitmap.session()
    hive_bitmap.build(spark, "flights", ["carrier", "origin"])
    print(hive_bitmap.plan(spark, "flights", "carrier = 'UA'"))
    hive_bitmap.scan(spark, "flights", "carrier = 'UA' AND origin = 'JFK'")

Names are imported when they are first used, so that the parts that do not need Spark can be loaded without it. The
first use also checks that the required packages are installed. `session` and `sql` are imported at once, because
otherwise the submodules of the same names would hide them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import hive_bitmap.sql  # noqa: F401 - loaded before the function of the same name, which it would hide otherwise
from hive_bitmap.catalyst.sql_text import sql
from hive_bitmap.packages import require
from hive_bitmap.session import session

if TYPE_CHECKING:
    from hive_bitmap.advising.advise import Advice, Candidate, UnusedIndex, advise
    from hive_bitmap.building.build import BuildReport, build, rebuild, refresh
    from hive_bitmap.building.preview import Preview, preview
    from hive_bitmap.catalyst.enabling import disable, enable, refreshed
    from hive_bitmap.catalyst.explanation import Explanation, Relation, explain
    from hive_bitmap.estimating.estimate import Estimate, estimate
    from hive_bitmap.maintaining.alter import extend, rename, set_properties
    from hive_bitmap.maintaining.clean import Leftover, clean
    from hive_bitmap.maintaining.drop import drop, drop_table
    from hive_bitmap.maintaining.show import IndexStatus, show
    from hive_bitmap.memory_budget import CacheUse, caches
    from hive_bitmap.planning.plan import Plan
    from hive_bitmap.querying.counting import count, group_counts
    from hive_bitmap.querying.offsets_file import write_offsets
    from hive_bitmap.querying.scanning import plan, scan
    from hive_bitmap.verifying.verify import Verification, verify

__version__ = "0.1.0"
_HOMES = {
    "Advice": "advising.advise",
    "BuildReport": "building.build",
    "CacheUse": "memory_budget",
    "Candidate": "advising.advise",
    "Estimate": "estimating.estimate",
    "Explanation": "catalyst.explanation",
    "IndexStatus": "maintaining.show",
    "Leftover": "maintaining.clean",
    "Plan": "planning.plan",
    "Preview": "building.preview",
    "Relation": "catalyst.explanation",
    "UnusedIndex": "advising.advise",
    "Verification": "verifying.verify",
    "advise": "advising.advise",
    "build": "building.build",
    "caches": "memory_budget",
    "clean": "maintaining.clean",
    "count": "querying.counting",
    "disable": "catalyst.enabling",
    "drop": "maintaining.drop",
    "drop_table": "maintaining.drop",
    "enable": "catalyst.enabling",
    "estimate": "estimating.estimate",
    "explain": "catalyst.explanation",
    "extend": "maintaining.alter",
    "group_counts": "querying.counting",
    "plan": "querying.scanning",
    "preview": "building.preview",
    "rebuild": "building.build",
    "refresh": "building.build",
    "refreshed": "catalyst.enabling",
    "rename": "maintaining.alter",
    "scan": "querying.scanning",
    "set_properties": "maintaining.alter",
    "show": "maintaining.show",
    "verify": "verifying.verify",
    "write_offsets": "querying.offsets_file",
}
__all__ = [
    "Advice",
    "BuildReport",
    "CacheUse",
    "Candidate",
    "Estimate",
    "Explanation",
    "IndexStatus",
    "Leftover",
    "Plan",
    "Preview",
    "Relation",
    "UnusedIndex",
    "Verification",
    "advise",
    "build",
    "caches",
    "clean",
    "count",
    "disable",
    "drop",
    "drop_table",
    "enable",
    "estimate",
    "explain",
    "extend",
    "group_counts",
    "plan",
    "preview",
    "rebuild",
    "refresh",
    "refreshed",
    "rename",
    "scan",
    "session",
    "set_properties",
    "show",
    "sql",
    "verify",
    "write_offsets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hive_bitmap' has no attribute {name!r}")
    require()
    return getattr(import_module(f"hive_bitmap.{_HOMES[name]}"), name)
