"""Answer the optimizer rule for all sessions of a JVM.

The rule asks for decisions on scans (`Question.java`). When a plan with a decision is executed, the JVM asks to carry
out the decision (`Execution.java`). This module also keeps decisions and shares them among equal questions, lets one of
several waiting queries decide for all, and learns prices from measured queries.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hive_bitmap.core.memory_budget import Cache, bytes_of_texts
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.learnt_prices import PRICES, Reader
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.spark import session_cache
from hive_bitmap.spark.catalyst import execution
from hive_bitmap.spark.catalyst.arrow_batches import batches
from hive_bitmap.spark.catalyst.decide import decide, indexed_table, left_alone
from hive_bitmap.spark.catalyst.decision import (
    LEFT_ALONE,
    Counts,
    Decision,
    FetchPart,
    FramePart,
    LeaveAlone,
    ReadRows,
    Report,
)
from hive_bitmap.spark.catalyst.question import Question
from hive_bitmap.spark.catalyst.scans import ListingSummary, Scan
from hive_bitmap.spark.jvm_bridge import PROTOCOL, bridge, protocol_mismatch
from hive_bitmap.spark.metastore import jvm_settings, metastore
from hive_bitmap.spark.metastore.jvm_reader import text_of
from hive_bitmap.spark.preparing.request import ResolvedTable
from hive_bitmap.spark.preparing.spark_only import fallback_reason
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.versions import feature_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.following.refresher import Refresher

log = logging.getLogger(__name__)
MOST_WARNINGS = 1000  # most of them about settings; clients of a server may invent any number of settings
MOST_SECONDS = 3600.0
SHARE_OF_WAITING = 0.5  # share of planning_seconds that a query waits for the same question of another query
SHARED_SECONDS = 60.0  # how long a decision by price is shared; prices depend on what is in memory
KEY_BYTES = 1024  # memory of a question's text


class Serving:
    """Answer the questions of all sessions of one JVM.

    Tables, listings and settings are cached under versions, which the JVM sends with each question. The version of a
    table or of settings changes with every change of the table or the settings. The version of a listing is a digest of
    its content. Decisions are kept under ids: `explain` looks decisions up by id, and the JVM names the id when it
    executes a plan. Ids are unique across processes, because a plan may outlive the process that made it. A repeated
    question gets the kept decision if all that the decision depends on is in the question.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: Cache[str, Table] = Cache("tables", lambda table: table.nbytes)
        self._settings: Cache[tuple[str, str], Mapping[str, str]] = Cache("settings", bytes_of_texts)
        self.decisions: Cache[str, Decision] = Cache("decisions", lambda decision: decision.nbytes)
        self._shared: Cache[str, str] = Cache("questions", lambda id: KEY_BYTES)  # ids of decisions
        self._deciding: dict[str, Future[Decision | None]] = {}
        self._process, self._numbers = uuid4().hex, count()
        self._warned: set[str] = set()
        self._refresher: Refresher | None = None

    @property
    def refresher(self) -> Refresher:
        """The Refresher of all sessions, created at the first write or unindexed file."""
        from hive_bitmap.spark.following.refresher import Refresher

        with self._lock:
            if self._refresher is None:
                self._refresher = Refresher(bridge)
            return self._refresher

    def answer(self, spark: SparkSession, question: Any) -> str | None:
        """Decide on each scan of a question, a `Question.java`.

        Return the JSON of the reply. If a decision raises a HiveBitmapError, the scan is left alone, with the reason in
        its report. A strict session instead raises the error, unless it is a StoreError. If the JVM has the jar of
        another protocol, all scans are left alone. Return None if the JVM has stopped waiting and has cancelled the
        jobs. Also return None if the JVM wants only kept decisions and one of them is missing.
        """
        try:
            return self._answer(spark, question)
        except Exception:
            if not question.isLate():
                raise
            log.info("planning was late, and its jobs were cancelled")
            return None

    def _answer(self, spark: SparkSession, question: Any) -> str | None:
        fields = json.loads(question.text())
        mismatch = protocol_mismatch(fields)
        if mismatch is not None:
            replies = self._leave_all(fields["scans"], mismatch)
            return json.dumps({"protocol": PROTOCOL, "prices": PRICES.version, "scans": replies})
        session_cache.belongs_to(spark, fields["user"])
        self._learn(fields.get("measured", ()))
        prices = PRICES.version
        session_settings = (fields["session"], fields["settings"])
        conf = self._settings.of(
            session_settings, lambda: self._checked(jvm_settings.of_map(spark, question.settings()))
        )
        own_settings, cores = settings.read(conf), int(fields["cores"])
        asker = (fields["settings"], fields["user"], fields["cores"], str(prices))
        replies = []
        for number, scan_fields in enumerate(fields["scans"]):
            asked = Question(spark=spark, jvm=question, scan=Scan.of(number, scan_fields, cores))
            only_kept = fields.get("only_kept", False)
            reply = self._reply(asked, asker, scan_fields, conf, own_settings, only_kept=only_kept)
            if reply is None:
                return None
            replies.append(reply)
        return json.dumps({"protocol": PROTOCOL, "prices": prices, "scans": replies})

    def _learn(self, measured: Sequence[Mapping[str, Any]]) -> None:
        """Learn prices from the queries that were measured since the last question.

        The time of Spark's scan is used only if the scan has read all rows of the blocks to read. Other scans have
        skipped rows by statistics, or have stopped at a limit.
        """
        for query in measured:
            decision = self.decisions.get(query["decision"])
            plan = None if decision is None else decision.report.plan
            if plan is None or plan.strategy not in plan.costs:
                continue
            estimate, seconds = plan.costs[plan.strategy], query["seconds"]
            if plan.strategy is Strategy.ROWS:
                PRICES.note(plan.factors, Reader.OWN, estimate, seconds)
            elif plan.rows_scanned == query["rows"]:
                PRICES.note(plan.factors, Reader.SPARK, estimate, seconds)

    def _leave_all(self, scans: Sequence[Mapping[str, Any]], why: str) -> list[dict[str, Any]]:
        """Return replies that leave all scans alone, for the reason `why`.

        The reason is logged once. The fields of `scans` may follow another protocol.
        """
        self._warn_once(f"indexes are not used: {why}")
        tables = [f"{fields['database']}.{fields['table']}" for fields in scans]
        reports = [Report(table=table, action=LEFT_ALONE, reason=Reason.UNSUPPORTED, detail=why) for table in tables]
        return [LeaveAlone(report=report).to_json() for report in reports]

    def _reply(
        self,
        question: Question,
        asker: tuple[str, ...],
        fields: Mapping[str, Any],
        conf: Mapping[str, str],
        own_settings: settings.Settings,
        *,
        only_kept: bool,
    ) -> dict[str, Any] | None:
        """Return the JSON object of the decision on a scan.

        `asker` says who asks, under which settings; equal questions of equal askers share a decision. `fields` describe
        the scan. `conf` has all settings of the session, and `own_settings` the settings of hive_bitmap. With
        `only_kept`, no new decision is made: the result is None if no decision is kept.
        """
        spark, scan = question.spark, question.scan
        columns: tuple[str, ...] | None = None
        try:
            base = self._tables.of(scan.version, lambda: metastore.table_of(spark, question.jvm.table(scan.number)))
            indexes = tuple(catalog.indexes_on(spark, base, catalog.INDEX_CACHE_SECONDS))
            if not scan.indexed_known:
                columns = tuple({c.name: None for index in indexes for c in index.definition.source_columns})
            indexes, fields = _with_keys(question, indexes, fields)
            table = indexed_table(question.scan, base, indexes, conf)
            decision: Decision | None = left_alone(question.scan, table)
            if decision is None:
                question.summarize()
                key = _key(asker, fields, question.scan.listed)
                decision = self._kept(question, key, indexes)
                if decision is None and only_kept:
                    return None
                if decision is None:
                    seconds = min(own_settings.planning_seconds * SHARE_OF_WAITING, MOST_SECONDS)
                    decision = self._once(key, seconds, lambda: self._decide(question, key, table))
        except StoreError as e:
            decision = LeaveAlone(report=Report.of(question.scan, LEFT_ALONE, Reason.STORE, fallback_reason(e)))
        except HiveBitmapError as e:
            if own_settings.strict:
                raise
            decision = LeaveAlone(report=Report.of(question.scan, LEFT_ALONE, Reason.ERROR, str(e)))
        return decision.to_json(columns)

    def _decide(self, question: Question, key: str | None, table: ResolvedTable) -> Decision:
        """Decide on a scan, and keep the decision.

        If tasks read the rows, the DataFrames that do so are handed to the JVM, and the decision is kept without them.
        `key` is the key under which equal questions share the decision; None if the decision is not shared. Unindexed
        files are queued for a refresh of the indexes that follow the table.
        """
        try:
            decision = decide(question, table)
        finally:
            question.end()
        plan, shareable = decision.report.plan, decision.is_shareable
        if plan is not None and plan.candidates is not None:
            if table.settings.auto_refresh and plan.candidates.whole_files:
                unindexed = self.refresher.seen(question.spark, table.base, table.indexes, plan.candidates)
                if unindexed:
                    decision = replace(decision, report=replace(decision.report, unindexed=unindexed))
            shareable = shareable and not plan.candidates.whole_files
            if question.scan.must_pay:  # no function of hive_bitmap shows them
                decision = replace(decision, report=replace(decision.report, plan=replace(plan, candidates=None)))
        if isinstance(decision, ReadRows):
            for number, part in enumerate(decision.parts):
                if isinstance(part, FramePart) and part.frame is not None:
                    question.jvm.rows(question.scan.number, number, part.frame._jdf)
            decision = decision.without_frames()
        if plan is None and not isinstance(decision, (Counts, ReadRows)):
            return decision
        decision = replace(decision, id=f"{self._process}-{next(self._numbers)}")
        if shareable and key is not None and not isinstance(decision, LeaveAlone):
            until = float("inf") if isinstance(decision, Counts) else time.monotonic() + SHARED_SECONDS
            decision = replace(decision, shared_until=until, indexes_state=_state(question.spark, table.indexes))
        self.decisions.put(decision.id, decision)
        if decision.shared_until and key is not None:
            self._shared.put(key, decision.id)
        return decision

    def _kept(self, question: Question, key: str | None, indexes: Sequence[Any]) -> Decision | None:
        """Return the decision that equal questions share under `key`.

        Return None if no decision is kept, if the time to share it is over, if the table's `indexes` have changed
        since, or if the listing that the decision needs was evicted.
        """
        id = None if key is None else self._shared.get(key)
        decision = None if id is None else self.decisions.get(id)
        if decision is None or time.monotonic() > decision.shared_until:
            return None
        is_current = decision.indexes_state == _state(question.spark, indexes)
        return decision if is_current and decision.can_use(question.cached_listing()) else None

    def _once(self, key: str | None, seconds: float, decide: Callable[[], Decision]) -> Decision:
        """Decide once on a question that several queries ask at the same time.

        `decide` makes the decision. `key` is equal for equal questions; None for a question whose decision is not
        shared. The first query with a key calls `decide`, and all other queries with this key wait for its decision. A
        waiting query calls `decide` itself if it cannot use that decision, or if it has waited for `seconds`: the first
        query may itself be held up by other plans that are late.
        """
        if key is None:
            return decide()
        mine: Future[Decision | None] = Future()
        with self._lock:
            pending = self._deciding.setdefault(key, mine)
        if pending is not mine:
            with suppress(FutureTimeout):
                return pending.result(seconds) or decide()
            return decide()
        decision = None
        try:
            decision = decide()
            return decision
        finally:
            with self._lock:
                del self._deciding[key]
            mine.set_result(decision if decision is not None and decision.is_shareable else None)

    def execute(self, spark: SparkSession, request: Any) -> str | None:
        """Carry out a decision; `request` is the `Execution.java` that names it.

        For a count, send the counts of each key set, and return a JSON array with the files that Spark has to count
        itself, as their positions in the scan's listing. If the request names a part of a decision to read rows, send
        the rows of this part and return "". If the request names no part, only check the files of the decision, and
        return "" if they are current. Return None if Spark has to execute its own plan, for example because the
        decision is no longer kept. `request.add` sends batches.
        """
        fields = json.loads(request.text())
        match self.decisions.get(fields["decision"]):
            case Counts() as decision:
                return self._count(spark, request, decision)
            case ReadRows() as decision if "part" in fields:
                return self._fetch(spark, request, decision.id, decision.parts[fields["part"]])
            case ReadRows(files=files) if files is not None:
                return "" if files.is_current(spark) else None
        return None

    def _count(self, spark: SparkSession, request: Any, decision: Counts) -> str | None:
        counts = execution.counts(spark, decision)
        if counts is None:
            self.decisions.remove(decision.id)  # the same question is planned again
            return None
        tables, unknown = counts
        for number, table in enumerate(tables):
            for schema, batch in batches(table):
                request.add(number, schema, batch)
        return json.dumps(unknown)

    def _fetch(self, spark: SparkSession, request: Any, id: str, part: Any) -> str | None:
        from hive_bitmap.spark.catalyst import driver_rows  # loads the readers of base files

        rows = driver_rows.rows(spark, part) if isinstance(part, FetchPart) else None
        if rows is None:
            self.decisions.remove(id)
            return None
        for schema, batch in batches(rows):
            request.add(0, schema, batch)
        return ""

    def _checked(self, conf: Mapping[str, str]) -> Mapping[str, str]:
        """Return the settings of a session, and log problems once.

        Problems are invalid settings that look like settings of hive_bitmap.
        """
        for problem in settings.problems(conf):
            self._warn_once(problem)
        return conf

    def _warn_once(self, warning: str) -> None:
        """Log a warning, unless it was logged before or MOST_WARNINGS others were."""
        with self._lock:
            is_silent = warning in self._warned or len(self._warned) >= MOST_WARNINGS
            self._warned |= set() if is_silent else {warning}
        if not is_silent:
            log.warning("%s", warning)


def _with_keys(
    question: Question, indexes: tuple[Index, ...], fields: Mapping[str, Any]
) -> tuple[tuple[Index, ...], Mapping[str, Any]]:
    """Replace expressions of a question's scan by index keys that stand for these expressions.

    Tests of columns without an index are replaced by the tests that they imply for keys computed from these columns.
    Return the changed indexes and the changed `fields` of the scan. If this session would compute a key differently,
    the key is usable only where the query contains the very expression of the index. Other keys of the same index stay
    usable.
    """
    usable = [index.definition for index in indexes if not index.why_not]
    expressions = {e.name: e for definition in usable for e in definition.expressions}
    aggregated = {e.name: e for definition in usable for e in definition.aggregated_expressions}
    if not expressions and not aggregated:
        return indexes, fields
    version = feature_version(question.spark)
    columns = {name for definition in usable for name in definition.key_names} - {*expressions}
    keys = [expression.description for expression in expressions.values()]
    measures = [e.aggregated_description for e in aggregated.values() if e.spark == version]
    described = json.dumps({"keys": keys, "aggregated": measures, "columns": sorted(columns)})
    keyed = json.loads(text_of(question.jvm.withKeys(question.scan.number, described)))
    whys = {key["name"]: key["why"] for key in keyed["keys"] if key["why"] and not key["used"]}
    whys |= {measure["name"]: measure["why"] for measure in keyed["aggregated"] if measure["why"]}
    question.scan = Scan.of(question.scan.number, keyed, question.scan.cores)
    return tuple(_judged(index, whys) for index in indexes), keyed


def _judged(index: Index, whys: Mapping[str, str]) -> Index:
    """Add to an index the reason why expressions cannot be used.

    `whys` maps the names of unusable expressions, which are keys or aggregated, to reasons. Return the changed index.
    If none of the index's keys can be used, its `problem` is set to the first reason, otherwise its `unusable_key`. An
    index that already has a problem is returned unchanged.
    """
    definition = index.definition
    unusable = [expression for expression in definition.expressions if expression.name in whys]
    not_added = [expression for expression in definition.aggregated_expressions if expression.name in whys]
    if not (unusable or not_added) or index.problem:
        return index
    first = (*unusable, *not_added)[0]
    reason = f"index {definition.name} has {first.sql}, but {whys[first.name]}"
    if len(unusable) < len(definition.columns):
        return replace(index, unusable_key=reason)
    return replace(index, problem=reason)


def _key(asker: tuple[str, ...], scan: Mapping[str, Any], listed: ListingSummary | None) -> str | None:
    """Return the key under which a scan's decision is shared, or None.

    The result is None if the decision is not shared. The key has everything that the decision depends on besides the
    indexes: `asker` (who asks, under which settings), the text of the question, with a version for each expression that
    Spark evaluates (`Question.versions` of Java), and the summary of the files (`listed`). A decision is not shared if
    it depends on more: on files that this process lists, or on rows that have to be read. A decision for a function of
    hive_bitmap is not shared either, because the function shows the lookups.
    """
    if listed is None or scan["runtime_filters"] or not scan.get("must_pay", True):
        return None
    text = json.dumps({name: value for name, value in scan.items() if name != "indexed_known"})
    return json.dumps([*asker, text, str(listed)])


def _state(spark: SparkSession, indexes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the state of a table's indexes, to detect changes.

    The state has the definition, problem and segments of each index that queries may use; other indexes are left out.
    The segments may be up to `catalog.INDEX_CACHE_SECONDS` old.
    """
    seconds = catalog.INDEX_CACHE_SECONDS
    return tuple((index, tuple(catalog.segments(spark, index, seconds))) for index in indexes if not index.why_not)
