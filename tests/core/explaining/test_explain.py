"""A plan as text and JSON: the figures are counted again here, by hand and from the plan's own tables."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from hive_bitmap.core.explaining import explain, explain_html
from hive_bitmap.core.planning.learnt_prices import Factors, Learnt
from hive_bitmap.core.planning.plan import IndexUse, Plan

FRESH = ("fresh", "", False)
Blocks = Sequence[tuple[int, int]]  # rows and selected rows of each block


def make_plan(files: Sequence[tuple[str, str, tuple[str, str, bool], Blocks]], **changes: Any) -> Plan:
    "A plan over files of (path, partition, (state, reason, scanned), blocks), blocks of 100 bytes from byte 4 on."
    table = pa.table(
        {
            "path": pa.array([path for path, *_ in files], pa.string()),
            "partition": pa.array([partition for _, partition, *_ in files], pa.string()),
            "state": pa.array([state for *_, (state, _, _), _ in files], pa.string()),
            "reason": pa.array([reason for *_, (_, reason, _), _ in files], pa.string()),
            "size": pa.array([4 + 100 * len(blocks) for *_, blocks in files], pa.int64()),
            "scanned": pa.array([scanned for *_, (_, _, scanned), _ in files], pa.bool_()),
            "blocks": pa.array([len(blocks) for *_, blocks in files], pa.int32()),
        }
    )
    rows = [
        (number, 4 + 100 * place, 100, *block)
        for number, (*_, blocks) in enumerate(files)
        for place, block in enumerate(blocks)
    ]
    types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64()]
    names = ["file", "offset", "length", "rows", "selected"]
    columns = [pa.array([row[i] for row in rows], t) for i, t in enumerate(types)]
    plan = Plan(
        table="db.t",
        predicate="a = 1",
        strategy="blocks",
        reason="few blocks",
        indexes=(
            IndexUse(name="i", columns=("a",), encoding="gap", used=True, reason="a = 1"),
            IndexUse(
                name="j", columns=("b", "c"), encoding="roaring", used=False, reason="the predicate does not mention b"
            ),
        ),
        files=table,
        blocks=pa.Table.from_arrays(columns, names=names),
        blocks_total=len(rows),
        blocks_selected=sum(row[4] > 0 for row in rows),
        rows_total=sum(row[3] for row in rows),
        rows_selected=sum(row[4] for row in rows),
        bytes_total=100 * len(rows),
        bytes_selected=100 * sum(row[4] > 0 for row in rows),
        index_bytes=1_234,
        costs={"full scan": 2.5, "blocks": 0.125},
        deleted=0,
    )
    return dataclasses.replace(plan, **changes)


THREE = make_plan(
    [
        ("file:/w/t/k=1/one.parquet", "k=1", FRESH, [(1000, 0), (1000, 1), (1000, 50), (1000, 200), (1000, 1000)]),
        ("file:/w/t/k=1/two.parquet", "k=1", FRESH, [(10, 0), (10, 0)]),
        ("file:/w/t/k=2/three.parquet", "k=2", ("stale", "size differs", True), []),
    ]
)
NOT_LOOKED_UP = Plan(
    table="db.t",
    predicate="z = 1",
    strategy="full scan",
    reason="no index",
    indexes=(IndexUse(name="c", columns=("a",), encoding=None, type="COMPACT", used=False, reason="z is not a"),),
)
EMPTY = make_plan([], predicate=None, indexes=(), costs={}, rows_total=None, rows_selected=None)


def test_what_prices_have_learnt_is_told() -> None:
    learnt = dataclasses.replace(THREE, factors=Factors("file", "orc", spark=Learnt(2.0, 5, 0.4, 0.9)))
    text = "Spark's scans take 2.0 times their price (the latest of 5: 900 ms of 400 ms)"
    assert f"learnt     {text}" in explain.to_text(learnt, width=100).splitlines()
    assert explain.to_json(learnt)["factors"]["spark"]["factor"] == 2.0


def test_text_in_full() -> None:
    assert explain.to_text(THREE, width=100) == "\n".join(
        [
            "table      db.t",
            "predicate  a = 1",
            "strategy   blocks: few blocks",
            "lookup     1.2 kB of the indexes decoded",
            "estimates  blocks 125 ms · full scan 2.5 s",
            "",
            "✓ i  (a) gap         used: a = 1",
            "✗ j  (b, c) roaring  not used: the predicate does not mention b",
            "",
            "         kept  of all  share",
            " files      2       3   67 %",
            "blocks      4       7   57 %",
            " bytes  400 B   700 B   57 %",
            "  rows  1,251   5,020   25 %",
            "",
            "block map: one row per file, one cell per block",
            "selected rows: · none  ░ <1 %  ▒ <10 %  ▓ <50 %  █ more  ? stale or not indexed",
            "k=1  one.parquet    ··░░▒▒▓▓██  1,251 of 5,000 rows",
            "k=1  two.parquet    ····        0 of 20 rows",
            "k=2  three.parquet  ????        read whole: stale, size differs",
        ]
    )


def test_colour_only_adds_escapes() -> None:
    coloured = explain.to_text(THREE, width=100, color=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == explain.to_text(THREE, width=100).splitlines()


def test_a_plan_of_nothing_says_so() -> None:
    text = explain.to_text(EMPTY, width=80)
    assert "predicate  none: all rows" in text
    assert "no index on this table" in text
    assert re.search(r"rows +- +- +-$", text, re.MULTILINE)
    assert "block map" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    plan = make_plan([(f"file:/w/{'x' * 90}{n}", f"k={'y' * 90}", FRESH, [(10, n % 3)] * 700) for n in range(3)])
    assert max(len(line) for line in explain.to_text(plan, width=width).splitlines()) <= width


def test_text_takes_names_as_they_are() -> None:
    plan = make_plan([("file:/w/[bold]x[red]", "k=[red]", FRESH, [(10, 1)])], predicate="a = '[b]'", reason="[i]")
    text = explain.to_text(plan, width=100)
    assert all(name in text for name in ("[bold]x[red]", "k=[red]", "a = '[b]'", "[i]"))


def test_files_left_out_are_counted_and_those_that_are_read_come_first() -> None:
    files = [(f"file:/w/f{n:03}", "", FRESH, [(10, int(n >= 150))]) for n in range(160)]
    lines = explain.to_text(make_plan(files), width=80).splitlines()
    drawn = [line.split()[0] for line in lines if re.match(r"f\d{3} ", line)]
    assert drawn == [f"f{n:03}" for n in (*range(30), *range(150, 160))]
    assert lines[-1] == "… and 120 more files, 0 of them kept"
    assert "… and 960 more files, 960 of them" in explain.to_text(make_plan([("f", "", FRESH, [(1, 1)])] * 1000))


def test_json_is_the_plan() -> None:
    told = json.loads(json.dumps(explain.to_json(THREE)))
    assert {name: told[name] for name in ("strategy", "blocks_selected", "files_selected", "rows_selected")} == {
        "strategy": "blocks",
        "blocks_selected": 4,
        "files_selected": 2,
        "rows_selected": 1251,
    }
    assert told["indexes"][1]["columns"] == ["b", "c"]
    assert sum(block["selected"] for block in told["blocks"]) == 1251
    assert [file["state"] for file in told["files"]] == ["fresh", "fresh", "stale"]
    assert set(told) >= {field.name for field in dataclasses.fields(Plan) if field.repr}


def test_what_was_not_looked_at_is_not_known() -> None:
    told = explain.to_json(NOT_LOOKED_UP)
    figures = [f"{of}_{what}" for of in ("files", "blocks", "rows", "bytes") for what in ("total", "selected")]
    assert [told[name] for name in figures] == [None] * 8
    assert told["indexes"][0]["encoding"] is None
    text = explain.to_text(NOT_LOOKED_UP, width=100)
    assert "(a) COMPACT  not used: z is not a" in text
    unknown = re.findall(r"^ *(\w+) +- +- +-$", text, re.MULTILINE)
    assert unknown == ["files", "blocks", "bytes", "rows"]
    assert "None" not in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (THREE, "the index answers, and reads 1 file whole"),
        (make_plan([("a", "", FRESH, [(10, 3)])]), "the index answers, and reads no file"),
    ],
)
def test_an_answer_of_the_index_says_what_is_read(files: Plan, said: str) -> None:
    """A file that holds selected rows is kept, but not read."""
    answered = dataclasses.replace(files, strategy="index only")
    assert said in explain.to_text(answered, 100).splitlines()
    assert f'<p class="soft">{said}</p>' in explain_html.to_html(answered)
    assert "the index answers" not in explain.to_text(files, 100) + explain_html.to_html(files)
