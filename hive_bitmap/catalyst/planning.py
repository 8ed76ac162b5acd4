"""What becomes of the scans of a query: the optimizer rule asks (`Question.java`), this answers.

Each scan stays as it is, is read in part, or is not read at all, where an aggregation over it is answered from the
index when the plan is executed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from hive_bitmap import stores
from hive_bitmap.catalyst import ranges
from hive_bitmap.catalyst.conditions import Condition, condition
from hive_bitmap.catalyst.handing import batches, truths
from hive_bitmap.catalyst.listing import Listing, as_now, parse
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.index import catalog, metastore_jvm
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table
from hive_bitmap.query import settings
from hive_bitmap.query.aggregates import KnownCounts, known_counts
from hive_bitmap.query.left import left_to_spark
from hive_bitmap.query.nodes import Constant
from hive_bitmap.query.planner import BLOCKS, FILES, FULL_SCAN, INDEX_ONLY, Plan, needs_file
from hive_bitmap.query.prepare import Prepared, prepare
from hive_bitmap.query.prices import scan_seconds, share_of_bytes, too_small
from hive_bitmap.query.request import Request, Resolved
from hive_bitmap.query.scan import narrow
from hive_bitmap.query.tally import COUNT, is_countable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_NOTHING = {"strategy": FILES, "files_selected": 0, "blocks_selected": 0}
WORTH_SECONDS = 0.4  # that a scan has to take for one more job, which reads a small side of its join first, to pay
TABLES_KEPT, LISTINGS_KEPT, ANSWERS_KEPT, PLANS_KEPT = 1024, 256, 10_000, 64


@dataclass(frozen=True)
class Scan:
    """A scan of the question; `tree` and `aggregate` are JSON, `columns` those that the query takes."""

    number: int
    database: str
    table: str
    version: str
    condition: str
    tree: Sequence[Any]
    columns: tuple[str, ...]
    native: bool
    aggregate: Mapping[str, Any] | None
    links: tuple[str, ...]
    listed: str | None
    cores: int

    @classmethod
    def of(cls, number: int, said: Mapping[str, Any], cores: int) -> Scan:
        return cls(
            number,
            said["database"],
            said["table"],
            said["version"],
            said["condition"],
            said["tree"],
            tuple(said["columns"]),
            said["native"],
            said.get("aggregate"),
            tuple(said["links"]),
            said.get("listed"),
            cores,
        )


@dataclass(frozen=True)
class Listed:
    """Bytes and number of the files that Spark reads for a scan, and all that Spark says of their listing, as a key."""

    size: int
    files: int
    key: str

    @classmethod
    def of(cls, question: Any, scan: Scan) -> Listed | None:
        """Asked of the JVM where the question does not hold it; None where Spark does not tell its files."""
        said: str | None = scan.listed or question.listed(scan.number)
        if said is None:
            return None
        size, files, _ = said.split(" ")
        return cls(int(size), int(files), said)


@dataclass(frozen=True)
class Asked:
    """What an answer from the index needs when the plan is executed."""

    request: Request
    base: Table
    predicate: Condition
    listing: Listing | None
    means: tuple[str, ...]
    cores: int


class Planning:
    """Answers the questions of all sessions of one JVM; what it keeps saves asking again and is never believed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: LRUCache[tuple[str, ...], Table] = LRUCache(TABLES_KEPT)
        self._listings: LRUCache[tuple[str, ...], Listing] = LRUCache(LISTINGS_KEPT)
        self._settings: LRUCache[tuple[str, int], Mapping[str, str]] = LRUCache(64)
        self._asked: LRUCache[str, Asked] = LRUCache(ANSWERS_KEPT)
        self._process, self._numbers = uuid4().hex, count()
        self.plans: LRUCache[str, Plan] = LRUCache(PLANS_KEPT)

    def answer(self, spark: SparkSession, question: Any) -> None:
        """Say of each scan of a question what becomes of it; raises what a strict session wants to see."""
        asked = json.loads(question.text())
        conf = self._conf(spark, question, (asked["session"], asked["settings"]))
        said = settings.read(conf)
        for number, text in enumerate(asked["scans"]):
            scan = Scan.of(number, text, int(asked["cores"]))
            try:
                self._decide(spark, question, scan, conf)
            except StoreError as e:
                question.leave(number, report(scan, "left alone", "store", left_to_spark(e)))
            except HiveBitmapError as e:
                if said.strict:
                    raise
                question.leave(number, report(scan, "left alone", "error", str(e)))

    def _decide(self, spark: SparkSession, question: Any, scan: Scan, conf: Mapping[str, str]) -> None:
        base = self._base(spark, question, scan)
        indexes = catalog.indexes_on(spark, base, catalog.INDEXES_REMEMBERED)
        if not indexes:
            question.unindexed(scan.number)
            question.leave(scan.number, report(scan, "left alone", "no_index", "the table has no index"))
            return
        counts = scan.aggregate is not None and "parts" in scan.aggregate
        listed = Listed.of(question, scan)
        small = _small(scan, base, conf, listed)
        if small and not counts:
            question.tooSmall(scan.number)
            question.leave(scan.number, report(scan, "left alone", "too_small", small))
            return
        tree = scan.tree
        for link in _worthwhile(scan, base, indexes, conf, listed):
            keys = question.readFirst(scan.number, link)
            tree = tree if keys is None else ["and", tree, json.loads(keys)]
        found = condition(tree, (*base.columns, *base.partition_columns))
        listing = None if listed is None else self._listing(question, scan, listed)
        partitions = None if listing is None else listing.with_bytes
        evaluate = partial(truths, spark, question, scan.number, found)
        resolved = Resolved(base, tuple(indexes), conf, found.predicate, partitions, evaluate, scan.native, scan.cores)
        if isinstance(found.predicate, Constant) and found.predicate.value is not True:
            said = report(scan, "narrowed", "", "no row satisfies the condition", _NOTHING)
            question.empty(scan.number, said)
        elif counts and self._answered(spark, question, scan, resolved, found, listing):
            return
        elif small:
            question.tooSmall(scan.number)
            question.leave(scan.number, report(scan, "left alone", "too_small", small))
        else:
            self._narrowed(spark, question, scan, resolved, listing)

    def _answered(
        self,
        spark: SparkSession,
        question: Any,
        scan: Scan,
        resolved: Resolved,
        found: Condition,
        listing: Listing | None,
    ) -> bool:
        """Whether a scan is decided: the index holds the answer of its aggregation, noted here, or a store fails."""
        assert scan.aggregate is not None
        parts = tuple(tuple(part) for part in scan.aggregate["parts"])
        keys = tuple(dict.fromkeys(key for part in parts for key in part))
        strategy = INDEX_ONLY if settings.read(resolved.settings).strategy == INDEX_ONLY else None
        name, text = resolved.base.full_name, scan.condition or None
        request = Request(name, text, scan.columns, True, strategy, keys=keys, apart=parts)
        try:
            prepared = prepare(spark, request, resolved)
        except HiveBitmapError as e:
            log.info("%s is not answered by its indexes: %s", resolved.base.full_name, e)
            return False
        if prepared.plan.code == "store":  # to narrow the scan would ask it again, and wait as long
            question.leave(scan.number, self._report(scan, "left alone", "store", prepared.plan))
            return True
        if prepared.plan.strategy != INDEX_ONLY:
            log.info("%s is not answered by its indexes: %s", resolved.base.full_name, prepared.plan.reason)
            return False
        if not _countable(prepared, parts):
            log.info("%s is not answered by its indexes: its keys cannot be counted together", name)
            return False
        number = self._number()
        means = tuple(scan.aggregate["means"])
        with self._lock:
            self._asked[number] = Asked(request, resolved.base, found, listing, means, scan.cores)
        said = self._report(scan, "answered", "", prepared.plan)
        question.answer(scan.number, number, f"{resolved.base.full_name} by {', '.join(_used(prepared.plan))}", said)
        return True

    def _narrowed(
        self, spark: SparkSession, question: Any, scan: Scan, resolved: Resolved, listing: Listing | None
    ) -> None:
        said = settings.read(resolved.settings)
        request = Request(resolved.base.sql_name, scan.condition or None, scan.columns, hurry=said.strategy is None)
        prepared = prepare(spark, request, resolved)
        plan = prepared.plan
        if prepared.reading is None or plan.strategy in (FULL_SCAN, INDEX_ONLY):
            code = plan.code or ("not_fresh" if _nothing_fresh(plan) else "not_selective")
            question.leave(scan.number, self._report(scan, "left alone", code, plan))
        elif resolved.native and plan.strategy in (BLOCKS, FILES) and listing is not None:
            chosen = ranges.choices(prepared.reading.work, listing.files, whole_files=plan.strategy == FILES)
            said_of_it = self._report(scan, "narrowed", "", plan)
            question.select(scan.number, chosen, label(plan), _integers(spark, read_of_all(plan)), said_of_it)
        else:
            self._rows(spark, question, scan, request, prepared)

    def _rows(self, spark: SparkSession, question: Any, scan: Scan, request: Request, prepared: Prepared) -> None:
        plan = prepared.plan
        frame = narrow(spark, request, prepared)
        if frame is None:
            question.leave(scan.number, self._report(scan, "left alone", "not_selective", plan))
            return
        share = (plan.rows_selected or 0) / max(plan.rows_total or 0, 1)
        size = int((plan.bytes_total or 0) * share) or plan.bytes_selected or 0
        read = _integers(spark, read_of_all(plan))
        question.rows(scan.number, frame._jdf, size, label(plan), read, self._report(scan, "narrowed", "", plan))

    def _report(self, scan: Scan, action: str, reason: str, plan: Plan) -> str:
        """What `explain` tells of a scan that was looked into, with the number of its plan."""
        number = self._number()
        with self._lock:
            self.plans[number] = plan
        looked_up: dict[str, Any] = {"strategy": plan.strategy, "costs": dict(plan.costs), "plan": number}
        if plan.looked_up:
            figures = ("blocks_selected", "blocks_total", "files_selected", "files_total")
            looked_up |= dict(zip(figures, read_of_all(plan), strict=True))
        return report(scan, action, reason, plan.reason, looked_up)

    def _number(self) -> str:
        """By which the JVM asks again; no other process gives it, for a plan may outlive the one that made it."""
        return f"{self._process}-{next(self._numbers)}"

    def counts(self, spark: SparkSession, counting: Any) -> str | None:
        """Give the counts of an aggregation that was answered, and return the files that Spark has to count, as JSON;
        None where it has to count all.
        """
        told = json.loads(counting.text())
        with self._lock:
            asked = self._asked.get(told["number"])
        if asked is None:
            return None
        conf = self._conf(spark, counting, (told["session"], told["settings"]))
        try:
            found = self._known(spark, counting, asked, conf)
        except StoreError as e:
            left_to_spark(e)
            return None
        if found is None or not _exact(found.tables, asked.means):
            return None
        if found.unknown and asked.listing is None:
            return None  # of such a table Spark cannot be told to read these files alone
        for part, table in enumerate(found.tables):
            for schema, batch in batches(table):
                counting.add(part, schema, batch)
        return json.dumps(sorted(found.unknown))

    def _known(self, spark: SparkSession, counting: Any, asked: Asked, conf: Mapping[str, str]) -> KnownCounts | None:
        indexes = catalog.indexes_on(spark, asked.base, catalog.INDEXES_REMEMBERED)
        listing = None if asked.listing is None else as_now(asked.listing)
        if asked.listing is not None and listing is None:
            return None
        resolved = Resolved(
            asked.base,
            tuple(indexes),
            conf,
            asked.predicate.predicate,
            None if listing is None else listing.with_bytes,
            partial(truths, spark, counting, 0, asked.predicate),
            listing is not None,
            asked.cores,
        )
        return known_counts(spark, asked.request, prepare(spark, asked.request, resolved))

    def _conf(self, spark: SparkSession, question: Any, where: tuple[str, int]) -> Mapping[str, str]:
        with self._lock:
            known = self._settings.get(where)
        if known is None:
            known = metastore_jvm.settings_of(spark, question.settings())
            with self._lock:
                self._settings[where] = known
        return known

    def _base(self, spark: SparkSession, question: Any, scan: Scan) -> Table:
        where = (scan.database, scan.table, scan.version)
        with self._lock:
            known = self._tables.get(where)
        if known is None:
            known = metastore_jvm.table_of(spark, question.table(scan.number))
            with self._lock:
                self._tables[where] = known
        return known

    def _listing(self, question: Any, scan: Scan, listed: Listed) -> Listing:
        where = (scan.database, scan.table, listed.key)
        with self._lock:
            known = self._listings.get(where)
        if known is None:
            known = parse(metastore_jvm.text_of(question.listing(scan.number)))
            with self._lock:
                self._listings[where] = known
        return known


def _countable(prepared: Prepared, parts: Sequence[Sequence[str]]) -> bool:
    """Whether the index alone tells of every row that it knows, and all parts can be counted, of the same rows."""
    if prepared.reading is None or (len(parts) > 1 and prepared.reading.work.whole):
        return False
    work = prepared.reading.work
    pairs = zip(work.lookups, work.found, strict=True)
    if not all((found.exact | ~needs_file(found, lookup)).all() for lookup, found in pairs):
        return False
    data = {column.name.lower() for column in prepared.reading.base.columns}
    sets = [[key.lower() for key in part if key.lower() in data] for part in parts]
    return all(is_countable(lookup.unit, keys) for lookup in work.lookups for keys in sets)


def _small(scan: Scan, base: Table, conf: Mapping[str, str], listed: Listed | None) -> str:
    """Why a scan is not worth a look at its indexes; empty where it may be."""
    if settings.read(conf).strategy is not None or not scan.native or listed is None:
        return ""
    wanted, store = int(_bytes_of_columns(scan, base, listed)), stores.speed_of(base.location)
    if not too_small(wanted, scan.cores, native=True, files=listed.files, store=store):
        return ""
    return f"the {wanted:,} bytes of its columns are read in less time than planning takes"


def _bytes_of_columns(scan: Scan, base: Table, listed: Listed) -> float:
    """About the bytes that the columns of a scan take in its files."""
    columns = (*base.columns, *base.partition_columns)
    wanted = {name.lower() for name in scan.columns}
    share = share_of_bytes([column for column in columns if column.name.lower() in wanted], columns)
    return share * listed.size


def _worthwhile(
    scan: Scan, base: Table, indexes: Sequence[Index], conf: Mapping[str, str], listed: Listed | None
) -> list[int]:
    """The links of which the small side is read first: its keys are indexed, and reading the scan takes long."""
    said = settings.read(conf)
    if not scan.links or said.strategy == FULL_SCAN or not scan.native:
        return []
    indexed = {name.lower() for index in indexes if not index.why_not for name in index.definition.column_names}
    served = [number for number, column in enumerate(scan.links) if column.lower() in indexed]
    size, files = (0.0, 0) if listed is None else (_bytes_of_columns(scan, base, listed), listed.files)
    pays = scan_seconds(size, scan.cores, files, stores.speed_of(base.location)) >= WORTH_SECONDS
    return served if pays or said.strategy is not None else []


def read_of_all(plan: Plan) -> tuple[int, int, int, int]:
    """Blocks that are read, blocks of all, files that are read, files of all, of a plan that looked at them."""
    selected = {*plan.blocks.filter(pc.greater(plan.blocks["selected"], 0))["file"].to_pylist()}
    files = len(selected) + sum(plan.files["scanned"].to_pylist())
    return plan.blocks_selected or 0, plan.blocks_total or 0, files, plan.files.num_rows


def label(plan: Plan) -> str:
    """What is read of all, for Spark's EXPLAIN."""
    blocks, all_blocks, files, all_files = read_of_all(plan)
    return f"{plan.strategy} by the bitmap index: {blocks} of {all_blocks} blocks, {files} of {all_files} files"


def report(scan: Scan, action: str, reason: str, detail: str, more: Mapping[str, Any] | None = None) -> str:
    """What `explain` tells of a scan, as JSON."""
    said = {
        "table": f"{scan.database}.{scan.table}",
        "condition": scan.condition,
        "action": action,
        "reason": reason,
        "detail": detail,
    }
    return json.dumps({**said, **(more or {})})


def _integers(spark: SparkSession, values: Sequence[int]) -> Any:
    """A Java array of ints."""
    gateway: Any = spark.sparkContext._gateway
    found = gateway.new_array(gateway.jvm.int, len(values))
    for at, value in enumerate(values):
        found[at] = value
    return found


def _used(plan: Plan) -> list[str]:
    return [use.name for use in plan.indexes if use.used] or ["its indexes"]


def _nothing_fresh(plan: Plan) -> bool:
    return bool(plan.files.num_rows) and all(plan.files["scanned"].to_pylist())


def _exact(tables: Sequence[pa.Table], means: Sequence[str]) -> bool:
    """Whether sums of these integer columns are exact as doubles, in which Spark adds up for a mean."""
    for table in tables:
        rows = int(pc.sum(table[COUNT]).as_py() or 0)
        for name in means:
            if name in table.column_names:
                bounds = pc.min_max(table[name]).as_py()
                largest = max((abs(bound) for bound in bounds.values() if bound is not None), default=0)
                if largest * rows >= 1 << 53:
                    return False
    return True
