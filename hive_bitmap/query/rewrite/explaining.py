"""EXPLAIN of a query: how each of its indexed tables is read and why, and Spark's own plan of what is left to it.

With ANALYZE the query runs, and its rows go nowhere; what each narrowed scan reads and finds is counted as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import InvalidStatement
from hive_bitmap.query.explain import to_json as plan_json
from hive_bitmap.query.explain import to_text as plan_text
from hive_bitmap.query.explain_html import body, page
from hive_bitmap.query.measures import seconds
from hive_bitmap.query.rewrite.choices import Choice, Rewriting
from hive_bitmap.query.rewrite.rewriting import rewrite
from hive_bitmap.query.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Arguments = dict[str, Any] | list[Any] | None
_EXPLAIN = re.compile(
    r"\s*EXPLAIN\b(?P<analyze>\s+ANALYZE\b)?(?P<mode>\s+(?:EXTENDED|FORMATTED|COST|CODEGEN)\b)?", re.I
)
_BEGIN_QUERIES = ("SELECT", "WITH", "FROM", "(", "VALUES", "TABLE")
_WRITE = ("INSERT", "UPDATE", "DELETE", "MERGE")


@dataclass(frozen=True)
class Table:
    """How a scan of an indexed table is answered; `read` and `found` are rows, counted by ANALYZE of narrowed scans."""

    choice: Choice
    read: int | None = None
    found: int | None = None


@dataclass(frozen=True)
class Explanation:
    """A query explained: its indexed tables, Spark's plan of the rest, and what it took in seconds.

    `rows` and `run_seconds` are those of the result, None without ANALYZE. `why_not` is empty if it was looked into.
    """

    query: str
    tables: tuple[Table, ...]
    engine: str
    plan_seconds: float
    why_not: str = ""
    rows: int | None = None
    run_seconds: float | None = None


def explained(spark: SparkSession, text: str, args: Arguments = None) -> DataFrame | None:
    """What `EXPLAIN [ANALYZE] [EXTENDED | ..] query` answers: one row, one column; None if the text is no EXPLAIN."""
    said = _EXPLAIN.match(text)
    if said is None:
        return None
    analyze = bool(said["analyze"])
    explanation = explain(spark, text[said.end() :].strip(), args, analyze=analyze, mode=(said["mode"] or "").strip())
    shown = to_text(explanation) if explanation.tables or analyze else explanation.engine
    return spark.createDataFrame([(shown,)], "plan string")


def explain(
    spark: SparkSession, query: str, args: Arguments = None, *, analyze: bool = False, mode: str = ""
) -> Explanation:
    """How a query is answered now; `mode` is a word of Spark's EXPLAIN.

    Raises what Spark raises, and InvalidStatement where what `analyze` would run may be no query.
    """
    if analyze:
        _require_query(query)
    started = time.monotonic()
    rewriting = rewrite(spark, query, args, thorough=True)
    planned = time.monotonic() - started
    engine = str(_sql(spark, rewriting, f"EXPLAIN {mode} ", args).collect()[0][0])
    if not analyze:
        tables = tuple(map(Table, rewriting.choices))
        return Explanation(query, tables, engine, planned, rewriting.why_not)
    rows, took = _run(_sql(spark, rewriting, "", args))
    tables = tuple(_counted(choice) for choice in rewriting.choices)
    return Explanation(query, tables, engine, planned, rewriting.why_not, rows, took)


def _require_query(text: str) -> None:
    tokens = tokenize(text)
    first = tokens[0].key if tokens else ""
    hidden = first in ("WITH", "FROM") and tokens[-1].kind == "odd"  # then what follows is not known
    if first not in _BEGIN_QUERIES or hidden or any(token.key in _WRITE for token in tokens):
        raise InvalidStatement(f"EXPLAIN ANALYZE runs what it explains, so it takes nothing but a query: not {text!r}")


def to_text(explanation: Explanation, width: int | None = None, color: bool = False) -> str:
    """The explanation as lines of at most `width` characters, Spark's plan aside."""
    parts = [f"{plan_text(table.choice.plan, width, color)}\n\n{_outcome(table)}" for table in explanation.tables]
    if not explanation.tables:
        parts.append(f"no index can serve this query{': ' * bool(explanation.why_not)}{explanation.why_not}")
    if explanation.rows is not None:
        parts.append(_result(explanation))
    return "\n\n".join([*parts, explanation.engine.strip()])


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON values."""
    return {
        "query": explanation.query,
        "tables": [
            {
                **plan_json(table.choice.plan),
                "view": table.choice.view,
                "narrowed": table.choice.frame is not None,
                "key_lists": list(table.choice.lists),
                "why_not": table.choice.why_not,
                "rows_read": table.read,
                "rows_found": table.found,
                "plan_seconds": table.choice.seconds,
            }
            for table in explanation.tables
        ],
        "why_not": explanation.why_not,
        "rows": explanation.rows,
        "plan_seconds": explanation.plan_seconds,
        "run_seconds": explanation.run_seconds,
        "engine": explanation.engine,
    }


def to_html(explanation: Explanation) -> str:
    """The explanation as a complete HTML document."""
    return page(explanation.query, _lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f'<p class="predicate"><code>{escape(explanation.query)}</code></p>'
    for table in explanation.tables:
        yield from body(table.choice.plan)
        yield f'<p class="soft">{escape(_outcome(table))}</p>'
    if explanation.rows is not None:
        yield f'<p class="soft">{escape(_result(explanation))}</p>'
    yield f"<h2>Spark</h2>\n<pre>{escape(explanation.engine)}</pre>"


def _outcome(table: Table) -> str:
    choice = table.choice
    if choice.frame is None:
        said = f"Spark scans the table: {choice.why_not or choice.plan.reason}"
    elif choice.read_first:
        said = choice.plan.reason
    elif not choice.alias:
        said = "the index alone answers the block that reads the table"
    else:
        said = "; ".join(["the scan is narrowed", *choice.lists])
    if choice.view and choice.frame is not None:
        said += f", in the query of the view {choice.view}"
    counted = "" if table.read is None else f"; {table.read:,} rows read, {table.found:,} of them found"
    return f"{said}; planned in {seconds(choice.seconds)}{counted}"


def _result(explanation: Explanation) -> str:
    run = seconds(explanation.run_seconds or 0)
    return f"result: {explanation.rows:,} rows; planned in {seconds(explanation.plan_seconds)}, ran for {run}"


def _sql(spark: SparkSession, rewriting: Rewriting, before: str, args: Arguments) -> DataFrame:
    if rewriting.frames:
        return spark.sql(before + rewriting.template, args=args, **rewriting.frames)
    return spark.sql(before + rewriting.text, args=args)


def _run(frame: DataFrame) -> tuple[int, float]:
    """How many rows a query has and how many seconds it runs, its rows going nowhere."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    observed, started = Observation(), time.monotonic()
    frame.observe(observed, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(observed.get["rows"]), time.monotonic() - started


def _counted(choice: Choice) -> Table:
    if choice.frame is None or not choice.alias:
        return Table(choice)
    found = choice.frame.alias(choice.alias).selectExpr("count(1)", f"count_if({choice.plan.predicate or 'TRUE'})")
    read, matching = found.collect()[0]
    return Table(choice, read, matching)
