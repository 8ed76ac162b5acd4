"""Decide on a scan of an indexed table.

A scan is left alone, or it is narrowed, or the index answers the aggregation over it. The answer is tried first. To
narrow a scan is to skip files, blocks or rows that cannot satisfy its condition. If no row can satisfy the condition,
the scan is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import ref

from hive_bitmap.core.answering.extremes import has_order
from hive_bitmap.core.listings import file_listing
from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.index_choice import Unserved
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.predicates.nodes import TRUE, Constant
from hive_bitmap.core.selecting.split_order import Piece, runs
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.spark.catalyst.decision import (
    ANSWERED,
    LEFT_ALONE,
    NARROWED,
    NOTHING_READ,
    Counts,
    Decision,
    Empty,
    FetchPart,
    FramePart,
    Lasting,
    LeaveAlone,
    ReadChoices,
    ReadRows,
    Report,
    SparkPart,
    read_figures,
)
from hive_bitmap.spark.catalyst.execution import is_countable_together
from hive_bitmap.spark.catalyst.question import Question
from hive_bitmap.spark.catalyst.ranges import file_choices, indexed_choices, split_choices
from hive_bitmap.spark.catalyst.scans import Condition, Scan, Sums, condition, why_too_small, worthwhile_runtime_filters
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.snapshot import Snapshot
from hive_bitmap.spark.reading.file_set import FileSet
from hive_bitmap.spark.registry.catalog import Index

log = logging.getLogger(__name__)
# Reasons that hold until files, indexes, settings or the query change.
LASTING = (
    Reason.NOT_SELECTIVE,
    Reason.NOT_TESTED,
    Reason.NOT_UNDERSTOOD,
    Reason.NOT_COUNTED,
    Reason.TOO_LARGE,
    Reason.LIMIT,
)


@dataclass(frozen=True, kw_only=True)
class IndexedTable:
    """The table of a scan, its indexes, and the session's settings.

    `conf` has all settings of the session. `settings` has the parsed settings of hive_bitmap.
    """

    base: Table
    indexes: tuple[Index, ...]
    conf: Mapping[str, str]
    settings: Settings

    @classmethod
    def of(cls, scan: Scan, base: Table, indexes: Sequence[Index], conf: Mapping[str, str]) -> IndexedTable:
        """Combine a scan's table with its indexes and settings.

        `base.computed` becomes the key expressions that the scan uses. `conf` has the settings of the session. If a
        strategy was chosen for the scan, it replaces the strategy in `conf`.
        """
        expressions = {e.name: e for index in indexes for e in index.definition.expressions if e.name in scan.keys}
        base = replace(base, computed=tuple(expressions.values()))
        chosen = conf if scan.strategy is None else {**conf, settings.STRATEGY: scan.strategy}
        return cls(base=base, indexes=tuple(indexes), conf=chosen, settings=settings.read(chosen))


def left_alone(scan: Scan, table: IndexedTable) -> LeaveAlone | None:
    """Return LeaveAlone if no index can serve a scan.

    The check needs no listing of files. Return None if `decide` has to decide.
    """
    if not table.indexes:
        return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.NO_INDEX, "the table has no index"))
    if why := file_listing.why_query_unsupported(scan.options, table.base):
        return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.UNSUPPORTED, why))
    return None


def decide(question: Question, table: IndexedTable) -> Decision:
    """Decide on a scan that an index may serve.

    The caller has checked that `left_alone` returns None, and has the summary of the files (`Question.summarized`).
    Raises HiveBitmapError if something fails; the caller then leaves the scan alone.
    """
    scan = question.scan
    too_small = why_too_small(scan, table.base, table.settings)
    if too_small and not scan.key_sets and scan.sums is None:
        return _too_small(scan, too_small, Lasting.FOR_TABLE)
    filters = worthwhile_runtime_filters(scan, table.base, table.indexes, table.settings)
    filtered = _condition(question, table, filters)
    if isinstance(filtered.predicate, Constant) and filtered.predicate.value is not True:
        return Empty(report=_report_of_nothing(scan))
    case = _AskedScan(table=table, question=question.about(filtered))
    unanswered, snapshot = Unserved(), None
    if scan.unanswered is not None:
        unanswered = case.unanswered(scan.unanswered, Reason.NOT_COUNTED)
    for request, sums in case.count_requests():
        counted, snapshot = case.answered(request, sums, snapshot)
        if not isinstance(counted, Unserved):
            return counted
        unanswered = unanswered.also(counted)
    if too_small:  # valid for this condition only, because the indexes may answer the aggregation under another one
        return _too_small(scan, too_small, Lasting.FOR_CONDITION)
    return case.narrowed(snapshot, unanswered)


@dataclass(frozen=True, kw_only=True)
class _AskedScan:
    """A scan of an indexed table whose condition and files are known."""

    table: IndexedTable
    question: Question

    @property
    def scan(self) -> Scan:
        return self.question.scan

    @property
    def listing(self) -> ScanListing | None:
        return self.question.listing

    @cached_property
    def resolved(self) -> ResolvedTable:
        base, condition = self.table.base, self.question.condition
        return ResolvedTable(
            base=base if self.listing is None else self.listing.table(base),
            indexes=self.table.indexes,
            settings=self.table.conf,
            predicate=TRUE if condition is None else condition.predicate,
            cores=self.scan.cores,
            engine=self.question,
            partitions=None if self.listing is None else self.listing.without_empty,
            native=self.scan.native,
            split_bytes=self._split_bytes,
        )

    @property
    def _split_bytes(self) -> int | None:
        if not self.scan.ordered:
            return 0
        return None if self.scan.listed is None else self.scan.listed.split_bytes or None

    @cached_property
    def counted_table(self) -> ResolvedTable:
        """The resolved table, with the version of each file's deletes.

        A count must subtract the deleted rows.
        """
        if self.listing is None or not self.listing.deletes:
            return self.resolved
        return replace(self.resolved, partitions=self.listing.countable)

    def unanswered(self, why: str, code: Reason | None = None) -> Unserved:
        log.info("%s is not answered by its indexes: %s", self.table.base.full_name, why)
        return Unserved(code, why)

    @cached_property
    def summed_table(self) -> ResolvedTable:
        """The resolved table, in which files with deleted rows are fresh in no index."""
        if self.listing is None or not self.listing.deletes:
            return self.resolved
        return replace(self.resolved, partitions=self.listing.summable)

    def answered(
        self, request: Request, sums: Sums | None, earlier: Snapshot | None
    ) -> tuple[Decision | Unserved, Snapshot | None]:
        """Try to answer the aggregation; return the decision and the snapshot.

        `request` asks for the keys with their counts, and for `sums` unless it is None. `earlier` is the snapshot of an
        earlier attempt on this scan, or None. If the index has no answer, Unserved with the reason takes the place of
        the decision. The decision is LeaveAlone in two cases: the query's limit makes indexes pointless, or the store
        of the files fails. After such a failure narrowing is not tried, because it would ask the store again, and wait
        as long. The snapshot can be used again to narrow the scan. The snapshot is None if the scan will not be
        narrowed, or if nothing could be prepared.
        """
        try:
            table = self.counted_table if sums is None else self.summed_table
            prepared = self.question.prepare(request, table, earlier)
        except HiveBitmapError as e:
            return self.unanswered(str(e)), None
        plan = prepared.plan
        if plan.code in (Reason.STORE, Reason.LIMIT):
            report = self._report(LEFT_ALONE, plan, plan.code)
            return LeaveAlone(report=report, lasting=self._lasting(plan, plan.code)), None
        if plan.strategy != Strategy.INDEX_ONLY:
            code = Reason.TOO_LARGE if plan.code == Reason.TOO_LARGE else None
            return self.unanswered(plan.reason, code), prepared.snapshot
        is_conditional = sums is not None and sums.is_conditional
        if is_conditional and prepared.reading is not None and prepared.reading.results.whole_files:
            why = "an expression under FILTER or CASE may fail in files that are not indexed, or have deleted rows"
            return self.unanswered(why), prepared.snapshot
        others_by_spark = sums is not None and self.listing is not None and not is_conditional
        if not is_countable_together(prepared, request.grouping_sets, others_by_spark=others_by_spark):
            return self.unanswered("its keys cannot be counted together"), prepared.snapshot
        if self.listing is not None and not BUDGET.fits(self.listing.nbytes):
            why = "its listing is larger than a half of hive_bitmap.stores.memory"
            return self.unanswered(why), prepared.snapshot
        return self._counts(request, prepared, sums), prepared.snapshot

    def count_requests(self) -> Iterator[tuple[Request, Sums | None]]:
        """Yield each request that may answer the aggregation, with its sums (None for counts).

        Partial aggregates are tried first. For a sum, they are tried even if no index holds partial aggregates, because
        the reason then says what an index should hold.
        """
        definitions = [index.definition for index in self.table.indexes if not index.why_not]
        if self.scan.sums is not None:
            sums = self.scan.sums.by_keys_of(self.resolved.base, definitions)
            if sums.has_sum or (sums.measures and any(definition.aggregates for definition in definitions)):
                yield self._sum_request(sums), sums
        if self.scan.key_sets:
            yield self._count_request(), None

    def _sum_request(self, sums: Sums) -> Request:
        """Return the request for sums of partial aggregates."""
        name, columns = self.table.base.full_name, self.scan.columns
        rows = Request(
            table=name,
            predicate=self.scan.condition or None,
            columns=columns,
            grouping_sets=(sums.keys,),
            measures=sums.measures,
            top=sums.top if {key.lower() for key in sums.keys} <= self._ordered else None,
        )
        return rows.counted(sums.keys)

    @property
    def _ordered(self) -> frozenset[str]:
        """The columns, in lower case, that Spark sorts in the same order as shards do."""
        return frozenset(column.name.lower() for column in self.table.base.keyed_columns if has_order(column))

    def _count_request(self) -> Request:
        """Return the request for the counts of all key sets."""
        key_sets, text = self.scan.key_sets, self.scan.condition or None
        keys = tuple(dict.fromkeys(key for keys in key_sets for key in keys))
        name, columns = self.table.base.full_name, self.scan.columns
        ordered = self._ordered
        rows = Request(
            table=name,
            predicate=text,
            columns=columns,
            grouping_sets=key_sets,
            limit=self._limit,
            extremes=self.scan.extremes & ordered,
            summaries=self.scan.summaries & ordered,
            group_summary=self.scan.group_summary if {key.lower() for key in keys} <= ordered else None,
            top=self.scan.top if {key.lower() for key in keys} <= ordered else None,
        )
        return rows.counted(keys)

    def _counts(self, request: Request, prepared: Prepared, sums: Sums | None) -> Counts:
        used = [use.name for use in prepared.plan.indexes if use.used] or ["its indexes"]
        return Counts(
            report=self._report(ANSWERED, prepared.plan),
            request=request,
            prepared=prepared.without_scan(),
            source=f"{self.table.base.full_name} by {', '.join(used)}",
            listing=None if self.listing is None else ref(self.listing),
            files=None if self.listing is not None or prepared.snapshot is None else FileSet.listed(prepared.snapshot),
            sums=sums,
        )

    def narrowed(self, snapshot: Snapshot | None, unanswered: Unserved) -> Decision:
        """Decide how the rows of the scan are read.

        `snapshot` may be the snapshot of an earlier attempt to count. `unanswered` says why the index does not answer
        the aggregation.
        """
        name, text, must_pay = self.table.base.spark_name, self.scan.condition or None, self._is_by_cost
        columns, nested = self.scan.columns, self.scan.nested
        request = Request(
            table=name,
            predicate=text,
            columns=columns,
            must_pay=must_pay,
            limit=self._limit,
            nested=nested,
            first=self.scan.first,
        )
        prepared = self.question.prepare(request, self.resolved, snapshot)
        if prepared.unbounded is not None and self._fetch(request, prepared, _pieces(prepared)) is None:
            prepared = prepared.unbounded  # tasks read all blocks
        plan = prepared.plan
        if prepared.reading is None or not plan.strategy.reads_selected:
            code = plan.code or (Reason.NOT_FRESH if _is_nothing_fresh(plan) else Reason.NOT_SELECTIVE)
            code, reason = self._why_left_alone(unanswered, code, plan.reason)
            report = self._report(LEFT_ALONE, replace(plan, reason=reason), code)
            return LeaveAlone(report=report, lasting=self._lasting(plan, code))
        if self.listing is None or not self.resolved.narrows or not plan.strategy.is_by_reader:
            if self.table.base.lake is not None:
                return LeaveAlone(report=self._report(LEFT_ALONE, plan, Reason.UNSUPPORTED))
            return self._read_rows(request, prepared)
        whole_files = plan.strategy is Strategy.FILES
        chosen = file_choices(prepared.reading.results, self.listing.numbers, whole_files=whole_files)
        return ReadChoices(report=self._report(NARROWED, plan), choices=chosen)

    @property
    def _is_by_cost(self) -> bool:
        return self.scan.must_pay and self.table.settings.strategy is None

    @property
    def _limit(self) -> int | None:
        """The number of rows that the query needs; None if it needs all.

        The result is also None if the strategy is not chosen by cost, because the limit then does not matter.
        """
        return self.scan.limit if self._is_by_cost else None

    def _lasting(self, plan: Plan, code: Reason) -> Lasting:
        """Return how long the decision to leave the scan alone is valid.

        `plan` is the plan of the scan, and `code` the reason of the decision. The decision is not kept if there are
        unindexed files, because such files may be indexed soon.
        """
        is_indexed = not plan.looked_up or not plan.scanned_files.any()
        lasts = code in LASTING and is_indexed and self._is_by_cost
        if code != Reason.LIMIT:
            lasts = lasts and self.resolved.split_bytes is not None  # None: another query may need no order
        return Lasting.FOR_CONDITION if lasts else Lasting.NO

    def _why_left_alone(self, unanswered: Unserved, code: Reason, reason: str) -> tuple[Reason, str]:
        """Return why a scan is left alone: a code and a text.

        `unanswered` says why the index does not answer the scan's aggregation. `code` and `reason` say why the scan is
        not narrowed. The text gives both reasons if the answer would be too large, or if no index is tested; otherwise
        only `reason`.
        """
        is_untested = code in (Reason.NOT_TESTED, Reason.NO_INDEX)
        if not unanswered.reason or (unanswered.code != Reason.TOO_LARGE and not is_untested):
            return code, reason
        both = f"{unanswered.reason}; {reason}" if self.scan.condition else unanswered.reason
        return unanswered.code or code, "; ".join(dict.fromkeys(both.split("; ")))  # each reason once

    def _read_rows(self, request: Request, prepared: Prepared) -> Decision:
        plan = prepared.plan
        share = (plan.rows_selected or 0) / max(plan.rows_total or 0, 1)
        size = int((plan.bytes_total or 0) * share) or plan.bytes_selected or 0
        try:
            parts = self._parts(request, prepared)
        except Unsupported as e:
            return LeaveAlone(report=self._report(LEFT_ALONE, replace(plan, reason=str(e)), Reason.UNSUPPORTED))
        if not parts:  # Spark reads all rows, or no file is listed yet
            return LeaveAlone(report=self._report(LEFT_ALONE, plan, Reason.NOT_SELECTIVE))
        files = self._files_to_compare(prepared, parts)
        return ReadRows(report=self._report(NARROWED, plan), parts=tuple(parts), size=size, files=files)

    def _files_to_compare(
        self, prepared: Prepared, parts: Sequence[FramePart | FetchPart | SparkPart]
    ) -> FileSet | None:
        """Return the files to check for changes when the plan is executed.

        If planning has listed the files itself, all files are checked. Otherwise Spark has listed the files, and only
        the files that our own tasks open are checked. Return None if there are no files to check.
        """
        if self.listing is None and prepared.snapshot is not None:
            return FileSet.listed(prepared.snapshot)
        if prepared.reading is None or not any(isinstance(part, FramePart) for part in parts):
            return None
        return FileSet.of_tasks(prepared.reading)

    def _parts(self, request: Request, prepared: Prepared) -> list[FramePart | FetchPart | SparkPart] | None:
        """Return the parts of the scan, in the order of Spark's own scan.

        The class of a part says who reads its rows. Return None if Spark reads all rows.
        """
        reading = prepared.reading
        if reading is None or reading.pieces is None or prepared.plan.strategy is not Strategy.ROWS:
            frame = self.question.rows(request, prepared, None)
            return None if frame is None else [FramePart(frame)]
        parts: list[FramePart | FetchPart | SparkPart] = []
        for run in runs(reading.pieces):
            if pieces := [piece for piece in run if isinstance(piece, Piece)]:
                parts.append(self._part(request, prepared, pieces))
            elif self.listing is not None:
                parts.append(SparkPart(split_choices(reading.results, self.listing.numbers, run)))
        return parts

    def _part(self, request: Request, prepared: Prepared, pieces: Sequence[Piece]) -> FramePart | FetchPart:
        fetch = self._fetch(request, prepared, pieces)
        if fetch is not None:
            reading = prepared.reading
            if reading is None or self.listing is None or not reading.results.whole_files:
                return fetch
            return replace(fetch, choices=indexed_choices(reading.results, self.listing.numbers))
        frame = self.question.rows(request, prepared, pieces)
        if frame is None:
            raise Unsupported("no task can read its rows")
        return FramePart(frame)

    def _fetch(self, request: Request, prepared: Prepared, pieces: Sequence[Piece]) -> FetchPart | None:
        """Return how this process reads these pieces.

        Return None if tasks or Spark have to read the pieces.
        """
        from hive_bitmap.spark.catalyst.driver_rows import fetch_of  # loads the readers of base files

        return fetch_of(prepared, pieces, request.columns, self.table.settings.driver_read_bytes)

    def _report(self, action: str, plan: Plan, reason: Reason | None = None) -> Report:
        shown = plan.without_figures if self.table.settings.engine_reads_only else plan
        figures = read_figures(plan) if plan.looked_up else None
        report = Report.of(self.scan, action, reason, shown.reason)
        report = replace(report, strategy=shown.strategy, costs=shown.costs, learnt=str(shown.factors))
        return replace(report, figures=figures, plan=shown)


def _too_small(scan: Scan, why: str, lasting: Lasting) -> LeaveAlone:
    return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.TOO_SMALL, why), lasting=lasting)


def _condition(question: Question, table: IndexedTable, filters: Sequence[int]) -> Condition:
    """Return the scan's condition joined with its runtime filters by AND.

    `filters` are the positions of the runtime filters in `scan.runtime_filters`. The small sides of these filters are
    run here.
    """
    tree = question.scan.tree
    for number in filters:
        keys = question.small_side(number)
        tree = tree if keys is None else ["and", tree, keys]
    return condition(tree, (*table.base.keyed_columns, *table.base.partition_columns))


def _report_of_nothing(scan: Scan) -> Report:
    nothing = Report.of(scan, NARROWED, None, "no row satisfies the condition")
    return replace(nothing, strategy=Strategy.FILES, figures=NOTHING_READ)


def _pieces(prepared: Prepared) -> list[Piece]:
    """Return the pieces of a plan that consist of looked-up blocks.

    Pieces of files that are read whole are left out.
    """
    pieces = () if prepared.reading is None else prepared.reading.pieces or ()
    return [piece for piece in pieces if isinstance(piece, Piece)]


def _is_nothing_fresh(plan: Plan) -> bool:
    return bool(plan.files.num_rows) and bool(plan.scanned_files.all())
