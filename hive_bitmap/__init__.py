"""Bitmap indexes for Hive and Spark tables::

    import hive_bitmap
    spark = hive_bitmap.session()
    hive_bitmap.build(spark, "flights", ["carrier", "origin"])
    print(hive_bitmap.plan(spark, "flights", "carrier = 'UA'"))
    hive_bitmap.scan(spark, "flights", "carrier = 'UA' AND origin = 'JFK'")

Names are imported when they are first used, so that the parts that need no Spark load without it; but `session` and
`sql` at once, for they would else be hidden by the modules of the same names. Whether all packages are there that they
need is asked then, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import hive_bitmap.sql  # noqa: F401 - once it is loaded, the module does not hide the function below any more
from hive_bitmap.catalyst.text import sql
from hive_bitmap.packages import require
from hive_bitmap.session import session

if TYPE_CHECKING:
    from hive_bitmap.catalyst.enabling import disable, enable
    from hive_bitmap.catalyst.explaining import Explanation, Relation, explain
    from hive_bitmap.index.alter import extend, rename, set_properties
    from hive_bitmap.index.build import BuildReport, build, rebuild
    from hive_bitmap.index.clean import Leftover, clean
    from hive_bitmap.index.drop import drop, drop_table
    from hive_bitmap.index.estimate import Estimate, estimate
    from hive_bitmap.index.preview import Preview, preview
    from hive_bitmap.index.show import IndexStatus, show
    from hive_bitmap.index.verify import Verification, verify
    from hive_bitmap.query.aggregates import count, group_counts
    from hive_bitmap.query.planner import Plan
    from hive_bitmap.query.result_file import write_offsets
    from hive_bitmap.query.scan import plan, scan
    from hive_bitmap.sql.datasource import register

__version__ = "0.1.0"
_HOMES = {
    "BuildReport": "index.build",
    "Estimate": "index.estimate",
    "Explanation": "catalyst.explaining",
    "IndexStatus": "index.show",
    "Leftover": "index.clean",
    "Plan": "query.planner",
    "Preview": "index.preview",
    "Relation": "catalyst.explaining",
    "Verification": "index.verify",
    "build": "index.build",
    "clean": "index.clean",
    "count": "query.aggregates",
    "disable": "catalyst.enabling",
    "drop": "index.drop",
    "drop_table": "index.drop",
    "enable": "catalyst.enabling",
    "estimate": "index.estimate",
    "explain": "catalyst.explaining",
    "extend": "index.alter",
    "group_counts": "query.aggregates",
    "plan": "query.scan",
    "preview": "index.preview",
    "rebuild": "index.build",
    "register": "sql.datasource",
    "rename": "index.alter",
    "scan": "query.scan",
    "set_properties": "index.alter",
    "show": "index.show",
    "verify": "index.verify",
    "write_offsets": "query.result_file",
}
__all__ = [
    "BuildReport",
    "Estimate",
    "Explanation",
    "IndexStatus",
    "Leftover",
    "Plan",
    "Preview",
    "Relation",
    "Verification",
    "build",
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
    "register",
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
