"""Define the decisions on a scan, and their reports.

A decision has all that is needed to carry it out. Python keeps the decision under an id. The JVM gets the decision as a
JSON object, which `Decision.java` reads. A report is JSON for `explain`, and a line for Spark's own EXPLAIN and UI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.spark.catalyst.scans import Scan, Sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hive_bitmap.core.index.fingerprint import Fingerprint
    from hive_bitmap.core.listings.scan_listing import ScanListing
    from hive_bitmap.spark.preparing.prepare import Prepared
    from hive_bitmap.spark.reading.file_set import FileSet
    from hive_bitmap.spark.reading.read_task import ReadTask

DECISION_BYTES = 4096  # memory of a decision, besides what `Decision.nbytes` adds
PREPARED_SHARE = 4  # bytes of lookups for each byte of their plan
CONDITION_SHARE = 8  # bytes of a predicate for each character of its text

FIGURES = ("blocks_selected", "blocks_total", "files_selected", "files_total")  # fields of a Report
NARROWED, ANSWERED, LEFT_ALONE = "narrowed", "answered", "left alone"  # Reports.java has "left alone", too


@dataclass(frozen=True, kw_only=True)
class Report:
    """The decision on a scan, as `explanation.Relation` shows it.

    `action` is NARROWED, ANSWERED or LEFT_ALONE. For LEFT_ALONE, `reason` is the reason as a code. `detail` explains
    the action in words. `condition` is the condition of the scan as text, and `strategy` the chosen strategy. `costs`
    are the estimated seconds by strategy. `plan` is None if no plan was made. `asked` says that a function of
    hive_bitmap, such as `plan`, made the query in order to get the decision. `unindexed` describes the files that are
    not yet in an index that follows its table. `learnt` describes the learnt factors of the prices. A text is "" if
    there is nothing to say.

    The figures are the numbers of blocks and files, selected and in total (`read_figures`). Numbers of selected blocks
    and files are None if no index was looked up; a total is also None if the blocks or files were not counted.
    """

    table: str
    action: str
    reason: Reason | None = None
    detail: str = ""
    condition: str = ""
    strategy: Strategy | None = None
    blocks_selected: int | None = None
    blocks_total: int | None = None
    files_selected: int | None = None
    files_total: int | None = None
    costs: Mapping[Strategy, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False)
    asked: bool = False
    unindexed: str = ""
    learnt: str = ""

    @classmethod
    def of(cls, scan: Scan, action: str, reason: Reason | None, detail: str) -> Report:
        """Return the report of a scan that has no plan.

        `reason` is the reason for LEFT_ALONE; None for any other `action`.
        """
        table = f"{scan.database}.{scan.table}"
        asked = not scan.must_pay
        return cls(table=table, condition=scan.condition, action=action, reason=reason, detail=detail, asked=asked)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of an `explanation.Relation` without the plan.

        A plan has no form in JSON.
        """
        texts = ("table", "action", "detail", "condition")
        chosen = {"reason": self.reason or "", "strategy": self.strategy or ""}
        figures = {} if self.blocks_selected is None else {name: getattr(self, name) for name in FIGURES}
        optional = {"costs": dict(self.costs), **({"asked": True} if self.asked else {})}
        optional |= {"unindexed": self.unindexed} if self.unindexed else {}
        optional |= {"learnt": self.learnt} if self.learnt else {}
        return {name: getattr(self, name) for name in texts} | chosen | figures | optional


def read_figures(plan: Plan) -> dict[str, Any]:
    """Return the FIGURES of a report on a plan."""
    read = plan.kept_blocks or 0, plan.blocks_total or 0, int(plan.kept_files.sum()), plan.files.num_rows
    return dict(zip(FIGURES, read, strict=True))


def bytes_saved(plan: Plan) -> int:
    """Return the bytes of base files that a plan skips.

    The bytes are those of all columns. Return 0 if the plan has no figures.
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
    """Describe a narrowed scan in one line, for Spark's EXPLAIN."""
    blocks = f"{report.blocks_selected or 0} of {report.blocks_total} blocks"
    files = f"{report.files_selected or 0} of {report.files_total} files"
    read = f"{report.strategy} by the bitmap index: {blocks}, {files}"
    return f"{read}; {report.unindexed}" if report.unindexed else read


class Lasting(str, Enum):
    """How long a decision to leave a scan alone stays valid.

    In any case, the decision becomes invalid when files or settings change.
    """

    NO = ""
    FOR_CONDITION = "condition"  # until indexes change, too; the JVM asks again after half a minute
    FOR_TABLE = "table"  # for ever, and under any condition


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision on a scan; a subclass says what is done.

    `id` is the id under which Python keeps the decision; "" if Python does not keep it. A kept decision may be shared
    among equal questions until `shared_until` (a time of `time.monotonic`), as long as `indexes_state` is the state of
    the table's indexes.
    """

    report: Report
    id: str = ""
    shared_until: float = 0.0
    indexes_state: tuple[Any, ...] = field(default=(), repr=False)
    kind: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """Return the fields that this kind of decision adds to the JSON object."""
        return {}

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory."""
        plan = self.report.plan
        if plan is None:
            return DECISION_BYTES
        looked_up = int(plan.files.nbytes) + int(plan.blocks.nbytes)
        held = PREPARED_SHARE * looked_up if plan.candidates is not None else looked_up
        return DECISION_BYTES + CONDITION_SHARE * len(plan.predicate or "") + held

    @property
    def is_shareable(self) -> bool:
        """Whether other sessions can use the decision, too."""
        return True

    def can_use(self, listing: ScanListing | None) -> bool:
        """Return whether the decision can be carried out with a cached listing.

        `listing` is the cached listing of the scan's files; None if no listing is cached.
        """
        return True

    def to_json(self, indexed_columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON object for the JVM.

        `indexed_columns` are the key columns of all indexes of the table, or None if the JVM knows these columns. The
        object does not contain the DataFrames of rows, because the JVM has them already.
        """
        return self._json if indexed_columns is None else {**self._json, "indexed_columns": indexed_columns}

    @cached_property
    def _json(self) -> dict[str, Any]:
        ids = {"id": self.id} if self.id else {}
        report = {**self.report.to_json(), **ids}
        return {"decision": self.kind, **self.fields(), "report": report, **self._savings(), **ids}

    def _savings(self) -> dict[str, Any]:
        """Return the names of the used indexes, and the bytes that they save.

        These fields are for metrics and advice. The result is empty if the decision has no plan.
        """
        plan = self.report.plan
        if plan is None:
            return {}
        return {"indexes": [use.name for use in plan.indexes if use.used], "bytes_saved": bytes_saved(plan)}


@dataclass(frozen=True, kw_only=True)
class LeaveAlone(Decision):
    """Spark scans the table without an index.

    `lasting` says how long this decision is valid, so that the JVM need not ask again.
    """

    kind = "leave alone"
    lasting: Lasting = Lasting.NO

    def fields(self) -> dict[str, Any]:
        return {"lasting": self.lasting.value}

    def _savings(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Empty(Decision):
    """No row satisfies the condition."""

    kind = "empty"


@dataclass(frozen=True, kw_only=True)
class ReadChoices(Decision):
    """Spark's own reader reads some files, or some of their blocks.

    `choices` come from `ranges.file_choices`.
    """

    kind = "read choices"
    choices: str

    def fields(self) -> dict[str, Any]:
        return {"choices": self.choices, "label": label(self.report)}


@dataclass(frozen=True)
class FramePart:
    """Rows that our tasks read, as a DataFrame with the scan's columns.

    `frame` is None once the JVM has the DataFrame.
    """

    frame: DataFrame | None

    def to_json(self) -> dict[str, str]:
        return {"read by": "tasks"}


@dataclass(frozen=True, kw_only=True)
class FetchPart:
    """Rows that this process reads when the plan is executed.

    This process reads `columns` of the rows that `tasks` select. Each task may take at most `most` bytes. Blocks with
    matching rows may have been left out, because other blocks have the first rows of a sort. Then `compared` has the
    fingerprints of all files that were looked up, and these files must be unchanged after the rows are read.

    If this process cannot read the rows, Spark reads them instead: the files in `choices` (`ranges.indexed_choices`)
    if the decision has other parts, otherwise the whole scan.
    """

    plan: Plan
    columns: tuple[str, ...]
    tasks: tuple[ReadTask, ...]  # all have the same lookups
    most: int
    compared: tuple[Fingerprint, ...] = ()
    choices: str = ""

    def to_json(self) -> dict[str, str]:
        return {"read by": "python"} | ({"choices": self.choices} if self.choices else {})


@dataclass(frozen=True)
class SparkPart:
    """Splits of files that Spark reads itself.

    `choices` come from `ranges.split_choices`.
    """

    choices: str

    def to_json(self) -> dict[str, str]:
        return {"read by": "spark", "choices": self.choices}


@dataclass(frozen=True, kw_only=True)
class ReadRows(Decision):
    """The selected rows are read, part after part.

    The rows have roughly `size` bytes. `files` are compared with the current files when the plan is executed; None if
    Spark itself checks whether its files are current.
    """

    kind = "read rows"
    parts: tuple[FramePart | FetchPart | SparkPart, ...]
    size: int
    files: FileSet | None = None

    def fields(self) -> dict[str, Any]:
        rows = {"bytes": self.size, "label": label(self.report), "parts": [part.to_json() for part in self.parts]}
        return rows if self.files is None else {**rows, "compares_files": True}

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory.

        The bytes include the lookups for rows that this process reads.
        """
        fetched = sum(isinstance(part, FetchPart) for part in self.parts) * PREPARED_SHARE
        return super().nbytes * (1 + fetched) + (0 if self.files is None else self.files.nbytes)

    def without_frames(self) -> ReadRows:
        """Return a copy without DataFrames, which belong to a session."""
        parts = tuple(FramePart(None) if isinstance(part, FramePart) else part for part in self.parts)
        return replace(self, parts=parts)

    @property
    def is_shareable(self) -> bool:
        """Whether other sessions can use the decision, too.

        The result is False if tasks read rows, because a DataFrame of rows belongs to a session.
        """
        return not any(isinstance(part, FramePart) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Counts(Decision):
    """The index answers the aggregation over the scan, when the plan is executed.

    `prepared` has the request to answer, and the lookups to count from. `source` names the table and the indexes used.
    `listing` is set if Spark has listed the files, `files` if planning has listed them itself; never
    both. `listing` is a weak reference to an entry of the cache of listings, which many decisions share. If the entry
    was evicted, Spark aggregates the table. `sums` is set if partial aggregates are added up, too.
    """

    kind = "counts"
    prepared: Prepared
    source: str
    listing: ReferenceType[ScanListing] | None = None
    files: FileSet | None = None
    sums: Sums | None = None

    def fields(self) -> dict[str, Any]:
        return {"label": self.source} | ({} if self.sums is None else {"sums": self.sums.to_json()})

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory, with the lookups."""
        return super().nbytes * PREPARED_SHARE + (0 if self.files is None else self.files.nbytes)

    def can_use(self, listing: ScanListing | None) -> bool:
        """Return whether the decision was made with the cached listing.

        A decision without a listing can always be used.
        """
        return self.listing is None or (listing is not None and self.listing() is listing)
