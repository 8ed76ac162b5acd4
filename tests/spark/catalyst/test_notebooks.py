"""What a notebook shows: explanations, plans and reports as HTML in frames of their own, and as text in a line."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def framed(shown: object) -> tuple[str, str]:
    """Return the page in the only element that a notebook gets for a value, a frame in which nothing can run; and its
    style.
    """
    reader = _Frames()
    reader.feed(shown._repr_html_())  # type: ignore[attr-defined]
    [(tag, attributes)] = reader.tags
    assert (tag, attributes["sandbox"]) == ("iframe", "")
    return attributes["srcdoc"] or "", attributes["style"] or ""


class _Cells(HTMLParser):
    """The texts of the cells of a page's tables, a list for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def cells(shown: object) -> list[list[str]]:
    reader = _Cells()
    reader.feed(framed(shown)[0])
    return reader.rows


class _Frames(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.contract
def test_an_explanation_in_a_notebook(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 9 AS k, concat('<', id) AS s FROM range(0, 1000, 1, 2)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark, "blocks"):
        found = hive_bitmap.explain("SELECT * FROM t WHERE k = 3 AND s <> '<script>'", spark)
    assert repr(found) == f"Explanation({database}.t: narrowed)"
    page, _ = framed(found)
    assert "<script" not in page and "prefers-color-scheme" in page and "&lt;script&gt;" in page
    assert f"{database}.t" in page and "Block map" in unescape(page)
    [built], [status] = hive_bitmap.rebuild(spark, "t", full=True), hive_bitmap.show(spark, "t")
    assert repr(built).startswith(f"BuildReport(k on {database}.t: 2 files of ") and "1,000 rows indexed" in repr(built)
    assert repr(status).startswith(f"IndexStatus(k on {database}.t (k): 2 fresh files, ") and len(repr(status)) < 120
    assert repr(hive_bitmap.preview(spark, "t")) == f"[Preview(k on {database}.t: up to date)]"
    plan = repr(hive_bitmap.plan(spark, "t", "k = 3"))
    assert plan.startswith(f"Plan({database}.t where k = 3: ") and len(plan) < 300


def test_a_plan_and_reports_in_a_notebook(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 9 AS k, id AS `<b>` FROM range(0, 1000, 1, 2)")
    estimated = hive_bitmap.estimate(spark, "t", ["k", "<b>"])
    assert [row[0] for row in cells(estimated)] == ["columns", "k", "<b>"] and "rare key" in cells(estimated)[1][-1]
    built = hive_bitmap.build(spark, "t", ["k"])
    [heads, row] = cells(built)
    assert (
        dict(zip(heads, row, strict=True)).items() >= {"index": "k", "rows indexed": "1,000", "not indexed": ""}.items()
    )
    assert cells(built[0]) == cells(built) and built == [built[0]]
    spark.sql("INSERT INTO t VALUES (1, 1)")
    [heads, row] = cells(hive_bitmap.show(spark, "t"))
    known = dict(zip(heads, row, strict=True))
    assert (known["fresh"], known["unindexed"]) == ("2", "1") and "the next rebuild reads 1 file" in known["note"]
    assert cells(hive_bitmap.preview(spark, "t"))[1][4] == "1 new"
    assert "none" in framed(hive_bitmap.build(spark, "t", ["k"], if_not_exists=True))[0]
    page, style = framed(hive_bitmap.plan(spark, "t", "k = 3 AND `<b>` < 5"))
    assert f"<h1>{database}.t</h1>" in page and "Block map" in page and "&lt;b&gt;" in page
    heights = [framed(shown)[1] for shown in (built, estimated)]
    assert heights[0] != heights[1] != style  # a table is as high as it has rows
