"""Decide on a scan of an indexed table.

A scan is left alone, or it is narrowed, or the index answers the aggregation over it. The answer is tried first. To
narrow a scan is to skip files, blocks or rows that cannot satisfy its condition. If no row can satisfy the condition,
the scan is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from weakref import ref

from hive_bitmap.core.answering.extremes import has_order
from hive_bitmap.core.listings import file_listing
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.index_choice import Unserved
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.predicates.nodes import Constant, Predicate
from hive_bitmap.core.selecting.split_order import Piece, runs
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.spark.catalyst.decision import (
    ANSWERED,
    LEFT_ALONE,
    NARROWED,
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
from hive_bitmap.spark.catalyst.scans import Scan, Sums, condition, why_too_small, worthwhile_runtime_filters
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


def indexed_table(scan: Scan, base: Table, indexes: Sequence[Index], conf: Mapping[str, str]) -> ResolvedTable:
    """Combine a scan's table with its indexes and settings.

    `base.computed` becomes the key expressions that the scan uses. `conf` has all settings of the session. If a
    strategy was chosen for the scan, it replaces the strategy in `conf`. The condition and the files are not known yet.
    """
    expressions = {e.name: e for index in indexes for e in index.definition.expressions if e.name in scan.keys}
    return ResolvedTable(
        base=replace(base, computed=tuple(expressions.values())),
        indexes=tuple(indexes),
        conf=conf if scan.strategy is None else {**conf, settings.STRATEGY: scan.strategy},
        cores=scan.cores,
        native=scan.native,
    )


def left_alone(scan: Scan, table: ResolvedTable) -> LeaveAlone | None:
    """Return LeaveAlone if no index can serve a scan.

    The check needs no listing of files. Return None if `decide` has to decide.
    """
    if not table.indexes:
        return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.NO_INDEX, "the table has no index"))
    if why := file_listing.why_query_unsupported(scan.options, table.base):
        return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.UNSUPPORTED, why))
    return None


def decide(question: Question, table: ResolvedTable) -> Decision:
    """Decide on a scan that an index may serve.

    The caller has checked that `left_alone` returns None, and has the summary of the files (`Question.summarize`).
    Raises HiveBitmapError if something fails; the caller then leaves the scan alone.
    """
    scan = question.scan
    too_small = why_too_small(scan, table.base, table.settings)
    if too_small and not scan.key_sets and scan.sums is None:
        return _too_small(scan, too_small, Lasting.FOR_TABLE)
    filters = worthwhile_runtime_filters(scan, table.base, table.indexes, table.settings)
    predicate = _predicate(question, table, filters)
    if isinstance(predicate, Constant) and predicate.value is not True:
        return Empty(report=_report_of_nothing(scan))
    table = _with_files(question, table, predicate)
    unanswered, snapshot = Unserved(), None
    if scan.unanswered is not None:
        unanswered = _unanswered(table, scan.unanswered, Reason.NOT_COUNTED)
    for request, sums in _count_requests(scan, table):
        counted, snapshot = _answered(question, table, request, sums, snapshot)
        if not isinstance(counted, Unserved):
            return counted
        unanswered = unanswered.also(counted)
    if too_small:  # valid for this condition only, because the indexes may answer the aggregation under another one
        return _too_small(scan, too_small, Lasting.FOR_CONDITION)
    return _narrowed(question, table, snapshot, unanswered)


def _with_files(question: Question, table: ResolvedTable, predicate: Predicate) -> ResolvedTable:
    """Add the condition and the files of a scan to its table."""
    scan, listing = question.scan, question.listing
    split_bytes = 0 if not scan.ordered else None if scan.listed is None else scan.listed.split_bytes or None
    return replace(
        table,
        base=table.base if listing is None else listing.table(table.base),
        predicate=predicate,
        engine=question,
        partitions=None if listing is None else listing.without_empty,
        split_bytes=split_bytes,
    )


def _unanswered(table: ResolvedTable, why: str, code: Reason | None = None) -> Unserved:
    log.info("%s is not answered by its indexes: %s", table.base.full_name, why)
    return Unserved(code, why)


def _answered(
    question: Question, table: ResolvedTable, request: Request, sums: Sums | None, earlier: Snapshot | None
) -> tuple[Decision | Unserved, Snapshot | None]:
    """Try to answer the aggregation; return the decision and the snapshot.

    `request` asks for the keys with their counts, and for `sums` unless it is None. `earlier` is the snapshot of an
    earlier attempt on this scan, or None. If the index has no answer, Unserved with the reason takes the place of the
    decision. The decision is LeaveAlone in two cases: the query's limit makes indexes pointless, or the store of the
    files fails. After such a failure narrowing is not tried, because it would ask the store again, and wait as long.
    The snapshot can be used again to narrow the scan. The snapshot is None if the scan will not be narrowed, or if
    nothing could be prepared.
    """
    listing = question.listing
    counted = table
    if listing is not None and listing.deletes:  # the index still has the deleted rows
        counted = replace(table, partitions=listing.countable if sums is None else listing.summable)
    try:
        prepared = question.prepare(request, counted, earlier)
    except HiveBitmapError as e:
        return _unanswered(table, str(e)), None
    plan = prepared.plan
    if plan.code in (Reason.STORE, Reason.LIMIT):
        report = _report(question.scan, table, LEFT_ALONE, plan, plan.code)
        return LeaveAlone(report=report, lasting=_lasting(question.scan, table, plan, plan.code)), None
    if plan.strategy != Strategy.INDEX_ONLY:
        code = Reason.TOO_LARGE if plan.code == Reason.TOO_LARGE else None
        return _unanswered(table, plan.reason, code), prepared.snapshot
    is_conditional = sums is not None and sums.is_conditional
    if is_conditional and prepared.results is not None and prepared.results.whole_files:
        why = "an expression under FILTER or CASE may fail in files that are not indexed, or have deleted rows"
        return _unanswered(table, why), prepared.snapshot
    others_by_spark = sums is not None and listing is not None and not is_conditional
    if not is_countable_together(prepared, others_by_spark=others_by_spark):
        return _unanswered(table, "its keys cannot be counted together"), prepared.snapshot
    if listing is not None and not BUDGET.fits(listing.nbytes):
        why = "its listing is larger than a half of hive_bitmap.stores.memory"
        return _unanswered(table, why), prepared.snapshot
    return _counts(question, table, prepared, sums), prepared.snapshot


def _count_requests(scan: Scan, table: ResolvedTable) -> Iterator[tuple[Request, Sums | None]]:
    """Yield each request that may answer the aggregation, with its sums (None for counts).

    Partial aggregates are tried first. For a sum, they are tried even if no index holds partial aggregates, because the
    reason then says what an index should hold.
    """
    definitions = [index.definition for index in table.indexes if not index.why_not]
    if scan.sums is not None:
        sums = scan.sums.by_keys_of(table.base, definitions)
        if sums.has_sum or (sums.measures and any(definition.aggregates for definition in definitions)):
            yield _sum_request(scan, table, sums), sums
    if scan.key_sets:
        yield _count_request(scan, table), None


def _sum_request(scan: Scan, table: ResolvedTable, sums: Sums) -> Request:
    """Return the request for sums of partial aggregates."""
    rows = Request(
        table=table.base.full_name,
        predicate=scan.condition or None,
        columns=scan.columns,
        grouping_sets=(sums.keys,),
        measures=sums.measures,
        top=sums.top if {key.lower() for key in sums.keys} <= _ordered(table) else None,
    )
    return rows.counted(sums.keys)


def _ordered(table: ResolvedTable) -> frozenset[str]:
    """Return the columns, in lower case, that Spark sorts in the same order as shards do."""
    return frozenset(column.name.lower() for column in table.base.keyed_columns if has_order(column))


def _count_request(scan: Scan, table: ResolvedTable) -> Request:
    """Return the request for the counts of all key sets."""
    keys, ordered = tuple(dict.fromkeys(key for keys in scan.key_sets for key in keys)), _ordered(table)
    are_ordered = {key.lower() for key in keys} <= ordered
    rows = Request(
        table=table.base.full_name,
        predicate=scan.condition or None,
        columns=scan.columns,
        grouping_sets=scan.key_sets,
        limit=_limit(scan, table),
        extremes=scan.extremes & ordered,
        summaries=scan.summaries & ordered,
        group_summary=scan.group_summary if are_ordered else None,
        top=scan.top if are_ordered else None,
    )
    return rows.counted(keys)


def _counts(question: Question, table: ResolvedTable, prepared: Prepared, sums: Sums | None) -> Counts:
    used = [use.name for use in prepared.plan.indexes if use.used] or ["its indexes"]
    listing, snapshot = question.listing, prepared.snapshot
    return Counts(
        report=_report(question.scan, table, ANSWERED, prepared.plan),
        prepared=prepared.without_scan(),
        source=f"{table.base.full_name} by {', '.join(used)}",
        listing=None if listing is None else ref(listing),
        files=None if listing is not None or snapshot is None else FileSet.listed(snapshot),
        sums=sums,
    )


def _narrowed(question: Question, table: ResolvedTable, snapshot: Snapshot | None, unanswered: Unserved) -> Decision:
    """Decide how the rows of the scan are read.

    `snapshot` may be the snapshot of an earlier attempt to count. `unanswered` says why the index does not answer the
    aggregation.
    """
    scan, listing = question.scan, question.listing
    request = Request(
        table=table.base.spark_name,
        predicate=scan.condition or None,
        columns=scan.columns,
        must_pay=_is_by_cost(scan, table),
        limit=_limit(scan, table),
        nested=scan.nested,
        first=scan.first,
    )
    prepared = question.prepare(request, table, snapshot)
    if prepared.unbounded is not None and _fetch(prepared, _pieces(prepared)) is None:
        prepared = prepared.unbounded  # tasks read all blocks
    plan = prepared.plan
    if prepared.results is None or not plan.strategy.reads_selected:
        code = plan.code or (Reason.NOT_FRESH if _is_nothing_fresh(plan) else Reason.NOT_SELECTIVE)
        code, reason = _why_left_alone(scan, unanswered, code, plan.reason)
        report = _report(scan, table, LEFT_ALONE, replace(plan, reason=reason), code)
        return LeaveAlone(report=report, lasting=_lasting(scan, table, plan, code))
    if listing is None or not table.narrows or not plan.strategy.is_by_reader:
        if table.base.lake is not None:
            return LeaveAlone(report=_report(scan, table, LEFT_ALONE, plan, Reason.UNSUPPORTED))
        return _read_rows(question, table, prepared)
    whole_files = plan.strategy is Strategy.FILES
    chosen = file_choices(prepared.results, listing.numbers, whole_files=whole_files)
    return ReadChoices(report=_report(scan, table, NARROWED, plan), choices=chosen)


def _is_by_cost(scan: Scan, table: ResolvedTable) -> bool:
    return scan.must_pay and table.settings.strategy is None


def _limit(scan: Scan, table: ResolvedTable) -> int | None:
    """Return the number of rows that the query needs; None if it needs all.

    The result is also None if the strategy is not chosen by cost, because the limit then does not matter.
    """
    return scan.limit if _is_by_cost(scan, table) else None


def _lasting(scan: Scan, table: ResolvedTable, plan: Plan, code: Reason) -> Lasting:
    """Return how long the decision to leave the scan alone is valid.

    `plan` is the plan of the scan, and `code` the reason of the decision. The decision is not kept if there are
    unindexed files, because such files may be indexed soon.
    """
    is_indexed = not plan.looked_up or not plan.scanned_files.any()
    lasts = code in LASTING and is_indexed and _is_by_cost(scan, table)
    if code != Reason.LIMIT:
        lasts = lasts and table.split_bytes is not None  # None: another query may need no order
    return Lasting.FOR_CONDITION if lasts else Lasting.NO


def _why_left_alone(scan: Scan, unanswered: Unserved, code: Reason, reason: str) -> tuple[Reason, str]:
    """Return why a scan is left alone: a code and a text.

    `unanswered` says why the index does not answer the scan's aggregation. `code` and `reason` say why the scan is not
    narrowed. The text gives both reasons if the answer would be too large, or if no index is tested; otherwise only
    `reason`.
    """
    is_untested = code in (Reason.NOT_TESTED, Reason.NO_INDEX)
    if not unanswered.reason or (unanswered.code != Reason.TOO_LARGE and not is_untested):
        return code, reason
    both = f"{unanswered.reason}; {reason}" if scan.condition else unanswered.reason
    return unanswered.code or code, "; ".join(dict.fromkeys(both.split("; ")))  # each reason once


def _read_rows(question: Question, table: ResolvedTable, prepared: Prepared) -> Decision:
    scan, plan = question.scan, prepared.plan
    share = (plan.rows_selected or 0) / max(plan.rows_total or 0, 1)
    size = int((plan.bytes_total or 0) * share) or plan.bytes_selected or 0
    try:
        parts = _parts(question, prepared)
    except Unsupported as e:
        report = _report(scan, table, LEFT_ALONE, replace(plan, reason=str(e)), Reason.UNSUPPORTED)
        return LeaveAlone(report=report)
    if not parts:  # Spark reads all rows, or no file is listed yet
        return LeaveAlone(report=_report(scan, table, LEFT_ALONE, plan, Reason.NOT_SELECTIVE))
    files = _files_to_compare(question, prepared, parts)
    return ReadRows(report=_report(scan, table, NARROWED, plan), parts=tuple(parts), size=size, files=files)


def _files_to_compare(
    question: Question, prepared: Prepared, parts: Sequence[FramePart | FetchPart | SparkPart]
) -> FileSet | None:
    """Return the files to check for changes when the plan is executed.

    If planning has listed the files itself, all files are checked. Otherwise Spark has listed the files, and only the
    files that our own tasks open are checked. Return None if there are no files to check.
    """
    if question.listing is None and prepared.snapshot is not None:
        return FileSet.listed(prepared.snapshot)
    if prepared.results is None or not any(isinstance(part, FramePart) for part in parts):
        return None
    return FileSet.of_tasks(prepared)


def _parts(question: Question, prepared: Prepared) -> list[FramePart | FetchPart | SparkPart] | None:
    """Return the parts of the scan, in the order of Spark's own scan.

    The class of a part says who reads its rows. Return None if Spark reads all rows.
    """
    results, listing = prepared.results, question.listing
    if results is None or prepared.pieces is None or prepared.plan.strategy is not Strategy.ROWS:
        frame = question.rows(prepared, None)
        return None if frame is None else [FramePart(frame)]
    parts: list[FramePart | FetchPart | SparkPart] = []
    for run in runs(prepared.pieces):
        if pieces := [piece for piece in run if isinstance(piece, Piece)]:
            parts.append(_part(question, prepared, pieces))
        elif listing is not None:
            parts.append(SparkPart(split_choices(results, listing.numbers, run)))
    return parts


def _part(question: Question, prepared: Prepared, pieces: Sequence[Piece]) -> FramePart | FetchPart:
    fetch, results, listing = _fetch(prepared, pieces), prepared.results, question.listing
    if fetch is not None:
        if results is None or listing is None or not results.whole_files:
            return fetch
        return replace(fetch, choices=indexed_choices(results, listing.numbers))
    frame = question.rows(prepared, pieces)
    if frame is None:
        raise Unsupported("no task can read its rows")
    return FramePart(frame)


def _fetch(prepared: Prepared, pieces: Sequence[Piece]) -> FetchPart | None:
    """Return how this process reads these pieces.

    Return None if tasks or Spark have to read the pieces.
    """
    from hive_bitmap.spark.catalyst.driver_rows import fetch_of  # loads the readers of base files

    return fetch_of(prepared, pieces)


def _report(scan: Scan, table: ResolvedTable, action: str, plan: Plan, reason: Reason | None = None) -> Report:
    shown = plan.without_figures if table.settings.engine_reads_only else plan
    figures = read_figures(plan) if plan.looked_up else {}
    report = Report.of(scan, action, reason, shown.reason)
    report = replace(report, strategy=shown.strategy, costs=shown.costs, learnt=str(shown.factors), plan=shown)
    return replace(report, **figures)


def _too_small(scan: Scan, why: str, lasting: Lasting) -> LeaveAlone:
    return LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.TOO_SMALL, why), lasting=lasting)


def _predicate(question: Question, table: ResolvedTable, filters: Sequence[int]) -> Predicate:
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
    return replace(nothing, strategy=Strategy.FILES, blocks_selected=0, files_selected=0)


def _pieces(prepared: Prepared) -> list[Piece]:
    """Return the pieces of a plan that consist of looked-up blocks.

    Pieces of files that are read whole are left out.
    """
    return [piece for piece in prepared.pieces or () if isinstance(piece, Piece)]


def _is_nothing_fresh(plan: Plan) -> bool:
    return bool(plan.files.num_rows) and bool(plan.scanned_files.all())
