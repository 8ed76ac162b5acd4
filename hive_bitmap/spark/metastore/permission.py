"""Decide whether Spark shows a session the unchanged rows of a table.

Code that reads files without Spark's plans must check this first: builds, `estimate`, `verify` and the Python
functions. Authorizers, such as Ranger's for Spark, are rules of Spark's analyzer and optimizer. Such a rule refuses a
plan, or puts a row filter or masks above the scan of a table. The check has Spark optimize the table's scan, and
requires that the result is only a scan. Whether other programs have added rules is determined once per session; if
there are none, the check is skipped.

`metastore/jvm_settings` enforces the settings of a server that its sessions must not undo. docs/guide/security.md
explains all this to administrators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.table_info import Table, error_message, quote
from hive_bitmap.errors import NotPermitted
from hive_bitmap.spark.metastore import metastore, session_settings
from hive_bitmap.spark.metastore.jvm_settings import ENGINE_READS_ONLY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCANS = ("LogicalRelation", "HiveTableRelation", "DataSourceV2ScanRelation")
_PADDING = "readSidePadding("  # Spark's own expression over a column of type CHAR


def require_reading(spark: SparkSession, base: Table, columns: Sequence[str], what: str) -> None:
    """Raise NotPermitted unless tasks may read these columns of a table.

    If `columns` is empty, tasks must be permitted to read all columns. `what` names the activity that reads the files,
    for the message.
    """
    reserved_for_spark = only_spark_reads(spark)
    if why := f"{ENGINE_READS_ONLY} is true" if reserved_for_spark else why_raw_values_hidden(spark, base, columns):
        raise NotPermitted(
            f"{what} reads the files of table {base.full_name} itself, but only Spark may read them here, because "
            f"{why}: use a session that may read the whole table"
        )


def only_spark_reads(spark: SparkSession) -> bool:
    """Return whether only Spark may read base files.

    A setting of the session or its server can say so.
    """
    return session_settings.settings(spark).get(ENGINE_READS_ONLY, "false").strip().lower() != "false"


def why_raw_values_hidden(spark: SparkSession, base: Table, columns: Sequence[str]) -> str:
    """Return why Spark would hide raw values of these columns from the session.

    The reason is a row filter or a mask; "" if there is none. If `columns` is empty, all columns are checked. Only
    rules of other programs can hide values, so without such rules Spark is not called.
    """
    from pyspark.errors import PySparkException

    if not metastore.has_foreign_rules(spark):
        return ""
    try:
        frame = spark.table(base.spark_name)
        shown = frame.select(*map(quote, columns)) if columns else frame
        node = _node_above_scan(shown) if hasattr(shown, "_jdf") else _node_above_scan_by_text(shown)
    except PySparkException as e:
        return f"Spark refuses to read it ({error_message(e)})"
    except _jvm_error_class() as e:
        return f"Spark refuses to read it ({str(e.java_exception.toString()).splitlines()[0]})"
    return f"a rule puts {node} above its rows" if node else ""


def _jvm_error_class() -> Any:
    """Return the class of errors that rules raise in the JVM.

    Spark's own errors have other classes.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    return Py4JJavaError


def _node_above_scan(frame: DataFrame) -> str:
    """Return which node of a plan may hide or change scanned rows.

    The nodes are checked from the top down to the scan. A projection that only chooses columns is harmless. The result
    describes the first harmful node: "an expression" for a projection that computes columns, else the node's name.
    Return "" if all nodes are harmless.
    """
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() == "Project":
        if any(not _is_column(expression) for expression in _items(plan.projectList())):
            return "an expression"
        plan = plan.child()
    return "" if plan.getClass().getSimpleName().startswith(_SCANS) else str(plan.nodeName())


def _items(seq: Any) -> Iterator[Any]:
    return (seq.apply(at) for at in range(seq.size()))


def _is_column(expression: Any) -> bool:
    return expression.nodeName() == "AttributeReference" or (
        expression.nodeName() == "Alias"
        and expression.child().nodeName() == "StaticInvoke"
        and _PADDING in str(expression.child().toString())
    )


def _node_above_scan_by_text(frame: DataFrame) -> str:
    """Return what may hide or change scanned rows, from the text of the plan.

    A client of Spark Connect sees only the text of the optimized plan of `frame`. The result describes a harmful node
    as `added_in` does; it is "" if all nodes are harmless.
    """
    text: Any = frame._explain_string(extended=True)  # type: ignore[operator]
    return added_in(text.partition("== Optimized Logical Plan ==\n")[2].partition("\n\n")[0])


def added_in(plan: str) -> str:
    r"""Return which node in the text of a plan may hide or change scanned rows.

    The result describes the first harmful node: "an expression" for a projection that computes columns or that the text
    shows only in part, "nothing that is shown" for an empty text, else the node's name. Return "" if all nodes are
    harmless.

    >>> added_in("Project [k#1]\n+- Relation spark_catalog.default.t[k#1,s#2] parquet")
    ''
    >>> added_in("Filter (k#1 < 3)\n+- Relation spark_catalog.default.t[k#1,s#2] parquet")
    'Filter'
    """
    nodes = [line.lstrip(" :+-") for line in plan.splitlines()]
    for node in nodes:
        if not node.startswith(("Relation ", "HiveTableRelation ", "Project [")):
            return node.split(" ")[0]
        hides = "more fields" in node  # Spark shows only the first ones
        if node.startswith("Project") and (hides or node.count(" AS ") > node.count(_PADDING)):
            return "an expression"
    return "" if nodes else "nothing that is shown"
