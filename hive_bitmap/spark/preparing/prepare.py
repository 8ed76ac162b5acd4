"""Plan a request.

The steps are: choose the indexes, take a snapshot of the table, look up, and make the plan. Each step is done once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.answering.answer_size import TooLarge, estimated_keys
from hive_bitmap.core.answering.count_budget import COUNT_PRICES
from hive_bitmap.core.answering.extremes import are_enough
from hive_bitmap.core.answering.group_summaries import is_summarized
from hive_bitmap.core.answering.key_merge import is_merged
from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.formats.key_values import KeyColumn, is_simple
from hive_bitmap.core.index.aggregate_columns import Aggregate
from hive_bitmap.core.index.shard import key_columns
from hive_bitmap.core.listings import file_listing
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.nested_types import LEAVES, text
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.index_choice import Unserved
from hive_bitmap.core.planning.plan import IndexUse, Plan
from hive_bitmap.core.planning.planner import PlanInputs, full_scan, make_plan
from hive_bitmap.core.planning.prices import CLEARLY_CHEAPER, Prices
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.first_rows import bounds_of, is_bounded, leave_out
from hive_bitmap.core.selecting.lookup_units import ANY_KEY
from hive_bitmap.core.selecting.split_order import Piece, WholePiece, pieces_in_order, runs
from hive_bitmap.core.stores.options import memory_bytes
from hive_bitmap.errors import StoreError, Unsupported
from hive_bitmap.spark.preparing import snapshot as snapshots
from hive_bitmap.spark.preparing.index_lookup import look_up_snapshot
from hive_bitmap.spark.preparing.request import PlannedRequest, Request, ResolvedTable
from hive_bitmap.spark.preparing.snapshot import Snapshot
from hive_bitmap.spark.preparing.spark_only import engine_skips, fallback_reason, require_readable, why_unreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_PARTS = 16  # most parts of a scan; our tasks and Spark read them alternately


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The plan of a request, and the input of what carries the plan out.

    If `results` is None, nothing was looked up, and Spark reads everything. Otherwise, `format` is a key of FORMATS,
    and `columns` are the data columns to read. `constants` has the partition columns, with a row for each partition of
    the results. `aggregates` are added up for a query that needs sums. `pieces` are the looked-up blocks and the whole
    files, in the order of Spark's scan; None if this order is unknown, or if no rows are read.

    `snapshot` is None if the plan was chosen without a snapshot, and in a copy (`without_scan`). If blocks with
    matching rows are left out, because the query does not need them, `unbounded` is the plan that reads all blocks with
    matching rows; otherwise it is None.
    """

    plan: Plan
    request: Request
    resolved: ResolvedTable
    format: str = ""
    columns: tuple[KeyColumn, ...] = ()
    constants: pa.Table = field(default_factory=lambda: pa.table({}))
    aggregates: tuple[Aggregate, ...] = ()
    results: LookupResults | None = None
    pieces: Sequence[Piece | WholePiece] | None = None
    snapshot: Snapshot | None = None
    unbounded: Prepared | None = None

    @property
    def looked_up(self) -> LookupResults:
        """The results of the lookup.

        Raises ValueError if nothing was looked up.
        """
        if self.results is None:
            raise ValueError("nothing was looked up")
        return self.results

    def without_scan(self) -> Prepared:
        """Return a copy to be kept after planning.

        The copy has no references to the scan and its listing.
        """
        return replace(self, resolved=self.resolved.without_scan(), snapshot=None)


def prepare(
    spark: SparkSession, request: Request, resolved: ResolvedTable, earlier: Snapshot | None = None
) -> Prepared:
    """Plan a request for a table.

    `earlier` is a snapshot of the table, or None; it is used again if it has the indexes that the request needs. If no
    index serves the request, or a store fails, the plan is a full scan with the reason.
    """
    uses: tuple[IndexUse, ...] = ()
    snapshot: Snapshot | None = None
    code = Reason.UNSUPPORTED
    try:
        case = PlannedRequest.of(request, resolved)
        unserved = _why_unserved(case)
        BUDGET.resize(memory_bytes(resolved.conf))
        uses = case.choice.uses
        if unserved is not None:
            return _full_scan(case, unserved, case.choice.unused(unserved.reason))
        if case.settings.strategy == Strategy.FULL_SCAN:
            return _full_scan(
                case,
                Unserved(Reason.OFF, "chosen by hive_bitmap.strategy"),
                case.choice.unused("a full scan was chosen"),
            )
        snapshot = _snapshot(spark, case, earlier)
        code = Reason.NOT_SELECTIVE
        prepared = _by_cost(spark, case, snapshot)
        _require_readable(spark, case, prepared)
    except TooLarge as e:
        return _after_error(request, resolved, e, Reason.TOO_LARGE, uses, snapshot)
    except (Unsupported, StoreError) as e:
        return _after_error(request, resolved, e, code, uses, snapshot)
    return _as_chosen(prepared, case.settings.strategy)


def _as_chosen(prepared: Prepared, strategy: Strategy | None) -> Prepared:
    """Return a plan with the strategy that the session or query has chosen.

    The plan is returned unchanged if `strategy` is None, or if `prepared` has no cost for `strategy`.
    """
    if strategy is None or strategy not in prepared.plan.costs:
        return prepared
    reason = "chosen by hive_bitmap.strategy" + (f"; {prepared.plan.reason}" if prepared.unbounded else "")
    unbounded = None if prepared.unbounded is None else _as_chosen(prepared.unbounded, strategy)
    return replace(prepared, plan=replace(prepared.plan, strategy=strategy, reason=reason), unbounded=unbounded)


def _why_unserved(case: PlannedRequest) -> Unserved | None:
    """Return why no index serves the request; None if an index serves it."""
    if not case.settings.enabled:
        return Unserved(Reason.OFF, f"{settings.PREFIX}enabled is false")
    if case.choice.unserved is not None:
        return case.choice.unserved
    why_unsupported = file_listing.why_unsupported(case.resolved.conf, case.resolved.base)
    return None if why_unsupported is None else Unserved(Reason.UNSUPPORTED, why_unsupported)


def _snapshot(spark: SparkSession, case: PlannedRequest, earlier: Snapshot | None) -> Snapshot:
    """Return a snapshot with the indexes that matter to the request.

    An index matters if it serves the request, or if it shows which of the request's columns can be decoded. `earlier`,
    a snapshot or None, is returned if it has these indexes; otherwise a new snapshot is taken.
    """
    names = {definition.name for definition in case.choice.by_column.values()}
    if case.resolved.base.lake is None:
        needed = {column.name.lower() for column in case.needed}
        for index in case.resolved.indexes:
            if not index.problem and needed.intersection(
                column.name.lower() for column in index.definition.source_columns
            ):
                names.add(index.definition.name)
    if earlier is not None and earlier.resolved is case.resolved and names <= earlier.indexes:
        return earlier
    return snapshots.take(
        spark, case.resolved, [index for index in case.resolved.indexes if index.definition.name in names]
    )


def _by_cost(spark: SparkSession, case: PlannedRequest, snapshot: Snapshot) -> Prepared:
    """Return the cheapest plan.

    If a lookup in all partitions cannot pay, the plan is a full scan. `_all_is_read` checks this first for two kinds of
    requests: requests that use indexes only to save time (`must_pay`), and requests with a limit of rows.
    """
    must_pay = case.request.must_pay and case.settings.strategy is None
    if (must_pay or case.limit is not None) and (full := _all_is_read(spark, case, snapshot)) is not None:
        return full
    results, seconds, spark_seconds = look_up_snapshot(spark, snapshot, case, case.key_sets)
    extremes, top = case.request.extremes, case.request.top
    is_any = top is not None and top.is_any
    mergeable = case.mergeable if is_any or not results.whole_files else frozenset()
    summarized = None if results.whole_files else case.request.group_summary
    counted = [
        [key for key in keys if key != ANY_KEY]
        for keys in case.key_sets
        if not are_enough(results.lookups, keys, extremes)
        and not is_merged(results.lookups, keys, mergeable, top)
        and not is_summarized(results.lookups, keys, summarized)
    ]
    keys = estimated_keys(results, counted, case.settings.answer_bytes)
    pieces = _pieces(case, results)
    inputs = replace(
        _inputs(case, snapshot, results, pieces),
        answer_seconds=seconds + keys * COUNT_PRICES.key,
        spark_count_seconds=spark_seconds + keys * COUNT_PRICES.spark_key,
    )
    unbounded = Prepared(
        plan=make_plan(inputs, case.choice.uses, results),
        request=case.request,
        resolved=case.resolved,
        format=case.format,
        columns=_columns(case, snapshot),
        constants=_constants(case, snapshot),
        aggregates=case.choice.aggregates,
        results=results,
        pieces=pieces,
        snapshot=snapshot,
    )
    return _first_rows(case, snapshot, inputs, unbounded) or unbounded


def _first_rows(case: PlannedRequest, snapshot: Snapshot, inputs: PlanInputs, unbounded: Prepared) -> Prepared | None:
    """Plan to read only the blocks that a sorted query needs.

    `unbounded` is the plan for all matching blocks. Return None if every block may have needed rows, if a strategy
    other than `rows` was chosen, or if this process cannot read the rows itself. If no strategy was chosen, also return
    None if the new plan is not the cheapest. Tasks cannot read the rows, because all files have to be compared after
    the read.
    """
    plan, bounded = unbounded.plan, _bounded(case, snapshot, unbounded.looked_up)
    if bounded is None or case.settings.strategy not in (None, Strategy.ROWS):
        return None
    bounded_plan = make_plan(inputs, case.choice.uses, bounded)
    of_indexed = bounded_plan
    if bounded.whole_files:
        of_indexed = make_plan(inputs, case.choice.uses, replace(bounded, whole_files=()))
    price, full_price = of_indexed.costs.get(Strategy.ROWS), plan.costs[Strategy.FULL_SCAN]
    if price is None or not of_indexed.in_driver:
        return None
    if whole := [file.status.size for file in bounded.whole_files]:  # Spark reads these files
        price += inputs.prices.scan(sum(whole) * inputs.share, len(whole))
    is_cheapest = price <= CLEARLY_CHEAPER * full_price and price <= plan.costs.get(plan.strategy, full_price)
    if case.settings.strategy is None and not is_cheapest:
        return None
    reason = f"{case.request.first} lie in {bounded_plan.blocks_selected:,} of the {plan.blocks_selected:,} blocks"
    reason += " with matching rows; the others are not read"
    chosen = replace(
        bounded_plan,
        strategy=Strategy.ROWS,
        reason=reason,
        code=None,
        first=case.request.first,
        in_driver=True,
        costs={**bounded_plan.costs, Strategy.ROWS: price},
    )
    return replace(unbounded, plan=chosen, results=bounded, pieces=_pieces(case, bounded), unbounded=unbounded)


def _bounded(
    case: PlannedRequest, snapshot: Snapshot, results: LookupResults, share: float = 1.0
) -> LookupResults | None:
    """Leave out the blocks without any row that a sorted query needs.

    Return None if no block can be left out. `results` may be the results of a sample, and `share` is the sample's
    share of the table: the sample is expected to have this share of the needed rows.
    """
    first, base = case.request.first, case.resolved.base
    if first is None or (results.whole_files and not case.resolved.narrows):
        return None
    column = next((column for column in base.columns if column.name.lower() == first.column.lower()), None)
    if column is None or not is_bounded(column):
        return None
    needed = replace(first, rows=ceil(share * first.rows))
    return leave_out(results, bounds_of(snapshot.files, results, column), needed)


def _all_is_read(spark: SparkSession, case: PlannedRequest, snapshot: Snapshot) -> Prepared | None:
    """Return a full scan if a lookup in all partitions would not pay.

    Either the table is small, or a sample of its partitions shows that a lookup does not pay. The plan of a sample has
    the costs of the whole table. Return None if the lookup may pay.
    """
    prices = Prices(case.format, case.resolved.cores, snapshot.store, case.factors)
    size = snapshot.files.bytes
    scanned, must_pay = int(size * case.share), case.request.must_pay
    if must_pay and prices.is_too_small(scanned, len(snapshot.files.files), native=case.resolved.native):
        why = f"all of its {size:,} bytes are read in less time than reading through an index takes to start"
        return _full_scan(case, Unserved(Reason.TOO_SMALL, why), case.choice.uses, snapshot)
    sample = snapshot.sample()
    if sample is None:
        return None
    results, _, _ = look_up_snapshot(spark, sample, case, ())
    inputs = replace(_inputs(case, sample, results, _pieces(case, results)), scale=size / max(sample.files.bytes, 1))
    plan = make_plan(inputs, case.choice.uses, results)
    if _bounded(case, sample, results, 1 / inputs.scale) is not None:  # few of the matching blocks may be needed
        return None
    if plan.strategy != Strategy.FULL_SCAN or (plan.code != Reason.LIMIT and not must_pay):
        return None
    shown = plan.without_figures if case.settings.engine_reads_only else plan
    if plan.code == Reason.LIMIT:
        return _full_scan(case, Unserved(Reason.LIMIT, shown.reason), case.choice.uses, snapshot)
    sampled = f"in {len(sample.files.partitions)} of {len(snapshot.files.partitions)} partitions"
    full = _full_scan(case, Unserved(Reason.NOT_SELECTIVE, f"{sampled} {shown.reason}"), case.choice.uses, snapshot)
    priced = replace(full.plan, costs=plan.costs, factors=plan.factors, rows_total=snapshot.files.rows)
    return replace(full, plan=priced)


def _require_readable(spark: SparkSession, case: PlannedRequest, prepared: Prepared) -> None:
    """Raise StoreError if our tasks must open base files but cannot."""
    strategy, results = prepared.plan.strategy, prepared.results
    by_spark = not strategy.reads_selected or (case.resolved.narrows and strategy.is_by_reader)
    path = "" if by_spark or results is None else _any_file(results)
    if path:
        require_readable(spark, case.resolved.conf, path)


def _columns(case: PlannedRequest, snapshot: Snapshot) -> tuple[KeyColumn, ...]:
    """Return the data columns to read, with the types that the query reads.

    The optimizer may leave out fields of nested columns.
    """
    columns, types = case.resolved.base.columns, {name: text(type) for name, type in case.nested.items()}
    read = key_columns([column for column in case.needed if column in columns], columns, snapshot.zone)
    return tuple(replace(column, type=types.get(column.name.lower(), column.type)) for column in read)


def _constants(case: PlannedRequest, snapshot: Snapshot) -> pa.Table:
    """Return the needed partition columns whose values have a known type."""
    partition_columns = [column.name for column in case.needed if column not in case.resolved.base.columns]
    return snapshot.values.select([name for name in partition_columns if name in snapshot.values.column_names])


def _pieces(case: PlannedRequest, results: LookupResults) -> list[Piece | WholePiece] | None:
    """Return the looked-up blocks and the whole files, in the order of Spark's scan.

    Return None if this order is unknown, or if our tasks read no rows of the table.
    """
    most = case.resolved.split_bytes
    if case.request.count or case.resolved.base.lake is not None or most is None:
        return None
    return pieces_in_order(results, case.format, most)


def _inputs(
    case: PlannedRequest, snapshot: Snapshot, results: LookupResults, pieces: Sequence[Piece | WholePiece] | None
) -> PlanInputs:
    columns, constants = _columns(case, snapshot), _constants(case, snapshot)
    names = frozenset(column.name.lower() for column in columns)
    return PlanInputs(
        table=case.resolved.base.full_name,
        predicate=case.request.predicate,
        format=case.format,
        cores=case.resolved.cores,
        columns=names,
        unkeyed=frozenset(column.name.lower() for column in columns if not is_simple(column)),
        nested={name: type for name, type in case.nested.items() if name in names},
        schemas=snapshot.schemas,
        count=case.request.count,
        sums=bool(case.request.measures),
        unreadable=_unreadable(case, columns, constants, results, pieces),
        engine_skips=engine_skips(case.resolved),
        engine_reads_only=case.settings.engine_reads_only,
        share=case.share,
        width=len(case.resolved.base.columns),
        store=snapshot.store,
        factors=case.factors,
        limit=case.limit,
        driver_read_bytes=case.settings.driver_read_bytes if _can_driver_read(case) else 0,
    )


def _unreadable(
    case: PlannedRequest,
    columns: Sequence[KeyColumn],
    constants: pa.Table,
    results: LookupResults,
    pieces: Sequence[Piece | WholePiece] | None,
) -> dict[str, str]:
    """Return, by path, why only Spark can read a file.

    The path "" stands for all files. Unindexed files are left out if Spark has listed the files of its scan, because
    Spark then reads or counts these files itself. The other arguments are fields of `Prepared`.
    """
    lake, is_count = case.resolved.base.lake, case.request.count
    if lake is not None:
        return {} if is_count else {"": f"the rows of a {lake.kind} table are read by its own reader"}
    if not is_count and (why := _why_not_beside_spark(pieces)):
        return {"": why}
    by_spark = case.resolved.partitions is not None if is_count else case.resolved.narrows
    return why_unreadable(columns, () if by_spark else results.whole_files, case.needed, constants.column_names)


def _why_not_beside_spark(pieces: Sequence[Piece | WholePiece] | None) -> str:
    """Return why our tasks' rows cannot be merged into Spark's rows in scan order.

    Spark reads the files that must be read whole, and our tasks read all other files. Return "" if the rows can be
    merged. `pieces` are the pieces of the scan; None if their order is unknown.
    """
    if pieces is None:
        return "the query sees the order of the rows, which only Spark's own reader knows"
    if len(runs(pieces)) > MOST_PARTS:
        return "files that only Spark reads lie between the others in too many places"
    return ""


def _can_driver_read(case: PlannedRequest) -> bool:
    """Return whether this process can read rows and pass them to Spark.

    The format and the types must allow this. Rows of a lake table are never read in this process.
    """
    if case.resolved.base.lake is not None:
        return False
    return case.format not in LAYOUTS and all(
        LEAVES.fullmatch(column.type) or column.name.lower() in case.nested for column in case.needed
    )


def _full_scan(
    case: PlannedRequest, why: Unserved, uses: tuple[IndexUse, ...], snapshot: Snapshot | None = None
) -> Prepared:
    plan = full_scan(case.resolved.base.full_name, case.request.predicate, why.reason, uses, why.code)
    return Prepared(plan=plan, request=case.request, resolved=case.resolved, snapshot=snapshot)


def _after_error(
    request: Request,
    resolved: ResolvedTable,
    error: Unsupported | StoreError,
    code: Reason,
    uses: tuple[IndexUse, ...],
    snapshot: Snapshot | None,
) -> Prepared:
    """Return a full scan after an error.

    The reason of the full scan has the code `code`, or STORE if a store has failed. `uses` and `snapshot` are what was
    known before the error.
    """
    code = Reason.STORE if isinstance(error, StoreError) else code
    plan = full_scan(resolved.base.full_name, request.predicate, fallback_reason(error), uses, code)
    return Prepared(plan=plan, request=request, resolved=resolved, snapshot=snapshot)


def _any_file(results: LookupResults) -> str:
    """Return the path of any file in the results; "" without files."""
    indexed = (path for lookup in results.lookups for path in lookup.unit.paths)
    return next(indexed, "") or next((file.status.path for file in results.whole_files), "")
