"""Define the outcomes of a decision on a scan, and their reports.

An outcome is a value here and a JSON object for the JVM, which `Outcome.java` reads.

A report is JSON for `explain`, and a line for Spark's own EXPLAIN and UI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.explaining.blockmap import blocks_kept, files_kept
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.spark.catalyst.scans import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hive_bitmap.spark.catalyst.driver_reads import Fetch
    from hive_bitmap.spark.catalyst.index_answers import Answer
    from hive_bitmap.spark.reading.planned_files import OpenedFiles, PlannedFiles


NARROWED, ANSWERED, LEFT_ALONE = "narrowed", "answered", "left alone"  # the last one also in Reports.java


class ReadFigures(NamedTuple):
    """The numbers of blocks and files, read and in total.

    Totals are None where they were not counted.
    """

    blocks_selected: int
    blocks_total: int | None
    files_selected: int
    files_total: int | None


NOTHING_READ = ReadFigures(0, None, 0, None)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The decision on a scan, as `explanation.Relation` shows it.

    `action` is NARROWED, ANSWERED or LEFT_ALONE; `reason` explains LEFT_ALONE. `figures` are None if no index was
    looked up, `plan` is None if there is no plan. `asked` says that a function of hive_bitmap asks about the scan.
    `unindexed` describes the files that are not yet in an index that follows its table.
    """

    table: str
    action: str
    reason: Reason | None = None
    detail: str = ""
    condition: str = ""
    strategy: Strategy | None = None
    figures: ReadFigures | None = None
    costs: Mapping[Strategy, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False)
    asked: bool = False
    unindexed: str = ""

    @classmethod
    def of(cls, scan: Scan, action: str, reason: Reason | None, detail: str) -> Report:
        """Return the report of a scan that has no plan."""
        table = f"{scan.database}.{scan.table}"
        asked = not scan.must_pay
        return cls(table=table, condition=scan.condition, action=action, reason=reason, detail=detail, asked=asked)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of an `explanation.Relation` without the plan.

        A plan has no form in JSON.
        """
        texts = ("table", "action", "detail", "condition")
        chosen = {"reason": self.reason or "", "strategy": self.strategy or ""}
        figures = {} if self.figures is None else self.figures._asdict()
        optional = {"costs": dict(self.costs), **({"asked": True} if self.asked else {})}
        optional |= {"unindexed": self.unindexed} if self.unindexed else {}
        return {name: getattr(self, name) for name in texts} | chosen | figures | optional


def read_figures(plan: Plan) -> ReadFigures:
    """Count the blocks and files that a plan reads."""
    files = int(files_kept(plan).sum())
    return ReadFigures(blocks_kept(plan) or 0, plan.blocks_total or 0, files, plan.files.num_rows)


def bytes_saved(plan: Plan) -> int:
    """Return the bytes of base files that a plan skips.

    They are bytes of all columns; 0 if the plan has no figures.
    """
    if plan.bytes_total is None or plan.bytes_selected is None:
        return 0
    if plan.strategy == Strategy.INDEX_ONLY:
        return plan.bytes_total - _bytes_of(plan, plan.files["scanned"])
    if plan.strategy == Strategy.FILES:
        rows = pa.array(range(plan.files.num_rows), pa.int32())
        selected = pc.is_in(rows, value_set=plan.blocks.filter(pc.greater(plan.blocks["selected"], 0))["file"])
        return plan.bytes_total - _bytes_of(plan, pc.or_(selected, plan.files["scanned"]))
    return plan.bytes_total - plan.bytes_selected


def _bytes_of(plan: Plan, chosen: pa.ChunkedArray) -> int:
    return int(pc.sum(plan.files.filter(chosen)["size"]).as_py() or 0)


def label(report: Report) -> str:
    """Describe a narrowed scan in a line for Spark's EXPLAIN."""
    blocks, all_blocks, files, all_files = report.figures or NOTHING_READ
    read = f"{report.strategy} by the bitmap index: {blocks} of {all_blocks} blocks, {files} of {all_files} files"
    return f"{read}; {report.unindexed}" if report.unindexed else read


class Lasting(str, Enum):
    """How long a decision to leave a scan alone stays valid.

    It ends in any case when files or settings change.
    """

    NO = ""
    FOR_CONDITION = "condition"  # until indexes change, too; the JVM asks again after half a minute
    FOR_TABLE = "table"  # for ever, and under any condition


@dataclass(frozen=True, kw_only=True)
class LeaveAlone:
    """Spark scans the table.

    `lasting` says how long the JVM need not ask again.
    """

    report: Report
    lasting: Lasting = Lasting.NO


@dataclass(frozen=True, kw_only=True)
class Empty:
    """No row satisfies the condition."""

    report: Report


@dataclass(frozen=True, kw_only=True)
class ReadChoices:
    """Spark's own reader reads some files, or some of their blocks.

    `choices` come from `ranges.file_choices`.
    """

    report: Report
    choices: str


@dataclass(frozen=True)
class FramePart:
    """Rows that our tasks read: a DataFrame with the scan's columns."""

    frame: DataFrame


@dataclass(frozen=True)
class FetchPart:
    """Rows that this process reads when the plan is executed.

    If it cannot, Spark reads them.
    """

    fetch: Fetch


@dataclass(frozen=True)
class SparkPart:
    """Splits of files that Spark reads itself.

    `choices` come from `ranges.split_choices`.
    """

    choices: str


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """The selected rows are read, those of all `parts` in order.

    They have roughly `size` bytes. `files` are compared when the plan is executed; None if Spark itself checks whether
    they are current.
    """

    report: Report
    parts: tuple[FramePart | FetchPart | SparkPart, ...]
    size: int
    files: PlannedFiles | OpenedFiles | None = None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The index answers the aggregation over the scan.

    `source` names the table and the indexes used.
    """

    report: Report
    answer: Answer
    source: str


Outcome = LeaveAlone | Empty | ReadChoices | ReadRows | Counts


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The reply to the JVM on a scan.

    `indexed_columns` are the key columns of all indexes of the table, None if the JVM knows them. `plan`, `answer`,
    `fetches` (one for each FetchPart) and `files` are the ids under which Python keeps those values.
    """

    outcome: Outcome
    indexed_columns: Sequence[str] | None = None
    plan: str | None = None
    answer: str | None = None
    fetches: Sequence[str] = ()
    files: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object.

        It does not contain the DataFrames of rows: the JVM has them already.
        """
        outcome = self.outcome
        report_ids = _without_none(plan=self.plan, answer=self.answer if outcome.report.asked else None)
        fields = {**_fields(outcome), "report": {**outcome.report.to_json(), **report_ids}}
        optional = _without_none(indexed_columns=self.indexed_columns, answer=self.answer, files=self.files)
        parts = {"parts": self._parts(outcome)} if isinstance(outcome, ReadRows) else {}
        return fields | parts | _savings(outcome) | optional

    def _parts(self, outcome: ReadRows) -> list[dict[str, str]]:
        fetches = iter(self.fetches)
        parts = []
        for part in outcome.parts:
            match part:
                case FramePart():
                    parts.append({"read by": "tasks"})
                case FetchPart():
                    parts.append({"read by": "python", "fetch": next(fetches)})
                case SparkPart():
                    parts.append({"read by": "spark", "choices": part.choices})
        return parts


def _fields(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case LeaveAlone():
            return {"outcome": "leave alone", "lasting": outcome.lasting.value}
        case Empty():
            return {"outcome": "empty"}
        case ReadChoices():
            return {"outcome": "read choices", "choices": outcome.choices, "label": label(outcome.report)}
        case ReadRows():
            return {"outcome": "read rows", "bytes": outcome.size, "label": label(outcome.report)}
        case Counts():
            return {"outcome": "counts", "label": outcome.source}


def _savings(outcome: Outcome) -> dict[str, Any]:
    """Return the indexes that serve the scan and the bytes they save.

    These fields are for metrics and advice.
    """
    plan = outcome.report.plan
    if plan is None or isinstance(outcome, LeaveAlone):
        return {}
    return {"indexes": [use.name for use in plan.indexes if use.used], "bytes_saved": bytes_saved(plan)}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
