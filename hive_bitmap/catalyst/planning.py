"""Answers the optimizer rule (`Question.java`) for all sessions of a JVM: decisions on scans, counts when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from cachetools import LRUCache

from hive_bitmap.catalyst.counting import Answer
from hive_bitmap.catalyst.deciding import Decision, Remember
from hive_bitmap.catalyst.handing import batches
from hive_bitmap.catalyst.listing import ScanListing, parse
from hive_bitmap.catalyst.reporting import report
from hive_bitmap.catalyst.scans import Listed, Scan
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.explaining.plan import Plan
from hive_bitmap.index import catalog
from hive_bitmap.metastore import jvm_reader, metastore
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning import settings
from hive_bitmap.planning.spark_fallback import left_to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

K = TypeVar("K")
T = TypeVar("T")
TABLES_KEPT, LISTINGS_KEPT, ANSWERS_KEPT, PLANS_KEPT = 1024, 256, 10_000, 64


class Planning:
    """Answers the questions of all sessions of one JVM; what it keeps saves asking again and is never believed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: LRUCache[tuple[str, ...], Table] = LRUCache(TABLES_KEPT)
        self._listings: LRUCache[tuple[str, ...], ScanListing] = LRUCache(LISTINGS_KEPT)
        self._settings: LRUCache[tuple[str, int], Mapping[str, str]] = LRUCache(64)
        self._answers: LRUCache[str, Answer] = LRUCache(ANSWERS_KEPT)
        self._process, self._numbers = uuid4().hex, count()
        self.plans: LRUCache[str, Plan] = LRUCache(PLANS_KEPT)
        self._remember = Remember(self._listing, partial(self._keep, self.plans), partial(self._keep, self._answers))

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
        if not scan.indexed:
            columns = {name for index in indexes for name in index.definition.column_names}
            question.indexed(scan.number, "".join(f"{name}\n" for name in columns))
        if not indexes:
            question.leave(scan.number, report(scan, "left alone", "no_index", "the table has no index"))
            return
        Decision(spark, question, scan, base, indexes, conf, self._remember).make()

    def counts(self, spark: SparkSession, counting: Any) -> str | None:
        """Give the counts of an aggregation that was answered, and return the files that Spark has to count, as JSON;
        None where it has to count all.
        """
        asked = json.loads(counting.text())
        with self._lock:
            answer = self._answers.get(asked["number"])
        if answer is None:
            return None
        found = answer.counts(spark, counting, self._conf(spark, counting, (asked["session"], asked["settings"])))
        if found is None:
            return None
        for part, table in enumerate(found.tables):
            for schema, batch in batches(table):
                counting.add(part, schema, batch)
        return json.dumps(sorted(found.unknown))

    def _keep(self, kept: LRUCache[str, T], value: T) -> str:
        """Keep a value under a number by which the JVM asks for it again; no other process gives that number, for a
        plan may outlive the process that made it.
        """
        number = f"{self._process}-{next(self._numbers)}"
        with self._lock:
            kept[number] = value
        return number

    def _conf(self, spark: SparkSession, question: Any, where: tuple[str, int]) -> Mapping[str, str]:
        return self._once(self._settings, where, lambda: jvm_reader.settings_of(spark, question.settings()))

    def _base(self, spark: SparkSession, question: Any, scan: Scan) -> Table:
        where = (scan.database, scan.table, scan.version)
        return self._once(self._tables, where, lambda: metastore.table_of(spark, question.table(scan.number)))

    def _listing(self, question: Any, scan: Scan, listed: Listed) -> ScanListing:
        where = (scan.database, scan.table, listed.key)
        return self._once(self._listings, where, lambda: parse(jvm_reader.text_of(question.listing(scan.number))))

    def _once(self, kept: LRUCache[K, T], where: K, ask: Callable[[], T]) -> T:
        """What is kept there, asked for where nothing is: without the lock, for the JVM may take its time."""
        with self._lock:
            known = kept.get(where)
        if known is None:
            known = ask()
            with self._lock:
                kept[where] = known
        return known
