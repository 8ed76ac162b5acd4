"""What tests of columns imply for keys, and what keys decide, in any time zone that Java knows; the oracle is Spark.

There is no index and no table: Spark computes a condition, and what replaces it, for instants around steps of a clock.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.java_gateway import get_field  # type: ignore[import-untyped]

from hive_bitmap.spark.jvm_bridge import bridge
from tests import lanes
from tests.asking import under
from tests.spark.sql.test_implied_keys import ANSI, ZONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
FIRST, LAST = -62135510400 * SECOND, 253402214400 * SECOND  # of the years 1 to 9999, in any zone
UNITS = ("MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
KEYS = [f"date_trunc('{unit}', ts)" for unit in UNITS] + ["to_date(ts)", "year(ts)", "trunc(ts, 'MM')"]
OF_LOCAL = ["CAST(local AS DATE)", "year(local)", "date_trunc('HOUR', local)"]
FUNCTIONS = [f"date_trunc('{unit.lower()}', ts)" for unit in UNITS]
FUNCTIONS += ["to_date(ts)", "year(ts)", "month(ts)", "hour(ts)", "minute(ts)", "weekofyear(ts)", "trunc(ts, 'YY')"]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("ts", "timestamp"), ("local", "timestamp_ntz"))
    ],
}


class Oracle:
    """Conditions and functions of a few instants, as they are and over keys."""

    def __init__(self, spark: SparkSession, instants: list[int]) -> None:
        self._spark, self._jvm = spark, cast(Any, spark)._jvm
        values = ", ".join(f"(timestamp_micros({at}))" for at in instants)
        self._frame: Any = spark.sql(
            f"SELECT ts, CAST(ts AS timestamp_ntz) AS local FROM VALUES {values} AS v(ts)"
        )._jdf
        self._plan = self._frame.queryExecution().analyzed()
        self._columns = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._plan.output())

    def starts(self) -> list[int]:
        """The starts of units of time in which the instants are."""
        units = [f"unix_micros(date_trunc('{unit}', ts))" for unit in UNITS]
        rows = self._frame.selectExpr(self._seq(f"array({', '.join(units)}) AS starts")).toJSON().collectAsList()
        return sorted({at for row in rows for at in json.loads(row)["starts"] if FIRST <= at <= LAST})

    def key(self, sql: str) -> Any:
        described = json.loads(bridge(self._spark).describeKey(self._session, sql, json.dumps(SCHEMA)))
        described |= {"name": "key", "canonical": described["sql"], "sql": sql}
        mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()
        parsed = mapper.readTree(json.dumps(described))
        return self._call("keys.KeyExpressions", "key", self._session, parsed, self._columns)

    def implied(self, key: Any, condition: str) -> tuple[Any, Any, bool] | None:
        """The condition, what replaces it, and whether they are equal; None if nothing replaces it."""
        test = self._frame.filter(condition).queryExecution().analyzed().condition()
        replaced = self._call("keys.ImpliedKeys", "of", self._list(test), self._list(key), self._list())
        if get_field(replaced, "keys").isEmpty():
            return None
        return test, get_field(replaced, "conjuncts")[0], get_field(replaced, "implied").isEmpty()

    def derived(self, key: Any, function: str) -> tuple[Any, Any, bool] | None:
        """The function of a column, and the function of the key; None if the key does not decide it."""
        named = self._frame.selectExpr(self._seq(function)).queryExecution().analyzed()
        value = named.projectList().head().children().head()
        replaced = self._call("keys.ReplacedKeys", "in", value, self._list(key), self._list())
        return None if replaced.references().subsetOf(self._plan.outputSet()) else (value, replaced, True)

    def wrong(self, key: Any, pairs: list[tuple[Any, Any, bool]]) -> list[Any]:
        """The instants for which the second of a pair is not what the first says; with the position of the pair."""
        stands = self._call("spark.Expressions", "alias", key.source(), key.column())
        with_key = self._project([*self._columns, stands], self._plan)
        results = [self._columns[0], stands.toAttribute()]
        for number, (one, other, _) in enumerate(pairs):
            for name, expression in ((f"a{number}", one), (f"b{number}", other)):
                results.append(self._call("spark.Expressions", "alias", expression, name))
        rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, self._project(results, with_key))
        found = []
        for text in rows.toJSON().collectAsList():
            row = json.loads(text)
            for number, (one, other, is_equal) in enumerate(pairs):
                first, second = row.get(f"a{number}"), row.get(f"b{number}")
                if first != second if is_equal else first is True and second is not True:
                    found.append((row, one.toString(), other.toString()))
        return found

    @property
    def _session(self) -> Any:
        return cast(Any, self._spark)._jsparkSession

    def _list(self, *items: Any) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def _project(self, results: list[Any], child: Any) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project(self._seq(*results), child)

    def _seq(self, *items: Any) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(self._list(*items)).toSeq()

    def _call(self, owner: str, name: str, *arguments: Any) -> Any:
        """Call a static method of the Java half, whose classes only the loader of its jar knows."""
        values = cast(Any, self._spark.sparkContext)._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for at, value in enumerate(arguments):
            values[at] = value
        return self._method(owner, name, len(arguments), isinstance(arguments[-1], str)).invoke(None, values)

    @cache  # noqa: B019 - as long as a test
    def _method(self, owner: str, name: str, count: int, is_last_text: bool) -> Any:
        loader = bridge(self._spark).getClass().getClassLoader()
        for method in loader.loadClass(f"hive_bitmap.catalyst.{owner}").getMethods():
            if method.getName() != name or method.getParameterCount() != count:
                continue
            if (method.getParameterTypes()[count - 1].getSimpleName() == "String") == is_last_text:
                return method
        raise AssertionError(name)


def literal(column: str, at: int) -> str:
    """A constant of the type of a column, as SQL; `at` is in microseconds."""
    text = (datetime(1970, 1, 1) + timedelta(microseconds=at)).isoformat(" ")
    return f"TIMESTAMP_NTZ'{text}'" if column == "local" else f"TIMESTAMP_LTZ'{text} Z'"


def instants_of(jvm: Any, zone: str, random: Random) -> list[int]:
    """Instants at and around steps of a zone's clock, and some others, in microseconds."""
    rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
    listed, yearly = rules.getTransitions(), rules.getTransitionRules()
    steps = [listed[at] for at in random.sample(range(len(listed)), min(12, len(listed)))]
    steps += [rule.createTransition(random.randrange(2008, 2500)) for rule in yearly for _ in range(2)]
    found = {random.randrange(FIRST, LAST) for _ in range(20)}
    for step in steps:
        at = step.toEpochSecond() * SECOND
        found |= {at, at - 1, at + random.randrange(-90, 90) * 60 * SECOND, at + random.randrange(-DAY, DAY)}
        found |= {at + random.randrange(-26, 26) * HOUR, (at // DAY + random.randrange(-1, 2)) * DAY}
        offsets = [-step.getOffsetBefore().getTotalSeconds(), -step.getOffsetAfter().getTotalSeconds()]
        found |= {(at // DAY + random.randrange(0, 2)) * DAY + offset * SECOND for offset in offsets}  # midnights
    return sorted(at for at in found if FIRST <= at <= LAST)


def test_what_is_implied_in_any_zone(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    """In a zone that the commit draws; with --long in 30 more."""
    random = Random(lanes.sample())
    jvm: Any = cast(Any, spark)._jvm
    known = [*sorted(jvm.java.time.ZoneId.getAvailableZoneIds()), "+05:53:20", "GMT+8", "UTC+13:45", "-00:30"]
    for zone in random.sample(known, 1 + 30 * request.config.getoption("--long")):
        require_alike_in(spark, zone, random)


def require_alike_in(spark: SparkSession, zone: str, random: Random) -> int:
    """Require that what replaces conditions in a zone is right; return how many replacements were compared."""
    compared = 0
    with under(spark, {ZONE: zone, ANSI: random.choice(["true", "false"]), **INTERPRETED}):
        instants = instants_of(cast(Any, spark)._jvm, zone, random)
        oracle = Oracle(spark, instants)
        starts = oracle.starts()
        for sql in random.sample(KEYS, 3) + random.sample(OF_LOCAL, 1):
            key = oracle.key(sql)
            pairs = []
            column = "local" if "local" in sql else "ts"
            for _ in range(8):
                at = random.choice(random.choice([instants, starts]))  # the key of the start of a unit is often itself
                test = f"{column} {random.choice(['<', '<=', '>', '>=', '=', '<=>'])} {literal(column, at)}"
                pairs.append(oracle.implied(key, test))
            if column == "ts":
                pairs += [oracle.derived(key, function) for function in random.sample(FUNCTIONS, 6)]
            replaced = [pair for pair in pairs if pair is not None]
            assert not (wrong := oracle.wrong(key, replaced)), (zone, sql, wrong[:3])
            compared += len(replaced)
    return compared
