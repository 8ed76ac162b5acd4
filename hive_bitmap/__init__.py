"""Bitmap indexes for Hive and Spark tables::

    import hive_bitmap
    spark = hive_bitmap.session()
    hive_bitmap.build(spark, "flights", ["carrier", "origin"])
    print(hive_bitmap.plan(spark, "flights", "carrier = 'UA'"))
    hive_bitmap.scan(spark, "flights", "carrier = 'UA' AND origin = 'JFK'")

A public name is imported when it is first used, so that modules that do not need Spark can be loaded without Spark. The
first use also checks that the required packages are installed.
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


def _live_in(module: str) -> None:
    """Record that `module` defines the names added to `__all__` since the last call."""
    _HOMES.update({name: module for name in __all__ if name not in _HOMES})


# The public names by their modules: in literal lists, because type checkers ignore what is computed.
__all__ = ["CacheUse", "caches"]
_HOMES = dict.fromkeys(__all__, "core.memory_budget")
__all__ += ["Plan"]
_live_in("core.planning.plan")
__all__ += ["advise"]
_live_in("spark.advising.advise")
__all__ += ["Advice", "LeftOut", "Proposal", "UnusedIndex"]
_live_in("spark.advising.proposals")
__all__ += ["BuildReport", "build", "rebuild", "refresh"]
_live_in("spark.building.build")
__all__ += ["Preview", "preview"]
_live_in("spark.building.preview")
__all__ += ["disable", "enable", "refreshed"]
_live_in("spark.catalyst.enabling")
__all__ += ["Explanation", "Relation", "explain"]
_live_in("spark.catalyst.explanation")
__all__ += ["sql"]
_live_in("spark.catalyst.sql_text")
__all__ += ["Estimate", "estimate"]
_live_in("spark.estimating.estimate")
__all__ += ["extend", "rename", "set_properties"]
_live_in("spark.maintaining.alter")
__all__ += ["attach"]
_live_in("spark.maintaining.attach")
__all__ += ["Leftover", "clean"]
_live_in("spark.maintaining.clean")
__all__ += ["drop", "drop_table"]
_live_in("spark.maintaining.drop")
__all__ += ["IndexStatus", "show"]
_live_in("spark.maintaining.show")
__all__ += ["write_offsets"]
_live_in("spark.querying.offsets_file")
__all__ += ["count", "group_counts", "plan", "scan"]
_live_in("spark.querying.scanning")
__all__ += ["session"]
_live_in("spark.session")
__all__ += ["Verification", "verify"]
_live_in("spark.verifying.verify")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hive_bitmap' has no attribute {name!r}")
    import_module("hive_bitmap.spark.packages").require()
    return getattr(import_module(f"hive_bitmap.{_HOMES[name]}"), name)
