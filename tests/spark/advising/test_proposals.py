"""Advice as text and as HTML: both say what the value says."""

from __future__ import annotations

import re
from html import unescape

from hive_bitmap.spark.advising.proposals import Advice, LeftOut, Proposal, UnusedIndex

ADVICE = Advice(
    queries=1234,
    since=86400.0,
    proposals=(
        Proposal(
            table="db.sales",
            columns=(("day",),),
            queries=1,
            bytes_saved=10**9,
            seconds_saved=5.25,
            index_bytes=32_400,
            build_seconds=1.1,
            statements=("CREATE INDEX `day` ..",),
        ),
        Proposal(
            table="db.sales",
            columns=(("shop",), ("kind", "product")),
            queries=1_200,
            bytes_saved=2_000,
            seconds_saved=3.0,
            index_bytes=1_000_000,
            build_seconds=2.0,
            statements=("CREATE INDEX `shop` ..", "CREATE INDEX `kind_product` .."),
        ),
    ),
    left_out=(LeftOut(table="db.sales", columns=(("customer",), ("a", "b")), why="because <it> is"),),
    unused=(UnusedIndex(table="db.sales", index="old", columns=("x", "y"), index_bytes=533_000, built=None),),
    notes=("a note & more",),
)
TEXT = """\
1,234 scans seen since 1970-01-02T00:00:00Z; 3 indexes would have saved 8.2 s, at 1.0 MB and 3.1 s of builds
1. db.sales (day): saves 1 query 1.0 GB and 5.2 s; takes 32.4 kB, built in 1.1 s
   CREATE INDEX `day` ..;
2. db.sales (shop), (kind, product): saves 1,200 queries 2.0 kB and 3.0 s more; takes 1.0 MB, built in 2.0 s
   CREATE INDEX `shop` ..;
   CREATE INDEX `kind_product` ..;
left out: db.sales (customer), (a, b): because <it> is
db.sales: no query used index old (x, y), of 533 kB, last built -
a note & more"""


def test_the_text() -> None:
    assert str(ADVICE) == TEXT
    none = Advice(queries=1, since=None)
    assert str(none) == "1 scan seen since -; no further index is worth its build"
    assert str(Advice(queries=0, since=None, notes=("nothing",))) == "nothing"


def test_a_notebook_shows_what_the_text_says() -> None:
    shown = ADVICE._repr_html_()
    assert "<script" not in shown and 'sandbox=""' in shown
    page = unescape(shown)
    assert "because <it> is" not in page and "because &lt;it&gt; is" in page
    words = " ".join(re.sub(r"<[^>]*>", " ", unescape(unescape(page.replace("<it>", "")))).split())
    for figure in re.findall(r"`\w+`|\([\w, ]+\)|[\d.,]+ (?:GB|MB|kB|s)\b|1,234|1,200|db\.sales|old", TEXT):
        assert figure in words, figure
    assert "a note & more" in words and "Left out" in words


def test_a_notebook_shows_nothing_of_what_there_is_none() -> None:
    page = unescape(Advice(queries=0, since=None, notes=("nothing",))._repr_html_())
    assert "nothing" in page and "<h2>" not in page and "<table>" not in page
