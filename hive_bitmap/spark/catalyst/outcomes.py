"""Define the outcomes of a decision on a scan.

An outcome is a value here and a JSON object for the JVM, which `Outcome.java` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from hive_bitmap.spark.catalyst.reporting import Report, bytes_saved, label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hive_bitmap.spark.catalyst.driver_reads import Fetch
    from hive_bitmap.spark.catalyst.index_answers import Answer
    from hive_bitmap.spark.reading.planned_files import OpenedFiles, PlannedFiles


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
