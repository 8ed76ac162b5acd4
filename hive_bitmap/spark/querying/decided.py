"""What the rule decides on the scan of a function's DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import full_scan
from hive_bitmap.core.planning.reasons import Reason
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst.explanation import DecisionReport, Relation, reports_of
from hive_bitmap.spark.catalyst.index_answers import Answer
from hive_bitmap.spark.catalyst.reporting import LEFT_ALONE, NARROWED
from hive_bitmap.spark.querying.table_rows import why_spark_alone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_ALONE = (
    "only tables of spark_catalog have indexes, in files; a view uses those of its tables when it is read, and a query "
    "for hidden columns uses none"
)


@dataclass(frozen=True)
class Decided:
    """The plan for the rows of a function, and the answer to the aggregation over them if the index has it."""

    plan: Plan
    answer: Answer | None = None


def decided(frame: DataFrame, table: str, predicate: str | None, wanted: Strategy | None) -> Decided:
    """Return what the rule decides on the `table_rows` in a DataFrame, which need not pay; it was not planned before.

    Raises Unsupported if the strategy that is wanted, and was chosen for them, cannot answer.
    """
    if why := why_spark_alone(frame.sparkSession):
        if wanted not in (None, Strategy.FULL_SCAN):
            raise Unsupported(f"strategy {str(wanted)!r} cannot be chosen: {why}")
        return Decided(full_scan(table, predicate, why, (), Reason.UNSUPPORTED))
    reports = reports_of(frame)
    asked = next((report for report in reports if report.asked), None)
    found = _plan_of_others(frame, reports, table) if asked is None else plan_of(asked.relation, table)
    plan = replace(found, predicate=predicate)
    may_choose = plan.code != Reason.STORE and any(use.used for use in plan.indexes)
    if wanted not in (None, Strategy.FULL_SCAN, plan.strategy) and may_choose:
        possible = ", ".join(plan.costs) or plan.strategy
        raise Unsupported(f"strategy {str(wanted)!r} cannot answer this; possible: {possible}")
    return Decided(plan, None if asked is None else asked.answer)


def plan_of(relation: Relation, table: str) -> Plan:
    """Return the plan for a scan of which the rule has reported, or one that says why there is none."""
    if relation.plan is not None:
        return relation.plan
    if relation.action == LEFT_ALONE:
        return full_scan(relation.table or table, None, relation.detail, (), Reason.named(relation.reason))
    if relation.action == NARROWED and relation.files_total is None:
        return _nothing(table)
    return full_scan(relation.table or table, None, "memory is too short to keep its plan", (), Reason.UNSUPPORTED)


def _plan_of_others(frame: DataFrame, reports: Sequence[DecisionReport], table: str) -> Plan:
    """Return the plan for a scan that the rule was not asked about; what it says of other scans is not its own."""
    if _reads_nothing(frame):
        return _nothing(table)
    cached = next((report.relation for report in reports if report.relation.reason == Reason.CACHED), None)
    if cached is not None:
        return full_scan(table, None, cached.detail, (), Reason.CACHED)
    return full_scan(table, None, _SPARK_ALONE, (), Reason.UNSUPPORTED)


def _reads_nothing(frame: DataFrame) -> bool:
    """Whether Spark has found out that no row satisfies the predicate."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return all(_is_empty(leaves.apply(at)) for at in range(leaves.size()))


def _is_empty(leaf: Any) -> bool:
    return str(leaf.nodeName()) == "LocalRelation" and bool(leaf.data().isEmpty())


def _nothing(table: str) -> Plan:
    return Plan(
        table=table,
        predicate=None,
        strategy=Strategy.FILES,
        reason="no row satisfies the predicate",
        blocks_total=0,
        blocks_selected=0,
        rows_selected=0,
        bytes_selected=0,
    )
