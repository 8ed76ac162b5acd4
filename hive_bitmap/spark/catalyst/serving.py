"""Answer the optimizer rule for all sessions of a JVM.

The answers are decisions on scans (`Question`), counts of keys (`Counting`), rows (`Fetching`) and comparisons of files
(`Comparing`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hive_bitmap.core.listings.scan_listing import ScanListing, deleted_rows, parse
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.spark import session_cache
from hive_bitmap.spark.catalyst import driver_reads, weights
from hive_bitmap.spark.catalyst.arrow_batches import batches, satisfying_keys
from hive_bitmap.spark.catalyst.decisions import Ask, IndexedTable, decide
from hive_bitmap.spark.catalyst.driver_reads import Fetch
from hive_bitmap.spark.catalyst.index_answers import Answer
from hive_bitmap.spark.catalyst.jvm_bridge import PROTOCOL, bridge, protocol_mismatch
from hive_bitmap.spark.catalyst.outcomes import (
    LEFT_ALONE,
    Counts,
    FetchPart,
    FramePart,
    LeaveAlone,
    Outcome,
    ReadRows,
    Reply,
    Report,
)
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.following.refresher import Refresher
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, metastore
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request
from hive_bitmap.spark.preparing.spark_only import fallback_reason
from hive_bitmap.spark.reading.planned_files import OpenedFiles, PlannedFiles
from hive_bitmap.spark.reading.superset import piece_rows, split_rows
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
MOST_WARNINGS = 1000  # about settings, since clients of a server may invent any number of them
T = TypeVar("T")
Conf = tuple[Mapping[str, str], settings.Settings]  # all settings of a session, and those of hive_bitmap, parsed


class Serving:
    """Answer the questions of all sessions of one JVM.

    Tables, listings and settings are cached under versions, which the JVM sends with each question. The version of a
    table or of settings changes with any change in it; a listing's version is a digest of its content. Plans and
    answers are kept under ids: `explain` looks up the plans, the JVM asks for the answers when it executes them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: Cache[str, Table] = Cache("tables", weights.of_table)
        self._listings: Cache[str, ScanListing] = Cache("listings", weights.of_listing)
        self._settings: Cache[tuple[str, str], Mapping[str, str]] = Cache("settings", weights.of_settings)
        self.answers: Cache[str, Answer] = Cache("answers", weights.of_answer)
        self._fetches: Cache[str, Fetch] = Cache("fetches", weights.of_fetch)
        self._files: Cache[str, PlannedFiles | OpenedFiles] = Cache("planned files", weights.of_planned_files)
        self._process, self._numbers = uuid4().hex, count()
        self._mismatch_logged = False
        self._warned: set[str] = set()
        self.refresher = Refresher(bridge)
        self.plans: Cache[str, Plan] = Cache("plans", weights.of_plan)

    def answer(self, spark: SparkSession, question: Any) -> str | None:
        """Decide on each scan of a question.

        Return the JSON of the reply, which `Question.java` reads. If a decision raises a HiveBitmapError, the scan is
        left alone, with the reason in its report; but if the session is strict, the error is raised, unless it is a
        StoreError. If the JVM has the jar of another protocol, all scans are left alone. Return None if the JVM has
        stopped waiting and has cancelled the jobs.
        """
        try:
            return self._answer(spark, question)
        except Exception:
            if not question.isLate():
                raise
            log.info("planning was late, and its jobs were cancelled")
            return None

    def _answer(self, spark: SparkSession, question: Any) -> str:
        fields = json.loads(question.text())
        mismatch = protocol_mismatch(fields)
        if mismatch is not None:
            replies = self._leave_all(fields["scans"], mismatch)
        else:
            session_cache.belongs_to(spark, fields["user"])
            conf = self._conf(spark, question, (fields["session"], fields["settings"]))
            own_settings, cores = settings.read(conf), int(fields["cores"])
            scans = [Scan.of(number, scan, cores) for number, scan in enumerate(fields["scans"])]
            replies = [self._reply(spark, question, scan, (conf, own_settings)) for scan in scans]
        return json.dumps({"protocol": PROTOCOL, "scans": [reply.to_json() for reply in replies]})

    def _leave_all(self, scans: Sequence[Mapping[str, Any]], why: str) -> list[Reply]:
        """Leave all scans alone and log the reason once.

        The fields of `scans` may be those of another protocol.
        """
        with self._lock:
            logged, self._mismatch_logged = self._mismatch_logged, True
        if not logged:
            log.warning("indexes are not used: %s", why)
        tables = [f"{fields['database']}.{fields['table']}" for fields in scans]
        reports = [Report(table=table, action=LEFT_ALONE, reason=Reason.UNSUPPORTED, detail=why) for table in tables]
        return [Reply(outcome=LeaveAlone(report=report)) for report in reports]

    def _reply(self, spark: SparkSession, question: Any, scan: Scan, session_conf: Conf) -> Reply:
        columns: tuple[str, ...] | None = None
        conf, own_settings = session_conf
        try:
            base = self._tables.of(scan.version, lambda: metastore.table_of(spark, question.table(scan.number)))
            indexes = catalog.indexes_on(spark, base, catalog.INDEX_CACHE_SECONDS)
            if not scan.indexed_known:
                columns = tuple({name: None for index in indexes for name in index.definition.column_names})
            table = IndexedTable.of(scan, base, indexes, conf)
            outcome = self._followed(spark, table, decide(scan, table, self._ask(spark, question, scan)))
        except StoreError as e:
            outcome = LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.STORE, fallback_reason(e)))
        except HiveBitmapError as e:
            if own_settings.strict:
                raise
            outcome = LeaveAlone(report=Report.of(scan, LEFT_ALONE, Reason.ERROR, str(e)))
        parts = outcome.parts if isinstance(outcome, ReadRows) else ()
        for number, part in enumerate(parts):
            if isinstance(part, FramePart):
                question.rows(scan.number, number, part.frame._jdf)
        plan = None if outcome.report.plan is None else self._keep_plan(outcome.report.plan, scan)
        answer = self._keep(self.answers, outcome.answer) if isinstance(outcome, Counts) else None
        fetches = [self._keep(self._fetches, part.fetch) for part in parts if isinstance(part, FetchPart)]
        planned = outcome.files if isinstance(outcome, ReadRows) else None
        files = None if planned is None else self._keep(self._files, planned)
        return Reply(outcome=outcome, indexed_columns=columns, plan=plan, answer=answer, fetches=fetches, files=files)

    def _followed(self, spark: SparkSession, table: IndexedTable, outcome: Outcome) -> Outcome:
        """Have unindexed files indexed if an index follows the table.

        These are the files that the decision found unindexed. The report of the returned outcome says so.
        """
        plan = outcome.report.plan
        if not table.settings.auto_refresh or plan is None or plan.candidates is None:
            return outcome
        unindexed = self.refresher.seen(spark, table.base, table.indexes, plan.candidates)
        return replace(outcome, report=replace(outcome.report, unindexed=unindexed)) if unindexed else outcome

    def _ask(self, spark: SparkSession, question: Any, scan: Scan) -> Ask:
        number = scan.number

        def summary() -> ListingSummary | None:
            if scan.listed is not None:
                return scan.listed
            text = question.listingSummary(number)
            return None if text is None else ListingSummary.of(text)

        def small_side(filter: int) -> Any:
            tree = question.readFirst(number, filter)
            return None if tree is None else json.loads(tree)

        def listing(listed: ListingSummary) -> ScanListing:
            return self._listings.of(listed.digest, lambda: parse(jvm_reader.text_of(question.listing(number))))

        def frame(request: Request, prepared: Prepared, pieces: Sequence[Piece] | None) -> DataFrame | None:
            if pieces is None:
                return split_rows(spark, request, prepared)
            return piece_rows(spark, request, prepared, pieces)

        return Ask(
            listing_summary=summary,
            listing=listing,
            small_side=small_side,
            keys=partial(satisfying_keys, spark, question, number),
            deleted=partial(deleted_rows, lambda files: jvm_reader.text_of(question.deleted(number, files))),
            prepare=partial(prepare, spark),
            frame=frame,
        )

    def counts(self, spark: SparkSession, counting: Any) -> str | None:
        """Send the counts of an answered aggregation to the JVM.

        `counting.add` is called for each batch of each key set. Return a JSON array with the files that Spark has to
        count itself, as numbers of the scan's listing; None if it has to count all.
        """
        fields = json.loads(counting.text())
        answer = self.answers.get(fields["answer"])
        if answer is None:
            return None
        counts = answer.counts(spark, counting, self._conf(spark, counting, (fields["session"], fields["settings"])))
        if counts is None:
            return None
        tables, unknown = counts
        for number, table in enumerate(tables):
            for schema, batch in batches(table):
                counting.add(number, schema, batch)
        return json.dumps(unknown)

    def fetched(self, spark: SparkSession, fetching: Any) -> str | None:
        """Send the rows of a fetch to the JVM.

        `fetching.add` is called for each batch. Return None if Spark has to read them.
        """
        fetch = self._fetches.get(json.loads(fetching.text())["fetch"])
        rows = None if fetch is None else driver_reads.rows(spark, fetch)
        if rows is None:
            return None
        for schema, batch in batches(rows):
            fetching.add(schema, batch)
        return ""

    def compared(self, spark: SparkSession, comparing: Any) -> str | None:
        """Return "" if the files of a plan are unchanged.

        None if Spark has to read the scan.
        """
        planned = self._files.get(json.loads(comparing.text())["files"])
        return "" if planned is not None and planned.are_current(spark) else None

    def _keep_plan(self, plan: Plan, scan: Scan) -> str:
        """Keep a plan for `explain`; return its id.

        For a function of hive_bitmap, keep also the candidates that its lookups found.
        """
        return self._keep(self.plans, replace(plan, candidates=None) if scan.must_pay else plan)

    def _keep(self, cache: Cache[str, T], value: T) -> str:
        """Keep a value and return its id.

        Ids are unique across processes: a plan may outlive the process that made it.
        """
        id = f"{self._process}-{next(self._numbers)}"
        cache.put(id, value)
        return id

    def _conf(self, spark: SparkSession, request: Any, key: tuple[str, str]) -> Mapping[str, str]:
        return self._settings.of(key, lambda: self._checked(jvm_settings.of_map(spark, request.settings())))

    def _checked(self, conf: Mapping[str, str]) -> Mapping[str, str]:
        """Return the settings of a session, and log problems once.

        Problems are settings that look like those of hive_bitmap but are invalid.
        """
        for problem in settings.problems(conf):
            with self._lock:
                is_silent = problem in self._warned or len(self._warned) >= MOST_WARNINGS
                self._warned |= set() if is_silent else {problem}
            if not is_silent:
                log.warning("%s", problem)
        return conf
