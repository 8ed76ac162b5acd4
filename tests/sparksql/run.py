"""One of Spark's SQL inputs, run statement by statement; each query with the rule off, and on in several ways."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.catalyst.explanation import relations_of
from tests.asking import OFF, STRICT, Answer, answer, depends_on_order, difference, under
from tests.sparksql.inputs import Input
from tests.sparksql.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
WAYS = ("", "index only", "rows", "blocks", "files")
_QUERY = re.compile(r"(?:/\*.*?\*/|[\s(])*(SELECT|WITH|VALUES|FROM|TABLE|MAP|REDUCE)\b", re.IGNORECASE | re.DOTALL)
_CHANGING = re.compile(r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|now|current_\w+|localtime\w*|curdate|"
                       r"unix_timestamp|input_file\w*|_metadata|monotonically_increasing_id|spark_partition_id|"
                       r"tablesample)\b", re.IGNORECASE)  # fmt: skip
_ELSEWHERE = re.compile(r"\b(LOCATION|DIRECTORY|JAR|JARS|path)\b|\bTRANSFORM\s*\(|^\s*(MAP|REDUCE)\b", re.IGNORECASE)
_BASE = {
    "spark.sql.adaptive.enabled": "false",  # quicker for little data
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "America/Los_Angeles",  # as in Spark's suite
}
_CODEGEN = [
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    {"spark.sql.codegen.wholeStage": "false"},
]


class Run:
    """A run of some files; `done` counts, `wrong` has what differs."""

    def __init__(self, spark: SparkSession, jar: Path, folder: Path, seed: int, ways: int) -> None:
        self._spark, self._jar, self._folder, self._seed, self._ways = spark, jar, folder, seed, ways
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def file(self, input: Input) -> None:
        """Run a file in a session and a database of its own."""
        rng = random.Random(f"{self._seed} {input.name}")
        session = self._spark.newSession()
        databases = {row.namespace for row in session.sql("SHOW DATABASES").collect()}
        database = "ss_" + re.sub(r"\W", "_", input.name.removesuffix(".sql")).lower()
        session.sql(f"CREATE DATABASE {database}")
        session.catalog.setCurrentDatabase(database)
        try:
            self.done["files"] += 1
            self._statements(input, session, Tables(session, database, rng, self.done), rng)
        finally:
            for name in {row.namespace for row in session.sql("SHOW DATABASES").collect()} - databases:
                self._spark.sql(f"DROP DATABASE `{name}` CASCADE")

    def _statements(self, input: Input, session: SparkSession, tables: Tables, rng: random.Random) -> None:
        ansi = str(not input.name.startswith("nonansi/")).lower()
        settings = {**_BASE, **rng.choice(_CODEGEN), "spark.sql.ansi.enabled": ansi, **input.drawn(rng)}
        if input.name.startswith("timestampNTZ/"):
            settings["spark.sql.timestampType"] = "TIMESTAMP_NTZ"
        for name, value in settings.items():
            session.conf.set(name, value)
        session.udf.register("udf", _text)
        tables.make_sparks_own(self._jar, self._folder, "\n".join(input.statements))
        changed = True
        for number, statement in enumerate(input.statements):
            self.done["statements"] += 1
            if _ELSEWHERE.search(statement):
                self.done["skipped: names a path or a program"] += 1
            elif not _QUERY.match(statement):
                changed |= self._ran(tables, statement)
            elif _CHANGING.search(statement):
                self.done["skipped: nondeterministic"] += 1
            else:
                if changed:
                    tables.index()
                changed = False
                for differs in self._query(session, tables, statement, rng):
                    self.wrong.append(f"{input.name}, statement {number}, {differs}\n{statement}\n{settings}")

    def _ran(self, tables: Tables, statement: str) -> bool:
        try:
            tables.run(statement)
        except _refusals() as e:
            self.done["skipped: refused by Spark" if not isinstance(e, HiveBitmapError) else "refused by us"] += 1
            return False
        self.done["other statements"] += 1
        return True

    def _query(self, session: SparkSession, tables: Tables, text: str, rng: random.Random) -> Iterator[str]:
        """How the answers in several ways differ from plain Spark's."""
        wanted: Answer | None = None
        for way in [WAYS[0], *rng.sample(WAYS[1:], self._ways - 1)]:
            with under(session, {**STRICT, "hive_bitmap.strategy": way}):
                found, acted = _answered(session, text, wanted is None)
            if found is None:
                self.done["queries of no indexed table"] += 1
                return
            wanted = wanted or self._plain(session, text)
            if wanted is None:
                return
            self.done["comparisons"] += 1
            self.done.update(f"relations {action}" for action in acted)
            wrong = found if isinstance(found, str) else difference(found, wanted)
            if wrong and depends_on_order(session, text, tables.served(), wanted, _or_none(found)):
                self.done["skipped: depends on the order of rows"] += 1
                log.info("depends on the order of rows: %s", text)
                return
            if wrong:
                yield f"{way or 'default'} {acted}: {wrong}"
        self.done["queries compared"] += 1

    def _plain(self, session: SparkSession, text: str) -> Answer | None:
        """Plain Spark's answer; None, and counted, if it refuses or answers otherwise each time."""
        with under(session, OFF):
            try:
                wanted, again = answer(session.sql(text)), answer(session.sql(text))
            except _refusals():
                self.done["skipped: refused by Spark"] += 1
                return None
        if difference(again, wanted):
            self.done["skipped: nondeterministic"] += 1
            return None
        return wanted


def _answered(session: SparkSession, text: str, first: bool) -> tuple[Answer | str | None, list[str]]:
    """An answer or an error, and what the indexes did; of a query of no indexed table None, if it is the first time."""
    acted: list[str] = []
    try:
        asked = session.sql(text)
        acted = [one.action for one in relations_of(asked) if one.reason != "no_index"]
        return (None, []) if first and not acted else (answer(asked), acted)
    except _refusals() as e:
        return f"{type(e).__name__} {str(e)[:600]}", acted


def _or_none(found: Answer | str) -> Answer | None:
    return None if isinstance(found, str) else found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _refusals() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JJavaError, HiveBitmapError)
