"""What the rule decides on the scan of a function's DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap.catalyst.explanation import DecisionReport, Relation, reports_of
from hive_bitmap.catalyst.index_answers import Answer
from hive_bitmap.catalyst.reporting import LEFT_ALONE, NARROWED
from hive_bitmap.errors import Unsupported
from hive_bitmap.planning.plan import Plan
from hive_bitmap.planning.planner import full_scan
from hive_bitmap.planning.reasons import Reason
from hive_bitmap.planning.strategy import Strategy
from hive_bitmap.querying.table_rows import why_spark_alone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Decided:
    """The plan for the rows of a function, and the answer to the aggregation over them if the index has it."""

    plan: Plan
    answer: Answer | None = None


def decided(frame: DataFrame, table: str, predicate: str | None, wanted: Strategy | None) -> Decided:
    """Return what the rule decides on the `table_rows` in a DataFrame, which need not pay.

    Raises Unsupported if the strategy that is wanted, and was chosen for them, cannot answer.
    """
    if why := why_spark_alone(frame.sparkSession):
        if wanted not in (None, Strategy.FULL_SCAN):
            raise Unsupported(f"strategy {str(wanted)!r} cannot be chosen: {why}")
        return Decided(full_scan(table, predicate, why, (), Reason.UNSUPPORTED))
    reports = reports_of(frame)
    asked = [report for report in reports if report.asked] or reports
    plan = replace(_plan(frame, asked, table), predicate=predicate)
    if wanted not in (None, plan.strategy) and plan.code != Reason.STORE and any(use.used for use in plan.indexes):
        possible = ", ".join(plan.costs) or plan.strategy
        raise Unsupported(f"strategy {str(wanted)!r} cannot answer this; possible: {possible}")
    return Decided(plan, asked[0].answer if asked else None)


def _plan(frame: DataFrame, asked: list[DecisionReport], table: str) -> Plan:
    if asked:
        return asked[0].relation.plan or _without_plan(asked[0].relation, table)
    if _reads_nothing(frame):
        return _nothing(table)
    return full_scan(table, None, "only tables of spark_catalog have indexes, in files", (), Reason.UNSUPPORTED)


def _without_plan(relation: Relation, table: str) -> Plan:
    if relation.action == LEFT_ALONE:
        return full_scan(relation.table or table, None, relation.detail, (), Reason.named(relation.reason))
    if relation.action == NARROWED and relation.files_total is None:
        return _nothing(table)
    return full_scan(relation.table or table, None, "memory is too short to keep its plan", (), Reason.UNSUPPORTED)


def _reads_nothing(frame: DataFrame) -> bool:
    """Whether Spark has found out that no row satisfies the predicate."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return all(leaves.apply(at).nodeName() == "LocalRelation" for at in range(leaves.size()))


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
