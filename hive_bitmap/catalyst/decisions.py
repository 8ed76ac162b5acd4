"""Decide on a scan of an indexed table: leave it alone, narrow it, or answer the aggregation over it from the index.

To narrow a scan is to leave out files, blocks or rows that cannot satisfy its condition.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from hive_bitmap.catalyst import weights
from hive_bitmap.catalyst.arrow_batches import satisfying_keys
from hive_bitmap.catalyst.conditions import Condition, condition
from hive_bitmap.catalyst.index_answers import Answer, is_countable_together
from hive_bitmap.catalyst.listing import ScanListing
from hive_bitmap.catalyst.ranges import file_choices
from hive_bitmap.catalyst.reporting import ANSWERED, LEFT_ALONE, NARROWED, ReadFigures, label, read_figures, report
from hive_bitmap.catalyst.scans import ListingSummary, Scan, why_too_small, worthwhile_runtime_filters
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.explaining.plan import BLOCKS, FILES, FULL_SCAN, INDEX_ONLY, Plan
from hive_bitmap.index.catalog import Index
from hive_bitmap.memory_budget import BUDGET
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning import settings
from hive_bitmap.planning.prepare import Prepared, prepare
from hive_bitmap.planning.request import Request, ResolvedTable
from hive_bitmap.planning.snapshot import Snapshot
from hive_bitmap.predicates.nodes import Constant
from hive_bitmap.reading.superset import superset_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_NOTHING_READ = {"strategy": FILES, "files_selected": 0, "blocks_selected": 0}


@dataclass(frozen=True)
class Caches:
    """Access to what is cached between questions: `listing` looks up, the others store a value and return its id."""

    listing: Callable[[Any, Scan, ListingSummary], ScanListing]
    keep_plan: Callable[[Plan], str]
    keep_answer: Callable[[Answer], str]


class Decision:
    """The decision on one scan of a table that has indexes, given to the `Question` of the JVM that has the scan."""

    def __init__(
        self,
        spark: SparkSession,
        question: Any,
        scan: Scan,
        base: Table,
        indexes: Sequence[Index],
        conf: Mapping[str, str],
        caches: Caches,
    ) -> None:
        self._spark, self._question, self._scan, self._caches = spark, question, scan, caches
        self._base, self._indexes = base, tuple(indexes)
        self._conf = conf if scan.strategy is None else {**conf, settings.STRATEGY: scan.strategy}
        self._settings = settings.read(self._conf)
        self._listed = ListingSummary.of(question, scan)
        self._unanswered = ""  # why the aggregation is not answered, and the code of that if it is the reason to tell
        self._unanswered_code = ""

    def make(self) -> None:
        """Decide, and call that one of the question's `leave`, `select`, `rows`, `empty` and `answer`."""
        too_small = why_too_small(self._scan, self._base, self._settings, self._listed)
        if too_small and not self._scan.key_sets:
            self._leave_as_too_small(too_small)
            return
        found = self._condition()
        listing = None if self._listed is None else self._caches.listing(self._question, self._scan, self._listed)
        resolved = self._resolved(found, listing)
        if isinstance(found.predicate, Constant) and found.predicate.value is not True:
            said = report(self._scan, NARROWED, "", "no row satisfies the condition", _NOTHING_READ)
            self._question.empty(self._scan.number, said)
            return
        snapshot = None
        if self._scan.unanswered is not None:
            self._note_unanswered(self._scan.unanswered, "not_counted")
        if self._scan.key_sets:
            request, prepared = self._prepare_counts(resolved)
            if prepared is not None:
                if self._is_decided_by_counts(request, prepared, found, listing):
                    return
                snapshot = prepared.snapshot
        if too_small:
            self._leave_as_too_small(too_small)
        else:
            self._narrow(resolved, listing, snapshot)

    def _leave_as_too_small(self, why: str) -> None:
        self._question.tooSmall(self._scan.number)
        self._question.leave(self._scan.number, report(self._scan, LEFT_ALONE, "too_small", why))

    def _condition(self) -> Condition:
        """Return the condition on the scan AND the runtime filters that are worth their job, which is run here."""
        tree = self._scan.tree
        worthwhile = worthwhile_runtime_filters(self._scan, self._base, self._indexes, self._settings, self._listed)
        for number in worthwhile:
            keys = self._question.readFirst(self._scan.number, number)
            tree = tree if keys is None else ["and", tree, json.loads(keys)]
        return condition(tree, (*self._base.columns, *self._base.partition_columns))

    def _resolved(self, found: Condition, listing: ScanListing | None) -> ResolvedTable:
        return ResolvedTable(
            self._base,
            self._indexes,
            self._conf,
            found.predicate,
            partial(satisfying_keys, self._spark, self._question, self._scan.number, found),
            self._scan.cores,
            None if listing is None else listing.with_bytes,
            self._scan.native,
            planned=True,
        )

    def _prepare_counts(self, resolved: ResolvedTable) -> tuple[Request, Prepared | None]:
        """Return the request for the counts of all key sets, and what is prepared of it, None if that fails."""
        key_sets, text = self._scan.key_sets, self._scan.condition or None
        keys = tuple(dict.fromkeys(key for keys in key_sets for key in keys))
        strategy = INDEX_ONLY if self._settings.strategy == INDEX_ONLY else None
        name, columns = self._base.full_name, self._scan.columns
        request = Request(name, text, columns, True, strategy, keys=keys, grouping_sets=key_sets)
        try:
            return request, prepare(self._spark, request, resolved)
        except HiveBitmapError as e:
            self._note_unanswered(str(e))
            return request, None

    def _is_decided_by_counts(
        self, request: Request, prepared: Prepared, found: Condition, listing: ScanListing | None
    ) -> bool:
        """Decide the scan if the index answers its aggregation or the store of its files fails; return whether so."""
        plan, number = prepared.plan, self._scan.number
        if plan.code == "store":  # narrowing the scan would ask the same store again, and wait as long
            self._question.leave(number, self._report(LEFT_ALONE, "store", plan))
            return True
        if plan.strategy != INDEX_ONLY:
            self._note_unanswered(plan.reason, "too_large" if plan.code == "too_large" else "")
            return False
        if not is_countable_together(prepared, self._scan.key_sets):
            self._note_unanswered("its keys cannot be counted together")
            return False
        if listing is not None and not BUDGET.fits(weights.of_listing(listing)):
            self._note_unanswered("its listing is larger than a half of hive_bitmap.stores.memory")
            return False
        kept = None if listing is None else ref(listing)
        answer = Answer(request, self._base, found, kept, self._scan.cores)
        used = [use.name for use in plan.indexes if use.used] or ["its indexes"]
        said = self._report(ANSWERED, "", plan)
        by = f"{self._base.full_name} by {', '.join(used)}"
        self._question.answer(number, self._caches.keep_answer(answer), by, said)
        return True

    def _note_unanswered(self, why: str, code: str = "") -> None:
        self._unanswered, self._unanswered_code = why, code
        log.info("%s is not answered by its indexes: %s", self._base.full_name, why)

    def _narrow(self, resolved: ResolvedTable, listing: ScanListing | None, snapshot: Snapshot | None) -> None:
        name, text, must_pay = self._base.spark_name, self._scan.condition or None, self._settings.strategy is None
        request = Request(name, text, self._scan.columns, must_pay=must_pay)
        prepared = prepare(self._spark, request, resolved, snapshot)
        plan, number = prepared.plan, self._scan.number
        if prepared.reading is None or plan.strategy in (FULL_SCAN, INDEX_ONLY):
            code = plan.code or ("not_fresh" if _is_nothing_fresh(plan) else "not_selective")
            self._question.leave(number, self._report(LEFT_ALONE, *self._with_unanswered(code, plan)))
        elif resolved.native and plan.strategy in (BLOCKS, FILES) and listing is not None:
            chosen = file_choices(prepared.reading.results, listing.numbers, whole_files=plan.strategy == FILES)
            figures = read_figures(plan)
            said = self._report(NARROWED, "", plan, figures)
            self._question.select(number, chosen, label(plan.strategy, figures), *figures, said)
        else:
            self._read_by_tasks(request, prepared)

    def _with_unanswered(self, code: str, plan: Plan) -> tuple[str, Plan]:
        """Return why a scan is left alone, and why its aggregation is not answered, if that was what was asked for."""
        if not self._unanswered or (self._unanswered_code != "too_large" and code != "not_tested"):
            return code, plan
        reason = f"{self._unanswered}; {plan.reason}" if self._scan.condition else self._unanswered
        return self._unanswered_code or code, replace(plan, reason=reason)

    def _read_by_tasks(self, request: Request, prepared: Prepared) -> None:
        plan, number = prepared.plan, self._scan.number
        try:
            frame = superset_rows(self._spark, request, prepared)
        except Unsupported as e:
            self._question.leave(number, self._report(LEFT_ALONE, "unsupported", replace(plan, reason=str(e))))
            return
        if frame is None:
            self._question.leave(number, self._report(LEFT_ALONE, "not_selective", plan))
            return
        share = (plan.rows_selected or 0) / max(plan.rows_total or 0, 1)
        size = int((plan.bytes_total or 0) * share) or plan.bytes_selected or 0
        figures = read_figures(plan)
        said = self._report(NARROWED, "", plan, figures)
        self._question.rows(number, frame._jdf, size, label(plan.strategy, figures), *figures, said)

    def _report(self, action: str, reason: str, plan: Plan, figures: ReadFigures | None = None) -> str:
        """Return the report of a scan that has a plan; `figures` are its `read_figures`, if they are known already."""
        told = plan.without_figures if self._settings.engine_reads_only else plan
        details: dict[str, Any] = {
            "strategy": told.strategy,
            "costs": dict(told.costs),
            "plan": self._caches.keep_plan(told),
        }
        if plan.looked_up:
            details |= (figures or read_figures(plan))._asdict()
        return report(self._scan, action, reason, told.reason, details)


def _is_nothing_fresh(plan: Plan) -> bool:
    return bool(plan.files.num_rows) and all(plan.files["scanned"].to_pylist())
