"""Bitmap indexes for Hive and Spark tables::

    import hive_bitmap
    spark = hive_bitmap.session()
    hive_bitmap.build(spark, "flights", ["carrier", "origin"])
    print(hive_bitmap.plan(spark, "flights", "carrier = 'UA'"))
    hive_bitmap.scan(spark, "flights", "carrier = 'UA' AND origin = 'JFK'")

Names are imported when they are first used, so that parts without Spark can be loaded without it. The first use also
checks that the required packages are installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_bitmap.core.memory_budget import CacheUse, caches
    from hive_bitmap.core.planning.plan import Plan
    from hive_bitmap.spark.advising.advise import advise
    from hive_bitmap.spark.advising.proposals import Advice, LeftOut, Proposal, UnusedIndex
    from hive_bitmap.spark.building.build import BuildReport, build, rebuild, refresh
    from hive_bitmap.spark.building.preview import Preview, preview
    from hive_bitmap.spark.catalyst.enabling import disable, enable, refreshed
    from hive_bitmap.spark.catalyst.explanation import Explanation, Relation, explain
    from hive_bitmap.spark.catalyst.sql_text import sql
    from hive_bitmap.spark.estimating.estimate import Estimate, estimate
    from hive_bitmap.spark.maintaining.alter import extend, rename, set_properties
    from hive_bitmap.spark.maintaining.attach import attach
    from hive_bitmap.spark.maintaining.clean import Leftover, clean
    from hive_bitmap.spark.maintaining.drop import drop, drop_table
    from hive_bitmap.spark.maintaining.show import IndexStatus, show
    from hive_bitmap.spark.querying.offsets_file import write_offsets
    from hive_bitmap.spark.querying.scanning import count, group_counts, plan, scan
    from hive_bitmap.spark.session import session
    from hive_bitmap.spark.verifying.verify import Verification, verify

__version__ = "0.1.0"
_HOMES = {
    "Advice": "spark.advising.proposals",
    "BuildReport": "spark.building.build",
    "CacheUse": "core.memory_budget",
    "Estimate": "spark.estimating.estimate",
    "Explanation": "spark.catalyst.explanation",
    "IndexStatus": "spark.maintaining.show",
    "LeftOut": "spark.advising.proposals",
    "Leftover": "spark.maintaining.clean",
    "Plan": "core.planning.plan",
    "Preview": "spark.building.preview",
    "Proposal": "spark.advising.proposals",
    "Relation": "spark.catalyst.explanation",
    "UnusedIndex": "spark.advising.proposals",
    "Verification": "spark.verifying.verify",
    "advise": "spark.advising.advise",
    "attach": "spark.maintaining.attach",
    "build": "spark.building.build",
    "caches": "core.memory_budget",
    "clean": "spark.maintaining.clean",
    "count": "spark.querying.scanning",
    "disable": "spark.catalyst.enabling",
    "drop": "spark.maintaining.drop",
    "drop_table": "spark.maintaining.drop",
    "enable": "spark.catalyst.enabling",
    "estimate": "spark.estimating.estimate",
    "explain": "spark.catalyst.explanation",
    "extend": "spark.maintaining.alter",
    "group_counts": "spark.querying.scanning",
    "plan": "spark.querying.scanning",
    "preview": "spark.building.preview",
    "rebuild": "spark.building.build",
    "refresh": "spark.building.build",
    "refreshed": "spark.catalyst.enabling",
    "rename": "spark.maintaining.alter",
    "scan": "spark.querying.scanning",
    "session": "spark.session",
    "set_properties": "spark.maintaining.alter",
    "show": "spark.maintaining.show",
    "sql": "spark.catalyst.sql_text",
    "verify": "spark.verifying.verify",
    "write_offsets": "spark.querying.offsets_file",
}
__all__ = [
    "Advice",
    "BuildReport",
    "CacheUse",
    "Estimate",
    "Explanation",
    "IndexStatus",
    "LeftOut",
    "Leftover",
    "Plan",
    "Preview",
    "Proposal",
    "Relation",
    "UnusedIndex",
    "Verification",
    "advise",
    "attach",
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
    import_module("hive_bitmap.spark.packages").require()
    return getattr(import_module(f"hive_bitmap.{_HOMES[name]}"), name)
