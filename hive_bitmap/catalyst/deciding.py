"""What becomes of a scan: it stays as it is, is read in part, or not at all, where the index holds the answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_bitmap.catalyst import ranges
from hive_bitmap.catalyst.conditions import Condition, condition
from hive_bitmap.catalyst.counting import Answer, is_countable_together
from hive_bitmap.catalyst.handing import truths
from hive_bitmap.catalyst.listing import ScanListing
from hive_bitmap.catalyst.reporting import Read, label, read_of_all, report
from hive_bitmap.catalyst.scans import Listed, Scan, why_small, worthwhile_links
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.explaining.plan import BLOCKS, FILES, FULL_SCAN, INDEX_ONLY, Plan
from hive_bitmap.index.catalog import Index
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning import settings
from hive_bitmap.planning.prepare import Prepared, prepare
from hive_bitmap.planning.request import Request, ResolvedTable
from hive_bitmap.planning.snapshot import Snapshot
from hive_bitmap.predicates.nodes import Constant
from hive_bitmap.reading.scan import narrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_NOTHING = {"strategy": FILES, "files_selected": 0, "blocks_selected": 0}


@dataclass(frozen=True)
class Remember:
    """What is kept between questions: listings, by what Spark says of them, and what is asked for again by a number."""

    listing: Callable[[Any, Scan, Listed], ScanListing]
    plan: Callable[[Plan], str]
    answer: Callable[[Answer], str]


class Decision:
    """The decision on one scan of a table that has indexes; it is told to the question of which the scan is a part."""

    def __init__(
        self,
        spark: SparkSession,
        question: Any,
        scan: Scan,
        base: Table,
        indexes: Sequence[Index],
        conf: Mapping[str, str],
        remember: Remember,
    ) -> None:
        self._spark, self._question, self._scan, self._remember = spark, question, scan, remember
        self._base, self._indexes, self._conf = base, tuple(indexes), conf
        self._said = settings.read(conf)
        self._listed = Listed.of(question, scan)

    def make(self) -> None:
        """Decide, and say so."""
        small = why_small(self._scan, self._base, self._said, self._listed)
        if small and not self._scan.parts:
            return self._too_small(small)
        found = self._condition()
        listing = None if self._listed is None else self._remember.listing(self._question, self._scan, self._listed)
        resolved = self._resolved(found, listing)
        if isinstance(found.predicate, Constant) and found.predicate.value is not True:
            said = report(self._scan, "narrowed", "", "no row satisfies the condition", _NOTHING)
            return self._question.empty(self._scan.number, said)
        known = None
        if self._scan.parts:
            request, prepared = self._counted(resolved)
            if prepared is not None and self._answer(request, prepared, found, listing):
                return None
            known = None if prepared is None else prepared.snapshot
        return self._too_small(small) if small else self._narrow(resolved, listing, known)

    def _too_small(self, why: str) -> None:
        self._question.tooSmall(self._scan.number)
        self._question.leave(self._scan.number, report(self._scan, "left alone", "too_small", why))

    def _condition(self) -> Condition:
        """The condition on the scan, with the keys of small sides of joins that are worth reading first."""
        tree = self._scan.tree
        for link in worthwhile_links(self._scan, self._base, self._indexes, self._said, self._listed):
            keys = self._question.readFirst(self._scan.number, link)
            tree = tree if keys is None else ["and", tree, json.loads(keys)]
        return condition(tree, (*self._base.columns, *self._base.partition_columns))

    def _resolved(self, found: Condition, listing: ScanListing | None) -> ResolvedTable:
        return ResolvedTable(
            self._base,
            self._indexes,
            self._conf,
            found.predicate,
            partial(truths, self._spark, self._question, self._scan.number, found),
            self._scan.cores,
            None if listing is None else listing.with_bytes,
            self._scan.native,
            planned=True,
        )

    def _counted(self, resolved: ResolvedTable) -> tuple[Request, Prepared | None]:
        """The request of an aggregation, prepared; None where it cannot be."""
        parts, text = self._scan.parts, self._scan.condition or None
        keys = tuple(dict.fromkeys(key for part in parts for key in part))
        strategy = INDEX_ONLY if self._said.strategy == INDEX_ONLY else None
        name, columns = self._base.full_name, self._scan.columns
        request = Request(name, text, columns, True, strategy, keys=keys, grouping_sets=parts)
        try:
            return request, prepare(self._spark, request, resolved)
        except HiveBitmapError as e:
            self._unanswered(str(e))
            return request, None

    def _answer(self, request: Request, prepared: Prepared, found: Condition, listing: ScanListing | None) -> bool:
        """Whether an aggregation decides the scan: the index holds its answer, or the store of the files fails."""
        plan, number = prepared.plan, self._scan.number
        if plan.code == "store":  # to narrow the scan would ask it again, and wait as long
            self._question.leave(number, self._report("left alone", "store", plan))
            return True
        if plan.strategy != INDEX_ONLY:
            return self._unanswered(plan.reason)
        if not is_countable_together(prepared, self._scan.parts):
            return self._unanswered("its keys cannot be counted together")
        answer = Answer(request, self._base, found, listing, self._scan.means, self._scan.cores)
        used = [use.name for use in plan.indexes if use.used] or ["its indexes"]
        said = self._report("answered", "", plan)
        by = f"{self._base.full_name} by {', '.join(used)}"
        self._question.answer(number, self._remember.answer(answer), by, said)
        return True

    def _unanswered(self, why: str) -> bool:
        log.info("%s is not answered by its indexes: %s", self._base.full_name, why)
        return False

    def _narrow(self, resolved: ResolvedTable, listing: ScanListing | None, known: Snapshot | None) -> None:
        name, text, must_pay = self._base.sql_name, self._scan.condition or None, self._said.strategy is None
        request = Request(name, text, self._scan.columns, must_pay=must_pay)
        prepared = prepare(self._spark, request, resolved, known)
        plan, number = prepared.plan, self._scan.number
        if prepared.reading is None or plan.strategy in (FULL_SCAN, INDEX_ONLY):
            code = plan.code or ("not_fresh" if _nothing_fresh(plan) else "not_selective")
            self._question.leave(number, self._report("left alone", code, plan))
        elif resolved.native and plan.strategy in (BLOCKS, FILES) and listing is not None:
            chosen = ranges.choices(prepared.reading.results, listing.files, whole_files=plan.strategy == FILES)
            read, said = self._narrowed(plan)
            self._question.select(number, chosen, label(plan.strategy, read), _integers(self._spark, read), said)
        else:
            self._read_by_tasks(request, prepared)

    def _read_by_tasks(self, request: Request, prepared: Prepared) -> None:
        plan, number = prepared.plan, self._scan.number
        frame = narrow(self._spark, request, prepared)
        if frame is None:
            self._question.leave(number, self._report("left alone", "not_selective", plan))
            return
        share = (plan.rows_selected or 0) / max(plan.rows_total or 0, 1)
        size = int((plan.bytes_total or 0) * share) or plan.bytes_selected or 0
        read, said = self._narrowed(plan)
        text, figures = label(plan.strategy, read), _integers(self._spark, read)
        self._question.rows(number, frame._jdf, size, text, figures, said)

    def _narrowed(self, plan: Plan) -> tuple[Read, str]:
        """What is read of all by a plan that narrows the scan, and the report of it."""
        read = read_of_all(plan)
        return read, self._report("narrowed", "", plan, read)

    def _report(self, action: str, reason: str, plan: Plan, read: Read | None = None) -> str:
        """What `explain` tells of a scan that was looked into, with the number of its plan; `read` if it is known."""
        looked_up: dict[str, Any] = {
            "strategy": plan.strategy, "costs": dict(plan.costs), "plan": self._remember.plan(plan),
        }
        if plan.looked_up:
            figures = ("blocks_selected", "blocks_total", "files_selected", "files_total")
            looked_up |= dict(zip(figures, read or read_of_all(plan), strict=True))
        return report(self._scan, action, reason, plan.reason, looked_up)


def _nothing_fresh(plan: Plan) -> bool:
    return bool(plan.files.num_rows) and all(plan.files["scanned"].to_pylist())


def _integers(spark: SparkSession, values: Sequence[int]) -> Any:
    """A Java array of ints."""
    gateway: Any = spark.sparkContext._gateway
    found = gateway.new_array(gateway.jvm.int, len(values))
    for at, value in enumerate(values):
        found[at] = value
    return found
