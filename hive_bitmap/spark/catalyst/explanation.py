"""Explain what the indexes do for a query.

An explanation says what the indexes do for each scan of a table, and why. The explanation also has Spark's own plan.
With ANALYZE the query is also run; its rows are counted and discarded.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.explaining.explain import to_json as plan_json
from hive_bitmap.core.explaining.explain import to_text as plan_text
from hive_bitmap.core.explaining.explain_html import ShownPlan, body, fragment, page
from hive_bitmap.core.explaining.measures import seconds
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.predicates.tokens import tokenize
from hive_bitmap.core.stores.requests import Requests, so_far
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.spark.catalyst.decision import ANSWERED, LEFT_ALONE, NARROWED, Decision
from hive_bitmap.spark.catalyst.enabling import answers, enable, is_enabled
from hive_bitmap.spark.jvm_bridge import bridge
from hive_bitmap.spark.registry import hints as hints_for_people
from hive_bitmap.spark.tasks import task_requests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Arguments = dict[str, Any] | list[Any] | None
_EXPLAIN = re.compile(
    r"\s*EXPLAIN\b(?P<analyze>\s+ANALYZE\b)?(?P<mode>\s+(?:EXTENDED|FORMATTED|COST|CODEGEN)\b)?", re.I
)
_BEGIN_QUERIES = ("SELECT", "WITH", "FROM", "(", "VALUES", "TABLE")
_WRITE = ("INSERT", "UPDATE", "DELETE", "MERGE")


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A scan of a table, and what the indexes do for it.

    `action` is NARROWED, ANSWERED or LEFT_ALONE. For LEFT_ALONE, `reason` is the code of a Reason. `detail` explains
    the action in words. `condition` is the condition of the scan as text. `unindexed` describes the files that are not
    indexed yet. `costs` are estimated seconds by strategy. `learnt` says how such estimates compared with measured
    times. The counts of files and blocks are None if no index was looked up. `plan` is None if another process (that of
    a server) made the plan, or if the plan has been evicted.
    """

    table: str
    action: str
    reason: str = ""
    detail: str = ""
    condition: str = ""
    strategy: str = ""
    unindexed: str = ""
    learnt: str = ""
    files_selected: int | None = None
    files_total: int | None = None
    blocks_selected: int | None = None
    blocks_total: int | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False, compare=False)

    @property
    def outcome(self) -> str:
        """A sentence on what the indexes do for the scan.

        The sentence also says which files of the scan are not indexed yet.
        """
        return f"{self._done}; {self.unindexed}" if self.unindexed else self._done

    @property
    def _done(self) -> str:
        if self.action == ANSWERED:
            return "the index alone answers the aggregation over the scan"
        if self.action == NARROWED:
            return f"the scan is narrowed by {self.strategy}"
        return f"Spark scans the table: {self.detail or _sentence(self.reason)} [{self.reason}]"

    def __str__(self) -> str:
        lines = [f"{self.table or 'query'}: {self.outcome}"]
        lines += [f"  condition  {self.condition}"] if self.condition else []
        if self.blocks_total is not None:
            lines.append(f"  files      {self.files_selected} of {self.files_total}")
            lines.append(f"  blocks     {self.blocks_selected} of {self.blocks_total}")
        if self.costs:
            prices = (f"{name} {price * 1000:,.0f} ms" for name, price in self.costs.items())
            lines.append(f"  estimates  {', '.join(prices)}")
        if self.learnt:
            lines.append(f"  learnt     {self.learnt}")
        return "\n".join(lines)


def _sentence(reason: str) -> str:
    sentences = {code.value: code.sentence for code in Reason}
    return sentences.get(reason, reason)  # a server may have a code that this version does not know


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A query explained: its scans and Spark's own plan.

    `engine` is Spark's own plan as text. `plan_seconds` is the time that planning took. The query is planned once, and
    all fields describe this plan. `hints` are sentences on tables that the query reads without using their indexes: the
    query names a table by the path of its folder, or by a new name to which the indexes have not moved. `rows` and
    `run_seconds` are None if the query was not run. `requests` are all requests to stores that this process and tasks
    of hive_bitmap made during the run. `task_requests` are the requests of the tasks alone. Requests of Spark's own
    readers are not counted.
    """

    query: str
    relations: tuple[Relation, ...]
    engine: str
    plan_seconds: float
    rows: int | None = None
    run_seconds: float | None = None
    hints: tuple[str, ...] = ()
    requests: Requests = field(default_factory=Requests)
    task_requests: Requests = field(default_factory=Requests)

    @property
    def expected_seconds(self) -> float | None:
        """The estimate for the chosen strategy, in seconds.

        The estimate is None unless the query has exactly one scan and indexes were looked up for this scan.
        """
        if len(self.relations) != 1:
            return None
        [relation] = self.relations
        return relation.costs.get(relation.strategy)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        actions = "; ".join(f"{relation.table or 'query'}: {relation.action}" for relation in self.relations)
        return f"Explanation({actions or 'no scan of an indexed table'})"

    def _repr_html_(self) -> str:
        return fragment(_lines(self))


def explain(
    query: DataFrame | str,
    spark: SparkSession | None = None,
    args: Arguments = None,
    *,
    analyze: bool = False,
    mode: str = "",
) -> Explanation:
    """Plan a query and explain what the indexes do for it.

    `query` is a DataFrame or SQL text. `spark` is the session that plans SQL text, by default the active session.
    `args` are parameters of SQL text. `mode` is a mode of Spark's EXPLAIN, for example "formatted". With `analyze` the
    query is run. If no Python process answers the optimizer rule yet, `enable` is called, and not undone. Raises the
    errors of Spark, InvalidStatement if `analyze` is used with a text that may not be a query, and TypeError if `query`
    is neither a DataFrame nor text.
    """
    from pyspark.sql import DataFrame, SparkSession

    given: object = query
    if not isinstance(given, (DataFrame, str)):
        what = type(given).__name__
        raise TypeError(f"explain takes the query first, a DataFrame or SQL text, not {what}; the session is second")
    if isinstance(query, DataFrame):
        frame, session, text = query, query.sparkSession, ""
    else:
        if analyze:
            require_query(query)
        session, text = spark or SparkSession.active(), query
        frame = session.sql(query, args=args)
    if not is_enabled(session):
        enable(session)
    before, before_tasks, started = so_far(), task_requests.so_far(session), time.monotonic()
    relations, hints, engine = _planned(frame, mode)
    planned = time.monotonic() - started
    if not analyze:
        return Explanation(query=text, relations=relations, hints=hints, engine=engine, plan_seconds=planned)
    rows, run_seconds = _run(frame)
    by_tasks = task_requests.so_far(session) - before_tasks
    requests = so_far() - before + by_tasks
    return Explanation(
        query=text,
        relations=relations,
        hints=hints,
        engine=engine,
        plan_seconds=planned,
        rows=rows,
        run_seconds=run_seconds,
        requests=requests,
        task_requests=by_tasks,
    )


def relations_of(frame: DataFrame) -> tuple[Relation, ...]:
    """Plan a DataFrame and return its scans.

    Each result says what the indexes do for the scan. The session must be enabled.
    """
    reports = bridge(frame.sparkSession).reports(frame._jdf)
    return tuple(report.relation for report in _reports(frame.sparkSession, json.loads(reports)))


@dataclass(frozen=True, kw_only=True)
class DecisionReport:
    """The report on a scan, and the decision itself if it is known.

    `asked` says whether a function of hive_bitmap, such as `plan`, made the query in order to get the decision.
    `decision` is None if another process made the decision, or if the decision has been evicted.
    """

    relation: Relation
    asked: bool
    decision: Decision | None


def reports_of(frame: DataFrame) -> list[DecisionReport]:
    """Plan a DataFrame and return a report on each of its scans.

    The DataFrame must not have been planned before. The DataFrame is planned as it will be executed.
    """
    return _reports(frame.sparkSession, json.loads(bridge(frame.sparkSession).reportsOfFirstPlan(frame._jdf)))


def _reports(session: SparkSession, reports: Sequence[dict[str, Any]]) -> list[DecisionReport]:
    serving = answers(session).serving
    decisions = []
    for fields in reports:
        id, asked = (fields.pop(name, None) for name in ("id", "asked"))
        decision = None if id is None else serving.decisions.get(id)
        plan = None if decision is None else decision.report.plan
        relation = Relation(**fields, plan=None if plan is None else ShownPlan.of(plan))
        decisions.append(DecisionReport(relation=relation, asked=bool(asked), decision=decision))
    return decisions


def explained(spark: SparkSession, text: str, args: Arguments = None) -> DataFrame | None:
    """Execute `EXPLAIN [ANALYZE] [EXTENDED | ..] query`.

    The result has a single string. `args` are parameters of the query. Return None if the text is another statement. If
    no table of the query has an index, a plain EXPLAIN returns Spark's own text.
    """
    match = _EXPLAIN.match(text)
    if match is None:
        return None
    query = text[match.end() :].strip()
    if not match["analyze"] and not begins_query(query):
        return None
    explanation = explain(query, spark, args, analyze=bool(match["analyze"]), mode=(match["mode"] or "").strip())
    indexed = [relation for relation in explanation.relations if relation.reason != Reason.NO_INDEX]
    shown = to_text(explanation) if indexed or explanation.hints or match["analyze"] else explanation.engine
    return spark.createDataFrame([(shown,)], "plan string")


def to_text(explanation: Explanation, width: int | None = None, color: bool = False) -> str:
    """Format the explanation as text.

    Lines have at most `width` characters, except for Spark's own plan. If `width` is None, the limit is the width of
    the terminal, or 100 if this width is unknown. `color` adds ANSI colours.
    """
    parts = []
    for relation in explanation.relations:
        plan = "" if relation.plan is None else f"{plan_text(relation.plan, width, color)}\n\n"
        parts.append(plan + (relation.outcome if plan else str(relation)))
    if not explanation.relations:
        parts.append("no scan of an indexed table")
    parts += [f"hint: {hint}" for hint in explanation.hints]
    if explanation.rows is not None:
        parts.append(_result(explanation))
    return "\n\n".join([*parts, explanation.engine.strip()])


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as values that `json.dumps` takes."""
    return {
        "query": explanation.query,
        "tables": [
            {
                **({} if relation.plan is None else plan_json(relation.plan)),
                "table": relation.table,
                "action": relation.action,
                "reason_code": relation.reason,
                "why": relation.detail,
            }
            for relation in explanation.relations
        ],
        "hints": list(explanation.hints),
        "rows": explanation.rows,
        "plan_seconds": explanation.plan_seconds,
        "run_seconds": explanation.run_seconds,
        "expected_seconds": explanation.expected_seconds,
        "requests": dict(explanation.requests.by_kind),
        "request_bytes": explanation.requests.bytes_read,
        "task_requests": dict(explanation.task_requests.by_kind),
        "engine": explanation.engine,
    }


def to_html(explanation: Explanation) -> str:
    """Format the explanation as a complete HTML document."""
    return page(explanation.query, _lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f'<p class="predicate"><code>{escape(explanation.query)}</code></p>'
    for relation in explanation.relations:
        if relation.plan is not None:
            yield from body(relation.plan)
        yield f'<p class="soft">{escape(relation.outcome)}</p>'
    for hint in explanation.hints:
        yield f'<p class="soft">{escape(hint)}</p>'
    if explanation.rows is not None:
        yield f'<p class="soft">{escape(_result(explanation))}</p>'
    yield f"<h2>Spark</h2>\n<pre>{escape(explanation.engine)}</pre>"


def begins_query(text: str) -> bool:
    """Return whether a text begins with a word that can begin a query."""
    tokens = tokenize(text)
    return bool(tokens) and tokens[0].key in _BEGIN_QUERIES


def require_query(text: str) -> None:
    """Raise InvalidStatement for a text that is not a query, or that may write."""
    tokens = tokenize(text)
    first = tokens[0].key if tokens else ""
    hidden = first in ("WITH", "FROM") and tokens[-1].kind == "ambiguous"  # tokens end early, before an INSERT maybe
    if first not in _BEGIN_QUERIES or hidden or any(token.key in _WRITE for token in tokens):
        raise InvalidStatement(f"EXPLAIN ANALYZE runs what it explains, so it takes only a query, not {text!r}")


def _planned(frame: DataFrame, mode: str) -> tuple[tuple[Relation, ...], tuple[str, ...], str]:
    """Plan a frame once; return its scans, hints, and Spark's EXPLAIN.

    `mode` is the mode of the EXPLAIN; "" stands for the simple mode. All three results describe the same plan.
    """
    plan = json.loads(bridge(frame.sparkSession).explained(frame._jdf, mode.lower() or "simple"))
    relations = tuple(report.relation for report in _reports(frame.sparkSession, plan["reports"]))
    return relations, tuple(_hints(frame.sparkSession, relations, plan["folders"])), str(plan["engine"])


def _hints(session: SparkSession, relations: Sequence[Relation], folders: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on each table whose indexes a query does not use.

    There are two cases. The query may scan a table (one of `relations`) that was renamed, while its indexes still
    belong to its former name. Or the query may read the folder of an indexed table (one of `folders`) by its path.
    """
    for table in dict.fromkeys(scan.table for scan in relations if scan.reason == Reason.NO_INDEX and scan.table):
        if hint := hints_for_people.of_former_name(session, table):
            yield f"{table}: {hint}"
    yield from hints_for_people.of_folders(session, folders)


def _result(explanation: Explanation) -> str:
    run = seconds(explanation.run_seconds or 0)
    result = f"result: {explanation.rows:,} rows; planned in {seconds(explanation.plan_seconds)}, ran for {run}"
    if explanation.expected_seconds is not None:
        result += f", of {seconds(explanation.expected_seconds)} expected"
    if not explanation.requests.total:
        return result
    by_tasks = explanation.task_requests.total
    requests = f"asked stores {explanation.requests}" + (f"; {by_tasks} of them by tasks" if by_tasks else "")
    return "; ".join([result, requests, *filter(None, map(_by_spark, explanation.relations))])


def _by_spark(relation: Relation) -> str:
    """Describe what Spark's own reader reads for a scan.

    Requests of this reader are not counted, as the text also says. Return "" if Spark's own reader reads nothing.
    """
    if relation.action == ANSWERED or relation.strategy == Strategy.ROWS:
        return ""
    if relation.files_total is None or relation.action == LEFT_ALONE:
        return f"not counted: requests of Spark to read {relation.table or 'the tables'}"
    by_blocks = relation.strategy == Strategy.BLOCKS
    blocks = f"{relation.blocks_selected} of {relation.blocks_total} blocks in " if by_blocks else ""
    return f"not counted: requests of Spark to read {blocks}{relation.files_selected} of {relation.files_total} files"


def _run(frame: DataFrame) -> tuple[int, float]:
    """Run a query; return the number of rows and the seconds.

    The rows are discarded.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    observed, started = Observation(), time.monotonic()
    frame.observe(observed, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(observed.get["rows"]), time.monotonic() - started
