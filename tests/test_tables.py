"""Test how the tables of the demo and the benchmarks are printed on narrow terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from bench import report
from bench.data import Question
from bench.measure import DUCKDB, NATIVE, OURS, PLAIN, SPARK, TASKS, Asked, Grouped, Race
from bench.tables import fitting
from demo.__main__ import outcomes_table
from demo.questions import QUESTIONS, Outcome
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy

LONG = Race({name: [12.3456] for name in (SPARK, OURS, PLAIN, DUCKDB, NATIVE, TASKS)}, {})
ASKED = Asked(
    question=Question("Q12", "an OR over two indexes of many keys", "type = 'view' OR store = 123", True, True),
    table="partitioned",
    count=False,
    race=LONG,
    rows=12_345_678,
    equal=False,
    strategy=Strategy.FULL_SCAN,
    reason="",
    blocks=(1234, 5678),
    bytes=(123_456_789, 987_654_321),
    index=123_456,
    costs={Strategy.FULL_SCAN: 12.3456, Strategy.BLOCKS: 1.5},
)
PLAN = Plan(
    table="t",
    predicate="p",
    strategy=Strategy.INDEX_ONLY,
    reason="",
    blocks_total=72_000,
    bytes_total=7_300_000_000,
)
OUTCOMES = [Outcome(question, PLAN, 12_345, 336_776, 0.123, 12.3, False) for question in QUESTIONS]
TABLES = {
    "demo": outcomes_table(OUTCOMES),
    "counts": report._counts([ASKED]),
    "fetches": report._fetches([ASKED]),
    "estimates": report._estimates([ASKED]),
    "grouped": report._grouped([Grouped("SELECT count(*), min(age) FROM people GROUP BY region", LONG, 5000, True)]),
}


def printed(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for part in fitting(console, table):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", TABLES)
def test_no_word_is_broken(name: str, width: int) -> None:
    text = printed(TABLES[name], width)
    assert max(map(len, text.splitlines())) <= width
    seen = set(text.split())
    wide = printed(TABLES[name], 1000)
    assert [word for word in wide.split() if word.isalnum() and word not in seen] == []


def test_columns_that_do_not_fit_come_below_with_the_first_one() -> None:
    table = Table("question", "rows", "strategy", title="t", caption="c")
    table.add_row("who", "1,234", "index only")
    [whole] = fitting(Console(width=60), table)
    assert (whole.title, whole.caption, len(whole.columns)) == ("t", "c", 3)
    above, below = fitting(Console(width=24), table)
    assert [column.header for column in above.columns] == ["question", "rows"]
    assert [column.header for column in below.columns] == ["question", "strategy"]
    assert (above.title, above.caption, below.title, below.caption) == ("t", None, None, "c")
