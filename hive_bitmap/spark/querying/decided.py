"""Find the decision of the optimizer rule on a table's scan.

The functions that query a table, such as `count`, make a DataFrame of the table. The decision is on the scan of the
table in this DataFrame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import full_scan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst.decision import LEFT_ALONE, NARROWED, Counts
from hive_bitmap.spark.catalyst.explanation import DecisionReport, Relation, reports_of
from hive_bitmap.spark.querying.table_rows import why_spark_alone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_ALONE = (
    "only tables of spark_catalog have indexes, if they are stored in files; a view uses the indexes of its tables "
    "when it is read, and a query for hidden columns uses none"
)


@dataclass(frozen=True)
class FunctionDecision:
    """The decision on the query of a function such as `count`.

    `plan` is the plan for the rows. `answer` is the decision to answer the aggregation from the index; None without an
    aggregation, and if the index does not answer the aggregation.
    """

    plan: Plan
    answer: Counts | None = None


def decision_on(frame: DataFrame, table: str, predicate: str | None, strategy: Strategy | None) -> FunctionDecision:
    """Plan a DataFrame, and return the optimizer rule's decision on it.

    `frame` has the rows of `table_rows`, or counts of these rows, and must not have been planned before. `table` and
    `predicate` are the arguments that `table_rows` was called with; None means no predicate. `strategy` is the strategy
    that was set for the DataFrame; None if the planner chooses. Raises Unsupported if this strategy cannot answer.
    """
    if why := why_spark_alone(frame.sparkSession):
        if strategy not in (None, Strategy.FULL_SCAN):
            raise Unsupported(f"strategy {str(strategy)!r} cannot be chosen: {why}")
        return FunctionDecision(full_scan(table, predicate, why, (), Reason.UNSUPPORTED))
    reports = reports_of(frame)
    own_report = next((report for report in reports if report.asked), None)
    table_plan = (
        _plan_of_unobserved(frame, reports, table) if own_report is None else plan_of(own_report.relation, table)
    )
    plan = replace(table_plan, predicate=predicate)
    may_choose = plan.code != Reason.STORE and any(use.used for use in plan.indexes)
    if strategy not in (None, Strategy.FULL_SCAN, plan.strategy) and may_choose:
        possible = ", ".join(plan.costs) or plan.strategy
        raise Unsupported(f"strategy {str(strategy)!r} cannot answer this; possible: {possible}")
    decision = None if own_report is None else own_report.decision
    return FunctionDecision(plan, decision if isinstance(decision, Counts) else None)


def plan_of(relation: Relation, table: str) -> Plan:
    """Return the plan of a scan that the rule has reported.

    If the rule has made no plan, return a full scan with the reason, or a plan that reads nothing. `table` is the name
    of the scanned table.
    """
    if relation.plan is not None:
        return relation.plan
    if relation.action == LEFT_ALONE:
        return full_scan(relation.table or table, None, relation.detail, (), Reason.named(relation.reason))
    if relation.action == NARROWED and relation.files_total is None:
        return _nothing(table)
    return full_scan(
        relation.table or table, None, "there is too little memory to store its plan", (), Reason.UNSUPPORTED
    )


def _plan_of_unobserved(frame: DataFrame, reports: Sequence[DecisionReport], table: str) -> Plan:
    """Return a plan for a scan on which the rule has not decided.

    `reports` are the reports on other scans of `frame`. The plan gives the reason: Spark reads nothing, the rows are
    cached, or the table cannot be read through indexes.
    """
    if _reads_nothing(frame):
        return _nothing(table)
    cached = next((report.relation for report in reports if report.relation.reason == Reason.CACHED), None)
    if cached is not None:
        return full_scan(table, None, cached.detail, (), Reason.CACHED)
    return full_scan(table, None, _SPARK_ALONE, (), Reason.UNSUPPORTED)


def _reads_nothing(frame: DataFrame) -> bool:
    """Return whether Spark has detected that no row satisfies the predicate."""
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
