"""Answer the optimizer rule for all sessions of a JVM: decisions on scans (`Question`), counts of keys (`Counting`)."""

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

from hive_bitmap.catalyst import weights
from hive_bitmap.catalyst.arrow_batches import batches
from hive_bitmap.catalyst.decisions import Caches, Decision
from hive_bitmap.catalyst.extension_jar import protocol_mismatch
from hive_bitmap.catalyst.index_answers import Answer
from hive_bitmap.catalyst.listing import ScanListing, parse
from hive_bitmap.catalyst.reporting import LEFT_ALONE, report, report_of_unread
from hive_bitmap.catalyst.scans import ListingSummary, Scan
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.explaining.plan import Plan
from hive_bitmap.index import catalog
from hive_bitmap.memory_budget import Cache
from hive_bitmap.metastore import file_listing, jvm_reader, jvm_settings, metastore
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning import settings
from hive_bitmap.planning.spark_fallback import fallback_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
T = TypeVar("T")


class Planning:
    """Answer the questions of all sessions of one JVM.

    Tables, listings and settings are cached under versions, which the JVM sends with each question: those of tables and
    settings differ if anything in them does, that of a listing is a digest of all that is made of it. Plans and answers
    are kept under ids: `explain` looks up the plans, the JVM asks for the answers when it executes them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: Cache[str, Table] = Cache("tables", weights.of_table)
        self._listings: Cache[str, ScanListing] = Cache("listings", weights.of_listing)
        self._settings: Cache[tuple[str, str], Mapping[str, str]] = Cache("settings", weights.of_settings)
        self._answers: Cache[str, Answer] = Cache("answers", weights.of_answer)
        self._process, self._numbers = uuid4().hex, count()
        self._mismatch_logged = False
        self.plans: Cache[str, Plan] = Cache("plans", weights.of_plan)
        self._caches = Caches(self._listing, self._keep_plan, partial(self._keep, self._answers))

    def answer(self, spark: SparkSession, question: Any) -> None:
        """Decide on each scan of a question and call its method for the decision.

        A scan of which a HiveBitmapError is raised is left alone, with the reason in its report; but if the session is
        strict, the error is raised, unless it is a StoreError. If the JVM has the jar of another protocol, all scans
        are left alone. Nothing is raised if the answer is not waited for any longer: its jobs were cancelled then.
        """
        try:
            self._answer(spark, question)
        except Exception:
            if not question.isLate():
                raise
            log.info("planning was late, and its jobs were cancelled")

    def _answer(self, spark: SparkSession, question: Any) -> None:
        fields = json.loads(question.text())
        mismatch = protocol_mismatch(fields)
        if mismatch is not None:
            self._leave_all(question, fields["scans"], mismatch)
            return
        conf = self._conf(spark, question, (fields["session"], fields["settings"]))
        strict = settings.read(conf).strict
        for number, scan_fields in enumerate(fields["scans"]):
            scan = Scan.of(number, scan_fields, int(fields["cores"]))
            try:
                self._decide(spark, question, scan, conf)
            except StoreError as e:
                question.leave(number, report(scan, LEFT_ALONE, "store", fallback_reason(e)))
            except HiveBitmapError as e:
                if strict:
                    raise
                question.leave(number, report(scan, LEFT_ALONE, "error", str(e)))

    def _leave_all(self, question: Any, scans: Sequence[Mapping[str, Any]], why: str) -> None:
        """Leave alone all scans, whose fields may be those of another protocol, and log the reason once."""
        with self._lock:
            logged, self._mismatch_logged = self._mismatch_logged, True
        if not logged:
            log.warning("indexes are not used: %s", why)
        for number, fields in enumerate(scans):
            table = f"{fields['database']}.{fields['table']}"
            question.leave(number, report_of_unread(table, "unsupported", why))

    def _decide(self, spark: SparkSession, question: Any, scan: Scan, conf: Mapping[str, str]) -> None:
        base = self._base(spark, question, scan)
        indexes = catalog.indexes_on(spark, base, catalog.INDEX_CACHE_SECONDS)
        if not scan.indexed_known:
            columns = {name for index in indexes for name in index.definition.column_names}
            question.setIndexedColumns(scan.number, "".join(f"{name}\n" for name in columns))
        if not indexes:
            question.leave(scan.number, report(scan, LEFT_ALONE, "no_index", "the table has no index"))
            return
        if why := file_listing.why_query_unsupported(scan.options):
            question.leave(scan.number, report(scan, LEFT_ALONE, "unsupported", why))
            return
        Decision(spark, question, scan, base, indexes, conf, self._caches).make()

    def counts(self, spark: SparkSession, counting: Any) -> str | None:
        """Send the counts of an answered aggregation to the JVM, by `counting.add` for each batch of each key set.

        Returns a JSON array with the files that Spark has to count itself, as numbers of the scan's listing; None if it
        has to count all.
        """
        fields = json.loads(counting.text())
        answer = self._answers.get(fields["answer"])
        if answer is None:
            return None
        found = answer.counts(spark, counting, self._conf(spark, counting, (fields["session"], fields["settings"])))
        if found is None:
            return None
        tables, unknown = found
        for number, table in enumerate(tables):
            for schema, batch in batches(table):
                counting.add(number, schema, batch)
        return json.dumps(unknown)

    def _keep_plan(self, plan: Plan) -> str:
        """Keep a plan for `explain`, without what its lookups found."""
        return self._keep(self.plans, replace(plan, candidates=None))

    def _keep(self, kept: Cache[str, T], value: T) -> str:
        """Keep a value and return its id, which is unique across processes: a plan may outlive the one that made it."""
        id = f"{self._process}-{next(self._numbers)}"
        kept.put(id, value)
        return id

    def _conf(self, spark: SparkSession, request: Any, key: tuple[str, str]) -> Mapping[str, str]:
        return self._settings.of(key, lambda: jvm_settings.of_map(spark, request.settings()))

    def _base(self, spark: SparkSession, question: Any, scan: Scan) -> Table:
        return self._tables.of(scan.version, lambda: metastore.table_of(spark, question.table(scan.number)))

    def _listing(self, question: Any, scan: Scan, listed: ListingSummary) -> ScanListing:
        return self._listings.of(listed.digest, lambda: parse(jvm_reader.text_of(question.listing(scan.number))))
