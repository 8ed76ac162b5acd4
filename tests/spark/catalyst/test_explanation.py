"""An explanation as text, JSON and HTML, and what EXPLAIN ANALYZE may run: values, without a query."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hive_bitmap.core.stores.requests import Requests
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.spark.catalyst.decision import ANSWERED, LEFT_ALONE, NARROWED
from hive_bitmap.spark.catalyst.explanation import (
    Explanation,
    Relation,
    begins_query,
    explain,
    require_query,
    to_html,
    to_json,
    to_text,
)
from tests.core.explaining.test_explain import THREE

NARROW = Relation(
    table="db.t",
    action=NARROWED,
    strategy="blocks",
    condition="k = 3",
    files_selected=1,
    files_total=2,
    blocks_selected=3,
    blocks_total=8,
    costs={"blocks": 0.0125, "full scan": 1.5},
)
LEFT = Relation(table="db.u", action=LEFT_ALONE, reason="too_small", condition="x < 1")
ANSWER = Relation(table="db.v", action=ANSWERED)
ONE = Explanation(query="SELECT 1", relations=(NARROW,), engine="\n== Plan ==\nScan\n", plan_seconds=0.02)
RAN = {"rows": 1234, "run_seconds": 0.5}


@pytest.mark.parametrize(
    ("relation", "lines"),
    [
        (
            NARROW,
            [
                "db.t: the scan is narrowed by blocks",
                "  condition  k = 3",
                "  files      1 of 2",
                "  blocks     3 of 8",
                "  estimates  blocks 12 ms, full scan 1,500 ms",
            ],
        ),
        (
            LEFT,
            [
                "db.u: Spark scans the table: Spark reads all of it in less time than planning takes [too_small]",
                "  condition  x < 1",
            ],
        ),
        (replace(LEFT, detail="because", condition=""), ["db.u: Spark scans the table: because [too_small]"]),
        (  # a server may have a code that this version does not know
            Relation(table="", action=LEFT_ALONE, reason="newer"),
            ["query: Spark scans the table: newer [newer]"],
        ),
        (
            replace(ANSWER, unindexed="1 file not indexed yet"),
            ["db.v: the index alone answers the aggregation over the scan; 1 file not indexed yet"],
        ),
    ],
)
def test_what_is_said_of_a_scan(relation: Relation, lines: list[str]) -> None:
    assert str(relation).splitlines() == lines


@pytest.mark.parametrize(
    ("explanation", "parts"),
    [
        (ONE, [str(NARROW), "== Plan ==\nScan"]),
        (replace(ONE, relations=()), ["no scan of an indexed table", "== Plan ==\nScan"]),
        (
            replace(ONE, relations=(LEFT, ANSWER), hints=("db.u: rename it",)),
            [str(LEFT), str(ANSWER), "hint: db.u: rename it", "== Plan ==\nScan"],
        ),
        (
            replace(ONE, **RAN),
            [
                str(NARROW),
                "result: 1,234 rows; planned in 20 ms, ran for 500 ms, of 12 ms expected",
                "== Plan ==\nScan",
            ],
        ),
        (
            replace(ONE, relations=(NARROW, LEFT), **RAN),  # of several scans none is known to take the time
            [str(NARROW), str(LEFT), "result: 1,234 rows; planned in 20 ms, ran for 500 ms", "== Plan ==\nScan"],
        ),
    ],
)
def test_an_explanation_as_text(explanation: Explanation, parts: list[str]) -> None:
    assert to_text(explanation) == str(explanation) == "\n\n".join(parts)


def test_a_plan_that_is_known_is_drawn() -> None:
    text = to_text(replace(ONE, relations=(replace(NARROW, plan=THREE),)), width=80)
    assert "block map" in text and "\n\nthe scan is narrowed by blocks\n\n" in text and "condition" not in text


ASKED = Requests({"read": 3}, 2_000_000, 0)
SAID = "result: 1,234 rows; planned in 20 ms, ran for 500 ms"


@pytest.mark.parametrize(
    ("relations", "by_tasks", "said"),
    [
        (
            (LEFT, NARROW),
            Requests(),
            f"{SAID}; asked stores {ASKED}; not counted: requests of Spark to read db.u; "
            "not counted: requests of Spark to read 3 of 8 blocks in 1 of 2 files",
        ),
        (
            (ANSWER, replace(NARROW, strategy="rows")),
            Requests({"read": 2}),
            f"{SAID}; asked stores {ASKED}; 2 of them by tasks",
        ),
        (
            (ANSWER, replace(NARROW, strategy="files")),
            Requests(),
            f"{SAID}; asked stores {ASKED}; not counted: requests of Spark to read 1 of 2 files",
        ),
        (
            (ANSWER, Relation(table="", action=NARROWED, strategy="files")),
            Requests(),
            f"{SAID}; asked stores {ASKED}; not counted: requests of Spark to read the tables",
        ),
    ],
)
def test_requests_and_those_that_are_not_counted(
    relations: tuple[Relation, ...], by_tasks: Requests, said: str
) -> None:
    found = replace(ONE, relations=relations, requests=ASKED, task_requests=by_tasks, **RAN)
    assert to_text(found).split("\n\n")[-2] == said


@pytest.mark.parametrize(
    ("relations", "seconds"),
    [((NARROW,), 0.0125), ((), None), ((NARROW, NARROW), None), ((LEFT,), None), ((replace(NARROW, costs={}),), None)],
)
def test_what_was_expected_is_the_price_of_the_only_scan(relations: tuple[Relation, ...], seconds: float) -> None:
    assert replace(ONE, relations=relations).expected_seconds == seconds


def test_an_explanation_as_json() -> None:
    told = json.loads(json.dumps(to_json(replace(ONE, relations=(replace(NARROW, plan=THREE), LEFT), **RAN))))
    one, other = told["tables"]
    assert (one["table"], one["strategy"], one["blocks_selected"]) == ("db.t", "blocks", 4)  # those of its plan
    assert other == {"table": "db.u", "action": "left alone", "reason_code": "too_small", "why": ""}
    assert (told["rows"], told["run_seconds"], told["expected_seconds"], told["requests"]) == (1234, 0.5, None, {})


def test_html_has_the_same_sentences_escaped() -> None:
    odd = replace(ONE, query="a < b", relations=(replace(LEFT, detail="<u>"),), hints=("<i>",), engine="<Plan>", **RAN)
    page = to_html(odd)
    assert "a &lt; b" in page and "&lt;i&gt;" in page and "<pre>&lt;Plan&gt;</pre>" in page
    assert SAID in page and "&lt;u&gt; [too_small]" in page and "<i>" not in page


def test_a_short_form() -> None:
    assert repr(replace(ONE, relations=(NARROW, LEFT))) == "Explanation(db.t: narrowed; db.u: left alone)"
    assert repr(replace(ONE, relations=())) == "Explanation(no scan of an indexed table)"


@pytest.mark.parametrize(
    ("text", "query", "runs"),
    [
        ("SELECT 1", True, True),
        ("  (select 1)", True, True),
        ("/* a */ WITH a AS (SELECT 1) TABLE a", True, True),
        ("FROM t SELECT 1", True, True),
        ("VALUES (1)", True, True),
        ("", False, False),
        ("INSERT INTO t SELECT 1", False, False),
        ("CREATE TABLE t AS SELECT 1", False, False),
        ("DROP TABLE t", False, False),
        ("WITH a AS (SELECT 1) INSERT INTO t TABLE a", True, False),
        ("FROM t INSERT OVERWRITE u SELECT 1", True, False),
        ("WITH a AS (SELECT 1) SELECT `insert`, 'DELETE' FROM a", True, True),
        ("WITH a AS (SELECT 1) --\\\nINSERT INTO t TABLE a", True, False),  # tokens end early, before it
        ("SELECT 1 --\\\n", True, True),
    ],
)
def test_what_analyze_may_run(text: str, query: bool, runs: bool) -> None:
    assert begins_query(text) is query
    if runs:
        require_query(text)
        return
    with pytest.raises(InvalidStatement) as raised:
        require_query(text)
    assert str(raised.value) == f"EXPLAIN ANALYZE runs what it explains, so it takes only a query, not {text!r}"


def test_a_query_that_is_neither_text_nor_a_frame() -> None:
    with pytest.raises(TypeError, match="takes the query first, a DataFrame or SQL text, not object; the session"):
        explain(object())  # type: ignore[arg-type]
