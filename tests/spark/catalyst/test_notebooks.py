"""An explanation in a notebook is its page in a frame of its own, and a line as text."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import hive_bitmap
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Frames(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_an_explanation_in_a_notebook(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 9 AS k, concat('<', id) AS s FROM range(0, 1000, 1, 2)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark, "blocks"):
        found = hive_bitmap.explain("SELECT * FROM t WHERE k = 3 AND s <> '<script>'", spark)
    assert repr(found) == f"Explanation({database}.t: narrowed)"
    reader = _Frames()
    reader.feed(found._repr_html_())
    [(tag, attributes)] = reader.tags
    page = attributes["srcdoc"] or ""
    assert (tag, attributes["sandbox"]) == ("iframe", "")  # nothing in it can run
    assert "<script" not in page and "prefers-color-scheme" in page and "&lt;script&gt;" in page
    assert f"{database}.t" in page and "Block map" in unescape(page)
    [built], [status] = hive_bitmap.rebuild(spark, "t", full=True), hive_bitmap.show(spark, "t")
    assert repr(built).startswith(f"BuildReport(k on {database}.t: 2 files of ") and "1,000 rows indexed" in repr(built)
    assert repr(status).startswith(f"IndexStatus(k on {database}.t (k): 2 fresh files, ") and len(repr(status)) < 120
    assert repr(hive_bitmap.preview(spark, "t")) == f"[Preview(k on {database}.t: up to date)]"
    plan = repr(hive_bitmap.plan(spark, "t", "k = 3"))
    assert plan.startswith(f"Plan({database}.t where k = 3: ") and len(plan) < 300
