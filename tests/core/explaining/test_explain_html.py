"""A plan as an HTML page: it stands alone, escapes what comes from the plan, and draws each block."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from hive_bitmap.core.explaining.explain_html import MAX_CELLS, fragment, page, to_html
from hive_bitmap.core.planning.plan import IndexUse
from tests.core.explaining.test_explain import EMPTY, FRESH, NOT_LOOKED_UP, THREE, make_plan


class Page(HTMLParser):
    "Collects the tags, attributes and text of a page."

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def tips(self) -> list[str]:
        return [tip for _, attributes in self.tags if (tip := attributes.get("data-tip"))]


def test_html_stands_alone_and_has_a_tooltip_a_block() -> None:
    page = Page(to_html(THREE))
    assert page.open == []
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe"} == set()
    assert not [name for _, attributes in page.tags for name in attributes if name in ("src", "href")]
    assert "url(" not in page.text
    assert "one.parquet\nblock 3, from byte 204, 100 B\n50 of 1,000 rows (5 %)" in page.tips()
    assert len(page.tips()) == 7 + 1
    levels = [attributes["class"] for tag, attributes in page.tags if tag == "i" and "data-tip" in attributes]
    assert levels == ["h0", "h1", "h6", "h7", "h9", "h0", "h0", "whole"]


def test_html_escapes_whatever_comes_from_the_plan() -> None:
    evil = '<script>alert("x")</script>\'&'
    path = f"file:/w/{evil.replace('/', '')}"
    plan = make_plan(
        [(path, evil, FRESH, [(10, 1)]), (path, evil, ("stale", evil, True), [])],
        table=evil,
        predicate=evil,
        strategy=evil,
        reason=evil,
        indexes=(IndexUse(name=evil, columns=(evil,), encoding=evil, used=True, reason=evil),),
        costs={evil: 1.0},
    )
    page = Page(to_html(plan))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(evil) == 12


def test_html_of_many_blocks_shares_cells() -> None:
    plan = make_plan([(f"file:/w/{n}", "", FRESH, [(10, 1)] * 7_000) for n in range(4)])
    page = Page(to_html(plan))
    assert 4 <= len(page.tips()) <= MAX_CELLS
    assert "a cell is up to 2 blocks" in page.text
    assert "0\nblocks 1 to 2, from byte 4, 200 B\n2 of 20 rows (10 %)" in page.tips()


def test_a_plan_of_nothing_is_a_page_too() -> None:
    text = Page(to_html(EMPTY)).text
    assert "all rows" in text and "This table has none." in text and "Block map" not in text


def test_what_was_not_looked_at_has_no_figures() -> None:
    whole = to_html(NOT_LOOKED_UP)
    assert "None" not in whole and Page(whole).text.count("not known") == 4
    assert set(re.findall(r"width:([0-9.]+)%", whole.partition("</style>")[2])) == {"0.00"}


@pytest.mark.parametrize(
    ("rows", "selected", "level"),
    [(1000, 0, "h0"), (10**6, 1, "h1"), (1000, 1, "h1"), (1000, 31, "h5"), (1000, 1000, "h9"), (1, 1, "h9")],
)
def test_a_colour_is_a_share_of_rows(rows: int, selected: int, level: str) -> None:
    found = Page(to_html(make_plan([("file:/w/a", "", FRESH, [(rows, selected)])])))
    assert [attributes["class"] for _, attributes in found.tags if "data-tip" in attributes] == [level]


@pytest.mark.parametrize(("files", "more"), [(2000, ""), (2003, "and 3 more files, 0 of them kept")])
def test_many_files_are_counted(files: int, more: str) -> None:
    plan = make_plan([(f"file:/w/{n}", "", FRESH, [(10, int(n < 5))]) for n in range(files)])
    text = Page(to_html(plan)).text
    assert ("more files" in text) is bool(more) and more in text


def test_the_cheapest_strategy_comes_first_and_the_chosen_one_is_marked() -> None:
    plan = make_plan(
        [("f", "", FRESH, [(1, 1)])], strategy="files", costs={"blocks": 0.2, "files": 0.1, "full scan": 0.4}
    )
    found = re.findall(r'<div class="cost( chosen)?"><span>([^<]*)</span>.*?width:([0-9.]+)%', to_html(plan))
    assert found == [(" chosen", "files", "25.00"), ("", "blocks", "50.00"), ("", "full scan", "100.00")]


def test_a_fragment_is_a_frame_in_which_nothing_runs() -> None:
    text = fragment(['<p class="x">a & "b"</p>'])
    [(tag, attributes)] = Page(text).tags
    assert (tag, attributes["sandbox"]) == ("iframe", "")
    assert attributes["srcdoc"] == page("hive_bitmap", ['<p class="x">a & "b"</p>'], "frame")
    assert unescape(text).count("<iframe") == 1
