"""What is decided on a scan: a value, and the JSON object by which the JVM is told (`Outcome.java` reads it)."""

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
    """For how long a scan would be left alone again, as long as files and settings stay."""

    NO = ""
    FOR_CONDITION = "condition"  # while indexes stay, too; the JVM asks again after half a minute
    FOR_TABLE = "table"  # for ever, and under any condition


@dataclass(frozen=True, kw_only=True)
class LeaveAlone:
    """Spark scans the table; `lasting` is for how long, so that the JVM need not ask."""

    report: Report
    lasting: Lasting = Lasting.NO


@dataclass(frozen=True, kw_only=True)
class Empty:
    """No row satisfies the condition."""

    report: Report


@dataclass(frozen=True, kw_only=True)
class ReadChoices:
    """Spark's own reader reads some files, or some blocks of them: the `choices` of `ranges.file_choices`."""

    report: Report
    choices: str


@dataclass(frozen=True)
class FramePart:
    """Rows that tasks of ours read: a DataFrame with the columns of the scan."""

    frame: DataFrame


@dataclass(frozen=True)
class FetchPart:
    """Rows that this process reads when the plan is executed, or else Spark."""

    fetch: Fetch


@dataclass(frozen=True)
class SparkPart:
    """Splits of files that Spark reads itself, the `choices` of `ranges.split_choices`."""

    choices: str


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """The selected rows are read, roughly `size` bytes: those of all `parts`, one after the other.

    `files` are to be compared when the plan is executed; None if Spark alone knows whether they are current.
    """

    report: Report
    parts: tuple[FramePart | FetchPart | SparkPart, ...]
    size: int
    files: PlannedFiles | OpenedFiles | None = None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The index answers the aggregation over the scan; `source` names the table and the indexes that do."""

    report: Report
    answer: Answer
    source: str


Outcome = LeaveAlone | Empty | ReadChoices | ReadRows | Counts


@dataclass(frozen=True, kw_only=True)
class Told:
    """The outcome for a scan as the JVM is told of it, and the key columns of all indexes of the table.

    The columns are None if the JVM knows them. `plan`, `answer`, `fetches` (of the parts that have one) and `files` are
    the ids under which Python keeps those values.
    """

    outcome: Outcome
    indexed_columns: Sequence[str] | None = None
    plan: str | None = None
    answer: str | None = None
    fetches: Sequence[str] = ()
    files: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object. The DataFrames of rows are no part of it: the JVM has them already."""
        outcome = self.outcome
        kept = _without_none(plan=self.plan, answer=self.answer if outcome.report.asked else None)
        fields = {**_fields(outcome), "report": {**outcome.report.to_json(), **kept}}
        told = _without_none(indexed_columns=self.indexed_columns, answer=self.answer, files=self.files)
        parts = {"parts": self._parts(outcome)} if isinstance(outcome, ReadRows) else {}
        return fields | parts | _savings(outcome) | told

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
    """The indexes that serve the scan, and the bytes that need not be read for them, for metrics and advice."""
    plan = outcome.report.plan
    if plan is None or isinstance(outcome, LeaveAlone):
        return {}
    return {"indexes": [use.name for use in plan.indexes if use.used], "bytes_saved": bytes_saved(plan)}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
